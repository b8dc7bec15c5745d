// The command line: usage is declared here, in the one file that includes CLI11.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>

#include "fmt/format.h"

#include "CLI/CLI.hpp"
#include "cli/commands.hpp"
#include "cli/standard_streams.hpp"
#include "cli/version.hpp"
#include "gpu/cache/cache.hpp"
#include "import/formats.hpp"
#include "support/text/excerpt.hpp"
#include "support/text/standard_error.hpp"

namespace attacca::cli {
namespace {

// Subcommands set the action that main carries out once parsing has succeeded.
using Action = std::function<int()>;

CLI::Option* add_model(CLI::App* command, std::string& file) {
  return command->add_option("file", file, import::all_formats());
}

void add_gpu(CLI::App* command, std::string& device) {
  command->add_option("--device", device, "The GPU: cuda or cuda:N");
}

const CLI::Validator kSeconds(
    [](std::string& text) -> std::string {
      double seconds = 0;
      const bool read = CLI::detail::lexical_cast(text, seconds);
      return read && std::isfinite(seconds) && seconds > 0 ? "" : "give finite seconds above 0";
    },
    "");

// For options with a text that an empty one, perhaps a script's unset variable, would turn off.
const CLI::Validator kNotEmpty(
    [](std::string& text) { return text.empty() ? std::string("an empty text") : std::string(); },
    "");

// CLI11 reads -1 as the largest number, and stops at it.
const CLI::Validator kSeed(
    [](std::string& text) {
      uint64_t seed = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
      return error == std::errc() && end == text.data() + text.size()
                 ? std::string()
                 : fmt::format("{} is no number from 0 to {}", text, UINT64_MAX);
    },
    "");

void add_mode(CLI::App* command, std::string& mode) {
  command->add_option("--mode", mode, "The numerics contract: fp32 or eager")
      ->check(CLI::IsMember({"fp32", "eager"}));
}

void add_json(CLI::App* command, bool& value) {
  command->add_flag("--json", value, "Print JSON");
}

void add_batch_invariant(CLI::App* command, bool& value) {
  command->add_flag("--batch-invariant", value,
                    "A row's bits do not depend on how many rows there are");
}

void add_run(CLI::App& app, RunArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Fuse a model and run it");
  add_model(command, args.file)->required();
  command->add_option("--device", args.device, "Where to run: cpu, cuda or cuda:N");
  add_mode(command, args.mode);
  add_batch_invariant(command, args.batch_invariant);
  command->add_option("--dim", args.dims, "The size of a symbolic dimension, e.g. M=128");
  command
      ->add_option("--seed", args.seed, "Seed of the random inputs, for those that are not given")
      ->check(kSeed);
  command->add_option("--input", args.inputs,
                      "An input's data, e.g. x=x.npy, w=model.safetensors:up.weight");
  command->add_option("--output", args.output, "Write the results as .npy files to this folder")
      ->check(kNotEmpty);
  command->add_option("--threads", args.threads, "Worker threads; 0: one for each core")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--check", args.check, "Compare with an f64 reference; exit 3 if it fails");
  command->add_flag("--tune", args.tune, "On a GPU: first measure what is not measured yet");
  command->add_flag("--profile", args.profile, "Also time each region by itself");
  command
      ->add_option("--trace", args.trace,
                   "Write the times of the regions to this file, for chrome://tracing")
      ->check(kNotEmpty);
  command
      ->add_option("--through", args.through,
                   "onnxruntime: run an .onnx file of any ops in ONNX Runtime, with Attacca inside")
      ->check(CLI::IsMember({"onnxruntime"}));
  add_json(command, args.json);
  command->callback([&args, &action] {
    action = [&args] { return args.through.empty() ? run(args) : run_through(args); };
  });
}

void add_fold(CLI::App& app, FoldArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("fold", "Recognise activations written as several ops");
  command->add_option("expression", args.subject, "e.g. 'x / (1 + exp(-x))', or a model file")
      ->required();
  command->add_option("--dtype", args.dtype, "The dtype of the expression's names");
  command->add_flag("--explain", args.explain, "Name the rules used");
  command->add_option("--why-not", args.why_not, "Say where the match of this op fails")
      ->check(kNotEmpty);
  command->callback([&args, &action] { action = [&args] { return fold(args); }; });
}

// The options that choose which templates may be selected.
template <class Args>
void add_filter(CLI::App* command, Args& args) {
  command->add_option("--allow", args.allow, "Only templates whose name matches, e.g. 'wgmma_*'");
  command->add_option("--deny", args.deny, "No template whose name matches, e.g. '*_128x256x*'");
}

void add_explain(CLI::App& app, ExplainArgs& args, Action& action) {
  CLI::App* command =
      app.add_subcommand("explain", "Show regions, epilogues, and why an op is not fused");
  add_model(command, args.file)->required();
  add_mode(command, args.mode);
  add_batch_invariant(command, args.batch_invariant);
  command->add_flag("--unfused", args.unfused, "Show the op-by-op path instead");
  add_json(command, args.json);
  command->add_flag("--dot", args.dot, "Print a Graphviz graph")->excludes("--json");
  command->add_option("--svg", args.svg, "Draw to this file (needs dot)")->check(kNotEmpty);
  command->add_option("--html", args.html, "Write a page whose regions open (needs dot)")
      ->check(kNotEmpty);
  command->add_option("--device", args.device,
                      "cuda or cuda:N: also rank the templates for each product");
  command
      ->add_option("--as", args.as,
                   "With --device cuda: rank for this device, h200 or sm_90, which need not exist")
      ->check(kNotEmpty);
  command->add_option("--dim", args.dims, "With --device cuda: a dimension's size, e.g. M=128");
  add_filter(command, args);
  command->callback([&args, &action] { action = [&args] { return explain(args); }; });
}

void add_emit(CLI::App& app, EmitArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("emit", "Print an epilogue as CUDA C++");
  command->add_option("--epilogue", args.epilogue, "e.g. 'silu(acc + row(bias)) * full(res)'")
      ->required();
  command->add_option("--acc", args.accumulator, "The accumulators' dtype: f32 or s32");
  command->add_option("--product", args.product, "The product's dtype in the graph");
  command->add_option("--operand", args.operand, "The dtype of operands that give none");
  command->add_option("--out", args.results, "The results' dtypes, e.g. bf16,f32")->delimiter(',');
  add_mode(command, args.mode);
  command->add_option("--fulls", args.fulls, "The bits of the kernel's full slots, e.g. 16,16")
      ->delimiter(',')
      ->check(CLI::IsMember({16, 32}));
  command->add_option("--include", args.includes,
                      "A file of __device__ float functions that the epilogue may call");
  command->add_flag("--swapped", args.swapped, "For a kernel that computes the transpose");
  command->callback([&args, &action] { action = [&args] { return emit(args); }; });
}

void add_pack(CLI::App& app, PackArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand(
      "pack", "Reorder quantised weights for the kernels that read packed weights");
  command->add_option("from", args.from, "A .safetensors file")->required();
  command->add_option("to", args.to, "The .safetensors file to write")->required();
  command->add_option("--only", args.only, "Only weights whose name matches, e.g. '*.mlp.*'");
  command
      ->add_option("--bits", args.bits, "Bits of integer weights: 8, or 4 if a byte contains two")
      ->check(CLI::IsMember({4, 8}));
  command->add_flag("--unpack", args.unpack, "Restore the original file's tensors, bit for bit");
  add_json(command, args.json);
  command->callback([&args, &action] { action = [&args] { return pack(args); }; });
}

// The options of both commands for a user's kernel.
CLI::App* add_kernel_command(CLI::App& kernel, const std::string& name, const std::string& what,
                             KernelArgs& args) {
  CLI::App* command = kernel.add_subcommand(name, what);
  command->add_option("file", args.file, "A .ptx, or CUDA C++")->required();
  command->add_option("--kernel", args.kernel,
                      "Its name, e.g. 'my::kern<float, 16>'; not needed if it is the only one");
  command
      ->add_option("--output", args.output,
                   "The parameter that points to the output: a name, an index, or NAME+BYTES in a "
                   "struct")
      ->required();
  command->add_option("--arch", args.arch,
                      "The architecture for which CUDA C++ is compiled, e.g. sm_90a");
  command->add_option("-I", args.includes, "A folder with headers of the CUDA C++");
  command->add_option("--nvrtc", args.options, "An option for NVRTC, e.g. --nvrtc=-DTILE=64");
  add_json(command, args.json);
  return command;
}

void add_kernel(CLI::App& app, KernelArgs& args, Action& action) {
  CLI::App* kernel = app.add_subcommand("kernel", "Epilogues in kernels of your own");
  kernel->require_subcommand(1);
  CLI::App* inspect =
      add_kernel_command(*kernel, "inspect",
                         "How a kernel uses its pointers; exit 3 if no epilogue may join it", args);
  inspect->add_option("--dtype", args.dtype, "The output's dtype");
  inspect->callback([&args, &action] { action = [&args] { return kernel_inspect(args); }; });
  CLI::App* fuse =
      add_kernel_command(*kernel, "fuse", "Put an epilogue before the kernel's stores", args);
  fuse->add_option("--dtype", args.dtype, "The output's dtype")->required();
  fuse->add_option("--shape", args.shape, "The output's shape, M,N")->required();
  fuse->add_option("--epilogue", args.epilogue, "e.g. 'silu(out + row(bias)) * full(res)'")
      ->required();
  fuse->add_option("--result", args.result, "The result's dtype, of the same size as the output's");
  fuse->add_option("--operand", args.operand, "The dtype of operands that give none");
  add_mode(fuse, args.mode);
  fuse->add_option("--threads", args.threads,
                   "The most threads of a block, if the kernel does not say (__launch_bounds__)")
      ->check(CLI::Range(1, 1024));
  fuse->add_option("-o,--out", args.out, "A .ptx or .cubin to write, with a .json beside it")
      ->required();
  fuse->callback([&args, &action] { action = [&args] { return kernel_fuse(args); }; });
}

void add_cache(CLI::App& app, CacheArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("cache", "The cache of compiled kernels");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* own = command->add_subcommand(name, help);
    own->callback([&args, &action, name] {
      args.action = name;
      action = [&args] { return cache(args); };
    });
    return own;
  };
  add_json(add("ls", "List its entries, the most recently used first"), args.json);
  add("verify", "Check every entry; exit 3 if one is damaged");
  add("clear", "Remove every entry");
}

void add_index(CLI::App& app, std::string& folder, Action& action) {
  CLI::App* command = app.add_subcommand(
      "index", "Write the index of a folder of templates, by which processes start faster");
  command->add_option("folder", folder, "Default: the one that `attacca doctor` prints");
  command->callback([&] { action = [&] { return index(folder); }; });
}

void add_tune(CLI::App& app, TuneArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("tune", "Measure the ways to compute a model's products");
  CLI::Option* file = add_model(command, args.file);
  add_gpu(command, args.device);
  add_mode(command, args.mode);
  command->add_option("--dim", args.dims, "Sizes of a symbolic dimension, e.g. M=1,16,256");
  add_batch_invariant(command, args.batch_invariant);
  add_filter(command, args);
  command
      ->add_option(
          "--budget", args.budget,
          "Time only the N best templates by rank; 0: select the first and measure nothing")
      ->check(CLI::Range(0, 1000000));
  command->add_flag("--all", args.all, "Time every legal template")->excludes("--budget");
  command->add_option("--limit", args.limit, "The most seconds for one region and size")
      ->check(kSeconds);
  command->add_flag("--missing", args.missing, "Time only what has no measurement yet");
  command->add_flag("--list", args.list, "Print every candidate, and why others are excluded");
  add_json(command, args.json);
  CLI::Option* show = command->add_flag("--show", args.show, "List all measurements");
  CLI::Option* forget = command->add_flag("--forget", args.forget, "Delete all measurements");
  CLI::Option* to = command->add_option("--export", args.export_to,
                                        "Write the measurements of this device to a file");
  CLI::Option* from =
      command->add_option("--import", args.import_from, "Store the measurements of such a file");
  command
      ->add_flag("--holding", args.holding,
                 "Import those alone whose template or cuBLASLt is the same here")
      ->needs(from);
  const std::vector<CLI::Option*> instead = {file, show, forget, to, from};
  for (CLI::Option* one : instead)
    for (CLI::Option* other : instead)
      if (one != other) one->excludes(other);
  command->callback([&args, &action, file, to, from] {
    const bool moved = to->count() + from->count() > 0, stored = args.show || args.forget;
    if (!moved && !stored && file->count() == 0) throw CLI::RequiredError("file");
    action = [&args, moved, stored] {
      return moved ? exchange(args) : stored ? tuned(args) : tune(args);
    };
  });
}

void add_report(CLI::App& app, ReportArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("report", "Make a page of a tuning's measurements");
  command->add_option("file", args.file, "What `attacca tune --json` printed")->required();
  command->add_option("--html", args.html, "The page to write")->required()->check(kNotEmpty);
  command->callback([&args, &action] { action = [&args] { return report_page(args); }; });
}

void add_bench_gemm(CLI::App& bench, BenchGemmArgs& args, Action& action) {
  CLI::App* command =
      bench.add_subcommand("gemm", "Time every way to compute a GEMM and its epilogue");
  const auto extent = CLI::Range(int64_t{1}, int64_t{1} << 31);
  command->add_option("--m", args.m, "Rows of A")->required()->check(extent);
  command->add_option("--n", args.n, "Columns of the result")->required()->check(extent);
  command->add_option("--k", args.k, "Columns of A")->required()->check(extent);
  command->add_option("--dtype", args.dtype, "The dtype of A, B and operands that give none");
  command->add_option("--out", args.output, "The dtype of the results");
  command->add_flag("--fast", args.fast, "For 8-bit floats: allow sums of about 14 bits");
  command
      ->add_option(
          "--b", args.b,
          "Layout of B: nk or kn; for a gate, which reads acc0 and acc1: two, halves, rows")
      ->check(CLI::IsMember({"nk", "kn", "two", "halves", "rows"}));
  command->add_option("--epilogue", args.epilogue, "e.g. 'silu(acc + row(bias)) * full(res)'");
  add_mode(command, args.mode);
  add_gpu(command, args.device);
  command->add_option("--limit", args.limit, "The most seconds")->check(kSeconds);
  command->add_flag("--all", args.all, "Time every legal template");
  command->add_option("--finalists", args.finalists,
                      "How many templates a second round times with variants; 0: no second round");
  add_json(command, args.json);
  command->add_flag("--json-line", args.lines, "With --json: on one line");
  command->callback([&args, &action] { action = [&args] { return bench_gemm(args); }; });
}

CLI::App* add_bench_kernel(CLI::App& bench, const std::string& name, const std::string& what,
                           BenchKernelArgs& args) {
  CLI::App* command = bench.add_subcommand(name, what);
  args.gemm.m = 128, args.gemm.n = args.gemm.k = 4096;
  for (const auto& [option, extent] :
       {std::pair{"--m", &args.gemm.m}, {"--n", &args.gemm.n}, {"--k", &args.gemm.k}})
    command->add_option(option, *extent)->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command->add_option("--dtype", args.gemm.dtype, "The dtype of A, B and operands that give none");
  add_mode(command, args.gemm.mode);
  add_gpu(command, args.gemm.device);
  command->add_option("--template", args.templates,
                      "Names of templates; all GEMM templates if none is given");
  command->add_option("--epilogue", args.epilogues, "Epilogues, e.g. 'silu(acc + row(bias))'")
      ->required();
  return command;
}

void add_bundle(CLI::App& app, BundleArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand(
      "bundle", "Compile a model for a GPU into one file that runs without compilers");
  add_model(command, args.file)->required();
  command->add_option("-o,--output", args.output, "The file to write")->required();
  add_gpu(command, args.device);
  CLI::Option* as =
      command
          ->add_option("--as", args.as,
                       "Compile for this device, e.g. h200 or sm_90, which need not be here")
          ->check(kNotEmpty);
  add_mode(command, args.mode);
  command->add_option("--dim", args.dims, "Sizes of a symbolic dimension, e.g. M=1,16,256");
  add_batch_invariant(command, args.batch_invariant);
  command->add_flag("--tune", args.tune, "First measure what is not measured yet")->excludes(as);
  add_json(command, args.json);
  command->callback([&args, &action] { action = [&args] { return bundle(args); }; });
}

void add_bench(CLI::App& app, BenchGemmArgs& gemm, BenchKernelArgs& kernel,
               std::string& features_as, Action& action) {
  CLI::App* bench = app.add_subcommand("bench", "Time kernels");
  bench->require_subcommand(1);
  add_bench_gemm(*bench, gemm, action);
  CLI::App* cold =
      add_bench_kernel(*bench, "cold", "Time a new epilogue from text to loaded kernel", kernel);
  cold->add_option("--cache", kernel.cache, "The cache's folder; by default an empty one");
  cold->callback([&] { action = [&] { return bench_cold(kernel); }; });
  CLI::App* launch = add_bench_kernel(*bench, "launch", "Time the host's part of a launch", kernel);
  launch->add_option("--count", kernel.count, "Launches between two synchronisations")
      ->check(CLI::Range(1, 1000));
  launch->callback([&] { action = [&] { return bench_launch(kernel); }; });
  CLI::App* whole = add_bench_kernel(
      *bench, "whole", "Time a spliced kernel beside the same kernel compiled whole", kernel);
  whole->add_option("--image", kernel.image, "The cubin of the kernel compiled whole");
  whole->add_flag("--source", kernel.source, "Print the hole's body, to compile the kernel whole");
  whole->callback([&] { action = [&] { return bench_whole(kernel); }; });
  CLI::App* features = bench->add_subcommand(
      "features",
      "The ranking's features of each candidate, a JSON line for each request of tune-worker on "
      "standard input");
  features->add_option("--as", features_as, "Of this device, which need not exist")
      ->capture_default_str();
  features->callback([&] { action = [&] { return bench_features(features_as); }; });
  bench
      ->add_subcommand("proposals",
                       "What cuBLASLt proposes on this GPU, a JSON line for each request of "
                       "tune-worker on standard input")
      ->callback([&] { action = bench_proposals; });
}

// `fold -x`: an expression that begins with a minus is moved to the end, after a `--`. It is the
// first argument that looks like an option but is not one, if no other argument is the expression.
std::vector<std::string> expression_last(const CLI::App& command, std::vector<std::string> args) {
  std::optional<size_t> found;
  for (size_t i = 1; i < args.size(); ++i) {
    if (args[i] == "--" || !args[i].starts_with('-') || args[i] == "-") return args;
    const std::string name = args[i].substr(0, args[i].find('='));
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr && !found) found = i;
    if (option != nullptr && option->get_expected_min() > 0 && name == args[i]) ++i;
  }
  if (!found) return args;
  const std::string expression = args[*found];
  args.erase(args.begin() + static_cast<ptrdiff_t>(*found));
  args.insert(args.end(), {"--", expression});
  return args;
}

void parse(CLI::App& app, std::vector<std::string> args) {
  const auto is_named = [&](const CLI::App* command) { return command->check_name(args[0]); };
  const std::vector<CLI::App*> commands = app.get_subcommands({});
  if (!args.empty() && !args[0].starts_with('-') &&
      std::none_of(commands.begin(), commands.end(), is_named))
    throw CLI::ExtrasError({args[0]});
  if (!args.empty() && args[0] == "fold")
    args = expression_last(*app.get_subcommand("fold"), std::move(args));
  std::reverse(args.begin(), args.end());  // CLI11 takes them in reverse
  app.parse(std::move(args));
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream help, message;
  const int code = app.exit(error, help, message);
  fmt::print("{}", help.str());
  print_to_stderr(bounded(message.str()));
  return code == 0 ? kOk : kBadInput;
}

int print_error = 0;  // errno of a print that failed

// A lack of memory, threads and so on is reported like other errors.
int carried_out(const Action& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return report({"memory ran out", {}, "use smaller dimensions, or a machine with more memory"});
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {
      print_error = error.code().value();
      return kBadInput;  // finish() says it
    }
    return report({error.what(), {}, "free what the system lacks: threads, memory or disk"});
  }
}

// After the last print: an incompletely written result is an error.
int finish(int code) {
  if (const Status flushed = flush_output(print_error); !flushed) return report(flushed.error());
  return code;
}

int main(int argc, char** argv) {
  occupy_closed_streams();
  CLI::App app("Attacca: fuses the ops after a matrix product into it", "attacca");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  RunArgs run_args;
  FoldArgs fold_args;
  ExplainArgs explain_args;
  PackArgs pack_args;
  EmitArgs emit_args;
  CacheArgs cache_args;
  std::string template_folder;
  std::string features_as = "h200";
  TuneArgs tune_args;
  ReportArgs report_args;
  BundleArgs bundle_args;
  BenchGemmArgs bench_args;
  BenchKernelArgs kernel_args;
  KernelArgs user_kernel_args;
  Action action;
  add_run(app, run_args, action);
  add_fold(app, fold_args, action);
  add_explain(app, explain_args, action);
  add_emit(app, emit_args, action);
  add_pack(app, pack_args, action);
  add_cache(app, cache_args, action);
  add_index(app, template_folder, action);
  add_kernel(app, user_kernel_args, action);
  add_tune(app, tune_args, action);
  add_report(app, report_args, action);
  add_bundle(app, bundle_args, action);
  add_bench(app, bench_args, kernel_args, features_as, action);
  app.add_subcommand("tune-worker", "Time candidates for another process")
      ->group("")
      ->callback([&] { action = tune_worker; });
  app.add_subcommand("version", "Print the version")->callback([&] { action = version; });
  app.add_subcommand("doctor", "Show the CPU, GPUs, libraries, caches and environment variables")
      ->callback([&] { action = doctor; });
  try {
    parse(app, {argv + 1, argv + argc});
  } catch (const CLI::ParseError& error) {
    return finish(carried_out([&] { return report_usage(app, error); }));
  }
  if (!app.got_subcommand("doctor") && !app.got_subcommand("version"))
    if (const auto limit = gpu::CacheOptions::limit_from_environment(); !limit)
      return report(limit.error());
  const int code = carried_out(action);
  // The process that started a worker prints the same warnings, and doctor prints them itself.
  if (!app.got_subcommand("tune-worker") && !app.got_subcommand("doctor")) report_warnings();
  return finish(code);
}

}  // namespace
}  // namespace attacca::cli

int main(int argc, char** argv) {
  return attacca::cli::main(argc, argv);
}
