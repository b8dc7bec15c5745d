// Reductions, gather and what stands for numbers on the device, each a kernel compiled for its
// dtypes.
#include <algorithm>

#include "fmt/format.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/compile/compile.hpp"
#include "launch/helpers/device_types.hpp"
#include "launch/helpers/scale_blocks.hpp"
#include "launch/helpers/unpack.hpp"
#include "run/cuda/single_source.hpp"
#include "run/cuda/steps.hpp"

namespace attacca::run {
namespace {

constexpr uint32_t kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 32;

// One kernel and its parameters but for addresses.
class SingleKernel {
 public:
  static Result<std::shared_ptr<SingleKernel>> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                                                    const std::string& macros,
                                                    const std::string& entry) {
    const gpu::DeviceInfo& info = toolbox->device().info();
    const std::string arch = fmt::format("sm_{}", info.capability());
    ATTACCA_TRY(const std::string ptx,
                gpu::compile(std::string(launch::kDeviceTypes) + macros + kSingleSource,
                             {.arch = arch, .contract = false, .minimal = true}));
    ATTACCA_TRY(const std::vector<char> image, gpu::assemble(ptx, arch));
    ATTACCA_TRY(gpu::Module module, gpu::Module::load(toolbox->device(), image));
    ATTACCA_TRY(const gpu::Function function, module.function(entry));
    return std::shared_ptr<SingleKernel>(new SingleKernel(toolbox, std::move(module), function));
  }

  // Of what it reads, then of what it writes.
  Status launch(std::vector<void*> addresses, gpu::StreamHandle stream) const {
    if (blocks == 0) return {};
    std::vector<void*> parameters;
    for (void*& address : addresses) parameters.push_back(&address);
    for (const SingleAxes& each : axes) parameters.push_back(const_cast<SingleAxes*>(&each));
    for (const long long& each : numbers) parameters.push_back(const_cast<long long*>(&each));
    return function_.launch({{blocks, 1, 1}, {kThreads, 1, 1}, 0}, stream, parameters.data());
  }

  uint32_t blocks = 0;
  std::vector<SingleAxes> axes;
  std::vector<long long> numbers;

 private:
  SingleKernel(std::shared_ptr<launch::Toolbox> toolbox, gpu::Module module, gpu::Function function)
      : toolbox_(std::move(toolbox)), module_(std::move(module)), function_(function) {}

  std::shared_ptr<launch::Toolbox> toolbox_;
  gpu::Module module_;
  gpu::Function function_;
};

Status push(SingleAxes& axes, int64_t extent, int64_t stride, int64_t other) {
  if (axes.count == kSingleAxes)
    return fail(fmt::format("more than {} axes that do not merge", kSingleAxes), {},
                "reshape the tensor to fewer axes");
  axes.extent[axes.count] = extent;
  axes.stride[axes.count] = stride;
  axes.other_stride[axes.count] = other;
  ++axes.count;
  return {};
}

uint32_t blocks_for(int64_t work) {
  return static_cast<uint32_t>(std::clamp<int64_t>(work, 0, kMostBlocks));
}

struct Shapes {
  std::vector<int64_t> from, strides;
};
Result<Shapes> shapes_of(const ir::Type& type, const ir::SymbolValues& symbols) {
  Shapes shapes;
  ATTACCA_TRY(shapes.from, evaluate(type.shape, symbols));
  shapes.strides = ir::contiguous_strides(shapes.from);
  for (size_t i = 0; i < type.strides.size(); ++i) {
    ATTACCA_TRY(shapes.strides[i], type.strides[i].evaluate(symbols));
  }
  return shapes;
}

Result<std::shared_ptr<SingleKernel>> make_reduction(const StepContext& context,
                                                     const ir::Node& node,
                                                     const std::string& where) {
  const ir::Type& from = context.graph.type(node.operands[0]);
  ATTACCA_TRY(const launch::DeviceType source, launch::device_type(from.dtype));
  ATTACCA_TRY(const launch::DeviceType target, launch::device_type(node.type.dtype));
  if (ir::is_fp8(node.type.dtype))
    return fail("no kernel on this device reduces 8-bit floats", where, "cast them first");
  const bool real = source.real;
  const std::string most =
      node.type.dtype == ir::DType::S32 ? "0x7fffffffll" : "0x7fffffffffffffffll";
  static constexpr std::pair<ir::Op, const char*> kOps[] = {{ir::Op::Sum, "Sum"},
                                                            {ir::Op::Mean, "Mean"},
                                                            {ir::Op::ReduceMax, "ReduceMax"},
                                                            {ir::Op::ReduceMin, "ReduceMin"},
                                                            {ir::Op::AMax, "AMax"}};
  const auto* op = std::find_if(std::begin(kOps), std::end(kOps),
                                [&](const auto& each) { return each.first == node.op; });
  const std::string macros = fmt::format(
      "#define REDUCE\n#define FROM {}\n#define TO {}\n#define OP {}\n#define MEAN {}\n"
      "#define ACCUMULATOR {}\n#define LOWEST {}\n#define HIGHEST {}\n",
      source.name, target.name, op->second, node.op == ir::Op::Mean ? 1 : 0,
      real ? "double" : "long long",
      real ? "-__longlong_as_double(0x7ff0000000000000ll)" : fmt::format("(-{} - 1)", most),
      real ? "__longlong_as_double(0x7ff0000000000000ll)" : most);
  ATTACCA_TRY(auto kernel, SingleKernel::make(context.toolbox, macros, "attacca_reduce"));
  ATTACCA_TRY(const Shapes shapes, shapes_of(from, context.symbols));
  SingleAxes kept, reduced;
  int64_t results = 1, count = 1;
  std::vector<int64_t> kept_extents;
  for (size_t axis = 0; axis < shapes.from.size(); ++axis)
    if (!std::count(node.attrs.axes.begin(), node.attrs.axes.end(), static_cast<int64_t>(axis)))
      kept_extents.push_back(shapes.from[axis]);
  const std::vector<int64_t> to = ir::contiguous_strides(kept_extents);
  size_t kept_axis = 0;
  for (size_t axis = 0; axis < shapes.from.size(); ++axis) {
    const bool gone =
        std::count(node.attrs.axes.begin(), node.attrs.axes.end(), static_cast<int64_t>(axis)) > 0;
    (gone ? count : results) *= shapes.from[axis];
    const int64_t other = gone ? 0 : to[kept_axis++];
    ATTACCA_TRY_VOID(push(gone ? reduced : kept, shapes.from[axis], shapes.strides[axis], other));
  }
  kernel->axes = {kept, reduced};
  kernel->numbers = {results, count};
  kernel->blocks = blocks_for(results);
  return kernel;
}

Result<std::shared_ptr<SingleKernel>> make_gather(const StepContext& context, const ir::Node& node,
                                                  const std::string& where) {
  const ir::Type& from = context.graph.type(node.operands[0]);
  const ir::Type& index = context.graph.type(node.operands[1]);
  ATTACCA_TRY(const launch::DeviceType index_type, launch::device_type(index.dtype));
  ATTACCA_TRY(const Shapes shapes, shapes_of(from, context.symbols));
  ATTACCA_TRY(const Shapes indices, shapes_of(index, context.symbols));
  if (!from.strides.empty() || !index.strides.empty())
    return fail("gather of a strided input has no kernel on this device", where,
                "declare the input dense");
  static constexpr const char* kElements[] = {"u8", "u16", "", "unsigned", "", "", "", "s64"};
  const std::string macros = fmt::format("#define GATHER\n#define ELEMENT {}\n#define INDEX {}\n",
                                         kElements[ir::size_of(from.dtype) - 1], index_type.name);
  ATTACCA_TRY(auto kernel, SingleKernel::make(context.toolbox, macros, "attacca_gather"));
  const auto product = [&](const std::vector<int64_t>& extents, size_t begin, size_t end) {
    int64_t count = 1;
    for (size_t i = begin; i < end; ++i) count *= extents[i];
    return count;
  };
  const auto axis = static_cast<size_t>(node.attrs.axis);
  const int64_t outer = product(shapes.from, 0, axis), extent = shapes.from[axis],
                inner = product(shapes.from, axis + 1, shapes.from.size()),
                chosen = product(indices.from, 0, indices.from.size());
  kernel->numbers = {outer, extent, chosen, inner};
  kernel->blocks = blocks_for((outer * chosen * inner + kThreads - 1) / kThreads);
  return kernel;
}

Result<launch::ScaleBlocks> make_scale_blocks(const StepContext& context, const ir::Node& node) {
  const ir::Type& x = context.graph.type(node.operands[0]);
  const ir::Type& scale = context.graph.type(node.operands[1]);
  ATTACCA_TRY(const Shapes shapes, shapes_of(x, context.symbols));
  ATTACCA_TRY(const Shapes scales, shapes_of(scale, context.symbols));
  std::vector<launch::BlockAxis> axes;
  for (size_t i = 0; i < shapes.from.size(); ++i)
    axes.push_back({shapes.from[i], shapes.strides[i], scales.strides[i], node.attrs.axes[i]});
  return launch::ScaleBlocks::make(context.toolbox, axes, x.dtype, scale.dtype);
}

}  // namespace

Result<std::vector<CudaStep>> make_single_steps(const StepContext& context,
                                                const fuse::Region& region) {
  using problem::Addresses;
  const ir::Value value = region.nodes[0];
  const ir::Node& node = context.graph[value];
  const std::string where =
      node.name.empty() ? fmt::format("{} (node {})", name(node.op), value.id) : node.name;
  CudaStep step{.values = {.inputs = node.operands, .outputs = {value}}, .launch = {}};
  if (ir::is_reduction(node.op)) {
    ATTACCA_TRY(const auto reduction, make_reduction(context, node, where));
    step.launch = [reduction](const Addresses& at, void*, gpu::StreamHandle stream) {
      return reduction->launch({at.inputs[0], at.outputs[0]}, stream);
    };
  } else if (node.op == ir::Op::Gather) {
    ATTACCA_TRY(const auto gather, make_gather(context, node, where));
    step.launch = [gather](const Addresses& at, void*, gpu::StreamHandle stream) {
      return gather->launch({at.inputs[0], at.inputs[1], at.outputs[0]}, stream);
    };
  } else if (node.op == ir::Op::Unpack) {
    ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(node.attrs));
    ATTACCA_TRY(auto made,
                launch::Unpack::make(context.toolbox, layout, node.type.dtype, node.type.dtype));
    step.launch = [unpack = std::make_shared<const launch::Unpack>(std::move(made))](
                      const Addresses& at, void*, gpu::StreamHandle stream) {
      return unpack->launch(at.inputs[0], at.outputs[0], stream);
    };
  } else if (node.op == ir::Op::ScaleBlocks) {
    ATTACCA_TRY(auto made, make_scale_blocks(context, node));
    step.launch = [scale = std::make_shared<const launch::ScaleBlocks>(std::move(made))](
                      const Addresses& at, void*, gpu::StreamHandle stream) {
      return scale->launch(at.inputs[0], at.inputs[1], at.outputs[0], stream);
    };
  } else {
    return fail(fmt::format("{} has no kernel on this device", name(node.op)), where,
                "run with --device cpu");
  }
  std::vector<CudaStep> steps;
  steps.push_back(std::move(step));
  return steps;
}

}  // namespace attacca::run
