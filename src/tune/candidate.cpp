#include "tune/candidate.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fnmatch.h>
#include <sstream>

#include "fmt/format.h"

#include "tune/arguments.hpp"

namespace attacca::tune {
namespace {

using templates::Template;

constexpr std::string_view kUnfused = "unfused";

struct Field {
  std::string_view name;
  int Candidate::*member;
};
constexpr Field kFields[] = {{"swizzle", &Candidate::swizzle},
                             {"raster", &Candidate::raster},
                             {"splits", &Candidate::splits},
                             {"absorbed", &Candidate::absorbed},
                             {"algorithm", &Candidate::algorithm}};

double divide_up(double a, double b) {
  return std::ceil(a / b);
}

// Rates of one multiprocessor of the device class, from docs of the device and our own timings; the
// model ranks, it does not promise.
struct Rates {
  double flops;        // a second, of one multiprocessor
  double shared_fill;  // bytes a second into one multiprocessor's shared memory
  double memory;       // bytes a second, of the device
  double launch;       // seconds that a kernel takes before and after its tiles
};

double element_bytes(const Template& kernel) {
  return double(ir::size_of(kernel.input_types.front()));
}

bool adds_up(const Template& kernel) {
  return ir::is_fp8(kernel.input_types.front()) && !kernel.fast_accumulation;
}

Rates rates_of(const Template& kernel, const jit::DeviceInfo& device) {
  const bool hopper = device.major == 9;
  Rates rates{.flops = hopper ? 6.2e12 : 2.4e12,
              .shared_fill = 5.5e10,
              .memory = hopper ? 4.2e12 : 1.5e12,
              .launch = 4e-6};
  if (element_bytes(kernel) == 1) rates.flops *= 1.9;
  // mma.sync reaches about half of wgmma's rate on sm_90.
  if (hopper && kernel.arch != "sm_90a") rates.flops *= 0.5;
  // Sums of their own for each tile of k wait for the tensor cores.
  if (adds_up(kernel)) rates.flops *= 0.75;
  if (kernel.any_strides) rates.shared_fill /= 10;
  return rates;
}

// Whether the kernel walks tiles of a persistent grid, several K ranges of a tile at once.
double waves_of(const Problem& problem, const Template& kernel, int splits,
                const jit::DeviceInfo& device) {
  const bool swapped = kernel.hole.swapped;
  const double rows = double(swapped ? problem.n : problem.m);
  const double columns = double(swapped ? problem.m : problem.n);
  const double cluster = kernel.cluster_m * kernel.cluster_n * kernel.cluster_k;
  const double tiles = divide_up(divide_up(rows, kernel.tile.m), kernel.cluster_m) *
                       kernel.cluster_m *
                       divide_up(divide_up(columns, kernel.tile.n), kernel.cluster_n) *
                       kernel.cluster_n * kernel.cluster_k * double(problem.batch);
  const double places = std::floor(device.sm_count / cluster) * cluster;
  if (kernel.stream_k && splits == 0) return std::max(tiles / places, 0.1);
  return divide_up(tiles * std::max(1, splits), places) / std::max(1, splits);
}

}  // namespace

std::string to_string(const Candidate& candidate) {
  std::string text =
      candidate.kind == CandidateKind::Unfused ? std::string(kUnfused) : candidate.kernel;
  for (const Field& field : kFields)
    if (candidate.*field.member != 0)
      text += fmt::format(" {}={}", field.name, candidate.*field.member);
  return text;
}

Result<Candidate> parse_candidate(const std::string& text) {
  std::istringstream words(text);
  Candidate candidate;
  std::string word;
  if (!(words >> word)) return fail("an empty candidate", text, "write a template's name");
  if (word != kUnfused) {
    candidate.kind = CandidateKind::Fused;
    candidate.kernel = word;
  }
  while (words >> word) {
    const size_t equals = word.find('=');
    const auto* field = std::find_if(
        std::begin(kFields), std::end(kFields),
        [&](const Field& each) { return each.name == std::string_view(word).substr(0, equals); });
    int value = 0;
    const char* end = word.data() + word.size();
    const auto is_number = [&] {
      const auto [read, error] = std::from_chars(word.data() + equals + 1, end, value);
      return read == end && error == std::errc{} && value >= 0;
    };
    if (equals == std::string::npos || field == std::end(kFields) || !is_number())
      return fail(fmt::format("{} says nothing about a candidate", word), text,
                  "write swizzle=, raster=, splits=, absorbed= or algorithm= and a number");
    candidate.*(field->member) = value;
  }
  return candidate;
}

namespace {

// Packed weights stream through every multiprocessor, once for each tile of rows.
double streaming_seconds(const Problem& problem, const Template& kernel,
                         const jit::DeviceInfo& device) {
  const double strips = divide_up(double(problem.n), kernel.tile.n) * kernel.cluster_n;
  const double rows = divide_up(double(problem.m), kernel.tile.m);
  // Two blocks a multiprocessor keep the memory busy; more of them cost their starts and ends.
  const double wanted = 2.0 * device.sm_count;
  const double busy = std::min(1.0, strips * rows / wanted);
  const double starts = 0.3e-6 * strips * rows / wanted;
  // Converting codes takes longer than reading them.
  const double rate = rates_of(kernel, device).memory * (kernel.tile.m <= 8 ? 0.85 : 0.7);
  return 3e-6 + rows * double(problem.products[0].packed->bytes) / (rate * busy) + starts;
}

}  // namespace

double expected_seconds(const Problem& problem, const Template& kernel, int splits,
                        const jit::DeviceInfo& device) {
  if (kernel.packed_bits > 0) return streaming_seconds(problem, kernel, device);
  const Rates rates = rates_of(kernel, device);
  // A cluster may share K.
  const double k = double(problem.products[0].k) / kernel.cluster_k;
  const double products = kernel.hole.accumulators;  // of one A, each with a B of its own
  const double tile_flops = 2.0 * kernel.tile.m * kernel.tile.n * products * k;
  // A cluster's blocks share what they load.
  const double tile_bytes = element_bytes(kernel) * k *
                            (double(kernel.tile.m) / kernel.cluster_n +
                             products * double(kernel.tile.n) / kernel.cluster_m);
  const double tile_time = std::max(tile_flops / rates.flops, tile_bytes / rates.shared_fill);
  // A tile's epilogue that nothing hides, and the sum of a cluster's parts of K.
  const double finish = kernel.cluster_k > 1 ? 2.5e-6 : 1.5e-6;
  const double waves = waves_of(problem, kernel, splits, device);
  double busy = waves * tile_time + finish * (kernel.schedule == "pingpong" ? 1 : std::ceil(waves));
  if (kernel.stream_k) busy *= 1.05;
  return std::max(busy, bytes(problem) / rates.memory) + rates.launch;
}

Candidates fused_candidates(const Problem& problem, const templates::Catalog& catalog,
                            const jit::DeviceInfo& device) {
  struct Ranked {
    Candidate candidate;
    double seconds;
  };
  Candidates result;
  std::vector<Ranked> ranked;
  for (const Template& kernel : catalog.templates()) {
    if (kernel.family != templates::Family::Gemm) continue;
    const auto placed = place(problem, kernel, device);
    if (const auto* reason = std::get_if<std::string>(&placed)) {
      result.excluded.push_back({kernel.name, *reason});
      continue;
    }
    const auto& binding = std::get<epilogue::Binding>(placed);
    Candidate candidate{.kind = CandidateKind::Fused, .kernel = kernel.name};
    const attacca_gemm_arguments arguments =
        describe(problem, kernel, binding, candidate, device.sm_count);
    char reason[512] = "";
    if (kernel.builder->check(&arguments, reason, sizeof reason) != 0) {
      result.excluded.push_back({kernel.name, reason});
      continue;
    }
    size_t used_fulls = 0;
    for (const epilogue::Placement& input : binding.inputs)
      used_fulls += input.place == epilogue::Place::Full;
    // An unused slot costs shared memory, so stages; an operand by the context costs time.
    const double slots = 1 + 0.03 * double(kernel.hole.full_bits.size() - used_fulls) +
                         0.25 * context_operands(problem, binding);
    ranked.push_back({candidate, slots * expected_seconds(problem, kernel, 0, device)});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.seconds < b.seconds; });
  for (Ranked& each : ranked) {
    result.ranked.push_back(std::move(each.candidate));
    result.expected.push_back(each.seconds);
  }
  return result;
}

void apply(const TemplateFilter& filter, Candidates& candidates) {
  const auto match = [](const std::vector<std::string>& patterns, const std::string& name) {
    return std::find_if(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
  };
  Candidates kept;
  kept.excluded = std::move(candidates.excluded);
  for (size_t i = 0; i < candidates.ranked.size(); ++i) {
    const std::string& name = candidates.ranked[i].kernel;
    const auto denied = match(filter.deny, name);
    if (denied != filter.deny.end()) {
      kept.excluded.push_back({name, fmt::format("denied by the pattern {}", *denied)});
    } else if (!filter.allow.empty() && match(filter.allow, name) == filter.allow.end()) {
      kept.excluded.push_back(
          {name, fmt::format("not allowed by {}", fmt::join(filter.allow, ", "))});
    } else {
      kept.expected.push_back(candidates.expected[i]);
      kept.ranked.push_back(std::move(candidates.ranked[i]));
    }
  }
  candidates = std::move(kept);
}

std::vector<Candidate> variants(const Candidate& candidate, const Template& kernel,
                                const Problem& problem, const jit::DeviceInfo& device) {
  std::vector<Candidate> result = {candidate};
  const auto add = [&](int swizzle, int raster, int splits) {
    Candidate variant = candidate;
    variant.swizzle = swizzle;
    variant.raster = raster;
    variant.splits = splits;
    if (variant != candidate) result.push_back(variant);
  };
  if (kernel.stream_k)
    for (const int splits : {1, 2, 3, 4, 6, 8})
      if (problem.products[0].k / splits >= 4 * kernel.tile.k) add(0, 0, splits);
  // Only where tiles run over the device more than once is their order worth anything.
  if (waves_of(problem, kernel, 1, device) > 1)
    for (const int raster : {1, 2})
      for (const int swizzle : {1, 2, 4, 8}) add(swizzle, raster, 0);
  return result;
}

}  // namespace attacca::tune
