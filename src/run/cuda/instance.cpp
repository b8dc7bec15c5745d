#include "run/cuda/instance.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "fmt/format.h"

#include "run/cuda/buffer_layout.hpp"
#include "run/cuda/steps.hpp"
#include "run/cuda/together.hpp"
#include "support/reused.hpp"
#include "tune/timer.hpp"

namespace attacca::run {
namespace {

using ir::Value;

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
  // Each step's addresses in one launch.
  mutable Reused<std::vector<problem::Addresses>> addresses{{}};

  // Called in front of each step and after the last.
  using BetweenSteps = std::function<Status(size_t step)>;

  Status launch(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace,
                gpu::StreamHandle stream, const BetweenSteps* between) const;
  std::vector<problem::Addresses> no_addresses() const;
  Status check_alignments(std::span<void* const> inputs, std::span<void* const> outputs) const;
};

std::vector<problem::Addresses> CudaInstance::Impl::no_addresses() const {
  std::vector<problem::Addresses> all;
  for (const problem::Operands<Place>& step : places)
    all.push_back(map([](const Place&) -> void* { return nullptr; }, step));
  return all;
}

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

Status CudaInstance::Impl::launch(std::span<void* const> inputs, std::span<void* const> outputs,
                                  void* workspace, gpu::StreamHandle stream,
                                  const BetweenSteps* between) const {
  ATTACCA_TRY_VOID(check_alignments(inputs, outputs));
  const gpu::Device& device = toolbox->device();
  const gpu::Current current(device);
  ATTACCA_TRY_VOID(current.entered());
  const Bases bases{inputs, outputs, static_cast<char*>(constants ? constants->pointer() : nullptr),
                    static_cast<char*>(workspace)};
  const auto all_addresses = addresses.take([this] { return no_addresses(); });
  for (size_t i = 0; i < steps.size(); ++i) {
    problem::Addresses& at = (*all_addresses)[i];
    for_each([&](void*& address, const Place& place) { address = bases.at(place); }, at, places[i]);
    if (between != nullptr) ATTACCA_TRY_VOID((*between)(i));
    ATTACCA_TRY_VOID(steps[i].launch(at, bases.workspace + steps[i].scratch, stream));
  }
  if (between != nullptr) ATTACCA_TRY_VOID((*between)(steps.size()));
  const gpu::Driver& driver = device.driver();
  for (const Copy& copy : copies)
    ATTACCA_TRY_VOID(driver.call(
        driver.memcpy_on_device, reinterpret_cast<gpu::DevicePointer>(outputs[copy.output]),
        reinterpret_cast<gpu::DevicePointer>(bases.at(copy.from)), copy.bytes, stream));
  return {};
}

Status CudaInstance::launch(std::span<void* const> inputs, std::span<void* const> outputs,
                            void* workspace, void* stream) const {
  return impl_->launch(inputs, outputs, workspace, static_cast<gpu::StreamHandle>(stream), nullptr);
}

Result<std::vector<RegionTime>> CudaInstance::time_regions(std::span<void* const> inputs,
                                                           std::span<void* const> outputs,
                                                           void* workspace, void* stream) const {
  const auto handle = static_cast<gpu::StreamHandle>(stream);
  std::vector<gpu::Event> events;
  for (size_t i = 0; i <= impl_->steps.size(); ++i) {
    ATTACCA_TRY(events.emplace_back(), gpu::Event::create(impl_->toolbox->device()));
  }
  const Impl::BetweenSteps record = [&](size_t step) { return events[step].record(handle); };
  ATTACCA_TRY_VOID(impl_->launch(inputs, outputs, workspace, handle, &record));
  ATTACCA_TRY_VOID(events.back().synchronize());
  std::vector<RegionTime> times;
  for (size_t i = 0; i < impl_->steps.size(); ++i) {
    ATTACCA_TRY(const float begin, events[i].since(events[0]));
    ATTACCA_TRY(const float ms, events[i + 1].since(events[i]));
    times.push_back({impl_->steps[i].region, begin * 1e-3, ms * 1e-3});
  }
  return times;
}

// ---- Making one

namespace {

// Lays out an instance's steps and intermediate values, and fills in where each value is.
class Assembly {
 public:
  Assembly(const DeviceGraph& shared, const ir::SymbolValues& symbols,
           const std::vector<int>& alignments, CudaInstance::Impl& instance)
      : shared_(shared), symbols_(symbols), alignments_(alignments), instance_(instance) {}

  Status run() {
    ATTACCA_TRY_VOID(make_all_steps());
    ATTACCA_TRY_VOID(lay_out_values());
    return add_copies();
  }

 private:
  int alignment_of(Value value) const;
  Status make_all_steps();
  Status lay_out_values();
  Status add_copies();

  const DeviceGraph& shared_;
  const ir::SymbolValues& symbols_;
  const std::vector<int>& alignments_;
  CudaInstance::Impl& instance_;
};

int Assembly::alignment_of(Value value) const {
  const Place place = shared_.places.of(value);
  if (place.kind == Place::Kind::Input) return alignments_[place.index];
  if (place.kind == Place::Kind::Output)
    return alignments_[shared_.graph().inputs().size() + place.index];
  return 16;
}

Status Assembly::make_all_steps() {
  const StepContext context{shared_, symbols_, [this](Value value) { return alignment_of(value); }};
  const std::vector<fuse::Region>& regions = shared_.prepared.partition->regions;
  std::vector<std::vector<const fuse::Region*>> at(regions.size());  // what runs where each would
  for (size_t i = 0; i < regions.size(); ++i) at[i] = {&regions[i]};
  for (const std::vector<size_t>& alike : regions_alike(context, regions))
    for (auto i = alike.begin() + 1; i != alike.end(); ++i)
      at[alike.front()].push_back(std::exchange(at[*i], {}).front());
  const tune::KeepWorkers keep;
  for (const std::vector<const fuse::Region*>& here : at) {
    if (here.empty()) continue;
    ATTACCA_TRY(std::vector<CudaStep> steps,
                here.size() == 1 ? make_steps(context, *here.front(), instance_.decisions)
                                 : make_steps_together(context, here, instance_.decisions));
    for (CudaStep& step : steps) {
      if (step.region == nullptr) step.region = here.front();
      instance_.steps.push_back(std::move(step));
    }
  }
  std::sort(instance_.decisions.begin(), instance_.decisions.end(),
            [](const Decision& a, const Decision& b) { return a.region.get() < b.region.get(); });
  return {};
}

Status Assembly::lay_out_values() {
  std::vector<BufferUse> uses;
  std::map<uint32_t, size_t> use_of;  // by value id
  const auto count = static_cast<int>(instance_.steps.size());
  for (int i = 0; i < count; ++i)
    for (const Value value : all(instance_.steps[static_cast<size_t>(i)].values)) {
      if (shared_.places.of(value).kind != Place::Kind::None) continue;
      const auto [at, fresh] = use_of.try_emplace(value.id, uses.size());
      if (fresh) {
        ATTACCA_TRY(const size_t bytes, bytes_of(shared_.graph().type(value), symbols_));
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
      const Place fixed = shared_.places.of(value);
      return fixed.kind != Place::Kind::None
                 ? fixed
                 : Place{Place::Kind::Workspace, layout.offsets[use_of.at(value.id)]};
    };
    instance_.places.push_back(map(place_of, step.values));
  }
  return {};
}

Status Assembly::add_copies() {
  const auto& outputs = shared_.graph().outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::Type& type = shared_.graph().type(outputs[i].value);
    ATTACCA_TRY(auto shape, shape_of(type, symbols_));
    instance_.output_shapes.push_back(std::move(shape));
    const Place from = shared_.places.of(outputs[i].value);
    if (from.kind == Place::Kind::Output && from.index == i) continue;
    if (!type.strides.empty())
      return fail(fmt::format("output {} is a strided input", outputs[i].name), outputs[i].name,
                  "let the graph compute something from it");
    ATTACCA_TRY(const size_t bytes, bytes_of(type, symbols_));
    if (bytes > 0) instance_.copies.push_back({from, i, bytes});
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const CudaInstance>> make_instance(const DeviceGraph& shared,
                                                          const ir::SymbolValues& symbols,
                                                          const std::vector<int>& alignments) {
  auto instance = std::make_unique<CudaInstance::Impl>();
  instance->toolbox = shared.toolbox;
  instance->constants = shared.places.constants();
  instance->alignments = alignments;
  ATTACCA_TRY_VOID(Assembly(shared, symbols, alignments, *instance).run());
  *instance->addresses.take([] { return std::vector<problem::Addresses>{}; }) =
      instance->no_addresses();
  return std::make_shared<const CudaInstance>(std::move(instance));
}

}  // namespace attacca::run
