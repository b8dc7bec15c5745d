#include "run/cuda/plan.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "fmt/format.h"

#include "ir/packed/header.hpp"
#include "run/cuda/buffer_layout.hpp"
#include "run/cuda/steps.hpp"
#include "run/cuda/tensors.hpp"
#include "run/output_layout.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

using ir::Tensor;
using ir::Value;

size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Result<std::vector<int64_t>> shape_of(const ir::Type& type, const ir::SymbolValues& symbols) {
  return evaluate(type.shape, symbols);
}

Result<size_t> bytes_of(const ir::Type& type, const ir::SymbolValues& symbols) {
  ATTACCA_TRY(const std::vector<int64_t> shape, shape_of(type, symbols));
  size_t bytes = static_cast<size_t>(ir::size_of(type.dtype));
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes))
      return fail("a value of more bytes than there are addresses", to_string(type));
  return bytes;
}

}  // namespace

// ---- Instance

struct CudaInstance::Impl {
  std::shared_ptr<launch::Toolbox> toolbox;
  std::shared_ptr<const gpu::DeviceMemory> constants;
  std::vector<int> alignments;
  std::vector<CudaStep> steps;
  std::vector<problem::Operands<Place>> places;  // of each step's values
  // Outputs that no step writes: they repeat an input, a constant or another output.
  struct Copy {
    Place from;
    size_t output;
    size_t bytes;
  };
  std::vector<Copy> copies;
  std::vector<std::vector<int64_t>> output_shapes;
  std::vector<Decision> decisions;
  size_t workspace_bytes = 0;

  Status check_alignments(std::span<void* const> inputs, std::span<void* const> outputs) const;
};

CudaInstance::CudaInstance(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaInstance::~CudaInstance() = default;

size_t CudaInstance::workspace_bytes() const {
  return impl_->workspace_bytes;
}
const std::vector<std::vector<int64_t>>& CudaInstance::output_shapes() const {
  return impl_->output_shapes;
}
const std::vector<Decision>& CudaInstance::decisions() const {
  return impl_->decisions;
}

Status CudaInstance::Impl::check_alignments(std::span<void* const> inputs,
                                            std::span<void* const> outputs) const {
  if (inputs.size() + outputs.size() != alignments.size())
    return fail(fmt::format("{} addresses for {} inputs and outputs",
                            inputs.size() + outputs.size(), alignments.size()));
  for (size_t i = 0; i < alignments.size(); ++i) {
    const bool input = i < inputs.size();
    const size_t index = input ? i : i - inputs.size();
    const auto address = reinterpret_cast<uintptr_t>(input ? inputs[index] : outputs[index]);
    if (address % static_cast<uintptr_t>(alignments[i]) != 0)
      return fail(fmt::format("{} {} at {:#x} is not aligned to {} bytes",
                              input ? "input" : "output", index, address, alignments[i]),
                  {}, "ask the plan for an instance with this alignment");
  }
  return {};
}

Status CudaInstance::launch(std::span<void* const> inputs, std::span<void* const> outputs,
                            void* workspace, void* stream) const {
  ATTACCA_TRY_VOID(impl_->check_alignments(inputs, outputs));
  const gpu::Device& device = impl_->toolbox->device();
  ATTACCA_TRY_VOID(device.make_current());
  const auto handle = static_cast<gpu::StreamHandle>(stream);
  const Bases bases{inputs, outputs,
                    static_cast<char*>(impl_->constants ? impl_->constants->pointer() : nullptr),
                    static_cast<char*>(workspace)};
  const auto address = [&](const Place& place) { return bases.at(place); };
  for (size_t i = 0; i < impl_->steps.size(); ++i) {
    const CudaStep& step = impl_->steps[i];
    ATTACCA_TRY_VOID(
        step.launch(map(address, impl_->places[i]), bases.workspace + step.scratch, handle));
  }
  const gpu::Driver& driver = device.driver();
  for (const Impl::Copy& copy : impl_->copies)
    ATTACCA_TRY_VOID(driver.call(
        driver.memcpy_on_device, reinterpret_cast<gpu::DevicePointer>(outputs[copy.output]),
        reinterpret_cast<gpu::DevicePointer>(bases.at(copy.from)), copy.bytes, handle));
  return {};
}

// ---- Plan

struct CudaPlan::Impl {
  CudaOptions options;
  std::shared_ptr<fuse::Partition> partition;
  std::shared_ptr<launch::Toolbox> toolbox;
  std::shared_ptr<gpu::DeviceMemory> constants;
  std::vector<std::optional<size_t>> constant_at;  // by value id
  std::vector<int> output_of;                      // by value id: the first output it is, or -1
  using Key = std::pair<ir::SymbolValues, std::vector<int>>;
  mutable std::mutex mutex;
  mutable std::map<Key, std::shared_ptr<const CudaInstance>> instances;

  const ir::Graph& graph() const { return partition->graph; }
  Status upload_constants();
  Result<std::shared_ptr<const CudaInstance>> make(const ir::SymbolValues& symbols,
                                                   const std::vector<int>& alignments) const;
  int alignment_of(Value value, const std::vector<int>& alignments) const;
  Place fixed_place(Value value) const;
};

namespace {

// Lays out an instance's steps and intermediate values, and fills in where each value is.
class Assembly {
 public:
  Assembly(const CudaPlan::Impl& plan, const ir::SymbolValues& symbols,
           const std::vector<int>& alignments, CudaInstance::Impl& instance)
      : plan_(plan), symbols_(symbols), alignments_(alignments), instance_(instance) {}

  Status run() {
    ATTACCA_TRY_VOID(make_all_steps());
    ATTACCA_TRY_VOID(lay_out_values());
    return add_copies();
  }

 private:
  Status make_all_steps();
  Status lay_out_values();
  Status add_copies();

  const CudaPlan::Impl& plan_;
  const ir::SymbolValues& symbols_;
  const std::vector<int>& alignments_;
  CudaInstance::Impl& instance_;
};

}  // namespace

Place CudaPlan::Impl::fixed_place(Value value) const {
  if (constant_at[value.id]) return {Place::Kind::Constant, *constant_at[value.id]};
  const auto& inputs = graph().inputs();
  if (const auto found = std::find(inputs.begin(), inputs.end(), value); found != inputs.end())
    return {Place::Kind::Input, static_cast<size_t>(found - inputs.begin())};
  if (output_of[value.id] >= 0)
    return {Place::Kind::Output, static_cast<size_t>(output_of[value.id])};
  return {};
}

int CudaPlan::Impl::alignment_of(Value value, const std::vector<int>& alignments) const {
  const Place place = fixed_place(value);
  if (place.kind == Place::Kind::Input) return alignments[place.index];
  if (place.kind == Place::Kind::Output) return alignments[graph().inputs().size() + place.index];
  return 16;
}

namespace {

// Packed weights among the constants must be what their unpack op says.
Status check_packed_constants(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::Unpack || !graph[node.operands[0]].tensor) continue;
    ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(node.get<ir::UnpackAttrs>()));
    ATTACCA_TRY(const ir::Tensor packed, graph[node.operands[0]].tensor->contiguous());
    ATTACCA_TRY_VOID(
        ir::check_packed({packed.data(), static_cast<size_t>(packed.bytes())}, layout));
  }
  return {};
}

}  // namespace

Status CudaPlan::Impl::upload_constants() {
  ATTACCA_TRY_VOID(check_packed_constants(partition->graph));
  constant_at.resize(graph().size());
  output_of.assign(graph().size(), -1);
  std::vector<std::byte> bytes;
  for (uint32_t id = 0; id < graph().size(); ++id) {
    const ir::Node& node = graph().nodes()[id];
    if (node.op != ir::Op::Constant) continue;
    Tensor tensor;
    if (node.tensor) {
      ATTACCA_TRY(tensor, node.tensor->contiguous());
    } else {
      tensor = Tensor::of(node.type.dtype, {}, {node.literal->value});
    }
    constant_at[id] = bytes.size();
    bytes.insert(bytes.end(), tensor.data(), tensor.data() + tensor.bytes());
    bytes.resize(round_up(bytes.size()));
  }
  for (size_t i = 0; i < graph().outputs().size(); ++i) {
    const Value value = graph().outputs()[i].value;
    if (output_of[value.id] < 0 && graph()[value].op != ir::Op::Input && !constant_at[value.id])
      output_of[value.id] = static_cast<int>(i);
  }
  if (bytes.empty()) return {};
  ATTACCA_TRY(auto memory, gpu::DeviceMemory::allocate(toolbox->device(), bytes.size()));
  constants = std::make_shared<gpu::DeviceMemory>(std::move(memory));
  ATTACCA_TRY_VOID(constants->copy_from(bytes.data(), bytes.size()));
  return toolbox->device().synchronize();
}

namespace {

Status Assembly::make_all_steps() {
  const StepContext context{plan_.graph(),
                            plan_.options,
                            plan_.toolbox,
                            symbols_,
                            [this](Value value) { return plan_.alignment_of(value, alignments_); },
                            plan_.partition};
  for (const fuse::Region& region : plan_.partition->regions) {
    ATTACCA_TRY(std::vector<CudaStep> steps, make_steps(context, region, instance_.decisions));
    for (CudaStep& step : steps) instance_.steps.push_back(std::move(step));
  }
  return {};
}

Status Assembly::lay_out_values() {
  std::vector<BufferUse> uses;
  std::map<uint32_t, size_t> use_of;  // by value id
  const auto count = static_cast<int>(instance_.steps.size());
  for (int i = 0; i < count; ++i)
    for (const Value value : all(instance_.steps[static_cast<size_t>(i)].values)) {
      if (plan_.fixed_place(value).kind != Place::Kind::None) continue;
      const auto [at, fresh] = use_of.try_emplace(value.id, uses.size());
      if (fresh) {
        ATTACCA_TRY(const size_t bytes, bytes_of(plan_.graph().type(value), symbols_));
        uses.push_back({bytes, i, i});
      }
      uses[at->second].last_step = i;
    }
  const size_t values = uses.size();
  for (int i = 0; i < count; ++i)
    uses.push_back({instance_.steps[static_cast<size_t>(i)].workspace_bytes, i, i});
  const BufferLayout layout = lay_out(uses);
  instance_.workspace_bytes = layout.bytes;
  for (size_t i = 0; i < instance_.steps.size(); ++i) {
    CudaStep& step = instance_.steps[i];
    step.scratch = layout.offsets[values + i];
    const auto place_of = [&](Value value) {
      const Place fixed = plan_.fixed_place(value);
      return fixed.kind != Place::Kind::None
                 ? fixed
                 : Place{Place::Kind::Workspace, layout.offsets[use_of.at(value.id)]};
    };
    instance_.places.push_back(map(place_of, step.values));
  }
  return {};
}

Status Assembly::add_copies() {
  const auto& outputs = plan_.graph().outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::Type& type = plan_.graph().type(outputs[i].value);
    ATTACCA_TRY(auto shape, shape_of(type, symbols_));
    instance_.output_shapes.push_back(std::move(shape));
    const Place from = plan_.fixed_place(outputs[i].value);
    if (from.kind == Place::Kind::Output && from.index == i) continue;
    if (!type.strides.empty())
      return fail(fmt::format("output {} is a strided input", outputs[i].name), outputs[i].name,
                  "let the graph compute something from it");
    ATTACCA_TRY(const size_t bytes, bytes_of(type, symbols_));
    instance_.copies.push_back({from, i, bytes});
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const CudaInstance>> CudaPlan::Impl::make(
    const ir::SymbolValues& symbols, const std::vector<int>& alignments) const {
  auto instance = std::make_unique<CudaInstance::Impl>();
  instance->toolbox = toolbox;
  instance->constants = constants;
  instance->alignments = alignments;
  ATTACCA_TRY_VOID(Assembly(*this, symbols, alignments, *instance).run());
  return std::make_shared<const CudaInstance>(std::move(instance));
}

CudaPlan::CudaPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaPlan::CudaPlan(CudaPlan&&) noexcept = default;
CudaPlan& CudaPlan::operator=(CudaPlan&&) noexcept = default;
CudaPlan::~CudaPlan() = default;

const fuse::Partition& CudaPlan::partition() const {
  return *impl_->partition;
}

const std::shared_ptr<launch::Toolbox>& CudaPlan::toolbox() const {
  return impl_->toolbox;
}

Result<CudaPlan> CudaPlan::compile(const ir::Graph& graph, CudaOptions options) {
  auto impl = std::make_shared<Impl>();
  ATTACCA_TRY(impl->toolbox, launch::Toolbox::open(options.device));
  impl->partition = std::make_shared<fuse::Partition>(fuse::partition(
      graph, {.fuse = options.fuse, .reductions = fuse::Reductions::Amax, .packed = true}));
  ATTACCA_TRY_VOID(lay_out_outputs(*impl->partition, options.output_strides));
  impl->options = std::move(options);
  ATTACCA_TRY_VOID(impl->upload_constants());
  return CudaPlan(std::move(impl));
}

Result<std::shared_ptr<const CudaInstance>> CudaPlan::instance(
    const ir::SymbolValues& symbols, const std::vector<int>& alignments) const {
  const size_t count = impl_->graph().inputs().size() + impl_->graph().outputs().size();
  Impl::Key key{symbols, alignments.empty() ? std::vector<int>(count, 16) : alignments};
  if (key.second.size() != count)
    return fail(fmt::format("{} alignments for {} inputs and outputs", key.second.size(), count));
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto found = impl_->instances.find(key); found != impl_->instances.end())
      return found->second;
  }
  ATTACCA_TRY(auto made, impl_->make(symbols, key.second));
  const std::lock_guard lock(impl_->mutex);
  return impl_->instances.emplace(std::move(key), std::move(made)).first->second;
}

Result<std::vector<Tensor>> CudaPlan::run(const ir::Bindings& inputs) const {
  const gpu::Device& device = impl_->toolbox->device();
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  ATTACCA_TRY(const ir::SymbolValues symbols, ir::bind_symbols(impl_->graph(), shapes));
  ATTACCA_TRY(const auto prepared, instance(symbols));
  ATTACCA_TRY(const CudaTensors tensors, CudaTensors::make(device, impl_->graph(), symbols, inputs,
                                                           prepared->output_shapes()));
  ATTACCA_TRY(const auto workspace,
              gpu::DeviceMemory::allocate(device, prepared->workspace_bytes()));
  ATTACCA_TRY(const gpu::Stream stream, gpu::Stream::create(device));
  ATTACCA_TRY_VOID(
      prepared->launch(tensors.inputs(), tensors.outputs(), workspace.pointer(), stream.get()));
  return tensors.read_outputs(stream);
}

}  // namespace attacca::run
