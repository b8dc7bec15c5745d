// Every error of the text form: what, where, fix.
#include "fmt/format.h"

#include "text_testing.hpp"

namespace attacca::ir {
namespace {

struct Case {
  std::string text;
  const char* where;  // line:column
  const char* what;
  const char* fix;
};

// A body in a graph of x: f32[M, 8], q: s8[8] and b: bool[8]; the body begins at 2:1.
Case in_graph(const char* body, const char* where, const char* what, const char* fix) {
  return {fmt::format("graph g(x: f32[M, 8], q: s8[8], b: bool[8]) {{\n{}\n}}", body), where, what,
          fix};
}
// A type in a graph's head; it begins at 1:12.
Case in_type(const char* type, const char* where, const char* what, const char* fix) {
  return {fmt::format("graph g(x: {}) {{\n  return x\n}}", type), where, what, fix};
}

class TextErrors : public testing::TestWithParam<Case> {};
TEST_P(TextErrors, HavePlaceAndMend) {
  const auto graph = parse_graph(GetParam().text, "file.graph");
  ASSERT_FALSE(graph) << GetParam().text << "\n" << print_graph(*graph);
  EXPECT_EQ(graph.error().where, fmt::format("file.graph:{}", GetParam().where)) << GetParam().text;
  EXPECT_EQ(graph.error().what, GetParam().what) << GetParam().text;
  EXPECT_EQ(graph.error().fix, GetParam().fix) << GetParam().text;
}

constexpr const char* kAllDtypes =
    "use one of f64, f32, f16, bf16, f8e4m3, f8e5m2, s8, u8, s32, s64, bool";

INSTANTIATE_TEST_SUITE_P(
    Bytes, TextErrors,
    testing::Values(
        Case{std::string("graph g\0()", 10), "1:8", "the text holds a NUL byte",
             "give a text file"},
        Case{"graph g() {\n  # \xC3\x28\n}", "2:5", "the text is not valid UTF-8 here",
             "save the file as UTF-8"},
        Case{"\xED\xA0\x80", "1:1", "the text is not valid UTF-8 here", "save the file as UTF-8"},
        Case{"graph g() { return é }", "1:20", "unexpected character 'é'",
             "names of other characters stand in double quotes"},
        Case{"# é\n  $", "2:3", "unexpected character '$'",
             "names of other characters stand in double quotes"},
        Case{"graph \"g\n\"", "1:7", "a quoted name does not end on its line", "close it with \""},
        Case{"graph \"\"", "1:7", "empty name", "write one or more characters"},
        Case{"graph \"g\\x00\"", "1:9", "a quoted name holds a NUL byte",
             "leave it out: files, C and Python end a name there"},
        Case{"graph g(x: f32[4]) {\n  return \"a\\x00c\" = x\n}", "2:12",
             "a quoted name holds a NUL byte",
             "leave it out: files, C and Python end a name there"},
        Case{"graph \"a\\n\"", "1:9", "unknown escape in a quoted name",
             "use \\\", \\\\ or \\xNN"}));

INSTANTIATE_TEST_SUITE_P(
    Graphs, TextErrors,
    testing::Values(Case{"", "1:1", "expected 'graph', got the end of the text",
                         "begin with graph NAME(x: f32[M, 64]) {"},
                    Case{"graf g()", "1:1", "expected 'graph', got 'graf'",
                         "begin with graph NAME(x: f32[M, 64]) {"},
                    Case{"graph (", "1:7", "expected the graph's name, got '('", ""},
                    Case{"graph return(", "1:7", "return is reserved",
                         "use another name, or quote it: \"return\""},
                    Case{"graph g(x: f32[8]", "1:18", "expected ')', got the end of the text",
                         "close the '(' opened at 1:8"},
                    Case{"graph g(x f32[8])", "1:11", "expected ':', got 'f32'", ""},
                    Case{"graph g(x: f32[8], x: f32[8])", "1:20", "x is defined twice",
                         "use another name; the first is at 1:9"},
                    Case{"graph g(x: f32[8])", "1:19", "expected '{', got the end of the text", ""},
                    Case{"graph g(x: f32[8]) {}", "1:21", "expected 'return', got '}'",
                         "end the graph with return VALUE }"},
                    Case{"graph g(x: f32[8]) { return x", "1:30",
                         "expected '}', got the end of the text", "close the '{' opened at 1:20"},
                    Case{"graph g(x: f32[8]) { return }", "1:29", "expected an expression, got '}'",
                         ""},
                    Case{"graph g(x: f32[8]) { return x }\ngraph h() {}", "2:1",
                         "unexpected 'graph' after the end", "a text holds one graph"},
                    Case{"graph g(x: f32[8]) { return x } x", "1:33",
                         "unexpected 'x' after the end", "remove it"}));

INSTANTIATE_TEST_SUITE_P(
    Types, TextErrors,
    testing::Values(
        in_type("float[8]", "1:12", "unknown dtype 'float'", kAllDtypes),
        in_type("f32", "1:15", "expected '[', got ')'",
                "write the shape, e.g. f32[M, 64], or f32[] for a scalar"),
        in_type("f32[8", "1:17", "expected ']', got ')'", "close the '[' opened at 1:15"),
        in_type("f32[8.5]", "1:16", "expected a dimension, got '8.5'",
                "dimensions are integers, symbols, or as in 2*M + 1"),
        in_type("f32[,]", "1:16", "expected a dimension, got ','",
                "dimensions are integers, symbols, or as in 2*M + 1"),
        in_type("f32[-8]", "1:9", "input x has the negative dimension -8",
                "use sizes >= 0, or a symbol such as M"),
        in_type("f32[9223372036854775808]", "1:16",
                "the dimension 9223372036854775808 overflows 64 bits", "use smaller dimensions"),
        in_type("f32[9223372036854775807*M + M]", "1:16",
                "the dimension overflows 64 bits or has too many factors or terms",
                "use smaller dimensions"),
        in_type("f32[9223372036854775807, 2]", "1:9", "the shape of input x overflows 64 bits",
                "use smaller dimensions"),
        in_type("f32[8, 8; 1]", "1:9", "input x has 2 dimensions but 1 strides",
                "give one stride a dimension, in elements"),
        in_type("f32[2M]", "1:16", "malformed number '2M'",
                "write numbers as 2, 0.5 or 1e-5, and products as 2*x")));

INSTANTIATE_TEST_SUITE_P(
    Statements, TextErrors,
    testing::Values(
        in_graph("a = x x\nreturn a", "2:7",
                 "expected an operator or the end of the statement, got 'x'",
                 "begin the next statement on a new line or after ';'"),
        in_graph("a x\nreturn a", "2:3", "expected '=', got 'x'",
                 "statements read NAME = EXPRESSION"),
        in_graph("1 = x\nreturn a", "2:1", "expected a statement or 'return', got '1'", ""),
        in_graph("f32 = x\nreturn x", "2:1", "f32 is reserved",
                 "use another name, or quote it: \"f32\""),
        in_graph("a = x\na = x\nreturn a", "3:1", "a is defined twice",
                 "use another name; the first is at 2:1"),
        in_graph("return y = x + 1, y = x * 2", "2:19", "output y comes twice",
                 "name it NAME = VALUE; the first is at 2:8"),
        in_graph("return out1 = x + 1, x * 2", "2:22", "output out1 comes twice",
                 "name it NAME = VALUE; the first is at 2:8"),
        in_graph("return x + 1, out0 = x * 2", "2:15", "output out0 comes twice",
                 "name it NAME = VALUE; the first is at 2:8"),
        in_graph("return x, x", "2:11", "output x comes twice",
                 "name it NAME = VALUE; the first is at 2:8"),
        in_graph("return x, (x)", "2:11", "output x comes twice",
                 "name it NAME = VALUE; the first is at 2:8"),
        in_graph("x = x\nreturn x", "2:1", "x is defined twice",
                 "use another name; the first is at 1:9"),
        in_graph("a, b2 = exp(x)\nreturn a", "2:9", "expected split(...), got 'exp'",
                 "only split has several results: a, b = split(x, 2)"),
        in_graph("a, c = split(x, 4)\nreturn a", "2:1", "2 names for 4 parts",
                 "give every part a name"),
        in_graph("return split(x, 2)", "2:8", "split has 2 results here",
                 "name them: a, b = split(x, 2)"),
        in_graph("return x y", "2:10", "expected '}', got 'y'", "close the '{' opened at 1:45")));

INSTANTIATE_TEST_SUITE_P(
    Expressions, TextErrors,
    testing::Values(
        in_graph("return xx", "2:8", "'xx' is not defined", "did you mean x?"),
        in_graph("bias = x\nreturn bais", "3:8", "'bais' is not defined", "did you mean bias?"),
        in_graph("return something", "2:8", "'something' is not defined",
                 "define it above, or make it an input"),
        in_graph("return exp", "2:8", "'exp' is not defined", "to call the op, write exp(...)"),
        in_graph("return (x + x", "3:1", "expected ')', got '}'", "close the '(' opened at 2:8"),
        in_graph("return x + ", "3:1", "expected an expression, got '}'", ""),
        in_graph("return x < x < x", "2:14", "comparisons do not chain",
                 "write and(a < b, b < c), or parentheses"),
        in_graph("return x ** x", "2:11", "expected an expression, got '*'", ""),
        in_graph("return f32", "2:8", "unexpected f32", "an expression stands here"),
        in_graph("return 99999999999999999999 * x", "2:8",
                 "the integer 99999999999999999999 overflows 64 bits",
                 "write a real number, e.g. 1e20"),
        in_graph("return x * 1e999", "2:12", "1e999 is outside the range of f64",
                 "use a number between 1e-307 and 1e308"),
        in_graph("return x + 1e", "2:12", "malformed number '1e'",
                 "write numbers as 2, 0.5 or 1e-5, and products as 2*x"),
        in_graph("return q + 300", "2:12", "300 is no value of s8",
                 "cast the operand, or write constant(300, f32)"),
        in_graph("return -b", "2:8", "neg does not take bool",
                 "cast the operand, e.g. cast(x, s32)"),
        in_graph("return x +\n  q[0:3]", "2:10", "add cannot broadcast [M, 8] with [3]",
                 "dimensions must be equal or 1; a symbol equals only itself"),
        in_graph("return cast(q, s64) + 9007199254740993", "2:23",
                 "the integer is too large to be held exactly", "write constant(s64[], [...])"),
        in_graph("return clamp(cast(q, s64), max=9007199254740993)", "2:28",
                 "max= of clamp must be an integer that an f64 holds exactly", ""),
        in_graph("return constant(f16[2], [65504, 65520])", "2:33", "65520 is no value of f16",
                 "change the number or the constant's dtype")));

INSTANTIATE_TEST_SUITE_P(
    Calls, TextErrors,
    testing::Values(
        in_graph("return sigmoyd(x)", "2:8", "unknown op 'sigmoyd'", "did you mean sigmoid?"),
        in_graph("return swish(x)", "2:8", "unknown op 'swish'", "did you mean silu?"),
        in_graph("return conv3d(x)", "2:8", "unknown op 'conv3d'",
                 "see the ops in docs/text-format.md"),
        in_graph("return slice(x)", "2:8", "unknown op 'slice'", "write x[:, begin:end:step]"),
        in_graph("return input(x)", "2:8", "unknown op 'input'",
                 "see the ops in docs/text-format.md"),
        in_graph("return exp()", "2:8", "exp takes 1 operand, got 0", "give the missing operand"),
        in_graph("return max(x)", "2:8", "max takes 2 operands, got 1", "give the missing operand"),
        in_graph("return exp(x, x)", "2:15", "too many arguments for exp",
                 "remove it or name it; exp takes compute="),
        in_graph("return leaky_relu(x, 0.2)", "2:22", "too many arguments for leaky_relu",
                 "remove it or name it; leaky_relu takes alpha=, compute="),
        in_graph("return transpose(x, x)", "2:21", "too many arguments for transpose", "remove it"),
        in_graph("return clamp(x, mix=7)", "2:17", "clamp has no keyword mix",
                 "clamp takes min=, max=, compute="),
        in_graph("return transpose(x, k=7)", "2:21", "transpose has no keyword k",
                 "transpose takes no keywords"),
        in_graph("return clamp(x, max=7, max=8)", "2:24", "max= is given twice", "remove one"),
        in_graph("return clamp(max=7, x)", "2:21", "a positional argument after a keyword",
                 "put keywords last"),
        in_graph("return clamp(x, max=x)", "2:17", "max= of clamp must be a number", ""),
        in_graph("return sum(x, keepdims=1)", "2:15", "keepdims= of sum must be true or false", ""),
        in_graph("return sum(x, axes=1)", "2:15", "axes= of sum must be a list",
                 "write it as [2, 3]"),
        in_graph("return sum(x, axes=[M])", "2:15", "axes= of sum must be a list of integers",
                 "write it as [2, 3]"),
        in_graph("return sum(x, axes=[])", "2:15", "axes= of sum must be a list of axes",
                 "leave axes= out to reduce over all of them"),
        in_graph("return sum(x, axes=[2])", "2:8", "axis 2 of sum is outside a tensor of rank 2",
                 "use an axis from -2 to 1"),
        in_graph("return concat(x, x, axis=0.5)", "2:21", "axis= of concat must be an integer", ""),
        in_graph("return concat([x, x])", "2:15",
                 "this argument of concat must be a value, not a list",
                 "write concat(a, b) without brackets"),
        in_graph("return cast(x)", "2:8", "cast needs its dtype", "write it as in cast(x, f32)"),
        in_graph("return cast(x, 3)", "2:16", "this argument of cast must be a dtype", kAllDtypes),
        in_graph("return exp(f32)", "2:12", "this argument of exp must be a value", ""),
        in_graph("return permute(x)", "2:8", "permute needs its axes",
                 "write it as in permute(x, [0, 2, 1])"),
        in_graph("return permute(x, [0, 0])", "2:8", "permute names axis 0 twice",
                 "name every axis once"),
        in_graph("return reshape(x, [-1, -1])", "2:8", "reshape has two -1",
                 "leave at most one dimension open"),
        in_graph("return reshape(x, [-2])", "2:19",
                 "this argument of reshape must be a list of sizes >= 0", "one of them may be -1"),
        in_graph("return exp(x", "3:1", "expected ')', got '}'", "close the '(' opened at 2:11"),
        in_graph("return softmax(q)", "2:8", "reduce_max of s8[8]",
                 "cast the operand to a float, s32 or s64, e.g. cast(x, f32)"),
        in_graph("return softmax(x, dim=1)", "2:19", "softmax has no keyword dim",
                 "softmax takes x=, axis="),
        in_graph("return softmax(x, axis=5)", "2:8",
                 "axis 5 of softmax is outside a tensor of rank 2", "use an axis from -2 to 1"),
        in_graph("a, c = split(x, 3)\nreturn a", "2:8", "split of an axis of 8 into 3 equal parts",
                 "give the sizes, e.g. split(x, [3, 5]), or declare the axis as 2*N"),
        in_graph("return matmul(x, x)", "2:8", "matmul needs equal inner dimensions, got 8 and M",
                 "did you mean matmul(a, transpose(b))?")));

INSTANTIATE_TEST_SUITE_P(
    SlicesAndConstants, TextErrors,
    testing::Values(
        in_graph("return x[0]", "2:11", "expected ':', got ']'",
                 "to take one element of an axis, write x[i:i + 1]"),
        in_graph("return x[:, :, :]", "2:9", "a slice of 3 axes of f32[M, 8]", "give at most 2"),
        in_graph("return x[::0]", "2:12", "the step of a slice is an integer other than 0",
                 "write e.g. x[::2]"),
        in_graph("return x[::M]", "2:12", "the step of a slice is an integer other than 0",
                 "write e.g. x[::2]"),
        in_graph("return x[:", "3:1", "expected a dimension, got '}'",
                 "dimensions are integers, symbols, or as in 2*M + 1"),
        in_graph("return x[:floordiv(M)]", "2:21", "expected ',', got ')'", ""),
        in_graph("return constant(f32[M], [1])", "2:20", "a constant of shape [M]",
                 "the shape of a constant is made of integers"),
        in_graph("return constant(f32[2, 2], [1])", "2:28", "f32[2, 2] has 4 elements, got 1",
                 "list every element, row by row"),
        in_graph("return constant(f32[4000000000, 4000000000], [1])", "2:46",
                 "f32[4000000000, 4000000000] has (overflow) elements, got 1",
                 "list every element, row by row"),
        in_graph("return constant(u8[1], [256])", "2:25", "256 is no value of u8",
                 "change the number or the constant's dtype"),
        in_graph("return constant(s8[1], [0.5])", "2:25", "0.5 is no value of s8",
                 "change the number or the constant's dtype"),
        in_graph("return constant(f32[1], [true])", "2:26", "true is no value of f32",
                 "change the number or the constant's dtype"),
        in_graph("return constant(f32[1], [x])", "2:26", "expected a number, got 'x'", ""),
        in_graph("return constant(300, s8)", "2:17", "300 is no value of s8",
                 "cast the operand, or write constant(300, f32)"),
        in_graph("return constant(x, s8)", "2:17", "constant takes a number",
                 "write constant(1.5, bf16)"),
        in_graph("return constant(1)", "2:18", "expected ',', got ')'", "")));

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(TextErrors, NestingIsBounded) {
  for (const char* open : {"(", "-", "exp(", "x + (", "max(1, ", "- (-"}) {
    const auto graph = parse_expression(repeated(open, 100000));
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().what, "nested deeper than 256");
  }
  EXPECT_TRUE(parse_expression(repeated("exp(", 250) + "x" + repeated(")", 250)));
  EXPECT_TRUE(parse_expression(repeated("x + ", 20000) + "x"));
}

TEST(TextErrors, ShapesThatMultiplyOutWithoutBoundAreRefused) {
  std::string dims;
  for (int i = 0; i < 40; ++i) dims += fmt::format("{}A{} + B{}", i ? ", " : "", i, i);
  EXPECT_FALSE(parse_graph(fmt::format("graph g(x: f32[{}]) {{ return x }}", dims)));
  EXPECT_FALSE(parse_graph("graph g(x: f32[" + repeated("M*", 100000) + "M]) { return x }"));
  // -(-2^63) overflows, also by way of a quotient.
  EXPECT_FALSE(
      parse_graph("graph g(x: f32[-9223372036854775808*M]) {"
                  " return reshape(x, [-1*M, -1]) }"));
}

TEST(TextErrors, OfExpressionsNameTheExpression) {
  const auto graph = parse_expression("x +\n sigmoyd(x)");
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().where, "<expression>:2:2");
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, TextErrors,
    testing::Values(
        in_graph("return kernel(x)", "2:15", "expected a quoted file, got 'x'",
                 "begin with it: kernel(\"gemm.cu\", ...)"),
        in_graph("return kernel(\"k.ptx\", grid=[1], x)", "2:34",
                 "a positional argument after a keyword", "put keywords last"),
        in_graph("return kernel(\"k.ptx\", f32[M; 2])", "2:24",
                 "the result of a kernel has strides",
                 "a kernel writes its result row by row: leave them out"),
        in_graph("return kernel(\"k.ptx\", 4)", "2:24", "a number without a dtype",
                 "say how the kernel takes it: s32(4096), f32(0.5)"),
        in_graph("return kernel(\"k.ptx\", s32)", "2:27", "expected '(' or '[', got ')'",
                 "write s32(4096) for a number, s32[M, 64] for the result"),
        in_graph("return kernel(\"k.ptx\", f32(M))", "2:28", "expected a number, got 'M'", ""),
        in_graph("return kernel(\"k.ptx\", s32(K))", "2:28", "no input has a dimension K",
                 "use the symbols of the inputs' shapes"),
        in_graph("return kernel(\"k.ptx\", f32[K])", "2:24", "no input has a dimension K",
                 "use the symbols of the inputs' shapes"),
        in_graph("return broadcast(x, [K, M, 8])", "2:21", "no input has a dimension K",
                 "use the symbols of the inputs' shapes"),
        in_graph("return x[0:K]", "2:12", "no input has a dimension K",
                 "use the symbols of the inputs' shapes"),
        in_graph("return kernel(\"k.ptx\", grid=[ceildiv(M)])", "2:39", "expected ',', got ')'",
                 ""),
        in_graph("return kernel(\"k.ptx\", grid=4)", "2:29", "expected a list, got '4'",
                 "write it as in grid=[ceildiv(M, 64), 4]"),
        in_graph("return kernel(\"k.ptx\", block=[M])", "2:31",
                 "an integer stands here, without symbols", "write a number"),
        in_graph("return kernel(\"k.ptx\", block=[1], block=[1])", "2:35", "block= is given twice",
                 "remove one"),
        in_graph("return kernel(\"k.ptx\", blocks=[1])", "2:24", "kernel has no keyword blocks",
                 "kernel takes entry=, grid=, block=, shared=, zeroed=, options="),
        in_graph("return kernel(\"k.ptx\", zeroed=1)", "2:31", "expected true or false, got '1'",
                 ""),
        in_graph("return kernel(\"k.ptx\", f32[8], grid=[1], block=[0])", "2:8",
                 "kernel has a block of 0 threads", "give 1 to 1024 threads")));

}  // namespace
}  // namespace attacca::ir
