// Chunk programs against the interpreter: every elementwise op, casts, roles and strides.
#include <bit>
#include <cmath>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "ir/text/text.hpp"
#include "run/cpu/epilogue_runner.hpp"
#include "targets.hpp"

namespace attacca::run {
namespace {

using epilogue::Epilogue;
using ir::DType;

// The epilogue of a graph of elementwise ops and casts over one shape [rows, columns].
Epilogue pointwise(const ir::Graph& graph) {
  Epilogue result;
  result.domain = graph.type(graph.inputs()[0]).shape;
  std::vector<int> index(graph.size(), -1);
  for (const ir::Value input : graph.inputs()) {
    const ir::Type& type = graph.type(input);
    epilogue::Input operand;
    operand.dtype = type.dtype;
    operand.source = input;
    operand.access.strides = ir::contiguous_strides(type.shape);
    index[input.id] = static_cast<int>(result.inputs.size());
    result.inputs.push_back(operand);
  }
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    if (node.op == ir::Op::Input) continue;
    epilogue::Node step;
    step.op = node.op;
    step.params = node.params();
    for (const ir::Value operand : node.operands) step.operands.push_back(index[operand.id]);
    if (node.literal) step.literal = node.literal->value;
    step.dtype = node.type.dtype;
    step.compute = node.compute();
    step.saturate = node.saturates();
    index[id] = static_cast<int>(result.inputs.size() + result.nodes.size());
    result.nodes.push_back(step);
  }
  for (const ir::Output& output : graph.outputs()) {
    epilogue::Output store;
    store.value = index[output.value.id];
    store.dtype = graph.type(output.value).dtype;
    store.access.strides = ir::contiguous_strides(result.domain);
    result.outputs.push_back(store);
  }
  return result;
}

std::vector<int64_t> static_strides(const epilogue::Access& access) {
  std::vector<int64_t> strides;
  for (const ir::Dim& stride : access.strides) strides.push_back(stride.value());
  return strides;
}

std::vector<ir::Tensor> run_pointwise(const ir::Graph& graph, const ir::Bindings& inputs,
                                      ir::Mode mode) {
  const Epilogue epilogue = pointwise(graph);
  const ChunkProgram program = compile_chunk_program(epilogue, mode);
  std::vector<int64_t> domain;
  for (const ir::Dim& dim : epilogue.domain) domain.push_back(dim.value());
  std::vector<BoundAccess> in, out;
  for (const epilogue::Input& input : epilogue.inputs) {
    const ir::Tensor& tensor = inputs.at(graph[input.source].name);
    in.push_back({const_cast<std::byte*>(tensor.data()), static_strides(input.access)});
  }
  std::vector<ir::Tensor> results;
  for (const epilogue::Output& output : epilogue.outputs) {
    results.push_back(*ir::Tensor::make(output.dtype, domain));
    out.push_back({results.back().data(), static_strides(output.access)});
  }
  const BoundEpilogue bound(epilogue, program, domain, in, out);
  ChunkScratch scratch;
  for (int64_t batch = 0; batch < bound.batches(); ++batch) {
    const size_t rank = bound.domain().size();
    bound.run({batch, 0, bound.domain()[rank - 2], 0, bound.domain()[rank - 1]}, {}, scratch);
  }
  return results;
}

constexpr double kSpecials[] = {0.0,     -0.0,    1.0,   -1.0,  0.5,      -0.5,     2.0,   3.0,
                                -3.0,    6.0,     7.0,   -7.0,  1e-3,     -1e-3,    100.0, -100.0,
                                1e30,    -1e30,   1e-30, 1e-42, -1e-42,   88.8,     -88.8, 448.0,
                                57344.0, 65504.0, 1e5,   NAN,   INFINITY, -INFINITY};

ir::Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937& random) {
  ir::Tensor tensor = *ir::Tensor::make(dtype, std::move(shape));
  std::normal_distribution<double> normal(0, 3);
  std::uniform_int_distribution<int> whole(-140, 300);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const bool special = random() % 4 == 0;
    if (!ir::is_float(dtype))
      tensor.set_integer(i,
                         ir::to_integer(dtype, int64_t{special ? int(random()) : whole(random)}));
    else
      tensor.set_number(i, special ? kSpecials[random() % std::size(kSpecials)] : normal(random));
  }
  return tensor;
}

bool equal(double a, double b) {
  return (a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b));
}

// The distance between neighbours of a dtype near x.
double spacing(DType dtype, double x) {
  int fraction = 23, smallest = -149;
  if (dtype == DType::BF16) fraction = 7, smallest = -133;
  if (dtype == DType::F16) fraction = 10, smallest = -24;
  if (dtype == DType::F8E4M3) fraction = 3, smallest = -9;
  if (dtype == DType::F8E5M2) fraction = 2, smallest = -16;
  return std::max(std::ldexp(std::fabs(x), -fraction), std::ldexp(1.0, smallest));
}

// Within 1e-5, far below any f32 chain's own error, and within one rounding of a narrow dtype.
bool close(double got, double want, DType dtype) {
  if (got == want || equal(got, want)) return true;
  const double error = std::fabs(got - want);
  const bool near = error <= std::fabs(want) * 1e-5 || error <= 1e-35;
  return near || (ir::size_of(dtype) < 4 && error <= spacing(dtype, want));
}

// Runs both modes on random inputs: eager must agree to the bit.
void check(const std::string& text) {
  SCOPED_TRACE(text);
  const auto graph = ir::parse_graph(text);
  ASSERT_TRUE(graph) << to_string(graph.error());
  std::mt19937 random(7);
  ir::Bindings inputs;
  for (const ir::Value input : graph->inputs()) {
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : graph->type(input).shape) shape.push_back(dim.value());
    inputs[(*graph)[input].name] = random_tensor(graph->type(input).dtype, shape, random);
  }
  for (const ir::Mode mode : {ir::Mode::Eager, ir::Mode::Fp32}) {
    const bool eager = mode == ir::Mode::Eager;
    const auto want = ir::interpret(
        *graph, inputs,
        {.precision = eager ? ir::Precision::Eager : ir::Precision::Fp32, .accumulators = {}});
    ASSERT_TRUE(want) << to_string(want.error());
    const std::vector<ir::Tensor> got = run_pointwise(*graph, inputs, mode);
    for (size_t k = 0; k < got.size(); ++k)
      for (int64_t i = 0; i < got[k].size(); ++i) {
        const double g = got[k].number_at(i), w = (*want)[k].number_at(i);
        const bool exact = eager || !ir::is_float(got[k].dtype());
        std::string operands;
        for (const auto& [name, tensor] : inputs)
          operands += fmt::format(" {}={}", name, tensor.number_at(i));
        ASSERT_TRUE(exact ? equal(g, w) : close(g, w, got[k].dtype()))
            << name(mode) << " output " << k << " element " << i << " got " << g << " want " << w
            << operands;
      }
  }
}

std::string call(const ir::OpInfo& op, DType dtype) {
  const auto input = [&](const char* name, bool logic) {
    return fmt::format("{}: {}[3, 1101]", name, logic ? "bool" : ir::name(dtype));
  };
  const bool logic = op.rule == ir::TypeRule::Logic;
  const bool where = op.rule == ir::TypeRule::Where;
  std::vector<std::string> inputs{input("x", logic || where)};
  std::string arguments = "x";
  if (op.min_arity > 1) inputs.push_back(input("y", logic)), arguments += ", y";
  if (op.min_arity > 2) inputs.push_back(input("z", logic)), arguments += ", z";
  return fmt::format("graph g({}) {{ return {}({}) }}", fmt::join(inputs, ", "), op.name,
                     arguments);
}

class ElementwiseOp : public testing::TestWithParam<ir::Op> {};

TEST_P(ElementwiseOp, FollowsTheInterpreter) {
  const ir::OpInfo& op = ir::info(GetParam());
  for (const DType dtype :
       {DType::F32, DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F64})
    check(call(op, dtype));
  if (op.rule == ir::TypeRule::Float) return;
  for (const DType dtype : {DType::S8, DType::U8, DType::S32, DType::S64}) check(call(op, dtype));
}

std::vector<ir::Op> elementwise_ops() {
  std::vector<ir::Op> ops;
  for (const ir::OpInfo& op : ir::all_ops())
    if (op.kind == ir::OpKind::Elementwise) ops.push_back(op.op);
  return ops;
}
INSTANTIATE_TEST_SUITE_P(All, ElementwiseOp, testing::ValuesIn(elementwise_ops()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(ChunkProgram, CastsBetweenAllDTypes) {
  constexpr DType kAll[] = {
#define X(name, text, bits, cls) DType::name,
      ATTACCA_DTYPES(X)
#undef X
  };
  for (const DType from : kAll)
    for (const DType to : kAll)
      for (const char* saturate : {"", ", saturate=true"})
        check(fmt::format("graph g(x: {}[2, 300]) {{ return cast(x, {}{}) }}", name(from), name(to),
                          saturate));
}

TEST(ChunkProgram, CastsThatAreStoredNarrow) {
  check(
      "graph g(x: f32[2, 300]) { y = cast(x, bf16, compute=f32); return cast(y, f32), y, y + y }");
  check("graph g(x: f64[2, 300]) { return cast(cast(x, f16, compute=f32), f32) }");
  check("graph g(x: bf16[2, 300]) { return silu(cast(x * 1.3, f16, compute=f32)) }");
  check(
      "graph g(x: f32[2, 300], b: bf16[2, 300]) { return cast(gelu(cast(cast(x + b, bf16, "
      "compute=f32), f32)), bf16) }");
}

TEST(ChunkProgram, MixesDTypes) {
  check("graph g(x: f32[2, 40], n: s32[2, 40]) { return x * n + 0.1 }");
  check("graph g(x: bf16[2, 40], n: u8[2, 40]) { return where(x < n, x, n), x == n }");
  check("graph g(x: f64[2, 40], n: f32[2, 40]) { return x * n + 0.1, max(n, 0.1) }");
  check("graph g(x: s64[2, 40], n: s8[2, 40]) { return x * n - 3, x < n, cast(x, f32) / 3 }");
}

TEST(ChunkProgram, HonoursLiteralsAndDeclaredComputeTypes) {
  check("graph g(x: bf16[2, 600]) { return x * 0.1 + 0.7, exp(x) - 0.3 }");
  check("graph g(x: f32[2, 600]) { return mul(x, 0.3, compute=bf16) + x, exp(x, compute=f16) }");
}

TEST(ChunkProgram, GivesSeveralOutputsAndReusesValues) {
  check(
      "graph g(x: f32[5, 1030], y: bf16[5, 1030]) { a = x + y; b = a * a; return a, b / y, "
      "silu(b), "
      "x, again = a }");
  check("graph g(x: f16[4, 513]) { a = x * 2; b = cast(a, s8, saturate=true); return a, b, -b }");
}

TEST(ChunkProgram, QuantisesAndDequantises) {
  for_each_target([] {
    for (const char* dtype : {"u8", "s8"})
      check(fmt::format(
          "graph g(x: f32[3, 1101]) {{ q = cast(round(x / 0.037) + 3, {0}, saturate=true); "
          "y = (cast(q, f32) - 3) * 0.037; z = cast(round(y / 0.5), {0}, saturate=true); "
          "return exp(y), 0.5 * cast(z, f32) }}",
          dtype));
  });
  // Read twice, wrapped, stored, not in f32: computed as written.
  check(
      "graph g(x: f32[3, 1101]) { r = round(x / 0.5); return r, cast(r + 1, u8, saturate=true), "
      "cast(round(x / 3) + 1, u8) }");
  check(
      "graph g(x: bf16[3, 1101]) { q = cast(round(x / 0.5) + 2, s8, saturate=true); return q, "
      "(cast(q, bf16) - 2) * 0.5, (cast(q, f32) - 2) * 0.5 }");
}

TEST(ChunkProgram, AgreesOnEveryInstructionSet) {
  for_each_target([] {
    check("graph g(x: bf16[3, 1101], y: f32[3, 1101]) { return silu(x), y * gelu(y), relu(x) }");
    check(
        "graph g(x: f16[3, 1101], n: s32[3, 1101]) { return clamp(x, min=-1, max=2) < n, sqrt(x) / "
        "3 "
        "}");
  });
}

}  // namespace
}  // namespace attacca::run
