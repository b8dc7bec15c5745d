// The ways to compute a problem, and those that were left out, each with its reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/candidate.hpp"
#include "support/error.hpp"

namespace attacca::epilogue {
struct Binding;
}

namespace attacca::launch {

enum class CandidateKind : uint8_t {
  Fused,    // one kernel, of a template or of the user
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
  // Fused, by a template: where the template takes the problem's operands (legality.hpp). It is not
  // part of the text; resolve() finds it for a candidate that was read.
  std::shared_ptr<const epilogue::Binding> binding = {};
  // Equal if their texts are.
  friend bool operator==(const Candidate& a, const Candidate& b);
};

// Writes "cutlass_tn_128x128x64_2x1_pingpong_f1 swizzle=2 raster=1 splits=4" or "unfused absorbed=1
// algorithm=3", and reads it.
std::string to_string(const Candidate& candidate);
Result<Candidate> parse_candidate(const std::string& text);

struct Exclusion {
  std::string kernel;
  std::string reason;
};

struct Candidates {
  std::vector<Candidate> ranked;  // fused ones by expected time, the best first
  std::vector<double> expected;   // seconds, of each ranked candidate; empty for a user's kernel
  std::vector<Exclusion> excluded;
  // Why a user's kernel with its tail may be slower than the kernel and then the tail. Empty: no
  // such pair was measured to be.
  std::string doubt = {};
};

}  // namespace attacca::launch
