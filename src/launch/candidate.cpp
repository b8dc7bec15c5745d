#include "launch/candidate.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "fmt/format.h"

namespace attacca::launch {
namespace {

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

bool operator==(const Candidate& a, const Candidate& b) {
  return a.kind == b.kind && a.kernel == b.kernel &&
         std::all_of(std::begin(kFields), std::end(kFields),
                     [&](const Field& field) { return a.*field.member == b.*field.member; });
}

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

}  // namespace attacca::launch
