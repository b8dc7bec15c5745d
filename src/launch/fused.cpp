#include "launch/fused.hpp"

#include <limits>
#include <memory>
#include <optional>

#include "fmt/format.h"

#include "launch/arguments.hpp"
#include "launch/legality.hpp"
#include "support/reused.hpp"

namespace attacca::launch {
namespace {

using templates::Template;

// A kernel's parameters, built for certain addresses.
struct Built {
  Addresses addresses;
  void* workspace = nullptr;
  gpu::Launch launch;
  ParameterMemory parameters;
  bool done = false;
};

class TemplateLaunch : public Runnable {
 public:
  TemplateLaunch(std::shared_ptr<Toolbox> toolbox, std::shared_ptr<const Kernel> kernel,
                 const problem::Problem& problem, const Candidate& candidate)
      : toolbox_(std::move(toolbox)),
        kernel_(std::move(kernel)),
        problem_(problem),
        factors_(problem.factors()),
        binding_(candidate.binding),
        arguments_(describe(problem, form(), *binding_, candidate, kernel_->multiprocessors)),
        built_(not_built()) {
    workspace_bytes_ = form().builder->workspace(&arguments_, &zero_offset_, &zero_bytes_);
    for (size_t i = 0; i < binding_->outputs.size(); ++i)
      if (binding_->outputs[i].place == epilogue::Place::Maximum) maximum_at_ = i;
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    const auto built = built_.take([this] { return not_built(); });
    if (!built->done || built->workspace != workspace || built->addresses != at)
      ATTACCA_TRY_VOID(build(at, workspace, *built));
    if (zero_bytes_ > 0)
      ATTACCA_TRY_VOID(clear(static_cast<char*>(workspace) + zero_offset_, zero_bytes_, stream));
    if (maximum_at_) ATTACCA_TRY_VOID(clear(maximum(at), sizeof(float), stream));
    void* parameters[] = {built->parameters.get()};
    return kernel_->function.launch(built->launch, stream, parameters);
  }

 private:
  const Template& form() const { return *kernel_->form; }

  Status clear(void* at, size_t bytes, gpu::StreamHandle stream) const {
    const gpu::Driver& driver = toolbox_->device().driver();
    return driver.call(driver.memset_d8, reinterpret_cast<gpu::DevicePointer>(at), uint8_t{0},
                       bytes, stream);
  }

  void* maximum(const Addresses& at) const {
    return first_element(at.outputs[*maximum_at_], problem_.views.outputs[*maximum_at_]);
  }

  Built not_built() const {
    const auto& builder = *form().builder;
    return {.addresses = no_addresses(problem_.views),
            .launch = {},
            .parameters = allocate_parameters(builder.params_bytes,
                                              std::max<size_t>(builder.params_align, 64))};
  }

  Status build(const Addresses& at, void* workspace, Built& built) const {
    built.done = false;
    attacca_gemm_arguments arguments = arguments_;
    set_addresses(problem_, factors_, *binding_, at, arguments);
    arguments.workspace = workspace;
    uint32_t grid[3] = {1, 1, 1};
    ATTACCA_TRY_VOID(build_parameters(form(), arguments, built.parameters.get(), grid));
    built.launch = launch_of(form(), grid);
    built.addresses = at;
    built.workspace = workspace;
    built.done = true;
    return {};
  }

  std::shared_ptr<Toolbox> toolbox_;
  std::shared_ptr<const Kernel> kernel_;
  const problem::Problem problem_;
  const std::vector<problem::Factor> factors_;
  const std::shared_ptr<const epilogue::Binding> binding_;
  const attacca_gemm_arguments arguments_;  // without addresses
  size_t workspace_bytes_ = 0, zero_offset_ = 0, zero_bytes_ = 0;
  std::optional<size_t> maximum_at_;  // of the outputs: the kernel's maximum, 0 before each launch
  mutable Reused<Built> built_;       // kept for callers that launch with the same addresses again
};

}  // namespace

gpu::KernelRequest kernel_request(const problem::Problem& problem, const Template& kernel,
                                  const epilogue::Binding& binding, int capability, size_t problems,
                                  bool has_signals) {
  gpu::KernelRequest request;
  request.kernel = &kernel;
  request.epilogue = problem.epilogue;
  request.binding = binding;
  request.mode = problem.mode;
  request.capability = capability;
  request.problems = problems;
  request.has_signals = has_signals;
  if (!problem.products.empty()) {
    request.a_type = problem.views.products[0].a.dtype;
    // A kernel for packed weights converts them to A's dtype, whatever the graph unpacks to.
    request.b_type = problem.products[0].packed || kernel.widened
                         ? request.a_type
                         : problem.views.products[0].b.dtype;
  }
  return request;
}

Result<std::unique_ptr<Runnable>> make_fused(const std::shared_ptr<Toolbox>& toolbox,
                                             const problem::Problem& problem,
                                             const Candidate& candidate) {
  const gpu::DeviceInfo& device = toolbox->device().info();
  ATTACCA_TRY(const Candidate resolved, resolve(candidate, problem, toolbox->catalog(), device));
  const Template& kernel = *toolbox->catalog().find(resolved.kernel);
  ATTACCA_TRY(auto loaded, toolbox->kernel(kernel_request(problem, kernel, *resolved.binding,
                                                          device.capability())));
  return make_fused(toolbox, problem, resolved, std::move(loaded));
}

std::unique_ptr<Runnable> make_fused(const std::shared_ptr<Toolbox>& toolbox,
                                     const problem::Problem& problem, const Candidate& candidate,
                                     std::shared_ptr<const Kernel> kernel) {
  return std::make_unique<TemplateLaunch>(toolbox, std::move(kernel), problem, candidate);
}

Result<std::unique_ptr<Runnable>> make_pointwise(const std::shared_ptr<Toolbox>& toolbox,
                                                 const problem::Problem& problem) {
  Candidate best{.kind = CandidateKind::Fused, .kernel = {}};
  size_t best_cost = std::numeric_limits<size_t>::max();
  std::string reason = "no pointwise template is there";
  for (const Template& kernel : toolbox->catalog().templates()) {
    if (kernel.family != templates::Family::Pointwise) continue;
    Legality legal = legality(problem, kernel, toolbox->device().info());
    if (const auto* why = std::get_if<std::string>(&legal)) {
      reason = *why;
      continue;
    }
    auto binding = std::get<0>(std::move(legal));
    // An unused slot costs little; an operand that the hole itself loads costs much.
    const size_t cost = 100 * static_cast<size_t>(context_operands(problem, *binding)) +
                        2 * (kernel.hole.full_bits.size() + kernel.hole.result_bits.size()) +
                        (kernel.dependent_launch ? 0 : 1);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best.kernel = kernel.name;
    best.binding = std::move(binding);
  }
  if (!best.binding)
    return fail(fmt::format("no pointwise kernel for this epilogue: {}", reason), {},
                "build the templates with `make gpu`");
  return make_fused(toolbox, problem, best);
}

}  // namespace attacca::launch
