#include <limits>

#include "fmt/format.h"

#include "text_testing.hpp"

namespace attacca::ir {
namespace {

// The graph survives, and printing it again gives the same text.
void expect_round_trip(const Graph& graph) {
  const std::string text = print_graph(graph);
  const Graph again = parsed(text);
  EXPECT_EQ(difference(graph, again), "") << text;
  EXPECT_EQ(print_graph(again), text);
}

// The same, where the text puts the nodes into another order.
void expect_equivalent_round_trip(const Graph& graph) {
  const std::string text = print_graph(graph);
  const Graph again = parsed(text);
  EXPECT_TRUE(equivalent(graph, again)) << text;
  EXPECT_EQ(print_graph(again), text);
  expect_round_trip(again);
}

TEST(TextPrint, TheLlamaMlpPrintsAsItIsWritten) {
  const std::string text =
      "graph llama_mlp(x: bf16[M, 4096], w_gate: bf16[11008, 4096], w_up: bf16[11008, 4096]) {\n"
      "  g = matmul(x, transpose(w_gate))\n"
      "  u = matmul(x, transpose(w_up))\n"
      "  return g / (1 + exp(-g)) * u\n"
      "}\n";
  EXPECT_EQ(print_graph(parsed("# one Llama MLP\n" + text)), text);
  expect_round_trip(parsed(text));
}

// Bodies that print exactly as written. Inputs: x, y: f32[M, 8]; h: bf16[4, 2*N]; q: s8[8];
// i: s64[3]; b: bool[8]; c: f32[].
constexpr std::string_view kInputs =
    "x: f32[M, 8], y: f32[M, 8], h: bf16[4, 2*N], q: s8[8], i: s64[3], b: bool[8], c: f32[]";
std::string graph_of(std::string_view body) {
  return fmt::format("graph g({}) {{\n  {}\n}}\n", kInputs, body);
}

class PrintsAsWritten : public testing::TestWithParam<const char*> {};
TEST_P(PrintsAsWritten, AndRoundTrips) {
  const std::string text = graph_of(GetParam());
  const Graph graph = parsed(text);
  EXPECT_EQ(print_graph(graph), text);
  expect_round_trip(graph);
}
INSTANTIATE_TEST_SUITE_P(
    Bodies, PrintsAsWritten,
    testing::Values(
        // Precedence and associativity.
        "return x + y * c", "return (x + y) * c", "return x - (y - c)", "return x - y - c",
        "return x / (y * c)", "return x / y * c", "return x * (y / c)", "return -x * y",
        "return -(x * y)", "return x - -y", "return --x", "return -x + y", "return (x < y) == b",
        "return x + y < c * 2", "return x <= y", "return x > y", "return x >= y", "return x != y",
        "return not(and(x < y, or(b, xor(b, true))))", "return (x + y)[:, ::2]",
        "return -x[:, ::2]", "return (-x)[:, ::2]", "return silu(x)[:, 1:]",
        // Numbers.
        "return x * 2", "return x * -2", "return 2 - x", "return x * 1e-05", "return 1e+300 * x",
        "return max(x, -inf)", "return x + nan", "return x * 0.1", "return -0 * x", "return q + 3",
        "return q * constant(0.5, bf16)", "return neg(2) + x", "return h + constant(1, f32)",
        "return constant(1, bf16) + 2", "return 1 + 2", "return where(b, q, 0)",
        "return where(b, 1, 2)", "return where(true, x, 0.5)",
        "return where(b, constant(1, s8), 2)", "return x == 1", "return b == true", "return b < 2",
        "return gather(x, 3)", "return gather(x, constant(3, s32), axis=1)", "return 1.5",
        "return true", "return constant(1, f64)", "return b == constant(1, f32)",
        "return q * constant(2, f32)", "return i + 9007199254740992", "return q - -128",
        // Attributes.
        "return clamp(x, max=7)", "return clamp(x, min=-7, max=7)", "return leaky_relu(x)",
        "return leaky_relu(x, alpha=0.2)", "return clamped_swiglu(x, y, limit=5)",
        "return add(x, y, compute=f64)", "return neg(x, compute=f64)",
        "return silu(h, alpha=1.702, compute=f32)", "return cast(x, s8)",
        "return cast(x, s8, saturate=true)", "return cast(x, f32)",
        "return cast(x, bf16, compute=f32)", "return transpose(x)", "return permute(x, [1, 0])",
        "return x[::3, :]", "return x[:floordiv(M, 2), :]", "return x[:min(M, 7), :]",
        "return x[:2*min(floordiv(M + 2, 3), 4) + 1, :]",
        "return broadcast(c, [max(M + -3, 0), 8])", "return reshape(x, [4, 2*M])",
        "return reshape(h, [8*N])", "return broadcast(c, [M, 8])", "return concat(x, y, axis=1)",
        "return concat(x, y)", "return concat(x)", "return gather(x, i, axis=1)", "return sum(x)",
        "return sum(x, axes=[1], keepdims=true)", "return mean(x, keepdims=true)",
        "return reduce_max(x, axes=[0])", "return amax(x)", "return sum(c)",
        "return matmul(x, transpose(y))", "return matmul(x, transpose(y), out=bf16)",
        "return matmul(cast(x, f8e4m3), cast(transpose(y), f8e5m2), fast=true)",
        "return matmul(cast(x, f8e4m3), cast(transpose(y), f8e4m3), out=bf16, fast=true)",
        // Slices.
        "return x[:, :]", "return x[:, 2:5]", "return x[:, :5]", "return x[:, 5:]",
        "return x[:, ::-1]", "return x[:, 6:2:-2]", "return x[:, 6::-2]", "return x[:, 0:0:-1]",
        "return x[:, 3:3]", "return h[:, :N]", "return h[:, N:]", "return h[:, ::2]",
        "return h[::3, 1::2]", "return x[:M + -1, :]", "return c[...]", "return x[::-1, :]",
        // Constants.
        "return x + constant(f32[8], [1, 2.5, -0, inf, nan, -inf, 1e-40, 3.4028235e+38])",
        "return constant(f32[2, 2], [1, 2, 3, 4])", "return constant(bool[2], [true, false])",
        "return constant(s64[2], [9223372036854775807, -9223372036854775808])",
        "return constant(f16[2], [65504, 5.9604645e-08])", "return constant(f32[0], [])",
        "return constant(f64[], [0.1])", "return constant(u8[2], [255, 0])",
        "return constant(f8e4m3[2], [448, -0])", "return constant(-9223372036854775808, s64)",
        // Names and results.
        "a = x + y\n  return a * a", "return x, y", "a = exp(x)\n  return a, a + 1, -a",
        "return first = x + y, second = x", "a = exp(x)\n  return b = a, a",
        "\"layer 1/w\" = exp(x)\n  return \"layer 1/w\"",
        "\"return\" = exp(x)\n  return \"return\"",
        "\"\\x01\\xff\\\"\\\\é\" = exp(x)\n  return c = \"\\x01\\xff\\\"\\\\é\"",
        "unused = exp(x)\n  return x", "two = 2\n  return x * two",
        "return two = 2, y = -inf, b = true", "two = 2\n  return two, four = two", "return inf, x",
        "return \"f32\" = x + y"));

// Text and how it prints.
struct Canonical {
  const char* written;
  const char* printed;
};
class PrintsCanonically : public testing::TestWithParam<Canonical> {};
TEST_P(PrintsCanonically, AndRoundTrips) {
  const Graph graph = parsed(graph_of(GetParam().written));
  EXPECT_EQ(print_graph(graph), graph_of(GetParam().printed));
  expect_equivalent_round_trip(graph);
}
INSTANTIATE_TEST_SUITE_P(
    Bodies, PrintsCanonically,
    testing::Values(
        Canonical{"return ((x)) + (y * c)", "return x + y * c"},
        Canonical{"return x * 1.0", "return x * 1"},
        Canonical{"return x * 1e-5", "return x * 1e-05"},
        Canonical{"return q * 1.0", "return q * constant(1, f32)"},
        Canonical{"return b + 1", "return b + 1"}, Canonical{"return add(x, y)", "return x + y"},
        Canonical{"return neg(x)", "return -x"}, Canonical{"return -2", "return -2"},
        Canonical{"return -(2) * x", "return -2 * x"},
        Canonical{"return x @ transpose(y)", "return matmul(x, transpose(y))"},
        Canonical{"return matmul(x, transpose(y), out=f32)", "return matmul(x, transpose(y))"},
        Canonical{"return clamp(x, min=-inf, max=7.0)", "return clamp(x, max=7)"},
        Canonical{"return sum(x, axes=[-1])", "return sum(x, axes=[1])"},
        Canonical{"return sum(x, axes=[1, 0])", "return sum(x)"},
        Canonical{"return permute(x, axes=[-1, 0])", "return permute(x, [1, 0])"},
        Canonical{"return concat(x, y, axis=-1)", "return concat(x, y, axis=1)"},
        Canonical{"return reshape(x, [-1, 2])", "return reshape(x, [4*M, 2])"},
        Canonical{"return cast(x, dtype=f16)", "return cast(x, f16)"},
        Canonical{"return x[:, -3:-1]", "return x[:, 5:7]"},
        Canonical{"return x[:, -100:100]", "return x[:, :]"},
        Canonical{"return x[:, 5:2]", "return x[:, 5:5]"},
        Canonical{"return x[:, 2:5:-1]", "return x[:, 0:0:-1]"},
        Canonical{"return x[:, 100::-1]", "return x[:, ::-1]"},
        Canonical{"return x[..., ::2]", "return x[:, ::2]"},
        Canonical{"return x[...]", "return x[:, :]"},
        Canonical{"return x[:-1]", "return x[:M + -1, :]"},
        Canonical{"return h[:, 0:N]", "return h[:, :N]"},
        Canonical{"a = x; b2 = a\n return a + b2", "return x + x"},
        Canonical{"a, b2 = split(h, 2)\n return a * b2",
                  "a = h[:, :N]\n  b2 = h[:, N:]\n  return a * b2"},
        Canonical{"a, b2 = split(x, [3, 5], axis=1)\n return a, b2",
                  "a = x[:, :3]\n  b2 = x[:, 3:]\n  return a, b2"},
        Canonical{"a = exp(x) # why\n return a ; ", "a = exp(x)\n  return a"},
        Canonical{"return softmax(x)",
                  "t0 = exp(x - reduce_max(x, axes=[1], keepdims=true))\n"
                  "  return t0 / sum(t0, axes=[1], keepdims=true)"},
        Canonical{"return rmsnorm(x, eps=1e-6)",
                  "return x * rsqrt(mean(x * x, axes=[1], keepdims=true) + 1e-06)"},
        Canonical{"return quantize(x, 0.5, 3, dtype=u8)",
                  "return cast(round(x / 0.5) + cast(constant(3, u8), f32), u8, saturate=true)"},
        Canonical{"return dequantize(q, 0.5)", "return cast(q, f32) * 0.5"},
        Canonical{"return kernel(\"k.ptx\", x, f32[M], f32(-0.50), entry=\"f\", block=[8, 1], "
                  "grid=[2*ceildiv(M,8)*ceildiv(8, M), M*4 + 1], shared=0, zeroed=false)",
                  "return kernel(\"k.ptx\", x, f32[M], f32(-0.5), entry=f, "
                  "grid=[2 * ceildiv(M, 8) * ceildiv(8, M), 4*M + 1], block=[8, 1])"},
        Canonical{"return kernel(\"k.ptx\", exp(x), constant(2, f32), s64[], s32(-M + 1), "
                  "grid=[(M + 1)*ceildiv(M, 2)], block=[1])",
                  "return kernel(\"k.ptx\", exp(x), constant(2, f32), s64[], s32(-1*M + 1), "
                  "grid=[(M + 1) * ceildiv(M, 2)], block=[1])"}));

// Every op of the table, with every attribute off its default.
Attrs attributes_of(const OpInfo& info) {
  switch (info.attributes) {
    case Attributes::Permute:
      return PermuteAttrs{{1, 0}};
    case Attributes::Shape:
      if (info.op == Op::Arange) return ShapeAttrs{{2, 6}};
      if (info.op == Op::GroupIds) return ShapeAttrs{{Dim::symbol("M")}};
      return ShapeAttrs{{1, Dim::symbol("M"), 4}};
    case Attributes::Slice:
      return SliceAttrs{{{0, Dim::symbol("M"), 1}, {1, 3, 1}}};
    case Attributes::Axis:
      return AxisAttrs{1};
    case Attributes::Cast:
      return CastAttrs{DType::S8, true};
    case Attributes::Kernel:
      return KernelAttrs{
          {.file = "my kernels.cu",
           .entry = "my::gemm<float, 16>",
           .arguments = {TensorArgument{}, OutputArgument{}, ScalarArgument{DType::F32, 0.5},
                         ScalarArgument{DType::S32, LaunchSize{-1}}},
           .grid = {{2, {{Dim::symbol("M"), 64}}}, {4}},
           .block = {32, 8},
           .shared = 1024,
           .zeroed = true,
           .options = {"-DTILE=64"}},
          DType::BF16,
          {Dim::symbol("M"), 4}};
    case Attributes::Unpack:
      return UnpackAttrs{{DType::S8, 4, 64, DType::F16, true}, {40, 128}, DType::BF16};
    case Attributes::Blocks:
      return BlocksAttrs{{1, 3}};
    case Attributes::Decode:
      return DecodeAttrs{8, 77, DType::F16};
    case Attributes::Reduction:
      return ReductionAttrs{{1}, true};
    case Attributes::Elementwise: {
      ElementwiseAttrs attrs;
      for (const Param& param : info.params) attrs.params.push_back(param.default_value + 0.125);
      if (info.rule == TypeRule::Any || info.rule == TypeRule::Float) attrs.compute = DType::F32;
      return attrs;
    }
    case Attributes::MatMul:
      return MatMulAttrs{DType::F64};
    case Attributes::None:
      break;
  }
  return {};
}

std::vector<Type> operand_types(const OpInfo& info) {
  const Dim m = Dim::symbol("M");
  const Type f16{DType::F16, {m, 4}}, boolean{DType::Bool, {m, 4}};
  if (info.op == Op::MatMul) return {f16, {DType::F16, {4, m}}};
  if (info.op == Op::GroupedMatMul) return {f16, {DType::F16, {3, 4, m}}, {DType::S32, {3}}};
  if (info.op == Op::GroupIds) return {{DType::S32, {m}}};
  if (info.op == Op::Gather) return {f16, {DType::S64, {3}}};
  if (info.op == Op::MxFp4) return {{DType::U8, {m, 32}}, {DType::U8, {m, 2}}};
  if (info.op == Op::Decode) return {{DType::U8, {m, 32}}, {DType::BF16, {m, 2}}};
  if (info.op == Op::Scatter || info.op == Op::ScatterAdd)
    return {f16, {DType::S64, {3}}, {DType::F16, {3, 4}}};
  if (info.op == Op::Unpack) return {{DType::U8, {4864}}};
  if (info.op == Op::ScaleBlocks) return {f16, {DType::BF16, {m, 2}}};
  if (info.op == Op::Where) return {boolean, f16, f16};
  if (info.op == Op::Kernel) return {f16};
  return std::vector<Type>(static_cast<size_t>(info.min_arity),
                           info.rule == TypeRule::Logic ? boolean : f16);
}

TEST(TextPrint, EveryOpOfTheTableRoundTrips) {
  for (const OpInfo& info : all_ops()) {
    if (info.op == Op::Input || info.op == Op::Constant) continue;
    SCOPED_TRACE(info.name);
    for (const bool defaults : {true, false}) {
      Graph graph;
      std::vector<Value> operands;
      for (const Type& type : operand_types(info))
        operands.push_back(*graph.input(fmt::format("x{}", operands.size()), type));
      Attrs attrs = attributes_of(info);
      if (defaults &&
          (info.attributes == Attributes::Elementwise || info.attributes == Attributes::MatMul))
        attrs = {};
      const auto value = graph.add(info.op, operands, attrs);
      ASSERT_TRUE(value) << to_string(value.error());
      graph.add_output(*value);
      expect_round_trip(graph);
    }
  }
}

TEST(TextPrint, InputTypesRoundTrip) {
  for (const char* type :
       {"f32[]", "bf16[M, 4096]", "f64[0]", "bf16[M, 4096; 8192, 1]", "s8[2*M + 1, B*S]",
        "f16[B*B*S]", "bool[-1*M + 4]", "f8e5m2[1, 1; 0, 0]", "u8[M; -1]"}) {
    const std::string text = fmt::format("graph g(x: {}) {{\n  return x\n}}\n", type);
    EXPECT_EQ(print_graph(parsed(text)), text);
  }
}

TEST(TextPrint, SharedUnnamedNodesGetFreshNames) {
  Graph graph;
  const Value t0 = *graph.input("t0", {DType::F32, {8}});
  const Value a = *graph.add(Op::Exp, {t0});
  const Value b = *graph.add(Op::Mul, {a, a});
  const Value c = *graph.add(Op::Add, {b, b});
  graph.add_output(c);
  graph.add_output(a);
  graph.add_output(b, "product");
  EXPECT_EQ(print_graph(graph),
            "graph main(t0: f32[8]) {\n"
            "  out1 = exp(t0)\n"
            "  product = out1 * out1\n"
            "  return product + product, out1, product\n"
            "}\n");
  expect_equivalent_round_trip(graph);
  graph.add_output(*graph.add(Op::Neg, {*graph.add(Op::Add, {t0, t0})}), "t1");
  const Value d = *graph.add(Op::Log, {t0});
  graph.add_output(*graph.add(Op::Mul, {d, d}), "y");
  EXPECT_NE(print_graph(graph).find("  t1 = log(t0)\n"), std::string::npos) << print_graph(graph);
  expect_equivalent_round_trip(graph);
}

TEST(TextPrint, DeepAndWideGraphsRoundTrip) {
  Graph graph;
  const Value x = *graph.input("x", {DType::F32, {8}});
  Value deep = x, wide = x;
  for (int i = 0; i < 3000; ++i) deep = *graph.add(i % 3 ? Op::Tanh : Op::Neg, {deep});
  for (int i = 0; i < 3000; ++i) wide = *graph.add(Op::Add, {wide, x});
  graph.add_output(deep);
  graph.add_output(wide);
  const std::string text = print_graph(graph);
  const Graph again = parsed(text);
  EXPECT_EQ(again.size(), graph.size());
  EXPECT_EQ(print_graph(again), text);
}

TEST(TextPrint, LongConstantsCanBeCut) {
  const Graph graph = parsed(graph_of("return x + constant(f32[8], [1, 2, 3, 4, 5, 6, 7, 8])"));
  EXPECT_NE(print_graph(graph, {.max_constant_elements = 7}).find("x + constant(f32[8], ...)"),
            std::string::npos);
  EXPECT_EQ(print_graph(graph, {.max_constant_elements = 8}), print_graph(graph));
}

std::string reprinted(std::string_view expression) {
  const auto graph = parse_expression(expression);
  return graph ? print_expression(*graph, graph->outputs()[0].value) : to_string(graph.error());
}

TEST(TextPrint, Expressions) {
  for (const char* text :
       {"silu(x + bias)", "x / (1 + exp(-x))", "x", "2", "x * x", "(x + 1) * (x + 1)",
        "x * 0.5 * (1 + tanh(x / 2))", "x + constant(1, f64)", "where(x > 0, x, 0)"})
    EXPECT_EQ(reprinted(text), text);
}

TEST(TextPrint, ExpressionsStopAtNamesOrGoThroughThem) {
  const Graph graph = parsed(graph_of("a = x + y\n s = silu(a)\n return s * s"));
  const Value output = graph.outputs()[0].value;
  EXPECT_EQ(print_expression(graph, output), "s * s");
  EXPECT_EQ(print_expression(graph, output, true), "silu(x + y) * silu(x + y)");
  EXPECT_EQ(print_expression(graph, *graph.find("s")), "silu(a)");
  EXPECT_EQ(print_expression(graph, *graph.find("x")), "x");
}

TEST(TextPrint, AnExponentiallyLongExpressionIsCut) {
  Graph graph;
  Value x = *graph.input("x", {DType::F32, {8}});
  for (int i = 0; i < 100; ++i) x = *graph.add(Op::Add, {x, x});
  const std::string text = print_expression(graph, x);
  EXPECT_LT(text.size(), 100000u);
  EXPECT_NE(text.find("..."), std::string::npos);
}

}  // namespace
}  // namespace attacca::ir
