#include "api/plan.hpp"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "api/constants.hpp"
#include "fuse/explain/explain.hpp"
#include "launch/bundle/make_bundle.hpp"
#include "run/shared/input_layout.hpp"
#include "support/files/process_gate.hpp"
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
                                  run::CudaOptions cuda, run::OutputStrides strides) {
  ATTACCA_TRY(run::Target target,
              run::Target::of(options.device, options.mode, options.fuse, options.described));
  target.batch_invariant = options.batch_invariant;
  cuda.tuning = options.tuning;
  cuda.tune_options = tune::options_within(options.tuning_seconds);
  return run::compile(graph, target,
                      {.cpu = {.threads = options.threads},
                       .cuda = std::move(cuda),
                       .output_strides = std::move(strides)});
}

}  // namespace

Result<std::shared_ptr<const Plan>> Plan::compile(ir::Graph graph, const Options& options,
                                                  std::vector<run::KnownChoice> choices,
                                                  std::shared_ptr<const run::Bundle> bundle) {
  ATTACCA_TRY_VOID(ir::verify(graph));
  if (graph.outputs().empty())
    return fail(fmt::format("graph {} has no output", graph.name), graph.name, "add one");
  return make(std::move(graph), options, std::move(choices), std::move(bundle), {});
}

Result<std::shared_ptr<Plan>> Plan::make(ir::Graph graph, const Options& options,
                                         std::vector<run::KnownChoice> choices,
                                         std::shared_ptr<const run::Bundle> bundle,
                                         Difference difference) {
  auto plan = std::make_shared<Plan>();
  plan->options_ = options;
  plan->symbols_ = graph.symbols();
  for (const ir::Value input : graph.inputs())
    plan->inputs_.push_back(info_of(graph, graph[input].name, input, true));
  for (const ir::Output& output : graph.outputs())
    plan->outputs_.push_back(info_of(graph, output.name, output.value, false));
  plan->choices_ = choices;
  plan->bundle_ = bundle;
  ATTACCA_TRY(
      run::Compiled compiled,
      compile_for(graph, options, {.choices = std::move(choices), .bundle = std::move(bundle)},
                  std::move(difference.outputs)));
  plan->compiled_ = std::make_shared<const run::Compiled>(std::move(compiled));
  ATTACCA_TRY(plan->graph_, with_moved(std::move(graph), plan->compiled_->prepared.moved));
  return plan;
}

std::string Plan::explain_text() const {
  std::string text;
  for (const fold::Applied& applied : compiled_->prepared.folds)
    text += fmt::format("folded {}: {}\n", applied.rule, applied.result);
  if (options_.batch_invariant)
    text += "batch_invariant: a row's bits do not depend on how many rows there are\n";
  return text + fuse::explain_text(partition());
}

std::string Plan::explain_json() const {
  return json::dump(fuse::explain_json(partition()), 2);
}

std::string Plan::explain_dot() const {
  return fuse::explain_dot(partition());
}

Status check_sizes(const std::vector<std::string>& symbols, const ir::SymbolValues& sizes) {
  for (const auto& [symbol, value] : sizes) {
    if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end())
      return fail(fmt::format("the graph has no size {}", symbol), symbol,
                  symbols.empty() ? "all its sizes are fixed"
                                  : fmt::format("its sizes are {}", fmt::join(symbols, ", ")));
    if (value < 0)
      return fail(fmt::format("size {} is {}", symbol, value), symbol, "sizes are >= 0");
  }
  for (const std::string& symbol : symbols)
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

// An op that reads an input by its address, without strides.
const ir::Node* reader_of_address(const ir::Graph& graph, ir::Value input) {
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::Kernel || node.op == ir::Op::Unpack)
      if (std::find(node.operands.begin(), node.operands.end(), input) != node.operands.end())
        return &node;
  return nullptr;
}

constexpr size_t kMostVariants = 64;

// Addresses must be multiples of the elements' sizes, whatever alignment a caller promises.
std::vector<int> of_elements(std::vector<int> alignments, const std::vector<Tensor>& inputs,
                             const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < alignments.size(); ++i) {
    const Tensor& tensor = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    alignments[i] = std::max(alignments[i], static_cast<int>(ir::size_of(tensor.dtype)));
  }
  return alignments;
}

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
    const ForkSafeLock lock(mutex_);
    if (const auto found = variants_.find(key); found != variants_.end()) return found->second;
  }
  ATTACCA_TRY(ir::Graph graph, with_strides(graph_, difference.inputs));
  ATTACCA_TRY(std::shared_ptr<const Plan> made,
              make(std::move(graph), options_, choices(), bundle_, difference));
  decltype(variants_) left_out;  // instances keep the variants that they need
  const ForkSafeLock lock(mutex_);
  if (variants_.size() >= kMostVariants) left_out.swap(variants_);
  return variants_.emplace(key, std::move(made)).first->second;
}

Status Plan::check_arguments(const ir::SymbolValues& sizes, const std::vector<int>& alignments,
                             const Layouts& layouts) const {
  ATTACCA_TRY_VOID(check_sizes(symbols_, sizes));
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
  return {};
}

Result<std::shared_ptr<const Instance>> Plan::prepare(const ir::SymbolValues& sizes,
                                                      const std::vector<int>& alignments,
                                                      const Layouts& layouts) const {
  ATTACCA_TRY_VOID(check_arguments(sizes, alignments, layouts));
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
    ATTACCA_TRY(cuda, compiled->cuda().instance(sizes, of_elements(alignments, inputs, outputs)));
    remember(sizes, cuda->decisions());
  } else {
    ATTACCA_TRY(cpu, compiled->cpu().instance(sizes));
  }
  return std::make_shared<const Instance>(std::move(compiled), std::move(inputs),
                                          std::move(outputs), std::move(cpu), std::move(cuda));
}

Result<std::shared_ptr<const Parts>> Plan::prepare_parts(const ir::SymbolValues& sizes,
                                                         const std::vector<int>& alignments,
                                                         size_t parts) const {
  ATTACCA_TRY_VOID(check_arguments(sizes, alignments, {}));
  if (!options_.device.cuda)
    return fail("the plan is for the CPU", "parts", "compile it for a GPU");
  ATTACCA_TRY(std::vector<Tensor> inputs, input_tensors(sizes));
  ATTACCA_TRY(std::vector<Tensor> outputs, output_tensors(sizes));
  ATTACCA_TRY(auto made, run::make_parts(compiled_->cuda(), sizes,
                                         of_elements(alignments, inputs, outputs), parts));
  return std::make_shared<const Parts>(compiled_, std::move(inputs), std::move(outputs),
                                       std::move(made));
}

namespace {

void put(std::vector<run::KnownChoice>& choices, const tune::ChoiceKey& key,
         const tune::Choice& choice) {
  const auto known = std::find_if(choices.begin(), choices.end(),
                                  [&](const run::KnownChoice& each) { return each.key == key; });
  if (known == choices.end())
    choices.push_back({key, choice});
  else
    known->choice = choice;
}

}  // namespace

void Plan::remember(const ir::SymbolValues& sizes, std::span<const run::Decision> decisions) const {
  const ForkSafeLock lock(mutex_);
  sizes_.insert(sizes);
  for (const run::Decision& decision : decisions) {
    const tune::Choice choice{decision.candidate, decision.seconds, decision.unfused_seconds,
                              decision.quick};
    if (!decision.key.problem.empty()) put(decided_, decision.key, choice);
    if (decision.seconds > 0) put(choices_, decision.key, choice);
  }
}

std::vector<run::KnownChoice> Plan::choices() const {
  const ForkSafeLock lock(mutex_);
  return choices_;
}

namespace {

// The choices and sizes that the plan was loaded with.
void add_missing(const run::Bundle& from, run::Bundle& to) {
  for (const run::KnownChoice& choice : from.choices)
    if (std::none_of(to.choices.begin(), to.choices.end(), [&](const run::KnownChoice& each) {
          return each.key.problem == choice.key.problem && each.key.shape == choice.key.shape;
        }))
      to.choices.push_back(choice);
  for (const ir::SymbolValues& sizes : from.sizes)
    if (std::find(to.sizes.begin(), to.sizes.end(), sizes) == to.sizes.end())
      to.sizes.push_back(sizes);
}

}  // namespace

Result<run::Bundle> Plan::bundle() const {
  if (!options_.device.cuda)
    return fail("a plan of the CPU has no kernels to keep", "kernels",
                "save it without them, or compile it for a GPU");
  for (const ir::Node& node : graph_.nodes())
    if (node.op == ir::Op::Kernel)
      return fail(
          fmt::format("a bundle holds no kernels of your own such as {}",
                      node.name.empty() ? node.get<ir::KernelAttrs>().call.file : node.name),
          graph_.name, "save the plan without its kernels");
  const launch::Toolbox& toolbox = *compiled_->cuda().toolbox();
  run::Bundle bundle;
  std::vector<std::shared_ptr<const Plan>> variants;
  {
    const ForkSafeLock lock(mutex_);
    bundle.choices = decided_;
    bundle.sizes.assign(sizes_.begin(), sizes_.end());
    for (const auto& [key, variant] : variants_) variants.push_back(variant);
  }
  if (toolbox.bundle()) add_missing(*bundle_, bundle);
  if (bundle.sizes.empty())
    return fail("the plan was prepared for no sizes, so that it has no kernels", "kernels",
                "prepare it for the sizes that will be run, or run it, first");
  ATTACCA_TRY(bundle.kernels, launch::make_bundle(toolbox));
  for (const std::shared_ptr<const Plan>& variant : variants) {
    ATTACCA_TRY(launch::Bundle more, launch::make_bundle(*variant->compiled_->cuda().toolbox()));
    merge(bundle.kernels, std::move(more));
  }
  return bundle;
}

}  // namespace attacca::api
