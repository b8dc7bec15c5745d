#include "api/plan.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "api/names.hpp"
#include "fuse/explain/explain.hpp"
#include "run/cpu/layout.hpp"
#include "run/pipeline.hpp"
#include "support/text/json.hpp"

namespace attacca::api {
namespace {

constexpr std::string_view kTunings[] = {"known", "measure", "always", "unfused"};

TensorInfo info_of(const ir::Graph& graph, std::string name, ir::Value value, bool is_input) {
  ir::Type type = graph.type(value);
  if (!is_input) type.strides.clear();
  TensorInfo info{std::move(name), to_string(type), type.dtype, {}};
  for (const ir::Dim& dim : type.shape) info.shape.push_back(to_string(dim));
  return info;
}

// The dtype's bytes times the span of the strides.
Result<size_t> span_bytes(const Instance::Tensor& tensor, const std::string& name) {
  int64_t last = 0;
  bool empty = false, overflow = false;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    int64_t step = 0;
    empty |= tensor.shape[axis] == 0;
    overflow |= __builtin_mul_overflow(tensor.shape[axis] - 1, tensor.strides[axis], &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  if (empty) return size_t{0};
  int64_t bytes = 0;
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_mul_overflow(last, ir::size_of(tensor.dtype), &bytes);
  if (overflow)
    return fail(fmt::format("{} has more bytes than there are addresses", name), name,
                "use smaller sizes");
  return static_cast<size_t>(bytes);
}

Result<Instance::Tensor> dense(ir::DType dtype, std::vector<int64_t> shape,
                               const std::string& name) {
  Instance::Tensor tensor{dtype, std::move(shape), {}, 0};
  int64_t stride = 1;
  tensor.strides.resize(tensor.shape.size());
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    tensor.strides[axis] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(tensor.shape[axis], 1), &stride))
      return fail(fmt::format("{} has more bytes than there are addresses", name), name,
                  "use smaller sizes");
  }
  ATTACCA_TRY(tensor.bytes, span_bytes(tensor, name));
  return tensor;
}

}  // namespace

// ---- Options

Result<Device> parse_device(std::string_view text) {
  if (text == "cpu") return Device{};
  if (text == "cuda") return Device{true, 0};
  Device device{true, 0};
  constexpr std::string_view kPrefix = "cuda:";
  const char* end = text.data() + text.size();
  if (text.starts_with(kPrefix) && text.size() > kPrefix.size()) {
    const auto [at, error] = std::from_chars(text.data() + kPrefix.size(), end, device.ordinal);
    if (error == std::errc() && at == end && device.ordinal >= 0) return device;
  }
  return fail(fmt::format("unknown device {}", text), "device", "one of cpu, cuda, cuda:1, ...");
}

std::string to_string(const Device& device) {
  return device.cuda ? fmt::format("cuda:{}", device.ordinal) : "cpu";
}

Status check_device(const Device& device) {
  if (!device.cuda) return {};
  const auto toolbox = launch::Toolbox::open(device.ordinal);
  if (!toolbox) return tl::make_unexpected(toolbox.error());
  return {};
}

Result<Choosing> parse_tuning(std::string_view text) {
  for (size_t i = 0; i < std::size(kTunings); ++i)
    if (text == kTunings[i]) return static_cast<Choosing>(i);
  return fail(fmt::format("unknown tuning {}", text), "tuning",
              suggest(text, {std::begin(kTunings), std::end(kTunings)}));
}

std::string_view name(Choosing choosing) {
  return kTunings[static_cast<size_t>(choosing)];
}

Result<ir::Mode> parse_mode(std::string_view text) {
  if (const auto mode = ir::parse_mode(text)) return *mode;
  return fail(fmt::format("unknown mode {}", text), "mode", suggest(text, {"fp32", "eager"}));
}

Result<int> check_threads(int64_t threads, const std::string& where) {
  constexpr int64_t kMost = 4096;
  if (threads >= 0 && threads <= kMost) return static_cast<int>(threads);
  return fail(fmt::format("{} threads", threads), where,
              fmt::format("give 0, for all cores, to {}", kMost));
}

// ---- Instance

size_t Instance::workspace_bytes() const {
  return cuda_ ? cuda_->workspace_bytes() : 0;
}

std::span<const run::Decision> Instance::decisions() const {
  if (!cuda_) return {};
  return cuda_->decisions();
}

namespace {

Status check_addresses(std::span<const void* const> addresses,
                       const std::vector<Instance::Tensor>& tensors,
                       const std::vector<TensorInfo>& infos, std::string_view what) {
  if (addresses.size() != tensors.size())
    return fail(fmt::format("{} addresses for {} {}s", addresses.size(), tensors.size(), what));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto address = reinterpret_cast<uintptr_t>(addresses[i]);
    if (address == 0 && tensors[i].bytes > 0)
      return fail(fmt::format("{} {} has no address", what, infos[i].name), infos[i].name,
                  fmt::format("give the address of {} bytes", tensors[i].bytes));
    if (address % static_cast<uintptr_t>(ir::size_of(tensors[i].dtype)) != 0)
      return fail(fmt::format("{} {} at {:#x} is not aligned to its elements' {} bytes", what,
                              infos[i].name, address, ir::size_of(tensors[i].dtype)),
                  infos[i].name, "copy it to an aligned place");
  }
  return {};
}

}  // namespace

Status Instance::check_overlap(std::span<const void* const> inputs, std::span<void* const> outputs,
                               const void* workspace) const {
  const auto extent = [](const Tensor& tensor, const void* address) {
    return Extent{reinterpret_cast<uintptr_t>(address), ir::size_of(tensor.dtype), tensor.shape,
                  tensor.strides};
  };
  const auto refuse = [&](size_t output, std::string_view what, const std::string& other) {
    const std::string& name = plan_->outputs()[output].name;
    return fail(fmt::format("output {} overlaps {}{}", name, what, other), name,
                "give it memory of its own");
  };
  const int64_t bytes[] = {static_cast<int64_t>(workspace_bytes())}, steps[] = {1};
  const Extent scratch{reinterpret_cast<uintptr_t>(workspace), 1, bytes, steps};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Extent output = extent(outputs_[i], outputs[i]);
    for (size_t k = 0; k < inputs.size(); ++k)
      if (may_share(output, extent(inputs_[k], inputs[k])))
        return refuse(i, "input ", plan_->inputs()[k].name);
    for (size_t k = 0; k < i; ++k)
      if (may_share(output, extent(outputs_[k], outputs[k])))
        return refuse(i, "output ", plan_->outputs()[k].name);
    if (may_share(output, scratch)) return refuse(i, "the workspace", "");
  }
  for (size_t k = 0; k < inputs.size(); ++k)
    if (may_share(extent(inputs_[k], inputs[k]), scratch))
      return fail(fmt::format("input {} overlaps the workspace", plan_->inputs()[k].name),
                  plan_->inputs()[k].name, "give the workspace memory of its own");
  return {};
}

Status Instance::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                     void* workspace, size_t workspace_bytes, void* stream) const {
  ATTACCA_TRY_VOID(check_addresses(inputs, inputs_, plan_->inputs(), "input"));
  ATTACCA_TRY_VOID(
      check_addresses({outputs.data(), outputs.size()}, outputs_, plan_->outputs(), "output"));
  ATTACCA_TRY_VOID(check_overlap(inputs, outputs, workspace));
  if (!cuda_) {
    if (stream != nullptr) return fail("a stream for a plan on the CPU", "stream", "give NULL");
    return run_on_cpu(inputs, outputs);
  }
  if (workspace_bytes < this->workspace_bytes())
    return fail(fmt::format("a workspace of {} bytes where {} are needed", workspace_bytes,
                            this->workspace_bytes()),
                "workspace", "ask the instance how many it needs");
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0)
    return fail("the workspace is not aligned to 256 bytes", "workspace",
                "memory of cuMemAlloc is");
  // Kernels' arguments hold inputs and outputs alike; nothing is written through an input.
  const std::span<void* const> given(const_cast<void* const*>(inputs.data()), inputs.size());
  return cuda_->launch(given, outputs, workspace, stream);
}

Status Instance::run_on_cpu(std::span<const void* const> inputs,
                            std::span<void* const> outputs) const {
  static std::byte nothing;  // the address of what is empty
  ir::Bindings bindings;
  for (size_t i = 0; i < inputs.size(); ++i) {
    void* data = inputs[i] ? const_cast<void*>(inputs[i]) : &nothing;
    bindings.emplace(plan_->inputs()[i].name, ir::Tensor::view(inputs_[i].dtype, inputs_[i].shape,
                                                               data, inputs_[i].strides));
  }
  ATTACCA_TRY(const std::vector<ir::Tensor> results, plan_->cpu_->run(bindings));
  for (size_t i = 0; i < outputs.size(); ++i) {
    ATTACCA_TRY(const ir::Tensor result, results[i].contiguous());
    scatter(result, outputs_[i].strides, static_cast<std::byte*>(outputs[i]));
  }
  return {};
}

// ---- Plan

namespace {

run::CudaOptions cuda_options(const Options& options, std::vector<run::KnownChoice> choices) {
  run::CudaOptions cuda;
  cuda.mode = options.mode;
  cuda.fuse = options.fuse;
  cuda.device = options.device.ordinal;
  cuda.unfused = options.tuning == Choosing::Unfused;
  if (options.tuning == Choosing::Measure) cuda.tuning = run::Tuning::Measure;
  if (options.tuning == Choosing::Always) cuda.tuning = run::Tuning::Always;
  cuda.tune_options.seconds_limit = options.tuning_seconds;
  cuda.choices = std::move(choices);
  return cuda;
}

}  // namespace

Result<std::shared_ptr<const Plan>> Plan::compile(ir::Graph graph, const Options& options,
                                                  std::vector<run::KnownChoice> choices) {
  ATTACCA_TRY_VOID(ir::verify(graph));
  if (graph.outputs().empty())
    return fail(fmt::format("graph {} has no output", graph.name), graph.name, "add one");
  return make(std::move(graph), options, std::move(choices), {});
}

Result<std::shared_ptr<Plan>> Plan::make(ir::Graph graph, const Options& options,
                                         std::vector<run::KnownChoice> choices,
                                         Difference difference) {
  auto plan = std::make_shared<Plan>();
  plan->options_ = options;
  plan->symbols_ = graph.symbols();
  for (const ir::Value input : graph.inputs())
    plan->inputs_.push_back(info_of(graph, graph[input].name, input, true));
  for (const ir::Output& output : graph.outputs())
    plan->outputs_.push_back(info_of(graph, output.name, output.value, false));
  plan->choices_ = choices;
  if (options.device.cuda) {
    run::Prepared prepared = run::prepare(graph, options.mode, options.fuse);
    plan->folds_ = std::move(prepared.folded.applied);
    run::CudaOptions cuda = cuda_options(options, std::move(choices));
    cuda.output_strides = std::move(difference.outputs);
    ATTACCA_TRY(plan->cuda_, run::CudaPlan::compile(prepared.folded.graph, std::move(cuda)));
  } else {
    ATTACCA_TRY(run::Compiled compiled, run::compile(graph, {.mode = options.mode,
                                                             .fuse = options.fuse,
                                                             .threads = options.threads,
                                                             .weights = {}}));
    plan->folds_ = std::move(compiled.folds);
    plan->cpu_ = std::move(compiled.plan);
  }
  plan->graph_ = std::move(graph);
  return plan;
}

const fuse::Partition& Plan::partition() const {
  return cpu_ ? cpu_->partition() : cuda_->partition();
}

std::string Plan::explain_text() const {
  std::string text;
  for (const fold::Applied& applied : folds_)
    text += fmt::format("folded {}: {}\n", applied.rule, applied.result);
  return text + fuse::explain_text(partition());
}

std::string Plan::explain_json() const {
  return json::dump(fuse::explain_json(partition()), 2);
}

std::string Plan::explain_dot() const {
  return fuse::explain_dot(partition());
}

Status Plan::check_sizes(const ir::SymbolValues& sizes) const {
  for (const auto& [symbol, value] : sizes) {
    if (std::find(symbols_.begin(), symbols_.end(), symbol) == symbols_.end())
      return fail(fmt::format("the graph has no size {}", symbol), symbol,
                  symbols_.empty() ? "all its sizes are fixed"
                                   : fmt::format("its sizes are {}", fmt::join(symbols_, ", ")));
    if (value < 0)
      return fail(fmt::format("size {} is {}", symbol, value), symbol, "sizes are >= 0");
  }
  for (const std::string& symbol : symbols_)
    if (!sizes.contains(symbol))
      return fail(fmt::format("size {} has no value", symbol), symbol,
                  fmt::format("give {} among the sizes", symbol));
  return {};
}

Result<std::vector<Instance::Tensor>> Plan::input_tensors(const ir::SymbolValues& sizes) const {
  std::vector<Instance::Tensor> tensors;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ir::Value value : graph_.inputs()) {
    const ir::Node& node = graph_[value];
    ATTACCA_TRY(std::vector<int64_t> shape, evaluate(node.type.shape, sizes));
    shapes[node.name] = shape;
    ATTACCA_TRY(Instance::Tensor tensor, dense(node.type.dtype, std::move(shape), node.name));
    if (!node.type.strides.empty()) {
      ATTACCA_TRY(tensor.strides, evaluate(node.type.strides, sizes));
      ATTACCA_TRY(tensor.bytes, span_bytes(tensor, node.name));
    }
    tensors.push_back(std::move(tensor));
  }
  ATTACCA_TRY_VOID(ir::bind_symbols(graph_, shapes));  // slices within their axes
  return tensors;
}

Result<std::vector<Instance::Tensor>> Plan::output_tensors(const ir::SymbolValues& sizes) const {
  std::vector<Instance::Tensor> tensors;
  for (const ir::Output& output : graph_.outputs()) {
    const ir::Type& type = graph_.type(output.value);
    ATTACCA_TRY(std::vector<int64_t> shape, evaluate(type.shape, sizes));
    ATTACCA_TRY(Instance::Tensor tensor, dense(type.dtype, std::move(shape), output.name));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

namespace {

// The tensor with the caller's strides. Errors: too few or many, negative, absurdly large.
Status give_strides(Instance::Tensor& tensor, const std::vector<int64_t>& strides,
                    const std::string& name) {
  if (strides.size() != tensor.shape.size())
    return fail(fmt::format("{} strides for the {} dimensions of {}", strides.size(),
                            tensor.shape.size(), name),
                name, "give one a dimension");
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (strides[axis] < 0 && tensor.shape[axis] > 1)
      return fail(fmt::format("{} has a negative stride", name), name, "copy it");
  tensor.strides = strides;
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (tensor.shape[axis] <= 1) tensor.strides[axis] = 0;
  ATTACCA_TRY(tensor.bytes, span_bytes(tensor, name));
  return {};
}

// What reads an input by its address alone.
const ir::Node* reader_of_address(const ir::Graph& graph, ir::Value input) {
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::Kernel || node.op == ir::Op::Unpack)
      if (std::find(node.operands.begin(), node.operands.end(), input) != node.operands.end())
        return &node;
  return nullptr;
}

constexpr size_t kMostVariants = 64;

}  // namespace

bool Plan::Difference::none() const {
  const auto absent = [](const auto& strides) { return !strides.has_value(); };
  return std::all_of(inputs.begin(), inputs.end(), absent) &&
         std::all_of(outputs.begin(), outputs.end(), absent);
}

std::string Plan::Difference::key() const {
  std::string text;
  for (const auto* all : {&inputs, &outputs})
    for (const auto& strides : *all) text += strides ? ir::to_string(*strides) + ";" : ";";
  return text;
}

Result<Plan::Difference> Plan::lay_out(Instance& instance, const Layouts& layouts) const {
  Difference difference;
  const size_t inputs = inputs_.size();
  difference.inputs.resize(inputs);
  difference.outputs.resize(outputs_.size());
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!layouts[i]) continue;
    const bool input = i < inputs;
    Instance::Tensor& tensor = input ? instance.inputs_[i] : instance.outputs_[i - inputs];
    const TensorInfo& info = input ? inputs_[i] : outputs_[i - inputs];
    const std::vector<int64_t> wanted = tensor.strides;
    ATTACCA_TRY_VOID(give_strides(tensor, *layouts[i], info.name));
    if (reach_the_same(tensor.shape, tensor.strides, wanted)) {
      tensor.strides = wanted;
      continue;
    }
    const ir::Value value = input ? graph_.inputs()[i] : graph_.outputs()[i - inputs].value;
    const ir::Node* reader = input ? reader_of_address(graph_, value) : nullptr;
    if (reader != nullptr)
      return fail(fmt::format("{} is not laid out as {} says, and {} reads it by its address",
                              info.name, info.type, ir::name(reader->op)),
                  info.name, "copy it");
    if (!input && run::may_overlap(tensor.shape, tensor.strides))
      return fail(fmt::format("elements of output {} may overlap", info.name), info.name,
                  "give each a place of its own");
    if (input || options_.device.cuda)
      (input ? difference.inputs[i] : difference.outputs[i - inputs]) =
          symbolic_strides(graph_.type(value).shape, tensor.shape, tensor.strides);
  }
  return difference;
}

Result<std::shared_ptr<const Plan>> Plan::variant(const Difference& difference) const {
  const std::string key = difference.key();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = variants_.find(key); found != variants_.end()) return found->second;
  }
  ATTACCA_TRY(ir::Graph graph, with_strides(graph_, difference.inputs));
  ATTACCA_TRY(std::shared_ptr<const Plan> made,
              make(std::move(graph), options_, choices(), difference));
  const std::lock_guard lock(mutex_);
  if (variants_.size() >= kMostVariants) variants_.clear();  // instances keep those they need
  return variants_.emplace(key, std::move(made)).first->second;
}

Result<std::shared_ptr<const Instance>> Plan::prepare(const ir::SymbolValues& sizes,
                                                      const std::vector<int>& alignments,
                                                      const Layouts& layouts) const {
  ATTACCA_TRY_VOID(check_sizes(sizes));
  const size_t count = inputs_.size() + outputs_.size();
  if (!alignments.empty() && alignments.size() != count)
    return fail(fmt::format("{} alignments for {} inputs and {} outputs", alignments.size(),
                            inputs_.size(), outputs_.size()),
                "alignments", "give one each, or none");
  if (!layouts.empty() && layouts.size() != count)
    return fail(fmt::format("{} strides for {} inputs and {} outputs", layouts.size(),
                            inputs_.size(), outputs_.size()),
                "strides", "give one each, or none");
  for (const int alignment : alignments)
    if (alignment <= 0 || (alignment & (alignment - 1)) != 0)
      return fail(fmt::format("an alignment of {} bytes", alignment), "alignments",
                  "give powers of two");
  auto instance = std::make_shared<Instance>();
  instance->plan_ = shared_from_this();
  ATTACCA_TRY(instance->inputs_, input_tensors(sizes));
  ATTACCA_TRY(instance->outputs_, output_tensors(sizes));
  ATTACCA_TRY(const Difference difference, lay_out(*instance, layouts));
  if (!difference.none()) {
    ATTACCA_TRY(instance->plan_, variant(difference));
  }
  if (cuda_) {
    ATTACCA_TRY(instance->cuda_, instance->plan_->cuda_->instance(sizes, alignments));
    remember(instance->cuda_->decisions());
  }
  return std::shared_ptr<const Instance>(std::move(instance));
}

void Plan::remember(std::span<const run::Decision> decisions) const {
  const std::lock_guard lock(mutex_);
  for (const run::Decision& decision : decisions) {
    if (decision.seconds <= 0) continue;  // only what was measured is worth keeping
    const auto known =
        std::find_if(choices_.begin(), choices_.end(),
                     [&](const run::KnownChoice& choice) { return choice.key == decision.key; });
    const tune::Choice choice{decision.candidate, decision.seconds, decision.unfused_seconds};
    if (known == choices_.end())
      choices_.push_back({decision.key, choice});
    else
      known->choice = choice;
  }
}

std::vector<run::KnownChoice> Plan::choices() const {
  const std::lock_guard lock(mutex_);
  return choices_;
}

}  // namespace attacca::api
