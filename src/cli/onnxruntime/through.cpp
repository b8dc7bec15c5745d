// `attacca run FILE.onnx --through onnxruntime`: in turns with Attacca inside and alone.
#include <chrono>
#include <cmath>
#include <filesystem>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "cli/commands.hpp"
#include "cli/explain/decisions.hpp"
#include "cli/job.hpp"
#include "cli/onnxruntime/through_session.hpp"
#include "cli/run/run_report.hpp"
#include "gpu/driver/device.hpp"
#include "run/check/random_inputs.hpp"
#include "run/shared/device_id.hpp"
#include "support/progress.hpp"

namespace attacca::cli {
namespace {

// How far the results' root mean square may be from ONNX Runtime's, relative to its own.
constexpr double kAllowed32 = 1e-3, kAllowed16 = 1e-2;

// One output with Attacca beside ONNX Runtime alone.
struct Comparison {
  std::string name;
  bool passed = false;
  double error = 0, largest_error = 0, largest_value = 0;  // the first one relative
};

struct ThroughReport {
  const RunArgs& args;
  const Job& job;
  std::string library;
  std::vector<std::string> notes;
  Timing timing;
  std::vector<Comparison> checks;
};

Status refuse_other_options(const RunArgs& args) {
  const std::string ending = std::filesystem::path(args.file).extension();
  if (ending != ".onnx")
    return fail(fmt::format("{} is no .onnx file", args.file), "--through",
                "leave --through out for other files");
  std::error_code error;
  if (!std::filesystem::is_regular_file(args.file, error))
    return fail("there is no such file", args.file, "check the path");
  ATTACCA_TRY(const run::DeviceId device, run::parse_device(args.device, "--device"));
  if (device.cuda) ATTACCA_TRY_VOID(gpu::Device::open(device.ordinal));
  if (args.profile || !args.trace.empty())
    return fail("ONNX Runtime runs the model, and has a profiler of its own",
                args.profile ? "--profile" : "--trace", "leave it out, or --through");
  if (args.batch_invariant)
    return fail("ONNX Runtime's own kernels are not batch-invariant", "--batch-invariant",
                "leave it out, or --through");
  if (args.tune && !device.cuda)
    return fail("there is nothing to tune on the CPU", "--tune", "leave it out");
  return {};
}

std::unordered_map<std::string, std::string> provider_options(const RunArgs& args,
                                                              const run::DeviceId& device,
                                                              const Job& job) {
  std::vector<std::string> dims;
  for (const auto& [symbol, size] : job.symbols)
    if (size > 0) dims.push_back(fmt::format("{}={}", symbol, size));
  std::unordered_map<std::string, std::string> options = {
      {"mode", args.mode},
      {"threads", std::to_string(args.threads)},
      {"device", run::to_string(device)},
      {"tuning", args.tune ? "measure" : "known"}};
  if (!dims.empty()) options["dims"] = fmt::format("{}", fmt::join(dims, ","));
  return options;
}

Comparison compare_outputs(const std::string& name, const ir::Tensor& ours,
                           const ir::Tensor& theirs) {
  Comparison made{name};
  if (ours.shape() != theirs.shape() || ours.dtype() != theirs.dtype()) return made;
  double errors = 0, values = 0;
  bool same_nan = true;
  for (int64_t i = 0; i < ours.size(); ++i) {
    const double a = ours.number_at(i), b = theirs.number_at(i);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      same_nan = same_nan && (a == b || (std::isnan(a) && std::isnan(b)));
      continue;
    }
    errors += (a - b) * (a - b);
    values += b * b;
    made.largest_error = std::max(made.largest_error, std::abs(a - b));
    made.largest_value = std::max(made.largest_value, std::abs(b));
  }
  made.error = errors == 0 ? 0 : std::sqrt(errors / std::max(values, 1e-300));
  const bool narrow = ir::is_float(ours.dtype()) && ir::size_of(ours.dtype()) < 4;
  made.passed = same_nan && made.error <= (narrow ? kAllowed16 : kAllowed32);
  return made;
}

double run_ms(OnnxSession& session, const ir::Bindings& inputs) {
  std::vector<Ort::Value> results;
  const auto begin = std::chrono::steady_clock::now();
  session.run(inputs, results);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// As on the CPU without ONNX Runtime: for at most two seconds or fifty rounds.
Timing time_sessions(OnnxSession& ours, OnnxSession& theirs, const ir::Bindings& inputs) {
  const Progress progress("timing");
  std::vector<double> our_ms, their_ms;
  double spent = 0;
  for (int round = 0; round < 51 && (round < 2 || spent < 2000); ++round) {
    const double a = run_ms(ours, inputs), b = run_ms(theirs, inputs);
    if (round == 0) continue;
    spent += a + b;
    our_ms.push_back(a);
    their_ms.push_back(b);
  }
  return summarize(our_ms, their_ms);
}

Result<std::vector<ir::Tensor>> outputs_of(OnnxSession& session, const ir::Bindings& inputs) {
  std::vector<Ort::Value> results;
  session.run(inputs, results);
  std::vector<ir::Tensor> tensors;
  for (size_t i = 0; i < results.size(); ++i) {
    ATTACCA_TRY(ir::Tensor tensor, tensor_of(results[i], session.outputs()[i]));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void print_lines(const ThroughReport& report) {
  for (const std::string& note : report.notes) fmt::print("{}\n", note);
  fmt::print("{}", dims_line(report.job));
  fmt::print("time: with Attacca {:.3f} ms, ONNX Runtime alone {:.3f} ms, {:.2f}x ({}, mode {})\n",
             report.timing.fused_ms, report.timing.other_ms, report.timing.speedup,
             report.args.device, report.args.mode);
  for (const Comparison& check : report.checks)
    fmt::print(
        "check {}: {}: error against ONNX Runtime alone {:.3g} of its values (root mean square), "
        "at most {:.3g} (largest value {:.3g})\n",
        check.name, check.passed ? "passed" : "FAILED", check.error, check.largest_error,
        check.largest_value);
}

json::Value json_of(const ThroughReport& report) {
  json::Value notes = json::Value::array(), checks = json::Value::array();
  for (const std::string& note : report.notes) notes.push(note);
  for (const Comparison& check : report.checks)
    checks.push(json::Value::object()
                    .set("output", check.name)
                    .set("passed", check.passed)
                    .set("error", check.error)
                    .set("largest_error", check.largest_error)
                    .set("largest_value", check.largest_value));
  return json::Value::object()
      .set("file", report.args.file)
      .set("through", report.args.through)
      .set("library", report.library)
      .set("device", report.args.device)
      .set("mode", report.args.mode)
      .set("dims", dims_json(report.job.symbols))
      .set("notes", std::move(notes))
      .set("fused_ms", report.timing.fused_ms)
      .set("onnxruntime_ms", report.timing.other_ms)
      .set("speedup", report.timing.speedup)
      .set("checks", std::move(checks));
}

int print_report(const ThroughReport& report) {
  if (report.args.json)
    print_json(json_of(report));
  else
    print_lines(report);
  for (const Comparison& check : report.checks)
    if (!check.passed) return kCheckFailed;
  return kOk;
}

Result<int> try_through(const RunArgs& args) {
  ATTACCA_TRY_VOID(refuse_other_options(args));
  ATTACCA_TRY(OnnxRuntime runtime, OnnxRuntime::open());
  OnnxSession theirs(runtime, args.file, args.threads, nullptr);
  if (!args.output.empty()) ATTACCA_TRY_VOID(output_files(theirs.outputs(), args.output));
  Job job;
  ATTACCA_TRY(job.graph, theirs.inputs());
  ATTACCA_TRY_VOID(read_inputs(job, args.inputs));
  ATTACCA_TRY_VOID(bind_dims(job, args.dims));
  ATTACCA_TRY(job.inputs,
              run::random_inputs(job.graph, job.symbols, args.seed, std::move(job.inputs)));
  ATTACCA_TRY(const run::DeviceId device, run::parse_device(args.device, "--device"));
  const auto options = provider_options(args, device, job);
  std::optional<Progress> progress(std::in_place, "measuring and compiling");
  OnnxSession ours(runtime, args.file, args.threads, &options);
  progress.reset();
  ThroughReport report{args, job, runtime.path(), runtime.take_notes(), {}, {}};
  ATTACCA_TRY(const auto outputs, outputs_of(ours, job.inputs));
  if (!args.output.empty()) ATTACCA_TRY_VOID(write_outputs(theirs.outputs(), outputs, args.output));
  report.timing = time_sessions(ours, theirs, job.inputs);
  if (args.check) {
    ATTACCA_TRY(const auto reference, outputs_of(theirs, job.inputs));
    for (size_t i = 0; i < outputs.size(); ++i)
      report.checks.push_back(compare_outputs(theirs.outputs()[i], outputs[i], reference[i]));
  }
  return print_report(report);
}

}  // namespace

int run_through(const RunArgs& args) {
  try {
    return exit_code(try_through(args));
  } catch (const Ort::Exception& error) {
    return report({error.what(), args.file, "look for the message in ONNX Runtime's documents"});
  }
}

}  // namespace attacca::cli
