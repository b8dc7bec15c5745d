#include "launch/user_kernel.hpp"

#include <cstring>

#include "fmt/format.h"

#include "epilogue/code/element.hpp"
#include "epilogue/code/tail_function.hpp"
#include "gpu/kernel/kernel_image.hpp"
#include "support/check.hpp"
#include "support/reused.hpp"

namespace attacca::launch {
namespace {

constexpr int kDearCost = 20;  // of an op (ops.def)

using epilogue::Role;

constexpr int64_t kMostBlocks[] = {0x7FFFFFFF, 0xFFFF, 0xFFFF};

// The argument for one parameter at a launch.
struct Parameter {
  enum class Kind : uint8_t { Word, Operand, Input, Result };
  Kind kind = Kind::Word;
  size_t index = 0;   // Operand: which of the kernel's; Input: which of the epilogue's
  uint64_t word = 0;  // the bytes of a number, or the offset in bytes of an address

  uint64_t at(const Addresses& addresses) const {
    const void* address = kind == Kind::Operand  ? addresses.kernel[index]
                          : kind == Kind::Input  ? addresses.inputs[index]
                          : kind == Kind::Result ? addresses.outputs[0]
                                                 : nullptr;
    return word + reinterpret_cast<uintptr_t>(address);
  }
};

// A kernel with all arguments except addresses. It stores to outputs[0].
class KernelLaunch : public Runnable {
 public:
  static Result<std::unique_ptr<KernelLaunch>> load(const std::shared_ptr<Toolbox>& toolbox,
                                                    const std::vector<char>& image,
                                                    const std::string& entry,
                                                    const gpu::Launch& shape) {
    const gpu::Current current(toolbox->device());
    ATTACCA_TRY_VOID(current.entered());
    ATTACCA_TRY(gpu::Module module, gpu::Module::load(toolbox->device(), image));
    ATTACCA_TRY(const gpu::Function function, module.function(entry));
    ATTACCA_TRY_VOID(function.allow_shared_bytes(shape.shared_bytes));
    return std::unique_ptr<KernelLaunch>(
        new KernelLaunch(toolbox, std::move(module), function, shape));
  }

  size_t workspace_bytes() const override { return 0; }
  Status launch(const Addresses& at, void*, gpu::StreamHandle stream) const override {
    if (zeroed_bytes > 0) {
      const gpu::Driver& driver = toolbox_->device().driver();
      const auto result = reinterpret_cast<gpu::DevicePointer>(at.outputs[0]);
      ATTACCA_TRY_VOID(driver.call(driver.memset_d8, result, uint8_t{0}, zeroed_bytes, stream));
    }
    const auto passed = passed_.take([this] { return Passed(parameters_.size()); });
    for (size_t i = 0; i < parameters_.size(); ++i) passed->words[i] = parameters_[i].at(at);
    return function_.launch(shape_, stream, passed->addresses.data());
  }

  void pass(std::vector<Parameter> parameters) {
    parameters_ = std::move(parameters);
    *passed_.take([] { return Passed(0); }) = Passed(parameters_.size());
  }
  size_t zeroed_bytes = 0;  // the part of the result to fill with 0 before the launch

 private:
  KernelLaunch(std::shared_ptr<Toolbox> toolbox, gpu::Module module, gpu::Function function,
               const gpu::Launch& shape)
      : toolbox_(std::move(toolbox)),
        module_(std::move(module)),
        function_(function),
        shape_(shape) {}

  // What one launch passes: the parameters, and where each is.
  struct Passed {
    explicit Passed(size_t count) : words(count), addresses(count) {
      for (size_t i = 0; i < count; ++i) addresses[i] = &words[i];
    }
    Passed(Passed&&) = default;  // the words stay where they are
    Passed& operator=(Passed&&) = default;
    std::vector<uint64_t> words;
    std::vector<void*> addresses;
  };

  std::shared_ptr<Toolbox> toolbox_;
  gpu::Module module_;
  gpu::Function function_;
  gpu::Launch shape_;
  std::vector<Parameter> parameters_;
  mutable Reused<Passed> passed_{Passed(0)};
};

class Nothing : public Runnable {
 public:
  size_t workspace_bytes() const override { return 0; }
  Status launch(const Addresses&, void*, gpu::StreamHandle) const override { return {}; }
};

// Launches the kernel, which stores its own result, then the tail, which reads it.
class KernelThenTail : public Runnable {
 public:
  // The kernel's operands, and the tail's.
  struct Parts {
    Addresses own, rest;
  };

  KernelThenTail(const problem::Problem& problem, std::unique_ptr<Runnable> kernel, size_t stored,
                 std::unique_ptr<Runnable> tail)
      : kernel_(std::move(kernel)),
        stored_(stored),
        tail_(std::move(tail)),
        parts_(parts_of(map([](const auto&) -> void* { return nullptr; }, problem.views))) {}

  size_t workspace_bytes() const override { return tail_->workspace_bytes(); }
  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    const auto parts = parts_.take([&] { return parts_of(at); });
    parts->own.kernel = at.kernel;
    parts->own.outputs[0] = at.inputs[stored_];
    parts->rest.inputs = at.inputs;
    parts->rest.outputs = at.outputs;
    parts->rest.indices = at.indices;
    ATTACCA_TRY_VOID(kernel_->launch(parts->own, nullptr, stream));
    return tail_->launch(parts->rest, workspace, stream);
  }

 private:
  std::unique_ptr<Runnable> kernel_;
  size_t stored_;  // which of the epilogue's inputs the kernel's result is
  std::unique_ptr<Runnable> tail_;
  mutable Reused<Parts> parts_;

  static Parts parts_of(const Addresses& at) {
    return {{.kernel = at.kernel, .outputs = {nullptr}}, at.of_epilogue()};
  }
};

Result<uint64_t> word_of(const ir::ScalarArgument& scalar, const std::string& where) {
  uint64_t word = 0;
  if (const auto* number = std::get_if<double>(&scalar.number)) {
    const ir::Tensor tensor = ir::Tensor::of(scalar.dtype, {}, {*number});
    std::memcpy(&word, tensor.data(), static_cast<size_t>(tensor.bytes()));
    return word;
  }
  ATTACCA_TRY(const int64_t value, std::get<ir::LaunchSize>(scalar.number).evaluate({}));
  if (ir::to_integer(scalar.dtype, value) != value)
    return fail(fmt::format("{} is no value of {}", value, name(scalar.dtype)), where,
                "pass it as s64, or make the sizes smaller");
  std::memcpy(&word, &value, static_cast<size_t>(ir::size_of(scalar.dtype)));
  return word;
}

// A kernel whose file was read, and whose call was checked against its parameters.
class LoadedKernel {
 public:
  static Result<LoadedKernel> load(UserKernelFiles& files, const gpu::DeviceInfo& device,
                                   const problem::KernelPart& part) {
    LoadedKernel kernel(part, device.capability());
    ATTACCA_TRY(kernel.file_, files.load(part.call, device.capability()));
    ATTACCA_TRY_VOID(kernel.check_parameters());
    ATTACCA_TRY_VOID(kernel.set_shape());
    return kernel;
  }

  Result<std::unique_ptr<Runnable>> alone(const std::shared_ptr<Toolbox>& toolbox) const {
    ATTACCA_TRY(auto made, make(toolbox, {.module = &file_->module(), .capability = capability_}));
    if (part_.call.zeroed)
      made->zeroed_bytes = static_cast<size_t>(part_.elements * ir::size_of(part_.stored));
    ATTACCA_TRY(std::vector<Parameter> parameters, own_parameters());
    made->pass(std::move(parameters));
    return made;
  }

  // Why the kernel cannot store the tail's results; empty if it can. Its PTX is analysed last.
  Result<std::vector<std::string>> obstacles(const problem::Problem& problem) const {
    if (const auto reason = epilogue::tail_refusal(problem.epilogue)) return std::vector{*reason};
    std::vector<std::string> reasons = layout_obstacles(problem);
    if (!reasons.empty()) return reasons;
    ATTACCA_TRY(const ptx::Analysis* analysis, this->analysis());
    for (const ptx::Reason& reason : analysis->reasons)
      reasons.push_back(fmt::format("{} [{}] at {}", reason.what, reason.rule, reason.where));
    // The tail may read what the kernel is still writing.
    for (const ptx::PointerUse& use : analysis->uses)
      if (std::holds_alternative<ir::TensorArgument>(part_.call.arguments[use.parameter]) &&
          (use.written || use.atomics))
        reasons.push_back(fmt::format("it writes to its operand at parameter {}", use.parameter));
    return reasons;
  }

  // Why a tail may make the kernel slower; empty: no reason is known. Triton's kernels on an H200
  // (docs/benchmarks/gpu-user-kernels.md) all gained by a tail there except by exponentials and the
  // like: of f32 at several stores, and in eager mode by those that are computed in f64 or at
  // several stores. REQUIRES: no obstacles().
  Result<std::string> doubt(const problem::Problem& problem) const {
    ATTACCA_TRY(const ptx::Analysis* analysis, this->analysis());
    for (const epilogue::Node& node : problem.epilogue.nodes) {
      if (!node.function.empty() || info(node.op).cost < kDearCost) continue;
      const bool at_one_store = analysis->stores.size() == 1;
      if (problem.mode == ir::Mode::Eager && !(at_one_store && epilogue::is_decided_narrowly(node)))
        return fmt::format("{} was measured to be slow there in eager mode: tune to know",
                           name(node.op));
      if (!at_one_store && node.dtype == ir::DType::F32 && problem.mode == ir::Mode::Fp32 &&
          problem.epilogue.outputs[0].dtype == ir::DType::F32)
        return fmt::format(
            "it stores at {} places, where {} of f32 was measured to be slow: tune to know",
            analysis->stores.size(), name(node.op));
    }
    return std::string();
  }

  // REQUIRES: no obstacles().
  Result<std::unique_ptr<Runnable>> fused(const std::shared_ptr<Toolbox>& toolbox,
                                          const problem::Problem& problem) const {
    std::vector<Parameter> appended;
    for (size_t i = 0; i < problem.views.inputs.size(); ++i) {
      const problem::View& view = problem.views.inputs[i];
      if (problem.epilogue.inputs[i].role != Role::Accumulator)
        appended.push_back({Parameter::Kind::Input, i,
                            static_cast<uint64_t>(view.offset * ir::size_of(view.dtype))});
    }
    const gpu::Tail tail = gpu::emit_tail(
        problem.epilogue, {.rows = epilogue::rows_in_code(problem.m, problem.n),
                           .columns = problem.n,
                           .mode = problem.mode,
                           .threads = shape_.block[0] * shape_.block[1] * shape_.block[2]});
    ATTACCA_TRY(const ptx::Analysis* analysis, this->analysis());
    ATTACCA_TRY(auto made, make(toolbox, {.module = &file_->module(),
                                          .capability = capability_,
                                          .tail = &tail,
                                          .analysis = analysis}));
    ATTACCA_TRY(std::vector<Parameter> parameters, own_parameters());
    parameters.insert(parameters.end(), appended.begin(), appended.end());
    made->pass(std::move(parameters));
    return made;
  }

 private:
  LoadedKernel(const problem::KernelPart& part, int capability)
      : part_(part), capability_(capability) {}

  const std::string& where() const { return part_.name; }

  Result<const ptx::Analysis*> analysis() const {
    return file_->analysis(part_.call.output(), static_cast<uint32_t>(ir::size_of(part_.stored)));
  }

  // With fewer or smaller arguments than the kernel reads, it would read other memory.
  Status check_parameters() const {
    const ptx::Function& function = file_->function();
    const auto& arguments = part_.call.arguments;
    const std::string fix = "pass what the kernel takes, in its order; numbers say their dtype";
    if (function.parameters.size() != arguments.size())
      return fail(fmt::format("{} takes {} parameters, and {} are passed", file_->entry(),
                              function.parameters.size(), arguments.size()),
                  where(), fix);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto* scalar = std::get_if<ir::ScalarArgument>(&arguments[i]);
      const int64_t passed = scalar == nullptr ? 8 : ir::size_of(scalar->dtype);
      const auto wanted = size_in_bytes(function.parameters[i]);
      if (wanted && *wanted == static_cast<uint64_t>(passed)) continue;
      return fail(fmt::format("parameter {} of {} has {} bytes, and {} of {} is passed", i,
                              file_->entry(), wanted.value_or(0),
                              scalar == nullptr ? "an address" : to_string(*scalar), passed),
                  where(), fix);
    }
    return {};
  }

  Status set_shape() {
    const ir::KernelCall& call = part_.call;
    for (size_t i = 0; i < call.grid.size(); ++i) {
      ATTACCA_TRY(const int64_t blocks, call.grid[i].evaluate({}));
      if (blocks < 1 || blocks > kMostBlocks[i])
        return fail(fmt::format("axis {} of the grid is {}", i, blocks), where(),
                    fmt::format("a grid has 1 to {} blocks there", kMostBlocks[i]));
      shape_.grid[i] = static_cast<uint32_t>(blocks);
    }
    for (size_t i = 0; i < call.block.size(); ++i)
      shape_.block[i] = static_cast<uint32_t>(call.block[i]);
    shape_.shared_bytes = static_cast<uint32_t>(call.shared);
    return {};
  }

  Result<std::vector<Parameter>> own_parameters() const {
    std::vector<Parameter> parameters;
    size_t operand = 0;
    for (const ir::KernelArgument& argument : part_.call.arguments) {
      Parameter& made = parameters.emplace_back();
      if (const auto* scalar = std::get_if<ir::ScalarArgument>(&argument)) {
        ATTACCA_TRY(made.word, word_of(*scalar, where()));
      } else if (std::holds_alternative<ir::OutputArgument>(argument)) {
        made.kind = Parameter::Kind::Result;
      } else {
        made = {Parameter::Kind::Operand, operand++};
      }
    }
    return parameters;
  }

  Result<std::unique_ptr<KernelLaunch>> make(const std::shared_ptr<Toolbox>& toolbox,
                                             const gpu::KernelImageRequest& request) const {
    ATTACCA_TRY(const std::vector<char> image, gpu::kernel_image(request));
    return KernelLaunch::load(toolbox, image, file_->entry(), shape_);
  }

  // Operands are indexed by the address of the store: rows and columns in the layout of the output.
  static std::vector<std::string> layout_obstacles(const problem::Problem& problem) {
    std::vector<std::string> reasons;
    if (problem.batch != 1 || !problem.outer.empty())
      reasons.emplace_back("an operand repeats along the output's outer axes");
    for (size_t i = 0; i < problem.views.inputs.size(); ++i) {
      const Role role = problem.epilogue.inputs[i].role;
      const problem::View& view = problem.views.inputs[i];
      const bool row_by_row = problem.m == 1 || view.row_stride == problem.n;
      const bool columns = problem.n == 1 || view.column_stride == 1;
      const bool lies = role == Role::Accumulator || role == Role::Scalar ||
                        (role == Role::Row && columns) ||
                        (role == Role::Column && (problem.m == 1 || view.row_stride == 1)) ||
                        (role == Role::Full && row_by_row && columns);
      if (!lies)
        reasons.push_back(
            fmt::format("a {} operand of {} with strides {}, {} does not lie as the "
                        "output does",
                        name(role), name(view.dtype), view.row_stride, view.column_stride));
    }
    return reasons;
  }

  const problem::KernelPart& part_;
  int capability_;
  std::shared_ptr<const UserKernelFile> file_;
  gpu::Launch shape_;
};

Result<LoadedKernel> load(const std::shared_ptr<Toolbox>& toolbox,
                          const problem::KernelPart& part) {
  return LoadedKernel::load(toolbox->user_kernels(), toolbox->device().info(), part);
}

// Which of the epilogue's inputs is the kernel's result.
size_t stored_input(const problem::Problem& problem) {
  for (size_t i = 0; i < problem.epilogue.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role == Role::Accumulator) return i;
  ATTACCA_CHECK(false, "a tail that does not read its kernel");
}

}  // namespace

Result<std::unique_ptr<Runnable>> make_kernel_alone(const std::shared_ptr<Toolbox>& toolbox,
                                                    const problem::KernelPart& kernel) {
  if (kernel.elements == 0) return std::make_unique<Nothing>();
  ATTACCA_TRY(const LoadedKernel loaded, load(toolbox, kernel));
  return loaded.alone(toolbox);
}

Result<std::unique_ptr<Runnable>> make_fused_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                         const problem::Problem& problem) {
  ATTACCA_TRY(const LoadedKernel loaded, load(toolbox, *problem.kernel));
  ATTACCA_TRY(const std::vector<std::string> obstacles, loaded.obstacles(problem));
  if (!obstacles.empty()) return fail(obstacles.front(), problem.kernel->name);
  return loaded.fused(toolbox, problem);
}

problem::Problem tail_of(const problem::Problem& problem) {
  return problem::tail_problem(
      problem, epilogue::unfuse(problem.epilogue, {problem.n}, {problem.kernel->node}));
}

Result<std::unique_ptr<Runnable>> make_unfused_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                           const problem::Problem& problem,
                                                           std::unique_ptr<Runnable> tail) {
  ATTACCA_TRY(const LoadedKernel loaded, load(toolbox, *problem.kernel));
  ATTACCA_TRY(auto kernel, loaded.alone(toolbox));
  return std::make_unique<KernelThenTail>(problem, std::move(kernel), stored_input(problem),
                                          std::move(tail));
}

Result<Candidates> kernel_candidates(UserKernelFiles& files, const gpu::DeviceInfo& device,
                                     const problem::Problem& problem) {
  ATTACCA_TRY(const LoadedKernel loaded, LoadedKernel::load(files, device, *problem.kernel));
  ATTACCA_TRY(const std::vector<std::string> obstacles, loaded.obstacles(problem));
  Candidates candidates;
  for (const std::string& reason : obstacles)
    candidates.excluded.push_back({std::string(kUserKernel), reason});
  if (!obstacles.empty()) return candidates;
  candidates.ranked.push_back({.kind = CandidateKind::Fused, .kernel = std::string(kUserKernel)});
  ATTACCA_TRY(candidates.doubt, loaded.doubt(problem));
  return candidates;
}

}  // namespace attacca::launch
