// Kernels that users wrote, alone or with their tails put before their stores.
#include <algorithm>
#include <cstring>

#include "fmt/format.h"

#include "epilogue/hole.hpp"
#include "epilogue/tail_function.hpp"
#include "jit/kernel_file.hpp"
#include "jit/kernel_image.hpp"
#include "run/cuda_steps.hpp"
#include "run/single_regions.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

using epilogue::Role;
using ir::Value;

constexpr uint32_t kSharedWithoutAsking = 48 * 1024;
constexpr int64_t kMostBlocks[] = {0x7FFFFFFF, 0xFFFF, 0xFFFF};

// What one parameter is passed at a launch.
struct Parameter {
  std::optional<size_t> pointer;  // which of the step's values: its address and `word` bytes
  uint64_t word = 0;              // else these bytes
};

// A kernel and everything that launches it but for addresses.
class UserKernel : public tune::Runnable {
 public:
  static Result<std::unique_ptr<UserKernel>> load(const std::shared_ptr<tune::Toolbox>& toolbox,
                                                  const std::vector<char>& image,
                                                  const std::string& entry,
                                                  const jit::Launch& shape) {
    ATTACCA_TRY(jit::Module module, jit::Module::load(toolbox->device(), image));
    ATTACCA_TRY(const jit::Function function, module.function(entry));
    if (shape.shared_bytes > kSharedWithoutAsking)
      ATTACCA_TRY_VOID(function.allow_shared_bytes(shape.shared_bytes));
    return std::unique_ptr<UserKernel>(new UserKernel(toolbox, std::move(module), function, shape));
  }

  size_t workspace_bytes() const override { return 0; }
  Status launch(const tune::Pointers& pointers, void*, jit::StreamHandle stream) const override {
    if (zeroed_bytes > 0) {
      const jit::Driver& driver = toolbox_->device().driver();
      const auto at = reinterpret_cast<jit::DevicePointer>(pointers[output]);
      ATTACCA_TRY_VOID(driver.call(driver.memset_d8, at, uint8_t{0}, zeroed_bytes, stream));
    }
    std::vector<uint64_t> words;
    for (const Parameter& each : parameters)
      words.push_back(each.word +
                      (each.pointer ? reinterpret_cast<uintptr_t>(pointers[*each.pointer]) : 0));
    std::vector<void*> addresses;
    for (uint64_t& word : words) addresses.push_back(&word);
    return function_.launch(shape_, stream, addresses.data());
  }

  std::vector<Parameter> parameters;
  size_t zeroed_bytes = 0;  // of the output, before the launch
  size_t output = 0;        // which of the pointers it is

 private:
  UserKernel(std::shared_ptr<tune::Toolbox> toolbox, jit::Module module, jit::Function function,
             const jit::Launch& shape)
      : toolbox_(std::move(toolbox)),
        module_(std::move(module)),
        function_(function),
        shape_(shape) {}

  std::shared_ptr<tune::Toolbox> toolbox_;
  jit::Module module_;
  jit::Function function_;
  jit::Launch shape_;
};

// A result without elements needs no launch.
class NoLaunch : public tune::Runnable {
 public:
  size_t workspace_bytes() const override { return 0; }
  Status launch(const tune::Pointers&, void*, jit::StreamHandle) const override { return {}; }
};

Result<uint64_t> word_of(const ir::ScalarArgument& scalar, const ir::SymbolValues& symbols,
                         const std::string& where) {
  uint64_t word = 0;
  if (const auto* number = std::get_if<double>(&scalar.number)) {
    const ir::Tensor tensor = ir::Tensor::of(scalar.dtype, {}, {*number});
    std::memcpy(&word, tensor.data(), static_cast<size_t>(tensor.bytes()));
    return word;
  }
  ATTACCA_TRY(const int64_t value, std::get<ir::LaunchSize>(scalar.number).evaluate(symbols));
  if (ir::to_integer(scalar.dtype, value) != value)
    return fail(
        fmt::format("{} is {}, no value of {}", to_string(scalar), value, name(scalar.dtype)),
        where, "pass it as s64, or make the sizes smaller");
  std::memcpy(&word, &value, static_cast<size_t>(ir::size_of(scalar.dtype)));
  return word;
}

// One kernel of the graph at certain sizes.
class KernelSteps {
 public:
  KernelSteps(const StepContext& context, Value kernel)
      : context_(context),
        kernel_(kernel),
        node_(context.graph[kernel]),
        call_(*node_.attrs.kernel),
        where_(epilogue::display_name(context.graph, kernel)) {}

  Status load() {
    const int capability = context_.toolbox->device().info().capability();
    ATTACCA_TRY(jit::LoadedKernel loaded, jit::load_kernel({.file = call_.file,
                                                            .kernel = call_.entry,
                                                            .arch = jit::arch_of(capability),
                                                            .includes = {},
                                                            .options = call_.options,
                                                            .kernel_option = "entry="}));
    loaded_ = std::move(loaded);
    ATTACCA_TRY(const std::vector<int64_t> shape, evaluate(node_.type.shape, context_.symbols));
    elements_ = 1;
    for (const int64_t extent : shape) elements_ *= extent;
    ATTACCA_TRY_VOID(check_parameters());
    return elements_ == 0 ? Status() : set_shape();
  }

  bool is_empty() const { return elements_ == 0; }
  std::string name() const {
    return call_.entry.empty() ? call_.file : fmt::format("{}:{}", call_.file, call_.entry);
  }

  Result<CudaStep> alone() const {
    CudaStep step;
    step.values = node_.operands;
    step.values.push_back(kernel_);
    if (is_empty()) {
      step.runnable = std::make_unique<NoLaunch>();
      return step;
    }
    ATTACCA_TRY(auto made, make({.module = &loaded_->module, .capability = capability()}));
    made->output = node_.operands.size();
    if (call_.zeroed)
      made->zeroed_bytes =
          static_cast<size_t>(elements_) * static_cast<size_t>(ir::size_of(node_.type.dtype));
    ATTACCA_TRY(made->parameters, own_parameters(node_.operands.size()));
    step.runnable = std::move(made);
    return step;
  }

  // Empty: the kernel may store what the tail gives. What its PTX says is asked last.
  Result<std::vector<std::string>> obstacles(const tune::Problem& tail) {
    if (const auto reason = epilogue::tail_refusal(tail.epilogue)) return std::vector{*reason};
    std::vector<std::string> reasons = layout_obstacles(tail);
    if (!reasons.empty()) return reasons;
    ATTACCA_TRY(ptx::Analysis analysis,
                context_.analyse(loaded_->module, loaded_->entry,
                                 ptx::OutputSpec{std::to_string(call_.output()), 0},
                                 static_cast<uint32_t>(ir::size_of(node_.type.dtype))));
    for (const ptx::Reason& reason : analysis.reasons)
      reasons.push_back(fmt::format("{} [{}] at {}", reason.what, reason.rule, reason.where));
    analysis_ = std::move(analysis);
    return reasons;
  }

  // REQUIRES: no obstacles().
  Result<CudaStep> fused(const tune::Problem& tail) const {
    CudaStep step;
    step.values = node_.operands;
    std::vector<Parameter> appended;
    for (size_t i = 0; i < tail.inputs.size(); ++i) {
      const epilogue::Input& input = tail.epilogue.inputs[i];
      if (input.role == Role::Accumulator) continue;
      const tune::View& view = tail.inputs[i];
      appended.push_back(
          {step.values.size(), static_cast<uint64_t>(view.offset * ir::size_of(view.dtype))});
      step.values.push_back(input.source);
    }
    const int64_t rows = epilogue::rows_in_code(tail.m, tail.n);
    const jit::Tail code = jit::emit_tail(
        tail.epilogue,
        {.rows = rows, .columns = tail.n, .mode = context_.options.mode, .threads = threads()});
    ATTACCA_TRY(auto made, make({.module = &loaded_->module,
                                 .capability = capability(),
                                 .tail = &code,
                                 .analysis = &*analysis_}));
    ATTACCA_TRY(made->parameters, own_parameters(step.values.size()));
    made->parameters.insert(made->parameters.end(), appended.begin(), appended.end());
    step.values.push_back(tail.epilogue.outputs[0].result);
    step.runnable = std::move(made);
    return step;
  }

 private:
  int capability() const { return context_.toolbox->device().info().capability(); }

  uint32_t threads() const { return shape_.block[0] * shape_.block[1] * shape_.block[2]; }

  // A launch with fewer or smaller parameters than the kernel reads would read other memory.
  Status check_parameters() const {
    const ptx::Function* entry = nullptr;
    for (const ptx::Item& item : loaded_->module.items)
      if (const auto* function = std::get_if<ptx::Function>(&item);
          function && function->name == loaded_->entry && function->body)
        entry = function;
    ATTACCA_CHECK(entry != nullptr, "a kernel that was found is gone");
    const std::string mend = "pass what the kernel takes, in its order; numbers say their dtype";
    if (entry->parameters.size() != call_.arguments.size())
      return fail(fmt::format("{} takes {} parameters, and {} are passed", name(),
                              entry->parameters.size(), call_.arguments.size()),
                  where_, mend);
    for (size_t i = 0; i < call_.arguments.size(); ++i) {
      const auto* scalar = std::get_if<ir::ScalarArgument>(&call_.arguments[i]);
      const int64_t passed = scalar == nullptr ? 8 : ir::size_of(scalar->dtype);
      const auto wanted = size_in_bytes(entry->parameters[i]);
      if (wanted && *wanted == static_cast<uint64_t>(passed)) continue;
      return fail(fmt::format("parameter {} of {} has {} bytes, and {} of {} bytes is passed", i,
                              name(), wanted.value_or(0),
                              scalar == nullptr ? "an address" : to_string(*scalar), passed),
                  where_, mend);
    }
    return {};
  }

  Status set_shape() {
    for (size_t i = 0; i < call_.grid.size(); ++i) {
      ATTACCA_TRY(const int64_t blocks, call_.grid[i].evaluate(context_.symbols));
      if (blocks < 1 || blocks > kMostBlocks[i])
        return fail(
            fmt::format("axis {} of the grid, {}, is {}", i, to_string(call_.grid[i]), blocks),
            where_, fmt::format("a grid has 1 to {} blocks there", kMostBlocks[i]));
      shape_.grid[i] = static_cast<uint32_t>(blocks);
    }
    for (size_t i = 0; i < call_.block.size(); ++i)
      shape_.block[i] = static_cast<uint32_t>(call_.block[i]);
    shape_.shared_bytes = static_cast<uint32_t>(call_.shared);
    return {};
  }

  Result<std::vector<Parameter>> own_parameters(size_t output) const {
    std::vector<Parameter> parameters;
    size_t operand = 0;
    for (const ir::KernelArgument& argument : call_.arguments) {
      Parameter& made = parameters.emplace_back();
      if (const auto* scalar = std::get_if<ir::ScalarArgument>(&argument)) {
        ATTACCA_TRY(made.word, word_of(*scalar, context_.symbols, where_));
      } else {
        made.pointer = std::holds_alternative<ir::OutputArgument>(argument) ? output : operand++;
      }
    }
    return parameters;
  }

  Result<std::unique_ptr<UserKernel>> make(const jit::KernelImageRequest& request) const {
    ATTACCA_TRY(const std::vector<char> image, jit::kernel_image(request));
    return UserKernel::load(context_.toolbox, image, loaded_->entry, shape_);
  }

  // Operands are indexed from the store's address: rows by columns, as the output lies.
  std::vector<std::string> layout_obstacles(const tune::Problem& tail) const {
    std::vector<std::string> reasons;
    if (tail.batch != 1 || !tail.outer.empty())
      reasons.emplace_back("its operands repeat along the output's outer axes");
    for (size_t i = 0; i < tail.inputs.size(); ++i) {
      const epilogue::Input& input = tail.epilogue.inputs[i];
      const tune::View& view = tail.inputs[i];
      const bool columns = input.role == Role::Row || input.role == Role::Full;
      const bool full = input.role == Role::Full;
      const bool lies = input.role == Role::Accumulator || input.role == Role::Scalar ||
                        ((!columns || tail.n == 1 || view.column_stride == 1) &&
                         (columns || tail.m == 1 || view.row_stride == 1) &&
                         (!full || tail.m == 1 || view.row_stride == tail.n));
      if (!lies)
        reasons.push_back(fmt::format("{} does not lie row by row as the output does",
                                      epilogue::display_name(context_.graph, input.source)));
    }
    return reasons;
  }

  const StepContext& context_;
  const Value kernel_;
  const ir::Node& node_;
  const ir::KernelCall& call_;
  const std::string where_;
  std::optional<jit::LoadedKernel> loaded_;
  std::optional<ptx::Analysis> analysis_;
  jit::Launch shape_;
  int64_t elements_ = 0;
};

// The tail as a region of its own, which reads what the kernel stored.
fuse::Region tail_region(const ir::Graph& graph, const fuse::Region& region) {
  const Value kernel = *region.kernel;
  fuse::Region tail = region;
  tail.kind = fuse::RegionKind::Pointwise;
  tail.kernel.reset();
  tail.nodes.erase(std::remove(tail.nodes.begin(), tail.nodes.end(), kernel), tail.nodes.end());
  tail.inputs.push_back(kernel);
  tail.epilogue = epilogue::unfuse(region.epilogue, {region.epilogue.domain.back()}, {kernel});
  ATTACCA_CHECK(graph[kernel].op == ir::Op::Kernel, "a tail of another op");
  return tail;
}

Result<std::vector<CudaStep>> unfused_steps(const StepContext& context, const KernelSteps& kernel,
                                            const fuse::Region& region) {
  std::vector<CudaStep> steps;
  ATTACCA_TRY(CudaStep first, kernel.alone());
  steps.push_back(std::move(first));
  ATTACCA_TRY(std::vector<CudaStep> rest,
              make_plain_steps(context, tail_region(context.graph, region)));
  for (CudaStep& step : rest) steps.push_back(std::move(step));
  return steps;
}

}  // namespace

Result<std::vector<CudaStep>> make_kernel_steps(const StepContext& context,
                                                const fuse::Region& region,
                                                std::vector<Decision>& decisions) {
  KernelSteps kernel(context, region.kernel.value_or(region.nodes[0]));
  ATTACCA_TRY_VOID(kernel.load());
  std::vector<CudaStep> steps;
  if (!region.kernel) {
    ATTACCA_TRY(CudaStep step, kernel.alone());
    steps.push_back(std::move(step));
    return steps;
  }
  Decision& decision = decisions.emplace_back();
  decision.region = &region;
  decision.source = "only way";
  if (context.options.unfused || kernel.is_empty()) return unfused_steps(context, kernel, region);
  ATTACCA_TRY(const tune::Problem tail,
              tune::concretize(region, context.graph, context.symbols, context.options.mode,
                               context.alignment_of));
  ATTACCA_TRY(const std::vector<std::string> obstacles, kernel.obstacles(tail));
  decision.source = "analysis";
  for (const std::string& reason : obstacles) decision.excluded.push_back({kernel.name(), reason});
  if (obstacles.empty()) {
    auto step = kernel.fused(tail);
    if (step) {
      decision.candidate = {.kind = tune::CandidateKind::Fused, .kernel = kernel.name()};
      steps.push_back(*std::move(step));
      return steps;
    }
    decision.excluded.push_back({kernel.name(), to_string(step.error())});
  }
  return unfused_steps(context, kernel, region);
}

}  // namespace attacca::run
