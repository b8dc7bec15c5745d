#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <set>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "fuse/explain.hpp"
#include "import/npy.hpp"
#include "run/compare.hpp"
#include "run/pipeline.hpp"
#include "run/random_inputs.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace attacca::cli {
namespace {

constexpr int64_t kDefaultDim = 128;  // of a symbol that nothing binds

struct Job {
  ir::Graph graph;
  ir::SymbolValues symbols;
  std::vector<std::string> assumed;  // symbols that took kDefaultDim
  ir::Bindings inputs;
};

struct Timing {
  double fused_ms = 0, unfused_ms = 0;
  double speedup = 0;  // median of the paired ratios
};

struct OutputCheck {
  std::string name;
  run::Difference fused, unfused;
  double allowed = 0;
  bool passed = false;
};

Result<int64_t> parse_size(const std::string& text, const std::string& option) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 0)
    return fail(fmt::format("{} is no size", text), option, "use a whole number >= 0");
  return size;
}

Result<ir::Bindings> read_inputs(const ir::Graph& graph, const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto files, parse_pairs(texts, "--input"));
  ir::Bindings inputs;
  for (const auto& [name, path] : files) {
    const auto value = graph.find(name);
    if (!value || graph[*value].op != ir::Op::Input) {
      std::vector<std::string> names;
      for (const ir::Value input : graph.inputs()) names.push_back(graph[input].name);
      return fail(fmt::format("the graph has no input {}", name), "--input",
                  fmt::format("its inputs are {}", fmt::join(names, ", ")));
    }
    ATTACCA_TRY(ir::Tensor tensor, import::read_npy(path, graph.type(*value).dtype));
    inputs.emplace(name, std::move(tensor));
  }
  return inputs;
}

// Symbols from --dim, from the shapes of given files, and the default for the rest.
Status bind_dims(Job& job, const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto pairs, parse_pairs(texts, "--dim"));
  const std::vector<std::string> known = job.graph.symbols();
  for (const auto& [name, text] : pairs) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return fail(fmt::format("the graph has no dimension {}", name), "--dim",
                  known.empty() ? "all its dimensions are fixed"
                                : fmt::format("its dimensions are {}", fmt::join(known, ", ")));
    ATTACCA_TRY(job.symbols[name], parse_size(text, "--dim"));
  }
  for (const auto& [name, tensor] : job.inputs) {
    const ir::Shape& shape = job.graph.type(*job.graph.find(name)).shape;
    for (size_t axis = 0; axis < std::min(shape.size(), tensor.shape().size()); ++axis)
      for (const std::string& symbol : known) {
        if (!(shape[axis] == ir::Dim::symbol(symbol))) continue;
        const auto slot = job.symbols.emplace(symbol, tensor.shape()[axis]).first;
        if (slot->second != tensor.shape()[axis])
          return fail(fmt::format("dimension {} is {} elsewhere and {} in input {}", symbol,
                                  slot->second, tensor.shape()[axis], name),
                      "--input", "give sizes and files that agree");
      }
  }
  for (const std::string& symbol : known)
    if (job.symbols.emplace(symbol, kDefaultDim).second) job.assumed.push_back(symbol);
  return {};
}

Result<Job> prepare_job(const RunArgs& args) {
  Job job;
  ATTACCA_TRY(job.graph, run::load_graph(args.file));
  ATTACCA_TRY_VOID(ir::verify(job.graph));
  ATTACCA_TRY(job.inputs, read_inputs(job.graph, args.inputs));
  ATTACCA_TRY_VOID(bind_dims(job, args.dims));
  const Progress progress("making inputs");
  ATTACCA_TRY(job.inputs,
              run::random_inputs(job.graph, job.symbols, args.seed, std::move(job.inputs)));
  return job;
}

Result<run::Compiled> compile_job(const Job& job, const RunArgs& args, bool fuse) {
  const Progress progress(fuse ? "compiling" : "compiling the op-by-op path");
  run::CpuOptions options{
      .mode = *ir::parse_mode(args.mode), .fuse = fuse, .threads = args.threads, .weights = {}};
  for (const ir::Value weight : run::weight_inputs(job.graph))
    options.weights.emplace(job.graph[weight].name, job.inputs.at(job.graph[weight].name));
  return run::compile(job.graph, options);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
Result<double> time_ms(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  ATTACCA_TRY_VOID(work());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The two paths in turn, after a warm-up of each, for at most two seconds or fifty rounds.
Result<Timing> time_paths(const run::CpuPlan& fused, const run::CpuPlan& unfused,
                          const ir::Bindings& inputs) {
  const Progress progress("timing");
  std::vector<double> fused_ms, unfused_ms, ratios;
  double spent = 0;
  for (int round = 0; round < 51 && (round < 2 || spent < 2000); ++round) {
    ATTACCA_TRY(const double f, time_ms([&] { return fused.run(inputs); }));
    ATTACCA_TRY(const double u, time_ms([&] { return unfused.run(inputs); }));
    if (round == 0) continue;
    spent += f + u;
    fused_ms.push_back(f);
    unfused_ms.push_back(u);
    ratios.push_back(u / std::max(f, 1e-6));
  }
  return Timing{median(fused_ms), median(unfused_ms), median(ratios)};
}

// Half a last place of a dtype, relative to 1.
double half_ulp(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64:
      return 0x1p-53;
    case ir::DType::F32:
      return 0x1p-24;
    case ir::DType::F16:
      return 0x1p-11;
    case ir::DType::BF16:
      return 0x1p-8;
    case ir::DType::F8E4M3:
      return 0x1p-4;
    case ir::DType::F8E5M2:
      return 0x1p-3;
    default:
      return 0;  // an integer: in units, see check_output
  }
}

// The fused error must not exceed the unfused graph's. The two round differently, so that where
// both are as good as their dtype allows the comparison is a toss: one last place is granted.
OutputCheck check_output(const std::string& name, const ir::Tensor& fused,
                         const ir::Tensor& unfused, const ir::Tensor& reference) {
  OutputCheck check{name, run::compare(fused, reference), run::compare(unfused, reference), 0,
                    false};
  const double place =
      ir::is_float(fused.dtype()) ? 2 * half_ulp(fused.dtype()) * check.fused.scale : 1;
  check.allowed = check.unfused.largest + place;
  check.passed = check.fused.largest <= check.allowed &&
                 check.fused.mismatched_nan <= check.unfused.mismatched_nan;
  return check;
}

Result<std::vector<OutputCheck>> check_outputs(const Job& job, const std::vector<ir::Tensor>& fused,
                                               const run::CpuPlan& unfused_plan) {
  ATTACCA_TRY(const auto unfused, unfused_plan.run(job.inputs));
  const Progress progress("computing the f64 reference");
  ATTACCA_TRY(const auto reference, ir::interpret(job.graph, job.inputs));
  std::vector<OutputCheck> checks;
  for (size_t i = 0; i < fused.size(); ++i)
    checks.push_back(check_output(job.graph.outputs()[i].name, fused[i], unfused[i], reference[i]));
  return checks;
}

Status write_outputs(const Job& job, const std::vector<ir::Tensor>& outputs,
                     const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(fmt::format("cannot make {}: {}", folder, error.message()), "--output");
  std::set<std::string> taken;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = job.graph.outputs()[i].name;
    // Names come from models: none may leave the folder or overwrite another's file.
    std::replace(name.begin(), name.end(), '/', '_');
    if (!taken.insert(name).second) name += fmt::format("_{}", i);
    ATTACCA_TRY_VOID(import::write_npy(fmt::format("{}/{}.npy", folder, name), outputs[i]));
  }
  return {};
}

void print_text(const Job& job, const run::Compiled& compiled, const Timing& timing,
                const std::vector<OutputCheck>& checks, const RunArgs& args) {
  for (const fold::Applied& applied : compiled.folds)
    fmt::print("folded {}: {}\n", applied.rule, applied.result);
  fmt::print("{}", fuse::explain_text(compiled.plan.partition()));
  std::vector<std::string> dims;
  for (const auto& [name, size] : job.symbols) dims.push_back(fmt::format("{}={}", name, size));
  if (!dims.empty())
    fmt::print(
        "dimensions: {}{}\n", fmt::join(dims, ", "),
        job.assumed.empty() ? "" : fmt::format(" (assumed: {})", fmt::join(job.assumed, ", ")));
  fmt::print("time: fused {:.3f} ms, op by op {:.3f} ms, {:.2f}x (cpu, mode {})\n", timing.fused_ms,
             timing.unfused_ms, timing.speedup, args.mode);
  for (const OutputCheck& check : checks)
    fmt::print(
        "check {}: {}: largest error against f64: fused {:.3g}, op by op {:.3g}{} (largest value "
        "{:.3g})\n",
        check.name, check.passed ? "passed" : "FAILED", check.fused.largest, check.unfused.largest,
        check.fused.mismatched_nan
            ? fmt::format(", {} elements NaN or infinite in one only", check.fused.mismatched_nan)
            : "",
        check.fused.scale);
}

json::Value to_json(const Job& job, const run::Compiled& compiled, const Timing& timing,
                    const std::vector<OutputCheck>& checks, const RunArgs& args) {
  json::Value root = json::Value::object();
  root.set("file", args.file);
  root.set("device", args.device);
  root.set("mode", args.mode);
  json::Value dims = json::Value::object();
  for (const auto& [name, size] : job.symbols) dims.set(name, size);
  root.set("dims", std::move(dims));
  json::Value folds = json::Value::array();
  for (const fold::Applied& applied : compiled.folds) {
    json::Value entry = json::Value::object();
    entry.set("rule", applied.rule);
    entry.set("result", applied.result);
    folds.push(std::move(entry));
  }
  root.set("folds", std::move(folds));
  root.set("partition", fuse::explain_json(compiled.plan.partition()));
  root.set("fused_ms", timing.fused_ms);
  root.set("op_by_op_ms", timing.unfused_ms);
  root.set("speedup", timing.speedup);
  json::Value results = json::Value::array();
  for (const OutputCheck& check : checks) {
    json::Value entry = json::Value::object();
    entry.set("output", check.name);
    entry.set("passed", check.passed);
    entry.set("fused_error", check.fused.largest);
    entry.set("op_by_op_error", check.unfused.largest);
    entry.set("largest_value", check.fused.scale);
    entry.set("mismatched_nan", check.fused.mismatched_nan);
    results.push(std::move(entry));
  }
  root.set("checks", std::move(results));
  return root;
}

Result<int> try_run(const RunArgs& args) {
  ATTACCA_TRY(const Job job, prepare_job(args));
  ATTACCA_TRY(const run::Compiled fused, compile_job(job, args, true));
  ATTACCA_TRY(const run::Compiled unfused, compile_job(job, args, false));
  ATTACCA_TRY(const auto outputs, fused.plan.run(job.inputs));
  if (!args.output.empty()) ATTACCA_TRY_VOID(write_outputs(job, outputs, args.output));
  ATTACCA_TRY(const Timing timing, time_paths(fused.plan, unfused.plan, job.inputs));
  std::vector<OutputCheck> checks;
  if (args.check) {
    ATTACCA_TRY(checks, check_outputs(job, outputs, unfused.plan));
  }
  if (args.json)
    fmt::print("{}\n", json::dump(to_json(job, fused, timing, checks, args), 2));
  else
    print_text(job, fused, timing, checks, args);
  const bool passed = std::all_of(checks.begin(), checks.end(),
                                  [](const OutputCheck& check) { return check.passed; });
  return passed ? kOk : kCheckFailed;
}

}  // namespace

int run(const RunArgs& args) {
  const auto code = try_run(args);
  return code ? *code : report(code.error());
}

}  // namespace attacca::cli
