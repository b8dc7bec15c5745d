#include "tune/candidate.hpp"

#include <algorithm>
#include <charconv>
#include <fnmatch.h>
#include <sstream>

#include "fmt/format.h"

#include "tune/arguments.hpp"
#include "tune/cost_model.hpp"

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
    ranked.push_back({candidate, expected_seconds(problem, kernel, binding, device)});
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
      if (i < candidates.expected.size()) kept.expected.push_back(candidates.expected[i]);
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
  // Only where tiles run over the device more than once and share what they read is their order
  // worth anything.
  if (kernel.schedule != "dot" && waves(problem, kernel, 1, device) > 1)
    for (const int raster : {1, 2})
      for (const int swizzle : {1, 2, 4, 8}) add(swizzle, raster, 0);
  return result;
}

}  // namespace attacca::tune
