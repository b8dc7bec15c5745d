// The subcommands. Each takes its parsed arguments, prints, and returns the exit code: 0, 2 for bad
// usage or input, 3 for a failed check.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/error.hpp"

namespace attacca::cli {

inline constexpr int kOk = 0, kBadInput = 2, kCheckFailed = 3;

struct RunArgs {
  std::string file;
  std::string device = "cpu";
  std::string mode = "fp32";
  std::vector<std::string> dims;    // "M=128"
  std::vector<std::string> inputs;  // "x=x.npy"
  uint64_t seed = 0;
  int threads = 0;
  std::string output;  // a folder; empty: results are not written
  bool check = false;
  bool json = false;
};
int run(const RunArgs& args);

struct FoldArgs {
  std::string subject;  // an expression, or a file
  std::string dtype = "f32";
  std::string why_not;  // an op's name
  bool explain = false;
};
int fold(const FoldArgs& args);

struct ExplainArgs {
  std::string file;
  std::string mode = "fp32";
  bool unfused = false;
  bool json = false;
  bool dot = false;
  std::string svg;  // a file to write
};
int explain(const ExplainArgs& args);

int version();
int doctor();

// Prints the error to standard error and returns kBadInput.
int report(const Error& error);

// "M=128" pairs; errors name the offending text.
Result<std::map<std::string, std::string>> parse_pairs(const std::vector<std::string>& texts,
                                                       const std::string& option);

}  // namespace attacca::cli
