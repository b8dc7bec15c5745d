// The ways to compute a problem, and those that were left out, each with its reason.
#pragma once

#include <string>
#include <vector>

#include "jit/device.hpp"
#include "templates/catalog.hpp"
#include "tune/problem.hpp"

namespace attacca::tune {

enum class CandidateKind : uint8_t {
  Fused,    // one kernel of a template, or the user's
  Unfused,  // the vendor library's product or the user's kernel, then one pointwise kernel
};

struct Candidate {
  CandidateKind kind = CandidateKind::Unfused;
  std::string kernel;  // Fused: the template's name, or kUserKernel
  int swizzle = 0;     // Fused: of attacca_gemm_arguments; 0: the default
  int raster = 0;
  int splits = 0;
  int absorbed = 0;   // Unfused: which of vendor_epilogues() the library computes
  int algorithm = 0;  // Unfused: which of the library's proposals
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// "cutlass_tn_128x128x64_2x1_pingpong_f1 swizzle=2 raster=1 splits=4", "unfused absorbed=1
// algorithm=3"; and back.
std::string to_string(const Candidate& candidate);
Result<Candidate> parse_candidate(const std::string& text);

struct Exclusion {
  std::string kernel;
  std::string reason;
};

struct Candidates {
  std::vector<Candidate> ranked;  // fused ones by expected time, the best first
  std::vector<double> expected;   // seconds, one a ranked candidate; none of a user's kernel
  std::vector<Exclusion> excluded;
};

// Which templates, or a user's kernel with its tail as kUserKernel, may be taken, by patterns of
// their names as a shell's (*, ?, [abc]).
struct TemplateFilter {
  std::vector<std::string> allow;  // empty: all
  std::vector<std::string> deny;
};
// Moves what the filter leaves out from the ranked to the excluded.
void apply(const TemplateFilter& filter, Candidates& candidates);

// Every template for this problem on this device: the legal ones ranked, the others with why not.
Candidates fused_candidates(const Problem& problem, const templates::Catalog& catalog,
                            const jit::DeviceInfo& device);

// The run-time variants of a fused candidate worth timing once its template has proved good:
// swizzles, raster orders, splits. Holds the candidate itself.
std::vector<Candidate> variants(const Candidate& candidate, const templates::Template& kernel,
                                const Problem& problem, const jit::DeviceInfo& device);

}  // namespace attacca::tune
