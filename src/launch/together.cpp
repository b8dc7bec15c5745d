#include "launch/together.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "launch/arguments.hpp"
#include "launch/fused.hpp"
#include "ptx/splice/several.hpp"
#include "support/check.hpp"
#include "support/reused.hpp"

namespace attacca::launch {
namespace {

using templates::Template;

constexpr int kNoLimit = 1 << 20;  // multiprocessors

// One of the problems, without addresses.
struct Member {
  problem::Problem problem;
  std::vector<problem::Factor> factors;
  attacca_gemm_arguments arguments;
};

using Counts = std::array<uint32_t, kMostTogether>;

// A kernel's parameters, built for certain addresses.
struct BuiltTogether {
  Addresses addresses;
  std::vector<Addresses> of_member;
  Counts blocks = {};  // of each member, along x; 0: not known yet
  gpu::Launch launch;
  ParameterMemory parameters;
  bool done = false;
};

class TogetherLaunch : public Runnable, public Awaiting {
 public:
  TogetherLaunch(std::shared_ptr<Toolbox> toolbox, std::shared_ptr<const Kernel> kernel,
                 std::vector<problem::Problem> problems, const Candidate& candidate,
                 bool has_signals)
      : toolbox_(std::move(toolbox)),
        kernel_(std::move(kernel)),
        binding_(candidate.binding),
        members_(members(std::move(problems), candidate)),
        layout_(ptx::parameters_of_several(form().builder->params_bytes,
                                           form().builder->params_align, members_.size(),
                                           has_signals)),
        built_(not_built()) {}

  size_t workspace_bytes() const override { return 0; }

  Status launch(const Addresses& at, void*, gpu::StreamHandle stream) const override {
    return launch_awaiting(at, {}, stream);
  }

  Status launch_awaiting(const Addresses& at, std::span<const ptx::Signals> signals,
                         gpu::StreamHandle stream) const override {
    ATTACCA_CHECK(signals.size() == (layout_.signals_at > 0 ? members_.size() : 0),
                  "signals of each problem that is awaited");
    const auto built = built_.take([this] { return not_built(); });
    if (!built->done || built->addresses != at) ATTACCA_TRY_VOID(build(at, *built));
    if (!signals.empty())
      std::memcpy(static_cast<char*>(built->parameters.get()) + layout_.signals_at, signals.data(),
                  signals.size_bytes());
    void* parameters[] = {built->parameters.get()};
    return kernel_->function.launch(built->launch, stream, parameters);
  }

 private:
  const Template& form() const { return *kernel_->form; }

  std::vector<Member> members(std::vector<problem::Problem> problems,
                              const Candidate& candidate) const {
    std::vector<Member> made;
    for (problem::Problem& problem : problems) {
      const attacca_gemm_arguments arguments =
          describe(problem, form(), *binding_, candidate, kernel_->multiprocessors);
      std::vector<problem::Factor> factors = problem.factors();
      made.push_back({std::move(problem), std::move(factors), arguments});
    }
    return made;
  }

  BuiltTogether not_built() const {
    std::vector<Addresses> none;
    for (const Member& member : members_) none.push_back(no_addresses(member.problem.views));
    Addresses all = one_after_another(none);
    return {.addresses = std::move(all),
            .of_member = std::move(none),
            .launch = {},
            .parameters = allocate_parameters(layout_.bytes, 64)};
  }

  // The parameters of a member on a device of so many multiprocessors.
  Status build_one(const Member& member, const Addresses& at, int sm_count, void* parameters,
                   uint32_t (&grid)[3]) const {
    attacca_gemm_arguments arguments = member.arguments;
    arguments.sm_count = sm_count;
    set_addresses(member.problem, member.factors, *binding_, at, arguments);
    return build_parameters(form(), arguments, parameters, grid);
  }

  // How many blocks each member gets. A kernel that has a block for each tile gets those. The
  // blocks of a persistent kernel take several tiles each: as many for every member, as few as the
  // device's places for blocks allow. Members that await have all places one after the other, as
  // the words come.
  Status share_out(BuiltTogether& built) const {
    const auto cluster =
        static_cast<uint32_t>(form().cluster_m * form().cluster_n * form().cluster_k);
    Counts clusters = {};
    uint32_t at_once = 1;  // clusters on as many multiprocessors as a cluster has blocks
    bool is_persistent = false;
    for (size_t i = 0; i < members_.size(); ++i) {
      uint32_t all[3] = {1, 1, 1}, few[3] = {1, 1, 1};
      void* const scratch = built.parameters.get();
      ATTACCA_TRY_VOID(build_one(members_[i], built.of_member[i], kNoLimit, scratch, all));
      ATTACCA_TRY_VOID(
          build_one(members_[i], built.of_member[i], static_cast<int>(cluster), scratch, few));
      clusters[i] = all[0] / cluster;
      at_once = std::max(at_once, few[0] / cluster);
      is_persistent |= few[0] < all[0];
    }
    const auto multiprocessors = static_cast<uint32_t>(kernel_->multiprocessors);
    const uint32_t places = multiprocessors * at_once / cluster;
    const auto blocks_of = [](uint32_t tiles, uint32_t rounds) {
      return (tiles + rounds - 1) / rounds;
    };
    if (is_persistent && layout_.signals_at > 0) {
      for (size_t i = 0; i < members_.size(); ++i) {
        const uint32_t rounds = (clusters[i] + places - 1) / std::max(places, 1u);
        built.blocks[i] = blocks_of(clusters[i], std::max(rounds, 1u)) * cluster;
      }
      return {};
    }
    uint32_t rounds = 1;
    const uint32_t most = *std::max_element(clusters.begin(), clusters.end());
    while (is_persistent && rounds < most) {
      uint32_t needed = 0;
      for (const uint32_t each : clusters) needed += blocks_of(each, rounds);
      if (needed <= places) break;
      ++rounds;
    }
    for (size_t i = 0; i < members_.size(); ++i)
      built.blocks[i] = blocks_of(clusters[i], rounds) * cluster;
    return {};
  }

  Status build(const Addresses& at, BuiltTogether& built) const {
    built.done = false;
    take_apart(at, built.of_member);
    if (built.blocks[0] == 0) ATTACCA_TRY_VOID(share_out(built));
    auto* const memory = static_cast<char*>(built.parameters.get());
    uint32_t end = 0, first_grid[3] = {1, 1, 1};
    for (size_t i = 0; i < members_.size(); ++i) {
      uint32_t grid[3] = {1, 1, 1};
      ATTACCA_TRY_VOID(build_one(members_[i], built.of_member[i], kernel_->multiprocessors,
                                 memory + i * layout_.stride, grid));
      if (i == 0) std::copy(std::begin(grid), std::end(grid), first_grid);
      ATTACCA_CHECK(grid[1] == first_grid[1] && grid[2] == first_grid[2],
                    "grids of problems launched together differ");
      end += built.blocks[i];
      std::memcpy(memory + layout_.ends_at + i * sizeof end, &end, sizeof end);
    }
    built.launch = launch_of(form(), {end, first_grid[1], first_grid[2]});
    // What resets the words may be the kernel before this one in the stream.
    built.launch.dependent &= layout_.signals_at == 0;
    built.addresses = at;
    built.done = true;
    return {};
  }

  std::shared_ptr<Toolbox> toolbox_;
  std::shared_ptr<const Kernel> kernel_;
  const std::shared_ptr<const epilogue::Binding> binding_;
  const std::vector<Member> members_;
  const ptx::SeveralParameters layout_;
  mutable Reused<BuiltTogether> built_;
};

class OneByOne : public Runnable {
 public:
  OneByOne(const std::vector<problem::Problem>& problems,
           std::vector<std::unique_ptr<Runnable>> runnables)
      : runnables_(std::move(runnables)), addresses_(none(problems)) {}

  size_t workspace_bytes() const override {
    size_t most = 0;
    for (const auto& each : runnables_) most = std::max(most, each->workspace_bytes());
    return most;
  }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    std::vector<Addresses> own = addresses_;
    take_apart(at, own);
    for (size_t i = 0; i < own.size(); ++i)
      ATTACCA_TRY_VOID(runnables_[i]->launch(own[i], workspace, stream));
    return {};
  }

 private:
  static std::vector<Addresses> none(const std::vector<problem::Problem>& problems) {
    std::vector<Addresses> all;
    for (const problem::Problem& each : problems) all.push_back(no_addresses(each.views));
    return all;
  }

  std::vector<std::unique_ptr<Runnable>> runnables_;
  const std::vector<Addresses> addresses_;
};

Result<std::unique_ptr<TogetherLaunch>> make_launch(const std::shared_ptr<Toolbox>& toolbox,
                                                    std::vector<problem::Problem> problems,
                                                    const Candidate& candidate, bool has_signals) {
  ATTACCA_CHECK(problems.size() > 1 && problems.size() <= kMostTogether && candidate.binding,
                "problems that cannot be launched together");
  const Template* const kernel = toolbox->catalog().find(candidate.kernel);
  ATTACCA_CHECK(kernel != nullptr && !reason_against_several(problems[0], *kernel),
                "a template that computes one problem a launch");
  ATTACCA_TRY(auto loaded, toolbox->kernel(kernel_request(problems[0], *kernel, *candidate.binding,
                                                          toolbox->device().info().capability(),
                                                          problems.size(), has_signals)));
  return std::make_unique<TogetherLaunch>(toolbox, std::move(loaded), std::move(problems),
                                          candidate, has_signals);
}

}  // namespace

std::unique_ptr<Runnable> one_by_one(const std::vector<problem::Problem>& problems,
                                     std::vector<std::unique_ptr<Runnable>> runnables) {
  return std::make_unique<OneByOne>(problems, std::move(runnables));
}

std::optional<std::string> reason_against_several(const problem::Problem& problem,
                                                  const Template& kernel) {
  if (problem.products.empty() || problem.products.size() > 2 || problem.batch != 1 ||
      !problem.outer.empty())
    return "only products and gates without batches are launched together";
  if (problem.products[0].groups || names_rows(problem))
    return "products of groups or of named rows are not launched together";
  for (const epilogue::Output& output : problem.epilogue.outputs)
    if (output.kind != epilogue::OutputKind::Store)
      return "an output is a reduction, which needs its start value before the launch";
  if (kernel.family != templates::Family::Gemm) return "it multiplies nothing";
  // Its grid has two axes, whose extents depend on the problem.
  if (kernel.name.starts_with("cutlass_")) return "blocks of CUTLASS's kernels are not shared out";
  const size_t bytes =
      ptx::parameters_of_several(kernel.builder->params_bytes, kernel.builder->params_align, 2)
          .bytes;
  if (bytes > ptx::kMostParameterBytes) return "its parameters are too large";
  return std::nullopt;
}

Result<std::unique_ptr<Runnable>> make_together(const std::shared_ptr<Toolbox>& toolbox,
                                                std::vector<problem::Problem> problems,
                                                const Candidate& candidate) {
  ATTACCA_TRY(std::unique_ptr<Runnable> made,
              make_launch(toolbox, std::move(problems), candidate, false));
  return made;
}

Result<std::unique_ptr<Awaiting>> make_awaiting(const std::shared_ptr<Toolbox>& toolbox,
                                                std::vector<problem::Problem> problems,
                                                const Candidate& candidate) {
  ATTACCA_TRY(std::unique_ptr<Awaiting> made,
              make_launch(toolbox, std::move(problems), candidate, true));
  return made;
}

}  // namespace attacca::launch
