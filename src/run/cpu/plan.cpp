#include "run/cpu/plan.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "fmt/format.h"
#include "oneapi/dnnl/dnnl.hpp"

#include "run/cpu/executable.hpp"
#include "run/cpu/thread_pool.hpp"
#include "run/shared/input_layout.hpp"
#include "support/check.hpp"

namespace attacca::run {

using ir::Tensor;
using ir::Value;

using StageSizes = std::vector<std::unique_ptr<const Sizes>>;

struct CpuPlan::Impl {
  Prepared prepared;
  int threads = 1;
  KnownValues known;   // constants, weights and what is computed from them alone
  int64_t budget = 0;  // bytes that may still be computed from them when the plan is made
  ir::Bindings weights;
  std::vector<CpuRegion> regions;
  struct Stage {
    std::unique_ptr<Executable> executable;
    std::vector<Value> last_read;  // values that are not read after this step
    const CpuRegion* of;
  };
  std::vector<Stage> stages;
  mutable BufferPool buffers;

  const ir::Graph& graph() const { return prepared.graph(); }
  Status refuse_kernels() const;
  Status add_constants();
  Status add_weights(const ir::Bindings& given);
  void set_budget();
  Status add_stage(const CpuRegion& region, PackedWeights* packed);
  Result<std::unique_ptr<Executable>> make_executable(const CpuRegion& from, PackedWeights* packed);
  bool is_within_budget(const fuse::Region& region);
  bool compute_now(const fuse::Region& region, const Executable& executable);
  void find_last_reads();
  Result<ir::SymbolValues> symbols_of(const ir::Bindings& inputs) const;
  Status set_inputs(RunState& state, const ir::Bindings& inputs) const;
  Result<StageSizes> measure(const ir::SymbolValues& symbols) const;
  Result<std::vector<Tensor>> run(const ir::Bindings& inputs, std::map<Value, Tensor>* accumulators,
                                  std::vector<RegionTime>* times) const;
  Result<std::vector<Tensor>> run_stages(RunState& state, const StageSizes& sizes) const;
  Result<std::vector<Tensor>> finish(RunState& state) const;
  Result<Tensor> copy_of(const Tensor& tensor) const;
};

namespace {

// The library's own failures and exhausted memory, as errors.
template <class F>
auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return fail("memory ran out", {}, "use smaller dimensions");
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory)
      return fail("memory ran out", {}, "use smaller dimensions");
    return fail(fmt::format("oneDNN failed: {}", error.what()));
  }
}

}  // namespace

Status CpuPlan::Impl::refuse_kernels() const {
  for (const fuse::Region& region : prepared.partition->regions)
    for (const Value node : region.nodes)
      if (graph()[node].op == ir::Op::Kernel)
        return fail(fmt::format("the kernel of {} runs on a GPU alone",
                                graph()[node].get<ir::KernelAttrs>().call.file),
                    epilogue::display_name(graph(), node), "run with --device cuda");
  return {};
}

Status CpuPlan::Impl::add_constants() {
  known.resize(graph().size());
  for (uint32_t id = 0; id < graph().size(); ++id) {
    const ir::Node& node = graph().nodes()[id];
    if (node.tensor) {
      ATTACCA_TRY(known[id], node.tensor->contiguous());
    } else if (node.literal) {
      known[id] = Tensor::of(node.type.dtype, {}, {node.literal->value});
    }
  }
  return {};
}

// Weights of static shape are known values from now on. Others need the symbols of a run.
Status CpuPlan::Impl::add_weights(const ir::Bindings& given) {
  for (const auto& [name, tensor] : given) {
    const auto value = graph().find(name);
    if (!value || graph()[*value].op != ir::Op::Input)
      return fail(fmt::format("weight {} is no input of graph {}", name, graph().name), name,
                  "name an input");
    const ir::Node& input = graph()[*value];
    ATTACCA_TRY_VOID(check_dtype(input, tensor));
    weights[name] = tensor;
    if (!ir::is_static(input.type.shape) || !ir::is_static(input.type.strides)) continue;
    ATTACCA_TRY(const std::vector<int64_t> shape, evaluate(input.type.shape, {}));
    if (shape != tensor.shape())
      return fail(fmt::format("weight {} has shape {}, the graph wants {}", name,
                              ir::to_string(tensor.shape()), to_string(input.type)),
                  name, "give a weight of the graph's shape");
    ATTACCA_TRY(known[value->id], laid_out(input, tensor, {}));
  }
  return {};
}

// A small file can describe constants of any size. What is computed from constants and weights when
// a plan is made has at most 64 times their bytes, or 64 MiB in all; beyond that each run computes
// it.
void CpuPlan::Impl::set_budget() {
  constexpr int64_t kLeast = 64 << 20, kTimes = 64;
  int64_t bytes = 0;
  for (const Tensor& each : known)
    if (each.data() != nullptr) bytes += each.bytes();
  budget = std::max(kLeast, kTimes * bytes);
}

// Takes the bytes of the region's results and of the domain that it walks through.
bool CpuPlan::Impl::is_within_budget(const fuse::Region& region) {
  const auto take = [&](const ir::Shape& shape, int64_t width) {
    int64_t bytes = width;
    for (const ir::Dim& dim : shape) {
      const auto extent = dim.maybe_value();
      if (!extent || __builtin_mul_overflow(bytes, std::max<int64_t>(*extent, 1), &bytes) ||
          bytes > budget)
        return false;
    }
    budget -= bytes;
    return true;
  };
  for (const Value output : region.outputs) {
    const ir::Type& type = graph().type(output);
    if (!take(type.shape, ir::size_of(type.dtype))) return false;
  }
  return take(region.epilogue.domain, 1);
}

// Regions that depend only on constants and weights run once, here. Products are not among them:
// tests read their accumulators.
bool CpuPlan::Impl::compute_now(const fuse::Region& region, const Executable& executable) {
  if (!region.gemms.empty() || graph()[region.nodes[0]].op == ir::Op::MatMul) return false;
  for (const Value input : region.inputs)
    if (known[input.id].data() == nullptr) return false;
  if (!is_within_budget(region)) return false;
  const ir::SymbolValues none;
  RunState state{.symbols = none, .values = known, .buffers = buffers, .threads = threads};
  const auto sizes = executable.measure(none);
  if (!sizes || !executable.run(state, sizes->get()))
    return false;  // its shape depends on a symbol
  for (const Value output : region.outputs) known[output.id] = state.values[output.id];
  return true;
}

Result<std::unique_ptr<Executable>> CpuPlan::Impl::make_executable(const CpuRegion& from,
                                                                   PackedWeights* packed) {
  const ir::Mode mode = prepared.target.mode;
  if (from.rows) return make_row_group(*from.rows);
  if (from.region.kind == fuse::RegionKind::Single) return make_single(graph(), from.region, mode);
  const Panels panels = prepared.target.batch_invariant ? Panels::Fixed : Panels::AsTheyAre;
  return make_epilogue_region(graph(), from.region, mode, known, threads, panels, packed);
}

Status CpuPlan::Impl::add_stage(const CpuRegion& from, PackedWeights* packed) {
  ATTACCA_TRY(auto executable, make_executable(from, packed));
  if (!compute_now(from.region, *executable)) stages.push_back({std::move(executable), {}, &from});
  return {};
}

void CpuPlan::Impl::find_last_reads() {
  std::vector<bool> kept(graph().size(), false);
  for (const ir::Output& output : graph().outputs()) kept[output.value.id] = true;
  for (size_t i = stages.size(); i-- > 0;) {
    // An output that is not read is freed at once.
    for (const auto* values : {&stages[i].of->region.inputs, &stages[i].of->region.outputs})
      for (const Value value : *values) {
        if (kept[value.id]) continue;
        kept[value.id] = true;
        stages[i].last_read.push_back(value);
      }
  }
}

Result<ir::SymbolValues> CpuPlan::Impl::symbols_of(const ir::Bindings& inputs) const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto* bindings : {&weights, &inputs})
    for (const auto& [name, tensor] : *bindings) shapes.try_emplace(name, tensor.shape());
  return ir::bind_symbols(graph(), shapes);
}

Status CpuPlan::Impl::set_inputs(RunState& state, const ir::Bindings& inputs) const {
  for (const Value value : graph().inputs()) {
    if (known[value.id].data() != nullptr) continue;
    const ir::Node& input = graph()[value];
    const auto weight = weights.find(input.name);
    const Tensor& tensor = weight != weights.end() ? weight->second : inputs.at(input.name);
    ATTACCA_TRY_VOID(check_dtype(input, tensor));
    ATTACCA_TRY(state.values[value.id], laid_out(input, tensor, state.symbols));
  }
  return {};
}

Result<StageSizes> CpuPlan::Impl::measure(const ir::SymbolValues& symbols) const {
  StageSizes sizes;
  for (const Stage& stage : stages) {
    ATTACCA_TRY(sizes.emplace_back(), stage.executable->measure(symbols));
  }
  return sizes;
}

Result<std::vector<Tensor>> CpuPlan::Impl::run_stages(RunState& state,
                                                      const StageSizes& sizes) const {
  using Clock = std::chrono::steady_clock;
  const auto now = [&] { return state.times ? Clock::now() : Clock::time_point(); };
  const auto seconds = [](auto span) { return std::chrono::duration<double>(span).count(); };
  const auto start = now();
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto begin = now();
    ATTACCA_TRY_VOID(stages[i].executable->run(state, sizes[i].get()));
    if (state.times)
      state.times->push_back(
          {stages[i].of->origin, seconds(begin - start), seconds(now() - begin)});
    for (const Value value : stages[i].last_read) state.values[value.id] = {};
  }
  return finish(state);
}

Result<Tensor> CpuPlan::Impl::copy_of(const Tensor& tensor) const {
  ATTACCA_TRY(const Tensor dense, tensor.contiguous());
  ATTACCA_TRY(Tensor copy, buffers.tensor(tensor.dtype(), tensor.shape()));
  std::memcpy(copy.data(), dense.data(), static_cast<size_t>(dense.bytes()));
  return copy;
}

// Results share memory neither with each other nor with anything that outlives the run.
Result<std::vector<Tensor>> CpuPlan::Impl::finish(RunState& state) const {
  std::vector<Tensor> results;
  std::vector<bool> given(graph().size(), false);
  for (const ir::Output& output : graph().outputs()) {
    const uint32_t id = output.value.id;
    const bool shared =
        given[id] || known[id].data() != nullptr || graph()[output.value].op == ir::Op::Input;
    given[id] = true;
    Tensor result = state.values[id];
    if (shared) {
      ATTACCA_TRY(result, copy_of(result));
    }
    results.push_back(std::move(result));
  }
  return results;
}

const fuse::Partition& CpuPlan::partition() const {
  return *impl_->prepared.partition;
}

Result<CpuPlan> CpuPlan::make(Prepared prepared, CpuOptions options) {
  ATTACCA_CHECK(!prepared.target.device, "a plan for the CPU is of a graph for it");
  return guarded([&]() -> Result<CpuPlan> {
    auto impl = std::make_unique<Impl>();
    impl->prepared = std::move(prepared);
    impl->threads = thread_count(options.threads);
    ATTACCA_TRY_VOID(impl->refuse_kernels());
    ATTACCA_TRY_VOID(impl->add_constants());
    ATTACCA_TRY_VOID(impl->add_weights(options.weights));
    impl->set_budget();
    const fuse::Partition& partition = *impl->prepared.partition;
    const bool joins = impl->prepared.target.folds();
    impl->regions = joins ? join_rows(partition) : keep_regions(partition);
    for (const CpuRegion& region : impl->regions)
      ATTACCA_TRY_VOID(impl->add_stage(region, options.packed.get()));
    impl->find_last_reads();
    return CpuPlan(std::move(impl));
  });
}

Result<std::vector<Tensor>> CpuPlan::Impl::run(const ir::Bindings& inputs,
                                               std::map<Value, Tensor>* accumulators,
                                               std::vector<RegionTime>* times) const {
  return guarded([&]() -> Result<std::vector<Tensor>> {
    ATTACCA_TRY(const ir::SymbolValues symbols, symbols_of(inputs));
    ATTACCA_TRY(const StageSizes sizes, measure(symbols));
    RunState state{.symbols = symbols,
                   .values = known,
                   .buffers = buffers,
                   .threads = threads,
                   .accumulators = accumulators,
                   .times = times};
    ATTACCA_TRY_VOID(set_inputs(state, inputs));
    return run_stages(state, sizes);
  });
}

Result<std::vector<Tensor>> CpuPlan::run(const ir::Bindings& inputs,
                                         std::map<Value, Tensor>* accumulators) const {
  return impl_->run(inputs, accumulators, nullptr);
}

Result<std::vector<RegionTime>> CpuPlan::time_regions(const ir::Bindings& inputs) const {
  std::vector<RegionTime> times;
  ATTACCA_TRY_VOID(impl_->run(inputs, nullptr, &times));
  return times;
}

// ---- For certain sizes

struct CpuInstance::Impl {
  std::shared_ptr<const CpuPlan::Impl> plan;
  ir::SymbolValues symbols;
  StageSizes sizes;
  struct Layout {
    uint32_t id;  // of the value
    ir::DType dtype;
    std::vector<int64_t> shape, strides;  // no strides: row-major
    Tensor at(void* data) const { return Tensor::view(dtype, shape, data, strides); }
  };
  std::vector<Layout> inputs, outputs;

  Result<Layout> layout_of(Value value) const {
    const ir::Type& type = plan->graph().type(value);
    Layout layout{value.id, type.dtype, {}, {}};
    ATTACCA_TRY(layout.shape, evaluate(type.shape, symbols));
    ATTACCA_TRY(layout.strides, evaluate(type.strides, symbols));
    return layout;
  }
};

CpuInstance::CpuInstance(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
CpuInstance::~CpuInstance() = default;

Result<std::shared_ptr<const CpuInstance>> CpuPlan::instance(ir::SymbolValues symbols) const {
  auto made = std::make_unique<CpuInstance::Impl>();
  made->plan = impl_;
  made->symbols = std::move(symbols);
  ATTACCA_TRY(made->sizes, impl_->measure(made->symbols));
  for (const Value value : impl_->graph().inputs()) {
    ATTACCA_TRY(made->inputs.emplace_back(), made->layout_of(value));
  }
  for (const ir::Output& output : impl_->graph().outputs()) {
    ATTACCA_TRY(made->outputs.emplace_back(), made->layout_of(output.value));
  }
  return std::make_shared<const CpuInstance>(std::move(made));
}

Result<std::vector<Tensor>> CpuInstance::run(std::span<const void* const> inputs,
                                             std::span<void* const> outputs) const {
  return guarded([&]() -> Result<std::vector<Tensor>> {
    static std::byte nothing;  // the address of empty tensors
    const CpuPlan::Impl& plan = *impl_->plan;
    RunState state{.symbols = impl_->symbols,
                   .values = plan.known,
                   .buffers = plan.buffers,
                   .threads = plan.threads,
                   .places = std::vector<Tensor>(plan.known.size())};
    for (size_t i = 0; i < inputs.size(); ++i) {
      void* const data = inputs[i] != nullptr ? const_cast<void*>(inputs[i]) : &nothing;
      state.values[impl_->inputs[i].id] = impl_->inputs[i].at(data);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor& place = state.places[impl_->outputs[i].id];
      if (outputs[i] != nullptr && place.data() == nullptr)
        place = impl_->outputs[i].at(outputs[i]);
    }
    return plan.run_stages(state, impl_->sizes);
  });
}

}  // namespace attacca::run
