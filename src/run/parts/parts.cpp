#include "run/parts/parts.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "run/cuda/steps.hpp"
#include "run/cuda/together.hpp"
#include "support/check.hpp"
#include "tune/measure.hpp"

namespace attacca::run {

struct CudaParts::Impl {
  std::shared_ptr<launch::Toolbox> toolbox;
  std::shared_ptr<const gpu::DeviceMemory> constants;
  std::vector<int> alignments;
  size_t count = 0, inputs = 0, outputs = 0;  // inputs, outputs: of a part
  problem::Operands<Place> places;            // of a part's values
  std::vector<bool> may_be_absent;            // of a part's inputs
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

bool CudaParts::may_be_absent(size_t input) const {
  return input < impl_->may_be_absent.size() && impl_->may_be_absent[input];
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
                         std::span<const ptx::Signals> signals, void* stream) const {
  const Impl& of = *impl_;
  ATTACCA_TRY_VOID(of.check(inputs, of.inputs, 0, "input"));
  ATTACCA_TRY_VOID(of.check(outputs, of.outputs, of.inputs, "output"));
  if (signals.size() != of.count)
    return fail(fmt::format("signals of {} parts for {}", signals.size(), of.count), {},
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
  return of.kernel->launch_awaiting(problem::one_after_another(all), signals,
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
  const auto& outputs = shared.graph().outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Place place = shared.places.of(outputs[i].value);
    if (place.kind != Place::Kind::Output || place.index != i)
      return fmt::format("output {} is a copy of an input, a constant or another output",
                         outputs[i].name);
  }
  return std::nullopt;
}

std::vector<bool> absent_inputs(const problem::Problem& problem, const launch::Candidate& candidate,
                                const problem::Operands<Place>& places, size_t inputs) {
  std::vector<int> readers(inputs), slots(inputs);
  const auto input_at = [](const Place& place) { return place.kind == Place::Kind::Input; };
  for_each(
      [&](const Place& place) {
        if (input_at(place)) ++readers[place.index];
      },
      places);
  for (size_t i = 0; i < places.inputs.size(); ++i)
    if (input_at(places.inputs[i]) && problem.views.inputs[i].offset == 0 &&
        candidate.binding->inputs[i].place == epilogue::Place::Full)
      ++slots[places.inputs[i].index];
  std::vector<bool> absent;
  for (size_t i = 0; i < inputs; ++i) absent.push_back(readers[i] > 0 && readers[i] == slots[i]);
  return absent;
}

// Kernels that are compiled and timed, and the rounds of each.
constexpr size_t kMostTimedKernels = 8;
constexpr int kRounds = 7;

// The place of the fastest; 0, the model's first, if none can be timed. All parts are here.
size_t fastest(const std::shared_ptr<launch::Toolbox>& toolbox,
               const std::vector<problem::Problem>& problems, const std::vector<Joint>& ranked) {
  const gpu::Current current(toolbox->device());  // the caller's device stays as it was
  const auto operands = tune::OperandSets::make(toolbox, problems[0]);
  if (!current.entered() || !operands) return 0;
  const std::vector<ptx::Signals> none(problems.size());
  std::vector<std::unique_ptr<launch::Awaiting>> kernels;
  std::vector<tune::Timed> timed;
  std::vector<size_t> places;
  for (size_t i = 0; i < std::min(kMostTimedKernels, ranked.size()); ++i) {
    auto kernel = launch::make_awaiting(toolbox, problems, ranked[i].candidate);
    if (!kernel) continue;
    kernels.push_back(*std::move(kernel));
    const launch::Awaiting& launch = *kernels.back();
    auto each = tune::Timed::make(
        toolbox, {[&launch, &none, &operands](size_t set, void*, gpu::StreamHandle stream) {
                    std::vector<problem::Addresses> all;
                    for (size_t part = 0; part < none.size(); ++part)
                      all.push_back((*operands)[(set + part) % operands->size()]);
                    return launch.launch_awaiting(problem::one_after_another(all), none, stream);
                  },
                  operands->size()});
    if (!each) continue;
    timed.push_back(*std::move(each));
    places.push_back(i);
  }
  const auto seconds = tune::time_in_turns(timed, kRounds, tune::Pace::Rested);
  if (!seconds || seconds->empty()) return 0;
  const auto best = std::min_element(seconds->begin(), seconds->end());
  return places[static_cast<size_t>(best - seconds->begin())];
}

bool is_measured(const StepContext& context) {
  const Tuning tuning = context.options().tuning;
  return tuning == Tuning::Measure || tuning == Tuning::Always;
}

// All parts as one problem, each with whole clusters of tiles: what the cost model knows.
problem::Problem of_all_rows(const problem::Problem& part, size_t parts,
                             const templates::Template& kernel) {
  problem::Problem all = part;
  all.m = rows_of_whole_clusters(part.m, kernel) * static_cast<int64_t>(parts);
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
  const size_t chosen =
      is_measured(context) ? fastest(shared.toolbox, problems, ranked) : size_t{0};
  made->candidate = std::move(ranked[chosen].candidate);
  made->places = map([&](ir::Value value) { return shared.places.of(value); },
                     values_of(problem, made->candidate));
  for_each(
      [](const Place& place) {
        ATTACCA_CHECK(place.kind != Place::Kind::None,
                      "an intermediate value of a plan of one region");
      },
      made->places);
  made->may_be_absent = absent_inputs(problem, made->candidate, made->places, made->inputs);
  ATTACCA_TRY(made->kernel, launch::make_awaiting(shared.toolbox, problems, made->candidate));
  return std::make_shared<const CudaParts>(std::move(made));
}

}  // namespace attacca::run
