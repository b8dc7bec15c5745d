// Runs every ONNX backend test whose ops are all supported and compares with the stored outputs.
// usage: onnx_backend_test DATA [interpreter|cpu]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "import/onnx/onnx.hpp"
#include "ir/interpret/interpreter.hpp"
#include "onnx_backend/cases.hpp"
#include "onnx_backend/compare.hpp"
#include "run/pipeline.hpp"

namespace attacca::backend {
namespace {

// With fewer cases than this, some were skipped by mistake.
constexpr int kMinimumRun = 803;

using Engine = Result<std::vector<ir::Tensor>> (*)(const ir::Graph&, const ir::Bindings&);

Result<std::vector<ir::Tensor>> interpret_fp32(const ir::Graph& graph, const ir::Bindings& inputs) {
  return ir::interpret(graph, inputs, {.precision = ir::Precision::Fp32});
}

Result<std::vector<ir::Tensor>> run_on_cpu(const ir::Graph& graph, const ir::Bindings& inputs) {
  ATTACCA_TRY(const run::Compiled plan, run::compile(graph, run::Target::cpu()));
  return plan.run(inputs);
}

struct NamedEngine {
  std::string_view name;
  Engine engine;
};
constexpr NamedEngine kEngines[] = {{"interpreter", interpret_fp32}, {"cpu", run_on_cpu}};

// Messages, in part, with which a supported op may refuse a model; any other error fails the test.
struct Refusal {
  std::string_view message, reason;
};
constexpr Refusal kRefusals[] = {
    {"ONNX element type", "an element type the IR does not have"},
    {"training mode", "training mode"},
    {"a sequence or optional", "a sequence or optional"},
    {"Mod of floats", "Mod of floats"},
    {"reduction=", "a scatter with a reduction"},
    {"mode=reflect", "Pad with mode=reflect"},
    {"mode=edge", "Pad with mode=edge"},
    {"mode=wrap", "Pad with mode=wrap"},
    {"Indices (output 1) of MaxPool", "MaxPool with Indices"},
    {"of which each is a slice", "a kernel of more than 1024 elements"},
    {"antialias=1", "Resize with antialias=1"},
    {"tf_crop_and_resize", "Resize with tf_crop_and_resize"},
};

// Cases of which some outputs are not what the operator's text says.
constexpr std::string_view kWrong[] = {
    // They wrap around where the text saturates.
    "test_qlinearmatmul_2D_int8_float",
    "test_qlinearmatmul_3D_int8_float",
    // Their corners are those of 2.4 elements; the text's and ONNX Runtime's, of 2.
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
    // onnx 1.19's reference masks scores before softcap=. Later texts, and ONNX Runtime, mask after
    // it, which exchanges two of qk_matmul_output_mode= (compared in tests/onnxruntime).
    "test_attention_3d_with_past_and_present_qk_matmul_bias",
    "test_attention_3d_with_past_and_present_qk_matmul_softcap",
    "test_attention_4d_with_past_and_present_qk_matmul_bias",
    "test_attention_4d_with_qk_matmul_bias",
    "test_attention_4d_with_qk_matmul_softcap",
};

struct Tally {
  int ran = 0, passed = 0, with_fixed_inputs = 0;
  std::map<std::string, int> skipped_ops, refused;
  std::vector<std::string> failures;
};

// The lines "  Op: nodes" of the reader's list of unsupported ops.
std::vector<std::string> unsupported_ops(const std::string& what) {
  std::vector<std::string> ops;
  if (what.find("ops that are not supported") == std::string::npos) return ops;
  for (size_t at = what.find("\n  "); at != std::string::npos; at = what.find("\n  ", at + 1))
    ops.push_back(what.substr(at + 3, what.find(':', at) - at - 3));
  return ops;
}

// Scalars and short integer vectors: shapes, axes, bounds, which must be known while reading; and
// the scales of Resize.
bool may_be_fixed(const NamedTensor& input) {
  const ir::Tensor& tensor = input.tensor;
  const bool list = !ir::is_float(tensor.dtype()) || input.name == "scales";
  return tensor.shape().empty() || (list && tensor.shape().size() == 1 && tensor.size() <= 64);
}

struct Read {
  ir::Graph graph;
  import::FixedInputs fixed;
};

Result<Read> read_case(const Case& test, const std::vector<DataSet>& data) {
  const std::string path = test.directory + "/model.onnx";
  auto graph = import::read_onnx(path);
  if (graph) return Read{*std::move(graph), {}};
  import::FixedInputs fixed;
  if (data.size() == 1)
    for (const NamedTensor& input : data[0].inputs)
      if (may_be_fixed(input)) fixed[input.name] = input.tensor;
  if (fixed.empty() || !unsupported_ops(graph.error().what).empty())
    return tl::make_unexpected(graph.error());
  ATTACCA_TRY(ir::Graph with, import::read_onnx(path, fixed));
  return Read{std::move(with), std::move(fixed)};
}

Status run_set(const Read& read, const DataSet& data, Engine engine) {
  ir::Bindings bindings;
  size_t next = 0;
  for (const NamedTensor& input : data.inputs) {
    if (read.fixed.count(input.name)) continue;
    bindings[read.graph[read.graph.inputs()[next++]].name] = input.tensor;
  }
  ATTACCA_TRY(const std::vector<ir::Tensor> results, engine(read.graph, bindings));
  for (size_t i = 0; i < data.outputs.size(); ++i)
    if (auto status = compare(results[i], data.outputs[i].tensor); !status) {
      Error error = status.error();
      error.where = data.outputs[i].name;
      return tl::make_unexpected(std::move(error));
    }
  return {};
}

bool is_wrong(const Case& test) {
  return std::any_of(std::begin(kWrong), std::end(kWrong), [&](std::string_view wrong) {
    return test.name.find(wrong) != std::string::npos;
  });
}

bool is_refusal(const Error& error, Tally& tally) {
  for (const Refusal& refusal : kRefusals)
    if (error.what.find(refusal.message) != std::string::npos) {
      ++tally.refused[std::string(refusal.reason)];
      return true;
    }
  return false;
}

void run_case(const Case& test, Engine engine, Tally& tally) {
  // Ops first: models of sequences and strings need no data to be skipped by op.
  if (const auto graph = import::read_onnx(test.directory + "/model.onnx"); !graph)
    if (const auto ops = unsupported_ops(graph.error().what); !ops.empty()) {
      for (const std::string& op : ops) ++tally.skipped_ops[op];
      return;
    }
  const auto data = read_data(test);
  if (!data) {
    if (!is_refusal(data.error(), tally))
      tally.failures.push_back(fmt::format("{}: {}", test.name, to_string(data.error())));
    return;
  }
  const auto read = read_case(test, *data);
  if (!read) {
    if (!is_refusal(read.error(), tally))
      tally.failures.push_back(fmt::format("{}: {}", test.name, to_string(read.error())));
    return;
  }
  ++tally.ran;
  tally.with_fixed_inputs += !read->fixed.empty();
  for (const DataSet& set : *data)
    if (const auto status = run_set(*read, set, engine); !status) {
      tally.failures.push_back(fmt::format("{}: {}", test.name, to_string(status.error())));
      return;
    }
  ++tally.passed;
}

int report(const Tally& tally, std::string_view engine, size_t cases) {
  for (const std::string& failure : tally.failures) fmt::print("FAILED {}\n", failure);
  fmt::print("onnx backend tests on {}: {} cases, {} ran, {} passed", engine, cases, tally.ran,
             tally.passed);
  fmt::print(" ({} with shape inputs fixed)\n", tally.with_fixed_inputs);
  for (const auto& [reason, count] : tally.refused) fmt::print("refused {}: {}\n", count, reason);
  fmt::print("skipped, by unsupported op (a case may name several):\n ");
  for (const auto& [op, count] : tally.skipped_ops) fmt::print(" {} {},", op, count);
  fmt::print("\n");
  if (tally.ran < kMinimumRun) fmt::print("FAILED: fewer than {} cases ran\n", kMinimumRun);
  return tally.failures.empty() && tally.ran >= kMinimumRun ? 0 : 1;
}

}  // namespace
}  // namespace attacca::backend

int main(int argc, char** argv) {
  using namespace attacca::backend;
  if (argc < 2) {
    fmt::print(stderr, "usage: onnx_backend_test DATA [ENGINE]\n");
    return 2;
  }
  const std::string_view wanted = argc > 2 ? argv[2] : kEngines[0].name;
  for (const NamedEngine& engine : kEngines) {
    if (engine.name != wanted) continue;
    const auto cases = find_cases(argv[1]);
    Tally tally;
    for (const Case& test : cases)
      if (!is_wrong(test)) run_case(test, engine.engine, tally);
    return report(tally, engine.name, cases.size());
  }
  fmt::print(stderr, "no engine {}\n", wanted);
  return 2;
}
