#include "run/parts/parts.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "run/cuda/steps.hpp"
#include "run/cuda/together.hpp"
#include "support/check.hpp"

namespace attacca::run {

struct CudaParts::Impl {
  std::shared_ptr<launch::Toolbox> toolbox;
  std::shared_ptr<const gpu::DeviceMemory> constants;
  std::vector<int> alignments;
  size_t count = 0, inputs = 0, outputs = 0;  // inputs, outputs: of a part
  problem::Operands<Place> places;            // of a part's values
  launch::Candidate candidate;
  std::unique_ptr<launch::Awaiting> kernel;

  Status check(std::span<void* const> given, size_t each, size_t first,
               std::string_view what) const;
};

CudaParts::CudaParts(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaParts::~CudaParts() = default;

size_t CudaParts::count() const {
  return impl_->count;
}

const launch::Candidate& CudaParts::candidate() const {
  return impl_->candidate;
}

Status CudaParts::Impl::check(std::span<void* const> given, size_t each, size_t first,
                              std::string_view what) const {
  if (given.size() != each * count)
    return fail(
        fmt::format("{} addresses of {}s for {} parts of {}", given.size(), what, count, each), {},
        "give one for each of each part");
  for (size_t i = 0; i < given.size(); ++i) {
    const auto address = reinterpret_cast<uintptr_t>(given[i]);
    const int alignment = alignments[first + i % each];
    if (address % static_cast<uintptr_t>(alignment) != 0)
      return fail(fmt::format("{} {} of part {} at {:#x} is not aligned to {} bytes", what,
                              i % each, i / each, address, alignment),
                  {}, "prepare parts for this alignment");
  }
  return {};
}

Status CudaParts::launch(std::span<void* const> inputs, std::span<void* const> outputs,
                         std::span<const ptx::AwaitedWord> words, void* stream) const {
  const Impl& of = *impl_;
  ATTACCA_TRY_VOID(of.check(inputs, of.inputs, 0, "input"));
  ATTACCA_TRY_VOID(of.check(outputs, of.outputs, of.inputs, "output"));
  if (words.size() != of.count)
    return fail(fmt::format("{} words for {} parts", words.size(), of.count), {},
                "give one for each part");
  const gpu::Current current(of.toolbox->device());
  ATTACCA_TRY_VOID(current.entered());
  std::vector<problem::Addresses> all;
  for (size_t i = 0; i < of.count; ++i) {
    const Bases bases{
        inputs.subspan(i * of.inputs, of.inputs), outputs.subspan(i * of.outputs, of.outputs),
        static_cast<char*>(of.constants ? of.constants->pointer() : nullptr), nullptr};
    all.push_back(map([&](const Place& place) { return bases.at(place); }, of.places));
  }
  return of.kernel->launch_awaiting(problem::one_after_another(all), words,
                                    static_cast<gpu::StreamHandle>(stream));
}

namespace {

// Why the plan has no parts; nothing: it is one product, or gate, with what follows it.
std::optional<std::string> reason_against_parts(const DeviceGraph& shared) {
  const std::vector<fuse::Region>& regions = shared.prepared.partition->regions;
  if (regions.size() != 1) return fmt::format("the plan has {} regions", regions.size());
  const fuse::RegionKind kind = regions[0].kind;
  if (kind != fuse::RegionKind::Gemm && kind != fuse::RegionKind::GatedGemm)
    return "the plan is no product with what follows it";
  if (shared.prepared.target.batch_invariant) return "the plan is batch-invariant";
  if (shared.options.tuning == Tuning::Unfused) return "the plan is not fused";
  return std::nullopt;
}

// All parts as one problem: what the cost model knows.
problem::Problem of_all_rows(const problem::Problem& part, size_t parts,
                             const templates::Template& kernel) {
  const int64_t tile = std::max(1, kernel.hole.swapped ? kernel.tile.n : kernel.tile.m);
  problem::Problem all = part;
  all.m = (part.m + tile - 1) / tile * tile * static_cast<int64_t>(parts);
  return all;
}

}  // namespace

Result<std::shared_ptr<const CudaParts>> make_parts(const CudaPlan& plan,
                                                    const ir::SymbolValues& symbols,
                                                    const std::vector<int>& alignments,
                                                    size_t parts) {
  const DeviceGraph& shared = plan.shared();
  if (parts < 2 || parts > launch::kMostTogether)
    return fail(fmt::format("{} parts", parts), "parts",
                fmt::format("give 2 to {}", launch::kMostTogether));
  if (const auto reason = reason_against_parts(shared))
    return fail(*reason, "parts", "give a plan of one product and what follows it");
  auto made = std::make_unique<CudaParts::Impl>();
  made->inputs = shared.graph().inputs().size();
  made->outputs = shared.graph().outputs().size();
  made->alignments =
      alignments.empty() ? std::vector<int>(made->inputs + made->outputs, 16) : alignments;
  made->count = parts;
  made->toolbox = shared.toolbox;
  made->constants = shared.places.constants();
  const StepContext context{shared, symbols, [&](ir::Value value) {
                              const Place place = shared.places.of(value);
                              if (place.kind == Place::Kind::Input)
                                return made->alignments[place.index];
                              return place.kind == Place::Kind::Output
                                         ? made->alignments[made->inputs + place.index]
                                         : 16;
                            }};
  const fuse::Region& region = shared.prepared.partition->regions[0];
  ATTACCA_TRY(
      const problem::Problem problem,
      problem::concretize(region, context.graph(), symbols, context.mode(), context.alignment_of));
  if (problem.empty()) return fail("the parts are empty", "parts", "give parts with rows");
  const std::vector<problem::Problem> problems(parts, problem);
  std::vector<Joint> ranked = ranked_joint(
      context, problems,
      [&](const templates::Template& kernel) { return of_all_rows(problem, parts, kernel); }, true);
  if (ranked.empty())
    return fail("no template computes several such products in one launch", "parts",
                "run the plan for each part");
  made->candidate = std::move(ranked[0].candidate);
  made->places = map([&](ir::Value value) { return shared.places.of(value); },
                     values_of(problem, made->candidate));
  for_each(
      [](const Place& place) {
        ATTACCA_CHECK(place.kind != Place::Kind::None,
                      "an intermediate value of a plan of one region");
      },
      made->places);
  ATTACCA_TRY(made->kernel, launch::make_awaiting(shared.toolbox, problems, made->candidate));
  return std::make_shared<const CudaParts>(std::move(made));
}

}  // namespace attacca::run
