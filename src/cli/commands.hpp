// The subcommands. Each takes its parsed arguments, prints, and returns the exit code: 0, 2 for bad
// usage or input, 3 for a failed check.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.hpp"
#include "support/text/json.hpp"

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
  bool batch_invariant = false;
  std::string output;  // a folder; empty: results are not written
  bool check = false;
  bool tune = false;  // on a GPU: measure what the database lacks
  bool profile = false;
  std::string trace;  // a file to write; empty: none
  bool json = false;
  std::string through;  // "onnxruntime": run_through()
};
int run(const RunArgs& args);
// `attacca run FILE.onnx --through onnxruntime`
int run_through(const RunArgs& args);

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
  bool batch_invariant = false;
  bool unfused = false;
  bool json = false;
  bool dot = false;
  std::string svg, html;  // files to write; empty: none
  std::string device = "cpu";
  std::string as;  // a device that need not exist: gpu::known_device
  std::vector<std::string> dims;
  std::vector<std::string> allow, deny;  // patterns of templates' names
};
int explain(const ExplainArgs& args);

struct TuneArgs {
  std::string file;
  std::string device = "cuda";
  std::string mode = "fp32";
  std::vector<std::string> dims;  // "M=1,16,256"
  bool batch_invariant = false;
  std::vector<std::string> allow, deny;  // patterns of templates' names
  int budget = -1;       // templates to time; 0: the model alone, < 0: the tuner's default
  double limit = 60;     // seconds for a region and size
  bool all = false;      // every legal template
  bool missing = false;  // only what no measurement is known of
  bool list = false;     // print every candidate and each exclusion
  bool json = false;
  // The database instead of a file:
  bool show = false, forget = false;
  std::string export_to, import_from;  // paths
  bool holding = false;                // of what is imported, what holds here alone
};
int tune(const TuneArgs& args);
// `attacca tune --show`, `--forget`.
int tuned(const TuneArgs& args);
// `attacca tune --export FILE`, `--import FILE`.
int exchange(const TuneArgs& args);

struct ReportArgs {
  std::string file;  // JSON of `attacca tune --json`, or of a report of attacca.torch
  std::string html;  // the page to write
};
int report_page(const ReportArgs& args);

struct BundleArgs {
  std::string file;
  std::string output;
  std::string device = "cuda";
  std::string as;  // a device that need not exist: gpu::known_device
  std::string mode = "fp32";
  std::vector<std::string> dims;  // "M=1,16,256"
  bool batch_invariant = false;
  bool tune = false;  // measure what the database lacks
  bool json = false;
};
int bundle(const BundleArgs& args);

struct PackArgs {
  std::string from, to;           // safetensors files
  std::vector<std::string> only;  // patterns of weights' names; empty: all
  int bits = 8;                   // of integer codes
  bool unpack = false;            // restore the original
  bool json = false;
};
int pack(const PackArgs& args);

struct EmitArgs {
  std::string epilogue;  // "silu(acc + row(bias))"
  std::string accumulator = "f32";
  std::string product;  // empty: as epilogue::TextOptions
  std::string operand;
  std::vector<std::string> results = {"bf16"};
  std::string mode = "fp32";
  std::vector<int> fulls;             // empty: one slot an operand
  std::vector<std::string> includes;  // files of the user's own device functions
  bool swapped = false;
};
int emit(const EmitArgs& args);

// The arguments of `attacca kernel`, for a user's own kernel.
struct KernelArgs {
  std::string file;    // a .ptx, or CUDA C++
  std::string kernel;  // "my::kern<float, 16>"; empty: the only one
  std::string output;  // "out", "2", "args+16"
  std::string dtype;   // of the output; empty: unknown
  std::string arch = "sm_90a";
  std::vector<std::string> includes, options;  // of NVRTC
  bool json = false;
  // For fuse only.
  std::string shape;  // "M,N"
  std::string epilogue;
  std::string result, operand;  // dtypes; empty: the output's
  std::string mode = "eager";
  uint32_t threads = 0;  // of a block at most; 0: unknown
  std::string out;       // a .ptx or .cubin
};
// How a kernel uses its pointers, and whether an epilogue may join it.
int kernel_inspect(const KernelArgs& args);
int kernel_fuse(const KernelArgs& args);

struct CacheArgs {
  std::string action;  // ls, verify, clear
  bool json = false;
};
int cache(const CacheArgs& args);

struct BenchGemmArgs {
  int64_t m = 0, n = 0, k = 0;
  std::string dtype = "bf16";
  std::string output;  // the results' dtype; empty: the product's
  std::string b = "nk";
  std::string epilogue = "acc";
  std::string mode = "fp32";
  std::string device = "cuda";
  double limit = 120;  // seconds
  bool all = false;    // every legal template, not the best by rank
  int finalists =
      -1;  // templates that a second round times; 0: no second round, < 0: the tuner's default
  bool fast = false;  // 8-bit floats: the matmul's fast=true
  bool json = false, lines = false;
};
int bench_gemm(const BenchGemmArgs& args);

// The arguments of the benches of single kernels, which print JSON, one object a line.
struct BenchKernelArgs {
  BenchGemmArgs gemm;                  // without the epilogue
  std::vector<std::string> templates;  // empty: every GEMM template
  std::vector<std::string> epilogues;
  std::string cache;    // a folder; empty: one that is removed again
  std::string image;    // a cubin of the template's kernel that another compiler made
  bool source = false;  // print the hole's CUDA C++ instead
  int count = 200;      // launches between two synchronisations
};
// The time of a new epilogue from text to loaded kernel, and again from memory and disk.
int bench_cold(const BenchKernelArgs& args);
// The host's time for a launch.
int bench_launch(const BenchKernelArgs& args);
// A spliced kernel beside the same kernel compiled whole.
int bench_whole(const BenchKernelArgs& args);
// What the ranking knows of the candidates of problems that standard input gives.
// `as`: the device, of gpu::known_device.
int bench_features(const std::string& as);
int bench_proposals();

// Times candidates for another process; see tune/worker.hpp.
int tune_worker();

int version();
int doctor();

// folder: of templates; empty: the default one.
int index(const std::string& folder);

// Prints the error to standard error and returns kBadInput.
int report(const Error& error);
// A command's code, or report()'s.
int exit_code(const Result<int>& code);

// The end of a command: prints support/warnings.hpp's to standard error, unless print_json() did.
void report_warnings();
// Prints it with the warnings so far as a member "warnings", if there are any.
void print_json(json::Value object, int indent = 2);

// "1 entry", "2 entries".
std::string count_text(size_t count, std::string_view one, std::string_view several);

// "2026-11-30 12:00:00", the local time so many seconds after the start of 1970.
std::string time_text(int64_t seconds);

// "M=128" pairs; errors name the offending text.
Result<std::map<std::string, std::string>> parse_pairs(const std::vector<std::string>& texts,
                                                       const std::string& option);

}  // namespace attacca::cli
