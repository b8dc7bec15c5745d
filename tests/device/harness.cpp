#include "device/harness.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "fmt/format.h"

#include "ir/interpret/last_place.hpp"
#include "ir/text/text.hpp"
#include "launch/candidate.hpp"
#include "launch/legality.hpp"
#include "launch/prepare.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

using ir::Tensor;
using ir::Value;

// Device memory of every graph value that a problem reads or writes.
class Buffers {
 public:
  explicit Buffers(const Case& each) : case_(each) {}

  Result<problem::Addresses> upload() {
    // How each operand comes to its memory; an accumulator has none.
    using Memory = Result<void*> (Buffers::*)(Value);
    auto memory = map([](Value) -> Memory { return &Buffers::input; }, case_.problem.sources);
    for (Memory& each : memory.outputs) each = &Buffers::result;
    for (size_t i = 0; i < memory.inputs.size(); ++i)
      if (case_.problem.epilogue.inputs[i].role == epilogue::Role::Accumulator)
        memory.inputs[i] = nullptr;
    Status status;
    problem::Addresses at = map(
        [&](Memory make, Value value) -> void* {
          if (make == nullptr || !status) return nullptr;
          const Result<void*> address = (this->*make)(value);
          if (!address) status = tl::make_unexpected(address.error());
          return address.value_or(nullptr);
        },
        memory, case_.problem.sources);
    ATTACCA_TRY_VOID(status);
    return at;
  }

  // In the order of the graph's outputs.
  Result<std::vector<Tensor>> download() {
    std::vector<Tensor> outputs;
    for (const ir::Output& output : case_.folded.outputs()) {
      ATTACCA_TRY(Tensor tensor, make_result(output.value));
      ATTACCA_TRY_VOID(
          memory_.at(output.value).copy_to(tensor.data(), static_cast<size_t>(tensor.bytes())));
      outputs.push_back(std::move(tensor));
    }
    ATTACCA_TRY_VOID(toolbox()->device().synchronize());
    return outputs;
  }

 private:
  Result<Tensor> make_result(Value value) const {
    ATTACCA_TRY(auto shape, evaluate(case_.folded.type(value).shape, case_.symbols));
    return Tensor::make(case_.folded.type(value).dtype, std::move(shape));
  }

  Result<void*> input(Value value) {
    const auto found = memory_.find(value);
    if (found != memory_.end()) return found->second.pointer();
    const Tensor tensor = operand_of(case_.folded, value, case_.inputs);
    int64_t span = 1;  // a strided view lies in its storage as it is
    for (size_t axis = 0; axis < tensor.shape().size(); ++axis)
      span += (tensor.shape()[axis] - 1) * tensor.strides()[axis];
    const auto bytes =
        tensor.size() == 0 ? size_t{0} : static_cast<size_t>(span * ir::size_of(tensor.dtype()));
    return keep(value, tensor.data(), bytes);
  }

  Result<void*> result(Value value) {
    ATTACCA_TRY(Tensor tensor, make_result(value));
    std::memset(tensor.data(), 0xff, static_cast<size_t>(tensor.bytes()));
    return keep(value, tensor.data(), static_cast<size_t>(tensor.bytes()));
  }

  Result<void*> keep(Value value, const void* host, size_t bytes) {
    ATTACCA_TRY(auto memory, gpu::DeviceMemory::allocate(toolbox()->device(), bytes));
    if (bytes > 0) ATTACCA_TRY_VOID(memory.copy_from(host, bytes));
    ATTACCA_TRY_VOID(toolbox()->device().synchronize());
    return memory_.emplace(value, std::move(memory)).first->second.pointer();
  }

  const Case& case_;
  std::map<Value, gpu::DeviceMemory> memory_;
};

}  // namespace

const std::shared_ptr<launch::Toolbox>& toolbox() {
  static const std::shared_ptr<launch::Toolbox> opened = [] {
    auto made = launch::Toolbox::open(0);
    if (!made) fmt::print(stderr, "{}", to_string(made.error()));
    ATTACCA_CHECK(made.has_value(), "the GPU tests need a GPU and templates");
    return *made;
  }();
  return opened;
}

run::Target device_target(ir::Mode mode, bool fuse) {
  return run::Target::cuda(toolbox()->device(), mode, fuse);
}

std::string to_string(const Extents& extents) {
  return fmt::format("{}x{}x{}{}", extents.m, extents.n, extents.k,
                     extents.batch == 1 ? "" : fmt::format(" batch {}", extents.batch));
}

Result<Case> make_case(const ir::Graph& graph, const ir::SymbolValues& symbols, ir::Mode mode,
                       ir::Bindings inputs) {
  Case made;
  made.graph = graph;
  made.symbols = symbols;
  made.mode = mode;
  made.inputs = std::move(inputs);
  ATTACCA_TRY(const run::Prepared prepared, run::prepare(graph, device_target(mode, true)));
  fuse::Partition partition = *prepared.partition;
  if (partition.regions.size() != 1)
    return fail(fmt::format("{} regions, one wanted", partition.regions.size()));
  made.region = std::move(partition.regions[0]);
  made.folded = std::move(partition.graph);
  ATTACCA_TRY(made.problem, problem::concretize(made.region, made.folded, symbols, mode,
                                                [](Value) { return 16; }));
  return made;
}

Result<Case> make_case(const run::GemmForm& form, const Extents& extents, ir::Mode mode,
                       uint64_t seed) {
  ATTACCA_TRY(const ir::Graph graph, run::gemm_graph(form));
  ir::SymbolValues symbols = {{"M", extents.m}, {"N", extents.n}, {"K", extents.k}};
  if (form.batched) symbols["B"] = extents.batch;
  ATTACCA_TRY(ir::Bindings inputs, run::random_inputs(graph, symbols, seed));
  return make_case(graph, symbols, mode, std::move(inputs));
}

Result<std::vector<Tensor>> run_candidate(const Case& each, const launch::Candidate& candidate) {
  ATTACCA_TRY(const auto runnable, launch::prepare(toolbox(), each.problem, candidate));
  Buffers buffers(each);
  ATTACCA_TRY(const problem::Addresses at, buffers.upload());
  ATTACCA_TRY(auto workspace,
              gpu::DeviceMemory::allocate(toolbox()->device(), runnable->workspace_bytes()));
  if (workspace.size() > 0) ATTACCA_TRY_VOID(workspace.fill(0xff));
  ATTACCA_TRY_VOID(toolbox()->device().synchronize());
  ATTACCA_TRY_VOID(runnable->launch(at, workspace.pointer(), nullptr));
  return buffers.download();
}

void in_parallel(int count, const std::function<void(int)>& work) {
  std::atomic<int> next = 0;
  std::vector<std::jthread> threads;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned t = 0; t < cores; ++t)
    threads.emplace_back([&] {
      for (int i; (i = next++) < count;) work(i);
    });
}

Reference make_reference(const Case& each) {
  return make_reference(each.graph, each.inputs);
}

std::string compare_with_reference(const Case& each, const std::vector<Tensor>& outputs) {
  return compare_with_reference(make_reference(each), outputs);
}

std::string compare_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].bytes() != want[i].bytes()) return "outputs of different sizes";
    const int64_t width = ir::size_of(got[i].dtype());
    for (int64_t at = 0; at < got[i].size(); ++at) {
      const bool equal = std::memcmp(got[i].data() + at * width, want[i].data() + at * width,
                                     static_cast<size_t>(width)) == 0;
      const double g = got[i].number_at(at), w = want[i].number_at(at);
      // The bits of a NaN do not matter.
      if (!equal && !(std::isnan(g) && std::isnan(w)))
        return fmt::format("output {} element {}: {} and {}", i, at, g, w);
    }
  }
  return {};
}

Prepared prepare_text(const std::string& text, ir::Bindings given, uint64_t seed, ir::Mode mode) {
  const auto graph = ir::parse_graph(text);
  ATTACCA_CHECK(graph.has_value(), text + to_string(graph.error()));
  auto inputs = run::random_inputs(*graph, {}, seed, std::move(given));
  ATTACCA_CHECK(inputs.has_value(), "no inputs");
  auto each = make_case(*graph, {}, mode, *std::move(inputs));
  ATTACCA_CHECK(each.has_value(), text + to_string(each.error()));
  Prepared prepared;
  prepared.name = text;
  prepared.reference = make_reference(*each);
  prepared.each = *std::move(each);
  return prepared;
}

std::string template_test_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.empty() ? std::string("unfused") : info.param;
}

bool is_refused(const Case& each, const std::string& kernel) {
  if (kernel.empty()) return false;
  return std::holds_alternative<std::string>(launch::legality(
      each.problem, *toolbox()->catalog().find(kernel), toolbox()->device().info()));
}

// In eager mode templates round the product to its dtype, too. Sums in another order may fall on
// the other side of a tie, which moves a result of f32 by a place of that dtype.
double rounding_of_product(const Prepared& prepared) {
  const std::vector<Tensor>& outputs = prepared.reference.unfused;
  const bool wide = std::all_of(outputs.begin(), outputs.end(), [](const Tensor& output) {
    return output.dtype() == ir::DType::F32;
  });
  const Case& each = *prepared.each;
  if (each.mode != ir::Mode::Eager || !wide) return 0;
  return ir::last_place(each.folded.type(each.region.gemms.front().node).dtype);
}

void run_all(
    const std::string& kernel, const std::vector<Prepared>& cases,
    const std::function<std::string(const Prepared&, const std::vector<ir::Tensor>&)>& wrong) {
  const launch::Candidate candidate = candidate_of(kernel);
  std::atomic<int> ran = 0;
  std::vector<std::string> faults(cases.size());
  in_parallel(static_cast<int>(cases.size()), [&](int i) {
    const Prepared& prepared = cases[static_cast<size_t>(i)];
    std::string& fault = faults[static_cast<size_t>(i)];
    if (is_refused(*prepared.each, kernel)) return;
    const auto outputs = run_candidate(*prepared.each, candidate);
    if (outputs) {
      fault = wrong(prepared, *outputs);
      ++ran;
    } else if (outputs.error().what.find("cannot compute this problem") == std::string::npos) {
      fault = to_string(outputs.error());
    }
  });
  for (size_t i = 0; i < faults.size(); ++i) EXPECT_EQ("", faults[i]) << cases[i].name;
  EXPECT_GT(ran, 0) << "no case ran";
  fmt::print("{} of {} cases ran\n", ran.load(), faults.size());
}

void run_all(const std::string& kernel, const std::vector<Prepared>& cases, double unfused_slack,
             double slack) {
  run_all(kernel, cases, [&](const Prepared& prepared, const std::vector<ir::Tensor>& outputs) {
    const double allowed =
        kernel.empty() ? unfused_slack : std::max(slack, rounding_of_product(prepared));
    return compare_with_reference(prepared.reference, outputs, allowed);
  });
}

launch::Candidate candidate_of(const std::string& kernel) {
  if (kernel.empty()) return {};
  return {.kind = launch::CandidateKind::Fused, .kernel = kernel};
}

int expect_same_bits(const std::vector<Prepared>& cases, const std::vector<std::string>& kernels,
                     int64_t least_rows) {
  int ran = 0;
  for (const Prepared& prepared : cases) {
    if (prepared.each->problem.m < least_rows) continue;
    for (const std::string& kernel : kernels) {
      if (kernel.empty() || is_refused(*prepared.each, kernel)) continue;
      ++ran;
      const auto first = run_candidate(*prepared.each, candidate_of(kernel));
      EXPECT_TRUE(first) << to_string(first.error());
      for (int i = 0; first && i < 2; ++i) {
        const auto again = run_candidate(*prepared.each, candidate_of(kernel));
        EXPECT_EQ("", again ? compare_bits(*again, *first) : to_string(again.error())) << kernel;
      }
    }
  }
  return ran;
}

}  // namespace attacca::testing
