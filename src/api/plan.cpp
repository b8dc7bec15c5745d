#include "api/plan.hpp"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "fuse/explain/explain.hpp"
#include "run/shared/input_layout.hpp"
#include "support/text/json.hpp"

namespace attacca::api {
namespace {

TensorInfo info_of(const ir::Graph& graph, std::string name, ir::Value value, bool is_input) {
  ir::Type type = graph.type(value);
  if (!is_input) type.strides.clear();
  TensorInfo info{std::move(name), to_string(type), type.dtype, {}};
  for (const ir::Dim& dim : type.shape) info.shape.push_back(to_string(dim));
  return info;
}

Result<run::Compiled> compile_for(const ir::Graph& graph, const Options& options,
                                  std::vector<run::KnownChoice> choices,
                                  run::OutputStrides strides) {
  run::Options chosen{.output_strides = std::move(strides)};
  if (!options.device.cuda) {
    chosen.cpu.threads = options.threads;
    return run::compile(graph, run::Target::cpu(options.mode, options.fuse), std::move(chosen));
  }
  ATTACCA_TRY(const gpu::Device device, gpu::Device::open(options.device.ordinal));
  chosen.cuda = {.tuning = options.tuning, .choices = std::move(choices)};
  chosen.cuda.tune_options.seconds_limit = options.tuning_seconds;
  return run::compile(graph, run::Target::cuda(device.info(), options.mode, options.fuse),
                      std::move(chosen));
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
  ATTACCA_TRY(run::Compiled compiled,
              compile_for(graph, options, std::move(choices), std::move(difference.outputs)));
  plan->compiled_ = std::make_shared<const run::Compiled>(std::move(compiled));
  plan->graph_ = std::move(graph);
  return plan;
}

std::string Plan::explain_text() const {
  std::string text;
  for (const fold::Applied& applied : compiled_->prepared.folds)
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

Result<std::vector<Tensor>> Plan::input_tensors(const ir::SymbolValues& sizes) const {
  std::vector<Tensor> tensors;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ir::Value value : graph_.inputs()) {
    const ir::Node& node = graph_[value];
    ATTACCA_TRY(std::vector<int64_t> shape, evaluate(node.type.shape, sizes));
    shapes[node.name] = shape;
    ATTACCA_TRY(Tensor tensor, dense_tensor(node.name, node.type.dtype, std::move(shape)));
    if (!node.type.strides.empty()) {
      ATTACCA_TRY(std::vector<int64_t> strides, evaluate(node.type.strides, sizes));
      ATTACCA_TRY_VOID(set_strides(tensor, std::move(strides)));
    }
    tensors.push_back(std::move(tensor));
  }
  ATTACCA_TRY_VOID(ir::bind_symbols(graph_, shapes));  // slices within their axes
  return tensors;
}

Result<std::vector<Tensor>> Plan::output_tensors(const ir::SymbolValues& sizes) const {
  std::vector<Tensor> tensors;
  for (const ir::Output& output : graph_.outputs()) {
    const ir::Type& type = graph_.type(output.value);
    ATTACCA_TRY(std::vector<int64_t> shape, evaluate(type.shape, sizes));
    ATTACCA_TRY(Tensor tensor, dense_tensor(output.name, type.dtype, std::move(shape)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

namespace {

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

Result<Plan::Difference> Plan::lay_out(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                                       const Layouts& layouts) const {
  Difference difference;
  const size_t count = inputs_.size();
  difference.inputs.resize(count);
  difference.outputs.resize(outputs_.size());
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!layouts[i]) continue;
    const bool input = i < count;
    Tensor& tensor = input ? inputs[i] : outputs[i - count];
    const TensorInfo& info = input ? inputs_[i] : outputs_[i - count];
    const std::vector<int64_t> wanted = tensor.strides;
    ATTACCA_TRY_VOID(give_strides(tensor, *layouts[i]));
    if (reach_the_same(tensor.shape, tensor.strides, wanted)) {
      tensor.strides = wanted;
      continue;
    }
    const ir::Value value = input ? graph_.inputs()[i] : graph_.outputs()[i - count].value;
    const ir::Node* reader = input ? reader_of_address(graph_, value) : nullptr;
    if (reader != nullptr)
      return fail(fmt::format("{} is not laid out as {} says, and {} reads it by its address",
                              info.name, info.type, ir::name(reader->op)),
                  info.name, "copy it");
    if (!input && run::may_overlap(tensor.shape, tensor.strides))
      return fail(fmt::format("elements of output {} may overlap", info.name), info.name,
                  "give each a place of its own");
    if (input || options_.device.cuda)
      (input ? difference.inputs[i] : difference.outputs[i - count]) =
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
  ATTACCA_TRY(std::vector<Tensor> inputs, input_tensors(sizes));
  ATTACCA_TRY(std::vector<Tensor> outputs, output_tensors(sizes));
  ATTACCA_TRY(const Difference difference, lay_out(inputs, outputs, layouts));
  std::shared_ptr<const run::Compiled> compiled = compiled_;
  if (!difference.none()) {
    ATTACCA_TRY(const std::shared_ptr<const Plan> other, variant(difference));
    compiled = other->compiled_;
  }
  std::shared_ptr<const run::CpuInstance> cpu;
  std::shared_ptr<const run::CudaInstance> cuda;
  if (options_.device.cuda) {
    ATTACCA_TRY(cuda, compiled->cuda().instance(sizes, alignments));
    remember(cuda->decisions());
  } else {
    ATTACCA_TRY(cpu, compiled->cpu().instance(sizes));
  }
  return std::make_shared<const Instance>(std::move(compiled), std::move(inputs),
                                          std::move(outputs), std::move(cpu), std::move(cuda));
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
