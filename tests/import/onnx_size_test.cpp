// Sizes that are no polynomials over the inputs' symbols.
#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

// A model of x: f32[B, M] with the vector [M] as `m` and half of it, rounded down, as `half`.
Model sizes(int64_t opset = 18) {
  Model model(opset);
  model.input("x", {"B", "M"})
      .ints("one", {1})
      .ints("two", {2})
      .ints("zero", {0})
      .ints("five", {5})
      .ints("far", {INT64_MAX})
      .node("Shape", {"x"}, {"shape"})
      .node("Slice", {"shape", "one", "two"}, {"m"})
      .node("Div", {"m", "two"}, {"half"});
  return model;
}

std::string of(Model model) {
  return read_text(model.output("y"));
}

TEST(OnnxSize, HalfOfASymbol) {
  EXPECT_EQ(of(sizes().node("Slice", {"x", "zero", "half", "one"}, {"y"})),
            "x[:, :floordiv(M, 2)] : f32[B, floordiv(M, 2)]");
  EXPECT_EQ(of(sizes().node("Slice", {"x", "half", "far", "one"}, {"y"})),
            "x[:, floordiv(M, 2):] : f32[B, M + -1*floordiv(M, 2)]");
  EXPECT_EQ(of(sizes().node("ConstantOfShape", {"half"}, {"y"})),
            "broadcast(0, [floordiv(M, 2)]) : f32[floordiv(M, 2)]");
}

TEST(OnnxSize, PartsOfASymbol) {
  const int64_t axis = 1, two = 2, three = 3;
  EXPECT_EQ(read_text(sizes()
                          .node("Split", {"x"}, {"a", "b"}, {{"axis", axis}, {"num_outputs", two}})
                          .output("a")
                          .output("b")),
            "x[:, :M + -1*floordiv(M, 2)] : f32[B, M + -1*floordiv(M, 2)]\n"
            "x[:, M + -1*floordiv(M, 2):] : f32[B, floordiv(M, 2)]");
  EXPECT_EQ(
      of(sizes().node("Split", {"x"}, {"a", "b", "y"}, {{"axis", axis}, {"num_outputs", three}})),
      "x[:, 2*floordiv(M + 2, 3):] : f32[B, M + -2*floordiv(M + 2, 3)]");
}

TEST(OnnxSize, Steps) {
  EXPECT_EQ(of(sizes().node("Slice", {"x", "zero", "far", "one", "two"}, {"y"})),
            "x[:, ::2] : f32[B, M + -1*floordiv(M, 2)]");
  EXPECT_EQ(of(sizes().node("Slice", {"x", "one", "far", "one", "two"}, {"y"})),
            "x[:, 1::2] : f32[B, floordiv(M, 2)]");
  EXPECT_EQ(of(sizes()
                   .ints("none", {})
                   .node("Squeeze", {"m"}, {"limit"})
                   .node("Squeeze", {"zero"}, {"start"})
                   .node("Squeeze", {"five"}, {"step"})
                   .node("Range", {"start", "limit", "step"}, {"y"})),
            "arange([0, floordiv(M + 4, 5)]) * 5 + 0 : s64[floordiv(M + 4, 5)]");
}

TEST(OnnxSize, TheSmallerAndTheLarger) {
  EXPECT_EQ(of(sizes()
                   .node("Min", {"m", "five"}, {"least"})
                   .node("Slice", {"x", "zero", "least", "one"}, {"y"})),
            "x[:, :min(M, 5)] : f32[B, min(M, 5)]");
  EXPECT_EQ(
      of(sizes().node("Max", {"m", "five"}, {"most"}).node("ConstantOfShape", {"most"}, {"y"})),
      "broadcast(0, [max(M, 5)]) : f32[max(M, 5)]");
}

TEST(OnnxSize, SlicesOfShortAxes) {
  EXPECT_EQ(of(sizes().node("Slice", {"x", "zero", "five", "one"}, {"y"})),
            "x[:, :min(M, 5)] : f32[B, min(M, 5)]");
  EXPECT_EQ(of(sizes().node("Slice", {"x", "five", "far", "one"}, {"y"})),
            "x[:, min(M, 5):] : f32[B, M + -1*min(M, 5)]");
  EXPECT_EQ(of(sizes().ints("back", {-5}).node("Slice", {"x", "back", "far", "one"}, {"y"})),
            "x[:, max(M + -5, 0):] : f32[B, M + -1*max(M + -5, 0)]");
  // The first element is there.
  EXPECT_EQ(of(sizes().node("Slice", {"x", "zero", "one", "one"}, {"y"})), "x[:, :1] : f32[B, 1]");
  // Lengths that agree with no others.
  EXPECT_EQ(of(sizes()
                   .input("z", {"5"})
                   .node("Slice", {"x", "zero", "five", "one"}, {"part"})
                   .node("Add", {"part", "z"}, {"y"})),
            "x[:, :5] + z : f32[B, 5]");
}

// As with a table of positions, of which a model takes as many as there are tokens: M is at most 5.
// MPT computes such limits itself.
TEST(OnnxSize, BroadcastWithTheSmaller) {
  const auto with = [](const char* left, const char* right) {
    return of(sizes()
                  .input("table", {"1", "5"})
                  .node("Min", {"m", "five"}, {"least"})
                  .node("Sub", {"five", "m"}, {"left"})
                  .node("Max", {"left", "zero"}, {"from"})
                  .node("Slice", {"table", "zero", "least", "one"}, {"first"})
                  .node("Slice", {"table", "from", "far", "one"}, {"last"})
                  .node("Min", {"m", "one"}, {"at_most_one"})
                  .node("Slice", {"table", "zero", "at_most_one", "one"}, {"column"})
                  .node("Add", {left, right}, {"y"}));
  };
  EXPECT_EQ(with("x", "first"), "x + table[:, :min(M, 5)][:, :M] : f32[B, M]");
  EXPECT_EQ(with("first", "x"), "table[:, :min(M, 5)][:, :M] + x : f32[B, M]");
  EXPECT_EQ(with("x", "last"), "x + table[:, max(-1*M + 5, 0):][:, :M] : f32[B, M]");
  EXPECT_EQ(with("x", "column"), "x + table[:, :min(M, 1)][:, :1] : f32[B, M]");
}

TEST(OnnxSize, ComparisonsBecomeNumbers) {
  EXPECT_EQ(of(sizes()
                   .node("Greater", {"m", "five"}, {"longer"})
                   .node("Where", {"longer", "five", "one"}, {"size"})
                   .node("ConstantOfShape", {"size"}, {"y"})),
            "broadcast(0, [4*min(max(M + -5, 0), 1) + 1]) : f32[4*min(max(M + -5, 0), 1) + 1]");
  EXPECT_EQ(of(sizes()
                   .ints("minus", {-1})
                   .node("Greater", {"m", "five"}, {"longer"})
                   .node("Where", {"longer", "five", "minus"}, {"size"})
                   .node("Reshape", {"x", "size"}, {"y"})),
            "error: the shape (input 1, size) must follow from constants and shapes");
  // What holds for all sizes is decided.
  EXPECT_EQ(of(sizes()
                   .ints("minus", {-1})
                   .node("Equal", {"m", "minus"}, {"never"})
                   .node("Where", {"never", "five", "m"}, {"size"})
                   .node("ConstantOfShape", {"size"}, {"y"})),
            "broadcast(0, [M]) : f32[M]");
}

TEST(OnnxSize, PaddedToAMultiple) {
  EXPECT_EQ(
      of(sizes()
             .node("Mod", {"m", "five"}, {"rest"})
             .node("Sub", {"five", "rest"}, {"missing"})
             .node("Concat", {"zero", "zero", "zero", "missing"}, {"pads"}, {{"axis", int64_t{0}}})
             .node("Pad", {"x", "pads"}, {"y"}))
          .substr(0, 7),
      "concat(");
}

// A model whose `k` is ceil of the float quotient of M, a float, and `by`.
Model through_floats(double by, int64_t type, const char* round) {
  Model model = sizes();
  model.weight("by", {1}, std::vector{by}, type == 1 ? kFloat : kDouble);
  model.node("Cast", {"m"}, {"f"}, {{"to", type}})
      .node("Div", {"f", "by"}, {"d"})
      .node(round, {"d"}, {"r"})
      .node("Cast", {"r"}, {"k"}, {{"to", int64_t{7}}});
  return model;
}

TEST(OnnxSize, QuotientsOfFloatsThatAreRoundedToSizes) {
  EXPECT_EQ(of(through_floats(3, 1, "Ceil").node("ConstantOfShape", {"k"}, {"y"})),
            "broadcast(0, [floordiv(M + 2, 3)]) : f32[floordiv(M + 2, 3)]");
  EXPECT_EQ(of(through_floats(3, 11, "Floor").node("ConstantOfShape", {"k"}, {"y"})),
            "broadcast(0, [floordiv(M, 3)]) : f32[floordiv(M, 3)]");
  EXPECT_EQ(of(through_floats(0.75, 1, "Floor").node("ConstantOfShape", {"k"}, {"y"})),
            "broadcast(0, [M + floordiv(M, 3)]) : f32[M + floordiv(M, 3)]");
}

// 0.1 is no fraction that a float holds; a quotient that was rounded once is not divided again; and
// the nearest whole number depends on the rounding.
TEST(OnnxSize, WhatDependsOnTheRoundingOfFloatsIsNoSize) {
  const std::string refused = "error: the shape (input 0, k) must follow from constants and shapes";
  EXPECT_EQ(of(through_floats(0.1, 1, "Floor").node("ConstantOfShape", {"k"}, {"y"})), refused);
  EXPECT_EQ(of(through_floats(3, 1, "Round").node("ConstantOfShape", {"k"}, {"y"})), refused);
  Model twice = sizes();
  twice.weight("by", {1}, std::vector{3.0});
  twice.node("Cast", {"m"}, {"f"}, {{"to", int64_t{1}}})
      .node("Div", {"f", "by"}, {"d"})
      .node("Div", {"d", "by"}, {"e"})
      .node("Ceil", {"e"}, {"r"})
      .node("Cast", {"r"}, {"k"}, {{"to", int64_t{7}}})
      .node("ConstantOfShape", {"k"}, {"y"});
  EXPECT_EQ(of(std::move(twice)), refused);
}

// What need not divide is checked when the sizes are given: a slice beyond the axis.
TEST(OnnxSize, WhatMustDivideIsCheckedLater) {
  const auto pairs = parse_onnx(Model(18)
                                    .input("x", {"M"})
                                    .ints("s", {-1, 2})
                                    .node("Reshape", {"x", "s"}, {"y"})
                                    .output("y")
                                    .bytes());
  ASSERT_TRUE(pairs) << pairs.error().what;
  EXPECT_TRUE(ir::bind_symbols(*pairs, {{"x", {6}}}));
  const auto odd = ir::bind_symbols(*pairs, {{"x", {7}}});
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().what.find("is outside axis 0 of size 7"), std::string::npos);
  const auto halves =
      parse_onnx(Model(13).input("x", {"M"}).node("Split", {"x"}, {"y", "z"}).output("y").bytes());
  ASSERT_TRUE(halves) << halves.error().what;
  EXPECT_TRUE(ir::bind_symbols(*halves, {{"x", {6}}}));
  EXPECT_FALSE(ir::bind_symbols(*halves, {{"x", {7}}}));
}

// torch.onnx.export expands to the shape of x[1:] so: where it is -1, to 1.
TEST(OnnxSize, AnExtentOfASliceIsNotNegative) {
  Model model(18);
  model.input("x", {"M"}).ints("one", {1}).ints("last", {INT64_MAX}).ints("minus", {-1});
  model.node("Slice", {"x", "one", "last"}, {"tail"})
      .node("Shape", {"tail"}, {"shape"})
      .node("Equal", {"shape", "minus"}, {"free"})
      .node("Where", {"free", "one", "shape"}, {"target"})
      .node("Expand", {"tail", "target"}, {"y"})
      .output("y");
  EXPECT_EQ(read_text(model), "x[1:] : f32[M + -1]");
}

// x of floordiv(M, 2) - 1 rows, reshaped to (M - less) / 2 rows by the truncating division that
// torch.onnx.export writes, and added to x.
Model halved(int64_t less) {
  Model model(18);
  model.input("all", {"M", "8"}).ints("two", {2}).ints("less", {less}).ints("zero", {0});
  model.ints("one", {1}).ints("apart", {-1, 4}).ints("together", {8});
  model.node("Shape", {"all"}, {"m"}, {{"end", int64_t{1}}})
      .node("Div", {"m", "two"}, {"half"})
      .node("Sub", {"half", "one"}, {"rows"})
      .node("Slice", {"all", "zero", "rows", "zero"}, {"x"})
      .node("Sub", {"m", "less"}, {"rest"})
      .node("Div", {"rest", "two"}, {"count"})
      .node("Concat", {"count", "apart"}, {"pairs"}, {{"axis", int64_t{0}}})
      .node("Reshape", {"x", "pairs"}, {"p"})
      .node("Concat", {"count", "together"}, {"whole"}, {{"axis", int64_t{0}}})
      .node("Reshape", {"p", "whole"}, {"y"})
      .node("Add", {"x", "y"}, {"z"})
      .output("z");
  return model;
}

TEST(OnnxSize, FunctionsOfTheSameSizesMayCountAsEqual) {
  const auto equal = parse_onnx(halved(2).bytes()), odd = parse_onnx(halved(3).bytes());
  ASSERT_TRUE(equal) << to_string(equal.error());
  ASSERT_TRUE(odd) << to_string(odd.error());
  EXPECT_EQ(ir::to_string(equal->type(equal->outputs()[0].value)), "f32[floordiv(M, 2) + -1, 8]");
  for (const int64_t m : {2, 3, 8, 9}) EXPECT_TRUE(ir::bind_symbols(*equal, {{"all", {m, 8}}}));
  EXPECT_TRUE(ir::bind_symbols(*odd, {{"all", {9, 8}}}));
  EXPECT_FALSE(ir::bind_symbols(*odd, {{"all", {8, 8}}})) << "3 rows are not 2";
}

// y = x + z of these shapes, as text.
std::string added(const std::vector<std::string>& x, const std::vector<std::string>& z) {
  return read_text(Model().input("x", x).input("z", z).node("Add", {"x", "z"}, {"y"}).output("y"));
}

TEST(OnnxSize, SymbolsThatAnOpBroadcastsCountAsEqual) {
  EXPECT_EQ(added({"A", "6"}, {"B", "6"}), "x + z : f32[A, 6]");
  EXPECT_EQ(added({"A", "6"}, {"", ""}), "error: add cannot broadcast [A, 6] with [z_d0, z_d1]");
  EXPECT_EQ(added({"A", "6"}, {"", "1"}), "x + z : f32[A, 6]");
  EXPECT_EQ(added({"A", "C"}, {"B", "D"}), "x + z : f32[A, C]");
  EXPECT_EQ(added({"A", "C"}, {"C", "A"}), "x + z : f32[C, C]");
  EXPECT_EQ(added({"A", "6"}, {"B", "5"}), "error: add cannot broadcast [A, 6] with [B, 5]");
  Model chain;
  chain.input("x", {"A"}).input("y", {"B"}).input("z", {"C"}).input("b", {"B + C"});
  chain.node("Add", {"y", "z"}, {"s"}).node("Add", {"x", "s"}, {"t"}).output("t");
  chain.node("Concat", {"t", "t"}, {"u"}, {{"axis", int64_t{0}}});
  chain.node("Mul", {"u", "b"}, {"v"}).output("v");
  EXPECT_EQ(read_text(chain),
            "x + (y + z) : f32[A]\nconcat(x + (y + z), x + (y + z)) * b : f32[2*A]");
}

TEST(OnnxSize, AMaskOfAnotherSymbolIsThatOfItsKeys) {
  Model model;
  model.input("past", {"P"}).input("keys", {"S"}).input("mask", {"total"});
  model.node("Concat", {"past", "keys"}, {"all"}, {{"axis", int64_t{0}}})
      .node("Add", {"all", "mask"}, {"y"})
      .output("y");
  const auto graph = parse_onnx(model.bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(ir::to_string(graph->type(graph->outputs()[0].value)), "f32[P + S]");
  EXPECT_TRUE(ir::bind_symbols(*graph, {{"past", {3}}, {"keys", {4}}, {"mask", {7}}}));
  EXPECT_FALSE(ir::bind_symbols(*graph, {{"past", {3}}, {"keys", {4}}, {"mask", {1}}}));
}

// Each equality has the model read again. Extents that are made of those before do not take longer.
TEST(OnnxSize, ManySymbolsThatCountAsEqual) {
  const auto chain = [](int count) {
    Model model;
    for (int i = 0; i < count; ++i) model.input(fmt::format("x{}", i), {fmt::format("S{}", i)});
    for (int i = 2; i < 40; ++i)
      model.input(fmt::format("y{}", i), {fmt::format("S{} + S{}", i - 1, i - 2)});
    for (int i = 2; i < 40; ++i)
      model.node("Add", {fmt::format("x{}", i), fmt::format("y{}", i)}, {fmt::format("z{}", i)});
    for (int i = 40; i < count; ++i)
      model.node("Add", {"x0", fmt::format("x{}", i)}, {fmt::format("z{}", i)});
    return model.output("z39").output(fmt::format("z{}", count - 1));
  };
  EXPECT_EQ(error_of(chain(100)).what, "no error");
  EXPECT_EQ(error_of(chain(400)).what, "add cannot broadcast [S0] with [S258]");
}

// Where ONNX Runtime can run what Attacca refuses, a size may be 1 at run time.
TEST(OnnxSize, SymbolsMayBeBroadcastAtRunTime) {
  Model model;
  model.input("x", {"A"}).input("z", {"B"}).node("Add", {"x", "z"}, {"y"}).output("y");
  model.proto().add_metadata_props()->set_key("attacca.broadcasts_at_run_time");
  EXPECT_EQ(error_of(model).what, "add cannot broadcast [A] with [B]");
}

// A view that swaps two sizes has as many elements as x: nothing need be equal.
TEST(OnnxSize, AReshapeThatFitsStays) {
  Model model(18);
  model.input("x", {"M", "N", "4"}).input("a", {"2", "M", "3"}).input("b", {"2", "3", "N"});
  model.node("Shape", {"x"}, {"m"}, {{"end", int64_t{1}}})
      .node("Shape", {"x"}, {"n"}, {{"start", int64_t{1}}, {"end", int64_t{2}}})
      .ints("four", {4})
      .node("Concat", {"n", "m", "four"}, {"swapped"}, {{"axis", int64_t{0}}})
      .node("Reshape", {"x", "swapped"}, {"y"})
      .output("y");
  model.node("Concat", {"a", "b"}, {"c"}, {{"axis", int64_t{0}}}).output("c");  // M is 3, N too
  const auto graph = parse_onnx(model.bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(ir::to_string(graph->type(graph->outputs()[0].value)), "f32[N, M, 4]");
  EXPECT_EQ(ir::print_expression(*graph, graph->outputs()[0].value, true), "reshape(x, [N, M, 4])");
}

}  // namespace
}  // namespace attacca::import
