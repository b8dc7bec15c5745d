// Every elementwise op alone, and random epilogues, on a template: fp32 within the unfused graph's
// error, eager bit for bit what the same template gives followed by the ops one by one.
//
// ATTACCA_SEED chooses the random epilogues, ATTACCA_EPILOGUES how many (2,000).
#include <atomic>
#include <cmath>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <thread>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "launch/candidate.hpp"
#include "run/check/error_bound.hpp"
#include "run/pipeline.hpp"
#include "run/shared/single_regions.hpp"
#include "setting.hpp"
#include "tune/candidates.hpp"

namespace attacca::testing {
namespace {

using ir::DType;
using ir::Tensor;
using launch::Candidate;
using launch::CandidateKind;

// Puts NaN, infinities, zeros and extreme numbers into the operands.
void add_special_values(ir::Bindings& inputs, uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e30, -1e30, 1e-30};
  for (auto& [name, tensor] : inputs) {
    if (!ir::is_float(tensor.dtype()) || name == "a" || name == "b" || tensor.size() == 0) continue;
    for (int i = 0; i < 4; ++i)
      tensor.set_number(static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.size())),
                        kSpecial[random() % std::size(kSpecial)]);
  }
}

// The graph with every extent a number.
Result<ir::Graph> with_fixed_shapes(const ir::Graph& graph, const ir::SymbolValues& symbols) {
  ir::Graph fixed;
  std::map<ir::Value, ir::Value> copies;
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    if (node.op == ir::Op::Input) {
      ATTACCA_TRY(const std::vector<int64_t> shape, evaluate(node.type.shape, symbols));
      ATTACCA_TRY(copies[ir::Value{id}],
                  fixed.input(node.name, {node.type.dtype, ir::Shape(shape.begin(), shape.end())}));
      continue;
    }
    std::vector<ir::Value> operands;
    for (const ir::Value operand : node.operands) operands.push_back(copies.at(operand));
    ATTACCA_TRY(copies[ir::Value{id}], ir::copy_node(fixed, node, std::move(operands)));
  }
  for (const ir::Output& output : graph.outputs())
    fixed.add_output(copies.at(output.value), output.name);
  return fixed;
}

// One of the fused templates of a problem. In eager mode one with a single result, which alone can
// give the product by itself for the comparison.
Candidate some_template(const Case& each, uint64_t seed) {
  std::vector<Candidate> usable;
  for (const Candidate& candidate :
       tune::fused_candidates(each.problem, toolbox()->catalog(), toolbox()->device().info())
           .ranked)
    if (each.mode != ir::Mode::Eager ||
        toolbox()->catalog().find(candidate.kernel)->hole.result_bits.size() == 1)
      usable.push_back(candidate);
  Candidate chosen = usable.empty() ? Candidate{} : usable[seed % usable.size()];
  chosen.binding = nullptr;  // op by op it computes other epilogues
  return chosen;
}

bool stores_32_bits(const Candidate& candidate) {
  const templates::Template* kernel = toolbox()->catalog().find(candidate.kernel);
  return kernel != nullptr && kernel->hole.result_bits[0] == 32;
}

Tensor rounded(const Tensor& from, DType dtype) {
  Tensor to = *Tensor::make(dtype, from.shape());
  for (int64_t i = 0; i < from.size(); ++i) to.set_number(i, from.number_at(i));
  return to;
}

// The graph's outputs computed op by op on the device, from the template's own product.
Result<std::vector<Tensor>> op_by_op(const Case& each, const Candidate& candidate) {
  std::map<ir::Value, Tensor> values;
  const ir::Graph& graph = each.folded;
  for (const ir::Value input : graph.inputs()) values[input] = each.inputs.at(graph[input].name);
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Value value{id};
    const ir::Node& node = graph[value];
    if (node.op == ir::Op::Input || node.literal || node.op == ir::Op::Transpose) continue;
    fuse::Region single;
    single.nodes = {value};
    single.outputs = {value};
    for (const ir::Value operand : node.operands)
      if (!graph[operand].literal) single.inputs.push_back(operand);
    // One op as a graph of its own, through the same machinery.
    ir::Graph alone;
    std::map<ir::Value, ir::Value> copies;
    ir::Bindings inputs;
    std::vector<ir::Value> operands;
    for (ir::Value operand : node.operands) {
      const bool transposed = graph[operand].op == ir::Op::Transpose;
      const ir::Value source = transposed ? graph[operand].operands[0] : operand;
      if (!copies.count(operand)) {
        if (graph[source].literal) {
          copies[operand] = alone.literal(graph[source].literal->value, graph.type(source).dtype);
        } else {
          const std::string name = fmt::format("v{}", source.id);
          ATTACCA_TRY(ir::Value made, alone.input(name, graph.type(source)));
          if (transposed) {
            ATTACCA_TRY(made, alone.add(ir::Op::Transpose, {made}));
          }
          copies[operand] = made;
          inputs[name] = values.at(source);
        }
      }
      operands.push_back(copies[operand]);
    }
    // A template that stores 32 bits gives the accumulator itself; the host then rounds it.
    ir::Node asked = node;
    const bool raw = node.op == ir::Op::MatMul && stores_32_bits(candidate);
    if (raw) std::get<ir::MatMulAttrs>(asked.attrs).dtype = DType::F32;
    ATTACCA_TRY(const ir::Value result, ir::copy_node(alone, asked, operands));
    alone.add_output(result, "result");
    ATTACCA_TRY(Case one, make_case(alone, each.symbols, ir::Mode::Eager, std::move(inputs)));
    ATTACCA_TRY(std::vector<Tensor> outputs,
                run_candidate(one, node.op == ir::Op::MatMul ? candidate : Candidate{}));
    values[value] = raw ? rounded(outputs[0], node.type.dtype) : std::move(outputs[0]);
  }
  std::vector<Tensor> outputs;
  for (const ir::Output& output : graph.outputs()) outputs.push_back(values.at(output.value));
  return outputs;
}

// Empty: every element within four times the bound derived for it, NaN where the reference has it.
std::string compare_with_bounds(const Case& each, const std::vector<Tensor>& outputs,
                                const std::string& otherwise) {
  const auto fixed = with_fixed_shapes(each.graph, each.symbols);
  if (!fixed) return otherwise;
  const auto bounds =
      run::error_bounds(*fixed, each.inputs, {.stored = std::vector<bool>(fixed->size(), false)});
  if (!bounds) return otherwise;
  for (size_t i = 0; i < outputs.size(); ++i)
    for (int64_t at = 0; at < outputs[i].size(); ++at) {
      const run::Bounded& bound = (*bounds)[i];
      const double want = bound.value[static_cast<size_t>(at)], got = outputs[i].number_at(at);
      if (bound.promises(at) && !bound.allows(at, got) &&
          !(std::isfinite(want) && std::abs(got - want) <= 4 * bound.error(at)))
        return otherwise;
    }
  return {};
}

// Empty, or what is wrong with an epilogue in a mode.
std::string check_epilogue(const run::GemmForm& form, const Extents& extents, ir::Mode mode,
                           uint64_t seed, bool special) {
  auto each = make_case(form, extents, mode, seed);
  if (!each) return to_string(each.error());
  if (special) add_special_values(each->inputs, seed);
  const Candidate candidate = some_template(*each, seed);
  const auto outputs = run_candidate(*each, candidate);
  if (!outputs) return to_string(candidate) + ": " + to_string(outputs.error());
  std::string wrong;
  if (mode == ir::Mode::Eager) {
    const auto apart = op_by_op(*each, candidate);
    wrong = apart ? compare_bits(*outputs, *apart) : to_string(apart.error());
  } else {
    wrong = compare_with_reference(*each, *outputs);
    // Where a function is steep, the order of the product's sum matters, so the derived bound is
    // used.
    if (!wrong.empty()) wrong = compare_with_bounds(*each, *outputs, wrong);
  }
  return wrong.empty() ? wrong : to_string(candidate) + ": " + wrong;
}

std::string op_text(const ir::OpInfo& info) {
  switch (info.max_arity) {
    case 1:
      return fmt::format("{}(acc)", info.name);
    case 2:
      return fmt::format("{}(acc, full(y))", info.name);
    default:
      return fmt::format("{}(acc > 0, full(y), row(z))", info.name);
  }
}

TEST(Epilogues, EveryOpAloneInEveryMode) {
  struct Job {
    run::GemmForm form;
    ir::Mode mode;
    std::string failure;
  };
  std::vector<Job> jobs;
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (info.kind != ir::OpKind::Elementwise) continue;
    for (const DType dtype : {DType::BF16, DType::F16, DType::F32})
      for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager}) {
        run::GemmForm form;
        form.epilogue = op_text(info);
        if (info.rule == ir::TypeRule::Logic)
          form.epilogue =
              info.max_arity == 1
                  ? fmt::format("cast({}(acc > 0), {})", info.name, name(dtype))
                  : fmt::format("cast({}(acc > 0, full(y) > 0), {})", info.name, name(dtype));
        if (info.rule == ir::TypeRule::Compare)
          form.epilogue = fmt::format("cast({}, {})", form.epilogue, name(dtype));
        form.input = dtype == DType::F32 ? DType::BF16 : dtype;
        form.text.results = {dtype};
        form.text.product = dtype == DType::F32 ? DType::F32 : dtype;
        jobs.push_back({form, mode, {}});
      }
  }
  in_parallel(static_cast<int>(jobs.size()), [&](int i) {
    jobs[i].failure = check_epilogue(jobs[i].form, {33, 72, 64}, jobs[i].mode, 11 + i, true);
  });
  for (const Job& job : jobs)
    EXPECT_EQ("", job.failure) << job.form.epilogue << " " << name(job.mode) << " -> "
                               << name(job.form.text.results[0]);
}

// A random expression over every kind of epilogue input.
class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  std::string results() {
    std::string text = expression(3);
    if (pick(4) == 0) text += ", " + expression(2);
    // Every epilogue has an accumulator and no bare operand for a result.
    return text;
  }

  uint64_t pick(uint64_t below) { return random_() % below; }

 private:
  std::string leaf() {
    static constexpr const char* kLeaves[] = {"acc",
                                              "acc",
                                              "acc",
                                              "row(bias)",
                                              "row(gain: f32)",
                                              "col(token: f32)",
                                              "col(shift)",
                                              "full(res)",
                                              "full(other)",
                                              "full(wide: f32)",
                                              "scalar(alpha: f32)",
                                              "0.5",
                                              "2.0",
                                              "-1.25"};
    return kLeaves[pick(std::size(kLeaves))];
  }

  std::string expression(int depth) {
    static constexpr const char* kUnary[] = {
        "relu",       "silu",       "gelu",   "gelu_tanh", "tanh",     "sigmoid",
        "exp",        "abs",        "square", "hardswish", "softplus", "mish",
        "leaky_relu", "quick_gelu", "sign",   "floor",     "-"};
    static constexpr const char* kBinary[] = {" + ", " - ", " * ", " * ", " + "};
    static constexpr const char* kCalls[] = {"max", "min"};
    const std::string left = depth == 0 ? leaf() : "";
    if (depth == 0) return left;
    switch (pick(7)) {
      case 0:
      case 1:
        return fmt::format("{}(acc + {})", kUnary[pick(std::size(kUnary))], expression(depth - 1));
      case 2:
      case 3:
      case 4:
        return fmt::format("(acc{}{})", kBinary[pick(std::size(kBinary))], expression(depth - 1));
      case 5:
        return fmt::format("{}(acc, {})", kCalls[pick(2)], expression(depth - 1));
      default:
        return fmt::format("where(acc > {}, {}, acc)", leaf(), expression(depth - 1));
    }
  }

  std::mt19937_64 random_;
};

TEST(Epilogues, Random) {
  const uint64_t seed = setting("ATTACCA_SEED", 1);
  const auto count = static_cast<int>(setting("ATTACCA_EPILOGUES", 2000));
  fmt::print("seed {}, {} epilogues\n", seed, count);
  static constexpr Extents kShapes[] = {{1, 64, 64},    {17, 40, 32},   {129, 136, 72},
                                        {130, 257, 48}, {33, 7, 13},    {64, 264, 128},
                                        {5, 129, 31},   {200, 72, 200}, {48, 48, 8}};
  std::mutex mutex;
  std::atomic<int> failures = 0;
  in_parallel(count, [&](int i) {
    const uint64_t own = seed * 1000003 + static_cast<uint64_t>(i);
    Writer writer(own);
    run::GemmForm form;
    form.epilogue = writer.results();
    form.input = writer.pick(3) == 0 ? DType::F16 : DType::BF16;
    form.b_is_nk = writer.pick(3) != 0;
    form.text.product = form.input;
    form.text.results = {writer.pick(4) == 0 ? DType::F32 : form.input};
    const ir::Mode mode = writer.pick(2) == 0 ? ir::Mode::Eager : ir::Mode::Fp32;
    const Extents& extents = kShapes[writer.pick(std::size(kShapes))];
    const std::string wrong = check_epilogue(form, extents, mode, own, writer.pick(8) == 0);
    if (wrong.empty()) return;
    const std::lock_guard lock(mutex);
    if (++failures <= 20)
      ADD_FAILURE() << "epilogue " << i << " of seed " << seed << ": " << form.epilogue << " "
                    << name(form.input) << " -> " << name(form.text.results[0]) << " " << name(mode)
                    << " " << to_string(extents) << (form.b_is_nk ? " nk" : " kn") << "\n"
                    << wrong;
  });
  EXPECT_EQ(0, failures);
}

}  // namespace
}  // namespace attacca::testing
