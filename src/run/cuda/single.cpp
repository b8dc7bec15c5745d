#include "run/cuda/single.hpp"

#include <algorithm>
#include <optional>

#include "fmt/format.h"

#include "ir/interpret/array.hpp"
#include "launch/helpers/device_types.hpp"
#include "launch/helpers/group_ids.hpp"
#include "launch/helpers/plain_grouped.hpp"
#include "launch/helpers/scale_blocks.hpp"
#include "launch/helpers/unpack.hpp"
#include "launch/helpers/widen_codes.hpp"
#include "run/cuda/single_source.hpp"
#include "run/shared/extents.hpp"

namespace attacca::run {
namespace {

using launch::SourceKernel;
using problem::Addresses;
using StepLaunch = decltype(CudaStep::launch);

// Adds an axis within the former ones, or makes it a part of the last one.
Status push(SingleAxes& axes, int64_t extent, int64_t stride, int64_t other,
            const std::string& where) {
  if (extent == 1) return {};
  if (const int last = axes.count - 1; last >= 0 && axes.stride[last] == stride * extent &&
                                       axes.other_stride[last] == other * extent) {
    axes.extent[last] *= extent;
    axes.stride[last] = stride;
    axes.other_stride[last] = other;
    return {};
  }
  if (axes.count == kSingleAxes)
    return fail(fmt::format("more than {} axes that do not merge", kSingleAxes), where,
                "reshape the tensor to fewer axes");
  axes.extent[axes.count] = extent;
  axes.stride[axes.count] = stride;
  axes.other_stride[axes.count] = other;
  ++axes.count;
  return {};
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

// The unsigned integers that elements are moved as, by their bytes.
const char* element_of(ir::DType dtype) {
  static constexpr const char* kElements[] = {"u8", "u16", "", "unsigned", "", "", "", "s64"};
  return kElements[ir::size_of(dtype) - 1];
}

uint32_t blocks_for(const SourceKernel& kernel, int64_t threads) {
  return kernel.blocks((threads + SourceKernel::kThreads - 1) / SourceKernel::kThreads);
}

Result<StepLaunch> make_reduction(const StepContext& context, const ir::Node& node,
                                  const std::string& where) {
  const ir::Type& from = context.graph().type(node.operands[0]);
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
  ATTACCA_TRY(const SourceKernel kernel,
              SourceKernel::make(context.toolbox(), "attacca_reduce", macros + kSingleSource));
  ATTACCA_TRY(const Shapes shapes, shapes_of(from, context.symbols));
  SingleAxes kept, reduced;
  int64_t results = 1, count = 1;
  std::vector<int64_t> kept_extents;
  for (size_t axis = 0; axis < shapes.from.size(); ++axis)
    if (!std::count(node.get<ir::ReductionAttrs>().axes.begin(),
                    node.get<ir::ReductionAttrs>().axes.end(), static_cast<int64_t>(axis)))
      kept_extents.push_back(shapes.from[axis]);
  const std::vector<int64_t> to = ir::contiguous_strides(kept_extents);
  size_t kept_axis = 0;
  for (size_t axis = 0; axis < shapes.from.size(); ++axis) {
    const bool gone =
        std::count(node.get<ir::ReductionAttrs>().axes.begin(),
                   node.get<ir::ReductionAttrs>().axes.end(), static_cast<int64_t>(axis)) > 0;
    (gone ? count : results) *= shapes.from[axis];
    const int64_t other = gone ? 0 : to[kept_axis++];
    ATTACCA_TRY_VOID(
        push(gone ? reduced : kept, shapes.from[axis], shapes.strides[axis], other, where));
  }
  return [=](const Addresses& at, void*, gpu::StreamHandle stream) {
    return kernel.launch({kernel.blocks(results), 1, 1}, stream, at.inputs[0], at.outputs[0], kept,
                         reduced, results, count);
  };
}

Result<StepLaunch> make_gather(const StepContext& context, const ir::Node& node,
                               const std::string& where) {
  const ir::Type& from = context.graph().type(node.operands[0]);
  const ir::Type& index = context.graph().type(node.operands[1]);
  ATTACCA_TRY(const launch::DeviceType index_type, launch::device_type(index.dtype));
  ATTACCA_TRY(const Shapes shapes, shapes_of(from, context.symbols));
  ATTACCA_TRY(const Shapes indices, shapes_of(index, context.symbols));
  if (!from.strides.empty() || !index.strides.empty())
    return fail("gather of a strided input has no kernel on this device", where,
                "declare the input dense");
  const std::string macros = fmt::format("#define GATHER\n#define ELEMENT {}\n#define INDEX {}\n",
                                         element_of(from.dtype), index_type.name);
  ATTACCA_TRY(const SourceKernel kernel,
              SourceKernel::make(context.toolbox(), "attacca_gather", macros + kSingleSource));
  const auto axis = static_cast<size_t>(node.get<ir::AxisAttrs>().axis);
  const int64_t outer = count_of(shapes.from, 0, axis), extent = shapes.from[axis],
                inner = count_of(shapes.from, axis + 1), chosen = count_of(indices.from);
  const uint32_t blocks = blocks_for(kernel, outer * chosen * inner);
  return [=](const Addresses& at, void*, gpu::StreamHandle stream) {
    return kernel.launch({blocks, 1, 1}, stream, at.inputs[0], at.inputs[1], at.outputs[0], outer,
                         extent, chosen, inner);
  };
}

Result<CudaStep> make_scatter(const StepContext& context, const ir::Node& node,
                              const std::string& where) {
  const ir::Type& from = context.graph().type(node.operands[0]);
  const ir::Type& index = context.graph().type(node.operands[1]);
  ATTACCA_TRY(const launch::DeviceType index_type, launch::device_type(index.dtype));
  for (const ir::Value operand : node.operands)
    if (!context.graph().type(operand).strides.empty())
      return fail("scatter with a strided input has no kernel on this device", where,
                  "declare the input dense");
  ATTACCA_TRY(const std::vector<int64_t> extents, evaluate(from.shape, context.symbols));
  ATTACCA_TRY(const std::vector<int64_t> chosen, evaluate(index.shape, context.symbols));
  const std::string source = fmt::format("#define SCATTER\n#define ELEMENT {}\n#define INDEX {}\n",
                                         element_of(from.dtype), index_type.name) +
                             kSingleSource;
  ATTACCA_TRY(const SourceKernel find,
              SourceKernel::make(context.toolbox(), "attacca_scatter_last", source));
  ATTACCA_TRY(const SourceKernel move,
              SourceKernel::make(context.toolbox(), "attacca_scatter", source));
  const int64_t rows = extents[0], indices = count_of(chosen), total = count_of(extents),
                inner = rows == 0 ? 0 : total / rows;
  CudaStep step;
  step.workspace_bytes = static_cast<size_t>(rows) * sizeof(uint64_t);
  step.launch = [=, toolbox = context.toolbox(), bytes = step.workspace_bytes](
                    const Addresses& at, void* last, gpu::StreamHandle stream) -> Status {
    if (total == 0) return {};
    const gpu::Driver& driver = toolbox->device().driver();
    ATTACCA_TRY_VOID(driver.call(driver.memset_d8, reinterpret_cast<gpu::DevicePointer>(last),
                                 uint8_t{0}, bytes, stream));
    ATTACCA_TRY_VOID(
        find.launch({blocks_for(find, indices), 1, 1}, stream, at.inputs[1], last, rows, indices));
    return move.launch({blocks_for(move, total), 1, 1}, stream, at.inputs[0], at.inputs[2], last,
                       at.outputs[0], rows, inner);
  };
  return step;
}

// In f32 for narrower floats, unless each sum is rounded.
Result<CudaStep> make_scatter_add(const StepContext& context, const ir::Node& node, ir::Value value,
                                  const std::string& where) {
  const ir::Type& from = context.graph().type(node.operands[0]);
  ATTACCA_TRY(const launch::DeviceType index_type,
              launch::device_type(context.graph().type(node.operands[1]).dtype));
  ATTACCA_TRY(const launch::DeviceType type, launch::device_type(from.dtype));
  for (const ir::Value operand : node.operands)
    if (!context.graph().type(operand).strides.empty())
      return fail("scatter_add with a strided input has no kernel on this device", where,
                  "declare the input dense");
  const bool wide = from.dtype == ir::DType::F64, eager = context.mode() == ir::Mode::Eager;
  const std::string round = type.real && eager ? "ELEMENT::load(ELEMENT::store(X))" : "(X)";
  ATTACCA_TRY(const std::vector<int64_t> extents, evaluate(from.shape, context.symbols));
  ATTACCA_TRY(const std::vector<int64_t> chosen,
              evaluate(context.graph().type(node.operands[1]).shape, context.symbols));
  const int64_t rows = extents[0], indices = count_of(chosen), total = count_of(extents),
                inner = rows == 0 ? 0 : total / rows;
  // 16 bytes at once, where rows and tensors begin at multiples of them.
  const int64_t most = 16 / ir::size_of(from.dtype);
  const ir::Value values[] = {node.operands[0], node.operands[2], value};
  const bool whole = inner % most == 0 &&
                     std::all_of(std::begin(values), std::end(values),
                                 [&](ir::Value each) { return context.alignment_of(each) >= 16; });
  const int64_t width = whole ? most : 1, pieces = inner / width;
  const std::string source = fmt::format(
      "#define SCATTER_ADD\n#define ELEMENT {}\n#define INDEX {}\n#define SUM {}\n"
      "#define ROUND(X) {}\n#define WIDTH {}\n{}",
      type.name, index_type.name,
      !type.real ? "s64"
      : wide     ? "double"
                 : "float",
      round, width, kSingleSource);
  // Chains cost a launch more: few elements of an index are looked through.
  constexpr int64_t kFew = 1024, kNear = 32;
  const int64_t near = indices > kFew ? kNear : indices;
  std::optional<SourceKernel> chain;
  if (near < indices) {
    ATTACCA_TRY(chain, SourceKernel::make(context.toolbox(), "attacca_scatter_chains", source));
  }
  ATTACCA_TRY(const SourceKernel link,
              SourceKernel::make(context.toolbox(), "attacca_scatter_links", source));
  ATTACCA_TRY(const SourceKernel add,
              SourceKernel::make(context.toolbox(), "attacca_scatter_add", source));
  CudaStep step;
  step.workspace_bytes = static_cast<size_t>((rows + indices) * (chain ? 2 : 1)) * sizeof(int64_t);
  step.launch = [=, toolbox = context.toolbox()](const Addresses& at, void* links,
                                                 gpu::StreamHandle stream) -> Status {
    if (total == 0) return {};
    int64_t* const heads = static_cast<int64_t*>(links) + rows + indices;
    int64_t* const chained = heads + rows;
    if (chain) {
      const gpu::Driver& driver = toolbox->device().driver();
      ATTACCA_TRY_VOID(driver.call(driver.memset_d8, reinterpret_cast<gpu::DevicePointer>(heads),
                                   uint8_t{0xff}, static_cast<size_t>(rows) * sizeof(int64_t),
                                   stream));
      ATTACCA_TRY_VOID(chain->launch({blocks_for(*chain, indices), 1, 1}, stream, at.inputs[1],
                                     heads, chained, rows, indices));
    }
    ATTACCA_TRY_VOID(link.launch({blocks_for(link, rows + indices), 1, 1}, stream, at.inputs[1],
                                 heads, chained, links, rows, indices, near));
    return add.launch({blocks_for(add, rows * pieces), 1, 1}, stream, at.inputs[0], at.inputs[2],
                      links, at.outputs[0], rows, pieces);
  };
  return step;
}

Result<StepLaunch> make_widening(const StepContext& context, const ir::Node& node,
                                 const std::string& where) {
  for (const ir::Value operand : node.operands)
    if (!context.graph().type(operand).strides.empty())
      return fail(fmt::format("{} of a strided input has no kernel on this device", name(node.op)),
                  where, "declare the input dense");
  ATTACCA_TRY(const launch::WidenCodes kernel,
              launch::WidenCodes::make(context.toolbox(), *ir::code_format(context.graph(), node)));
  ATTACCA_TRY(const std::vector<int64_t> shape, evaluate(node.type.shape, context.symbols));
  return [kernel, count = count_of(shape)](const Addresses& at, void*, gpu::StreamHandle stream) {
    const void* const zeros = at.inputs.size() > 2 ? at.inputs[2] : nullptr;
    return kernel.launch(at.inputs[0], at.inputs[1], zeros, at.outputs[0], count, stream);
  };
}

Result<StepLaunch> make_argsort(const StepContext& context, const ir::Node& node,
                                const std::string& where) {
  const ir::Type& from = context.graph().type(node.operands[0]);
  ATTACCA_TRY(const launch::DeviceType type, launch::device_type(from.dtype));
  ATTACCA_TRY(const Shapes shapes, shapes_of(from, context.symbols));
  ATTACCA_TRY(const SourceKernel kernel,
              SourceKernel::make(
                  context.toolbox(), "attacca_argsort",
                  fmt::format("#define ARGSORT\n#define FROM {}\n", type.name) + kSingleSource));
  const std::vector<int64_t> to = ir::contiguous_strides(shapes.from);
  const auto sorted = static_cast<size_t>(node.get<ir::AxisAttrs>().axis);
  SingleAxes lines;
  for (size_t axis = 0; axis < shapes.from.size(); ++axis)
    if (axis != sorted)
      ATTACCA_TRY_VOID(push(lines, shapes.from[axis], shapes.strides[axis], to[axis], where));
  return [=, total = count_of(shapes.from), extent = shapes.from[sorted],
          stride = shapes.strides[sorted],
          to_stride = to[sorted]](const Addresses& at, void*, gpu::StreamHandle stream) {
    return kernel.launch({blocks_for(kernel, total), 1, 1}, stream, at.inputs[0], at.outputs[0],
                         lines, total, extent, stride, to_stride);
  };
}

Result<StepLaunch> make_grouped_product(const StepContext& context, const ir::Node& node) {
  const ir::Graph& graph = context.graph();
  const ir::Type &x = graph.type(node.operands[0]), &w = graph.type(node.operands[1]);
  ATTACCA_TRY(const Shapes rows, shapes_of(x, context.symbols));
  ATTACCA_TRY(const Shapes matrices, shapes_of(w, context.symbols));
  ATTACCA_TRY(const Shapes ends, shapes_of(graph.type(node.operands[2]), context.symbols));
  const int64_t columns = matrices.from[2];
  launch::GroupedMultiplication product;
  product.m = rows.from[0];
  product.n = columns;
  product.k = rows.from[1];
  product.groups = matrices.from[0];
  product.a = {x.dtype, 0, rows.strides[0], rows.strides[1]};
  product.b = {w.dtype, 0, matrices.strides[1], matrices.strides[2], matrices.strides[0]};
  product.d = {node.type.dtype, 0, columns, 1};
  product.ends = {ir::DType::S32, 0, 0, ends.strides[0]};
  ATTACCA_TRY(auto kernel, launch::PlainGrouped::make(context.toolbox(), product));
  return [kernel](const Addresses& at, void*, gpu::StreamHandle stream) {
    return kernel.launch(at.inputs[0], at.inputs[1], at.inputs[2], at.outputs[0], {}, stream);
  };
}

Result<StepLaunch> make_arange(const StepContext& context, const ir::Node& node) {
  ATTACCA_TRY(const int64_t begin, ir::first_of(node, context.symbols));
  ATTACCA_TRY(const int64_t count, node.type.shape[0].evaluate(context.symbols));
  ATTACCA_TRY(const SourceKernel kernel,
              SourceKernel::make(context.toolbox(), "attacca_arange",
                                 std::string("#define ARANGE\n") + kSingleSource));
  const uint32_t blocks = blocks_for(kernel, count);
  return [=](const Addresses& at, void*, gpu::StreamHandle stream) {
    return kernel.launch({blocks, 1, 1}, stream, at.outputs[0], begin, count);
  };
}

Result<StepLaunch> make_group_ids(const StepContext& context, const ir::Node& node) {
  ATTACCA_TRY(const Shapes ends,
              shapes_of(context.graph().type(node.operands[0]), context.symbols));
  ATTACCA_TRY(const int64_t rows, node.type.shape[0].evaluate(context.symbols));
  ATTACCA_TRY(const launch::GroupIds kernel, launch::GroupIds::make(context.toolbox()));
  return [=, groups = ends.from[0], stride = ends.strides[0]](const Addresses& at, void*,
                                                              gpu::StreamHandle stream) {
    return kernel.launch(at.inputs[0], groups, stride, at.outputs[0], rows, stream);
  };
}

Result<launch::ScaleBlocks> make_scale_blocks(const StepContext& context, const ir::Node& node) {
  const ir::Type& x = context.graph().type(node.operands[0]);
  const ir::Type& scale = context.graph().type(node.operands[1]);
  ATTACCA_TRY(const Shapes shapes, shapes_of(x, context.symbols));
  ATTACCA_TRY(const Shapes scales, shapes_of(scale, context.symbols));
  std::vector<launch::BlockAxis> axes;
  for (size_t i = 0; i < shapes.from.size(); ++i)
    axes.push_back({shapes.from[i], shapes.strides[i], scales.strides[i],
                    node.get<ir::BlocksAttrs>().block[i]});
  return launch::ScaleBlocks::make(context.toolbox(), axes, x.dtype, scale.dtype);
}

}  // namespace

Result<std::vector<CudaStep>> make_single_steps(const StepContext& context,
                                                const fuse::Region& region) {
  const ir::Value value = region.nodes[0];
  const ir::Node& node = context.graph()[value];
  const std::string where =
      node.name.empty() ? fmt::format("{} (node {})", name(node.op), value.id) : node.name;
  CudaStep step{.values = {.inputs = node.operands, .outputs = {value}}, .launch = {}};
  if (ir::is_reduction(node.op)) {
    ATTACCA_TRY(step.launch, make_reduction(context, node, where));
  } else if (node.op == ir::Op::Gather) {
    ATTACCA_TRY(step.launch, make_gather(context, node, where));
  } else if (node.op == ir::Op::Scatter) {
    ATTACCA_TRY(CudaStep made, make_scatter(context, node, where));
    step.launch = std::move(made.launch);
    step.workspace_bytes = made.workspace_bytes;
  } else if (node.op == ir::Op::ScatterAdd) {
    ATTACCA_TRY(CudaStep made, make_scatter_add(context, node, value, where));
    step.launch = std::move(made.launch);
    step.workspace_bytes = made.workspace_bytes;
  } else if (node.op == ir::Op::MxFp4 || node.op == ir::Op::Decode) {
    ATTACCA_TRY(step.launch, make_widening(context, node, where));
  } else if (node.op == ir::Op::GroupedMatMul) {
    ATTACCA_TRY(step.launch, make_grouped_product(context, node));
  } else if (node.op == ir::Op::Argsort) {
    ATTACCA_TRY(step.launch, make_argsort(context, node, where));
  } else if (node.op == ir::Op::Arange) {
    ATTACCA_TRY(step.launch, make_arange(context, node));
  } else if (node.op == ir::Op::GroupIds) {
    ATTACCA_TRY(step.launch, make_group_ids(context, node));
  } else if (node.op == ir::Op::Unpack) {
    ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(node.get<ir::UnpackAttrs>()));
    ATTACCA_TRY(auto made,
                launch::Unpack::make(context.toolbox(), layout, node.type.dtype, node.type.dtype));
    step.launch = [unpack = std::make_shared<const launch::Unpack>(std::move(made))](
                      const Addresses& at, void*, gpu::StreamHandle stream) {
      return unpack->launch(at.inputs[0], at.outputs[0], stream);
    };
  } else if (node.op == ir::Op::ScaleBlocks) {
    ATTACCA_TRY(const launch::ScaleBlocks scale, make_scale_blocks(context, node));
    step.launch = [scale](const Addresses& at, void*, gpu::StreamHandle stream) {
      return scale.launch(at.inputs[0], at.inputs[1], at.outputs[0], stream);
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
