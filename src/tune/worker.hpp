// The process in which candidates are built and timed, so that a kernel that crashes or hangs
// affects no other candidate.
//
// It reads requests and writes answers, one JSON object a line:
//   -> {"problem": {...}, "candidates": ["...", ...], "rounds": 5, "pace": "rested", ...}
//      for a launch of several problems also "others": [{...}, ...], "apart": ["...", ...]
//   <- {"waiting": true}                  each second while another process times on the device
//   <- {"begin": 3}                       before candidate 3 is built or timed for the first time
//   <- {"begin": -1}                      before all are timed, in turns
//   <- {"candidate": 3, "seconds": 1e-4, "rounds": [...]}  what it takes, and each round's seconds
//   <- {"candidate": 3, "failed": "why"}
//   <- {"done": true}
// Candidates are built on all cores, timed one by one, then in turns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "problem/region_graph.hpp"
#include "tune/candidates.hpp"
#include "tune/pace.hpp"

namespace attacca::tune {

struct TimingRequest {
  problem::ProblemText problem;
  std::vector<launch::Candidate> candidates;
  // Problems that are computed together with the first one, by one launch of a fused candidate
  // (launch/together.hpp). The candidate of the unfused path stands for a launch for each of all,
  // by the candidates `apart`.
  std::vector<problem::ProblemText> others = {};
  std::vector<launch::Candidate> apart = {};
  int rounds = 5;  // 0: candidates are built, which fills the cache, and nothing is timed
  int device = 0;
  Pace pace = Pace::Rested;
  // The cuBLASLt of the requesting process, or empty: other versions number algorithms differently.
  std::string vendor = {};
  // The Toolbox::identity() that times are kept under, or empty: a worker with other tools refuses.
  std::string tools = {};
};
std::string write_request(const TimingRequest& request);
Result<TimingRequest> read_request(const std::string& line);

// Serves requests from standard input until its end. Returns the process's exit code.
int serve_timings();

}  // namespace attacca::tune
