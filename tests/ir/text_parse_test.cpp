// What texts mean: types of numbers and results, slices, symbolic shapes, names, size.
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>

#include "fmt/format.h"

#include "text_testing.hpp"

namespace attacca::ir {
namespace {

// The type of an expression over x: f32[M, 8], h: bf16[4, 2*N], d: f64[8], q: s8[8], u: u8[8],
// i: s64[3], b: bool[8], c: f32[].
Graph graph_of(std::string_view expression) {
  return parsed(
      fmt::format("graph g(x: f32[M, 8], h: bf16[4, 2*N], d: f64[8], q: s8[8], u: u8[8], i: s64[3],"
                  " b: bool[8], c: f32[]) {{ return {} }}",
                  expression));
}
std::string type_of(std::string_view expression) {
  const Graph graph = graph_of(expression);
  return graph.outputs().empty() ? "" : to_string(graph.type(graph.outputs()[0].value));
}

struct Typed {
  const char* expression;
  const char* type;
};
void PrintTo(const Typed& typed, std::ostream* out) {
  *out << typed.expression;
}
class Types : public testing::TestWithParam<Typed> {};
TEST_P(Types, AreInferred) {
  EXPECT_EQ(type_of(GetParam().expression), GetParam().type);
}
INSTANTIATE_TEST_SUITE_P(
    Expressions, Types,
    testing::Values(
        // A number takes its neighbour's dtype, unless its kind is wider.
        Typed{"h * 2", "bf16[4, 2*N]"}, Typed{"h * 0.1", "bf16[4, 2*N]"}, Typed{"2 - d", "f64[8]"},
        Typed{"q + 1", "s8[8]"}, Typed{"q * 0.5", "f32[8]"}, Typed{"q * 1.0", "f32[8]"},
        Typed{"q * inf", "f32[8]"}, Typed{"where(b, q, 0)", "s8[8]"},
        Typed{"where(b, 0.5, h[0:1, 0:8])", "bf16[1, 8]"}, Typed{"where(b, 1, 0)", "f32[8]"},
        Typed{"where(b, true, b)", "bool[8]"}, Typed{"max(0, h)", "bf16[4, 2*N]"},
        Typed{"1.5", "f32[]"}, Typed{"1", "f32[]"}, Typed{"true", "bool[]"},
        Typed{"1 + 2 * 3", "f32[]"}, Typed{"constant(1, bf16) + 1", "bf16[]"},
        Typed{"b + 1", "s64[8]"}, Typed{"gather(x, 0)", "f32[8]"},
        Typed{"gather(x, i, axis=-1)", "f32[M, 3]"},
        // Mixed operands are promoted.
        Typed{"x + q", "f32[M, 8]"}, Typed{"x + d", "f64[M, 8]"}, Typed{"q + u", "s32[8]"},
        Typed{"cast(x, f16) + cast(x, bf16)", "f32[M, 8]"}, Typed{"x < 0", "bool[M, 8]"},
        Typed{"not(b) == true", "bool[8]"},
        // Shapes.
        Typed{"matmul(x, transpose(x))", "f32[M, M]"}, Typed{"transpose(x) @ x", "f32[8, 8]"},
        Typed{"matmul(h, transpose(h), out=f32)", "f32[4, 4]"},
        Typed{"reshape(x, [-1])", "f32[8*M]"}, Typed{"reshape(h, [2, -1, 2])", "bf16[2, 2*N, 2]"},
        Typed{"broadcast(c, [M*N, M + 1])", "f32[M*N, M + 1]"},
        Typed{"permute(x, [1, 0])", "f32[8, M]"}, Typed{"concat(x, x, x)", "f32[3*M, 8]"},
        Typed{"concat(x, x, axis=-1)", "f32[M, 16]"}, Typed{"sum(x)", "f32[]"},
        Typed{"mean(x, axes=[-1])", "f32[M]"}, Typed{"amax(x, keepdims=true)", "f32[1, 1]"},
        Typed{"softmax(h)", "bf16[4, 2*N]"}, Typed{"rmsnorm(h, eps=1e-5)", "bf16[4, 2*N]"},
        // Slices.
        Typed{"h[:, ::2]", "bf16[4, N]"}, Typed{"h[..., 1::2]", "bf16[4, N]"},
        Typed{"h[:, N:]", "bf16[4, N]"}, Typed{"x[1:, :-1]", "f32[M + -1, 7]"},
        Typed{"x[:, 1:7:2]", "f32[M, 3]"}, Typed{"x[:, 1:8:2]", "f32[M, 4]"},
        Typed{"x[:, ::-1]", "f32[M, 8]"}, Typed{"x[:, -2::-3]", "f32[M, 3]"},
        Typed{"x[:, 5:5]", "f32[M, 0]"}, Typed{"x[::-1]", "f32[M, 8]"}, Typed{"c[...]", "f32[]"},
        Typed{"i[-2:]", "s64[2]"}));

double literal_in(std::string_view expression) {
  const Graph graph = graph_of(expression);
  for (const Node& node : graph.nodes())
    if (node.literal) return node.literal->value;
  return std::nan("");
}

TEST(TextParse, NumbersKeepTheirFullPrecision) {
  EXPECT_EQ(literal_in("h * 0.1"), 0.1);
  EXPECT_EQ(literal_in("h * 1e-5"), 1e-5);
  EXPECT_EQ(literal_in("x * .5"), 0.5);
  EXPECT_EQ(literal_in("x * 5."), 5.0);
  EXPECT_EQ(literal_in("x * -inf"), -INFINITY);
  EXPECT_EQ(literal_in("i + 9223372036854774784"), 9223372036854774784.0);
  EXPECT_TRUE(std::signbit(literal_in("x * -0")));
}

TEST(TextParse, ConstantsRoundToTheirDtype) {
  const Graph graph = graph_of("constant(bf16[2, 2], [0.1, -0.0, inf, nan])");
  const Tensor& tensor = *graph[graph.outputs()[0].value].tensor;
  EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tensor.number_at(0), 0.10009765625);
  EXPECT_TRUE(std::signbit(tensor.number_at(1)));
  EXPECT_EQ(tensor.number_at(2), INFINITY);
  EXPECT_TRUE(std::isnan(tensor.number_at(3)));
  EXPECT_EQ(literal_in("x * constant(0.1, bf16)"), 0.1);  // a number, which is not rounded
}

TEST(TextParse, PrecedenceFollowsArithmetic) {
  const auto shape = [](std::string_view text) {
    const auto graph = parse_expression(text);
    return graph ? print_expression(*graph, graph->outputs()[0].value) : graph.error().what;
  };
  EXPECT_EQ(shape("a + b * c - d / e"), shape("(a + (b * c)) - (d / e)"));
  EXPECT_EQ(shape("-a * b < c + d"), shape("((-a) * b) < (c + d)"));
  EXPECT_EQ(shape("a - b - c"), shape("(a - b) - c"));
  EXPECT_NE(shape("a - b - c"), shape("a - (b - c)"));
  EXPECT_EQ(shape("a / b * c"), shape("(a / b) * c"));
  EXPECT_EQ(shape("-a[::-1]"), shape("-(a[::-1])"));
}

TEST(TextParse, FreeNamesOfAnExpressionBecomeInputsInOrder) {
  const auto graph = parse_expression("silu(b) * a + exp(b) + 1", {DType::F16, {4, 8}});
  ASSERT_TRUE(graph);
  ASSERT_EQ(graph->inputs().size(), 2u);
  EXPECT_EQ(graph->nodes()[0].name, "b");
  EXPECT_EQ(graph->nodes()[1].name, "a");
  EXPECT_EQ(to_string(graph->nodes()[1].type), "f16[4, 8]");
  EXPECT_EQ(graph->outputs()[0].name, "out0");
  EXPECT_EQ(to_string(parse_expression("x")->type(Value{0})), "f32[N]");
}

TEST(TextParse, OutputsAreNamedAfterWhatTheyReturn) {
  const Graph graph = parsed(
      "graph g(x: f32[8]) {\n a = exp(x)\n alias = a\n"
      " return a, alias, x + a, y = a * a, x }");
  std::vector<std::string> names;
  for (const Output& output : graph.outputs()) names.push_back(output.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "alias", "out2", "y", "x"}));
  EXPECT_EQ(graph.outputs()[0].value, graph.outputs()[1].value);
}

TEST(TextParse, LayoutIsFree) {
  const Graph plain = parsed("graph g(x: f32[8]) {\n  a = exp(x)\n  return a * 2\n}\n");
  for (const char* text :
       {"graph g(x:f32[8]){a=exp(x);return a*2}", "graph g(x: f32[8],) { a = exp(x,);return a*2; }",
        "\xEF\xBB\xBFgraph g(x: f32[8]) {\r\n\ta = # one\r\n exp(\nx\n)\r\nreturn a\n* 2\n}# end",
        "graph g (x : f32 [8]) { \"a\" = exp (x)\n return \"a\" * 2 }"})
    EXPECT_EQ(difference(plain, parsed(text)), "") << text;
}

TEST(TextParse, TheExamplesOfTheDocumentationParse) {
  std::ifstream file(ATTACCA_SOURCE_DIR "/docs/text-format.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string open = "```graph\n";
  int examples = 0;
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at + 1)) {
    const size_t begin = at + open.size();
    const Graph graph = parsed(text.substr(begin, text.find("```", begin) - begin));
    EXPECT_EQ(print_graph(parsed(print_graph(graph))), print_graph(graph));
    ++examples;
  }
  EXPECT_EQ(examples, 6);
}

TEST(TextParse, AGraphOfTenThousandNodesParsesAtOnce) {
  std::string text = "graph g(x: f32[M, 64], y: f32[M, 64]) {\n  v0 = x\n";
  constexpr int kStatements = 3400;  // of three nodes
  for (int i = 0; i < kStatements; ++i)
    text += fmt::format("  v{} = silu(v{} + y) * 0.5\n", i + 1, i);
  text += fmt::format("  return v{}\n}}\n", kStatements);
  const auto start = std::chrono::steady_clock::now();
  const Graph graph = parsed(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_GT(graph.size(), 10000u);
  // Takes about 15 ms; the bound leaves room for sanitizers and busy machines.
  EXPECT_LT(seconds.count(), 1.0);
  EXPECT_EQ(difference(graph, parsed(print_graph(graph))), "");
}

}  // namespace
}  // namespace attacca::ir
