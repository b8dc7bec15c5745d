#include <filesystem>
#include <fstream>

#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

std::string reshaped(const std::vector<std::string>& shape, const std::vector<int64_t>& target,
                     const Attributes& attributes = {}) {
  return read_text(Model(14)
                       .input("x", shape)
                       .ints("s", target)
                       .node("Reshape", {"x", "s"}, {"y"}, attributes)
                       .output("y"));
}

TEST(OnnxShape, ReshapeCopiesAndInfers) {
  EXPECT_EQ(reshaped({"B", "S", "8"}, {0, 0, 2, 4}), "reshape(x, [B, S, 2, 4]) : f32[B, S, 2, 4]");
  EXPECT_EQ(reshaped({"B", "S", "8"}, {-1, 8}), "reshape(x, [B*S, 8]) : f32[B*S, 8]");
  EXPECT_EQ(reshaped({"B", "8"}, {0, 8}), "x : f32[B, 8]");
  EXPECT_EQ(reshaped({"0", "8"}, {0, 2}, {{"allowzero", int64_t{1}}}),
            "reshape(x, [0, 2]) : f32[0, 2]");
  EXPECT_EQ(reshaped({"B", "8"}, {-1, -1}), "error: two dimensions are -1");
  EXPECT_EQ(reshaped({"5", "8"}, {-1, 3}), "error: 40 elements do not divide by 3");
  EXPECT_EQ(reshaped({"B", "8"}, {1, 1, 0}), "error: a 0 at axis 2 copies from a tensor of rank 2");
  EXPECT_EQ(read_node(1, "Reshape", {{"2", "3"}}, {{"shape", std::vector<int64_t>{-1}}}),
            "reshape(x, [6]) : f32[6]");
}

TEST(OnnxShape, AShapeThatDependsOnDataIsRefusedUnlessFixed) {
  Model model(14);
  model.input("x", {"2", "3"})
      .input("s", {"1"}, kInt64)
      .node("Reshape", {"x", "s"}, {"y"})
      .output("y");
  EXPECT_EQ(read_text(model),
            "error: the shape (input 1, s) must follow from constants and shapes");
  EXPECT_EQ(read_text(model, {{"s", ir::Tensor::of(ir::DType::S64, {1}, {6})}}),
            "reshape(x, [6]) : f32[6]");
}

// x: f32[B, S, 64] to [B, S, 8, 8] and back, as torch exports multi-head attention.
TEST(OnnxShape, ShapeArithmeticOfSymbols) {
  EXPECT_EQ(
      read_text(Model(17)
                    .input("x", {"B", "S", "64"})
                    .ints("zero", {0})
                    .ints("one", {1})
                    .ints("heads", {8})
                    .ints("rest", {-1})
                    .node("Shape", {"x"}, {"shape"})
                    .node("Gather", {"shape", "zero"}, {"b"})
                    .node("Slice", {"shape", "one", "two"}, {"s"})
                    .ints("two", {2})
                    .node("Concat", {"b", "s", "heads", "rest"}, {"t"}, {{"axis", int64_t{0}}})
                    .node("Reshape", {"x", "t"}, {"y"})
                    .output("y")),
      "reshape(x, [B, S, 8, 8]) : f32[B, S, 8, 8]");
}

TEST(OnnxShape, ScalarsOfShapes) {
  EXPECT_EQ(read_text(Model(17)
                          .input("x", {"B", "S", "64"})
                          .weight("i", {}, std::vector{0}, kInt64)
                          .weight("j", {}, std::vector{1}, kInt64)
                          .ints("axis", {0})
                          .ints("last", {64})
                          .node("Shape", {"x"}, {"shape"})
                          .node("Gather", {"shape", "i"}, {"b"})
                          .node("Gather", {"shape", "j"}, {"s"})
                          .node("Mul", {"b", "s"}, {"bs"})
                          .node("Unsqueeze", {"bs", "axis"}, {"v"})
                          .node("Concat", {"v", "last"}, {"t"}, {{"axis", int64_t{0}}})
                          .node("Reshape", {"x", "t"}, {"y"})
                          .output("y")),
            "reshape(x, [B*S, 64]) : f32[B*S, 64]");
}

// torch's expand(-1, ...): Where(Equal(shape, -1), ones, shape).
TEST(OnnxShape, ExpandThroughWhere) {
  EXPECT_EQ(read_text(Model(17)
                          .input("x", {"1", "64"})
                          .input("like", {"B", "64"})
                          .ints("minus", {-1, -1})
                          .ints("n", {2})
                          .node("Shape", {"like"}, {"shape"})
                          .node("ConstantOfShape", {"n"}, {"ones"},
                                {{"value", tensor_proto(kInt64, {1}, std::vector{1})}})
                          .node("Equal", {"shape", "minus"}, {"open"})
                          .node("Where", {"open", "ones", "shape"}, {"t"})
                          .node("Expand", {"x", "t"}, {"y"})
                          .output("y")),
            "broadcast(x, [B, 64]) : f32[B, 64]");
}

// onnxruntime's optimizer splits a shape instead of gathering from it.
TEST(OnnxShape, PartsOfAShapeStayKnown) {
  EXPECT_EQ(read_text(Model(17)
                          .input("x", {"B", "S", "64"})
                          .ints("sizes", {1, 2})
                          .ints("last", {-1})
                          .node("Shape", {"x"}, {"s"})
                          .node("Split", {"s", "sizes"}, {"b", "rest"})
                          .node("Concat", {"b", "last"}, {"t"}, {{"axis", int64_t{0}}})
                          .node("Reshape", {"x", "t"}, {"y"})
                          .output("y")),
            "reshape(x, [B, 64*S]) : f32[B, 64*S]");
}

// A length that a comparison of sizes chooses.
TEST(OnnxShape, SizesDecideComparisons) {
  const std::string path = testing::TempDir() + "sizes_decide.onnx";
  Model model(17);
  model.input("x", {"S", "1"})
      .ints("four", {4})
      .ints("one", {1})
      .ints("two", {2})
      .node("Shape", {"x"}, {"s"}, {{"end", int64_t{1}}})
      .node("Equal", {"s", "four"}, {"is_four"})
      .node("Where", {"is_four", "two", "one"}, {"columns"})
      .node("Concat", {"s", "columns"}, {"shape"}, {{"axis", int64_t{0}}})
      .node("Expand", {"x", "shape"}, {"y"})
      .output("y");
  std::ofstream(path, std::ios::binary) << model.bytes();
  const auto shape_with = [&](const ir::SymbolValues& sizes) {
    const auto graph = read_onnx(path, {}, sizes);
    return graph ? ir::to_string(graph->type(graph->outputs()[0].value)) : graph.error().what;
  };
  EXPECT_EQ(shape_with({}), "f32[S, -1*min(max(-1*S + 4, 0), 1) + -1*min(max(S + -4, 0), 1) + 2]");
  EXPECT_EQ(shape_with({{"S", 4}}), "f32[4, 2]");
  EXPECT_EQ(shape_with({{"S", 5}}), "f32[5, 1]");
  std::filesystem::remove(path);
}

TEST(OnnxShape, ASizeUsedAsDataIsComputed) {
  const auto mean = [](const std::string& rows) {
    return read_text(Model(17)
                         .input("x", {rows, "4"})
                         .node("Size", {"x"}, {"n"})
                         .node("Cast", {"n"}, {"f"}, {{"to", int64_t{1}}})
                         .node("Div", {"x", "f"}, {"y"})
                         .output("y"));
  };
  EXPECT_EQ(mean("2"), "x / cast(constant(8, s64), f32) : f32[2, 4]");
  EXPECT_EQ(mean("M"), "x / cast(reshape(arange([4*M, 4*M + 1]), []), f32) : f32[M, 4]");
}

std::string sliced(const std::vector<std::string>& shape, std::vector<int64_t> starts,
                   std::vector<int64_t> ends, std::vector<int64_t> axes,
                   std::vector<int64_t> steps) {
  return read_text(Model(13)
                       .input("x", shape)
                       .ints("starts", starts)
                       .ints("ends", ends)
                       .ints("axes", axes)
                       .ints("steps", steps)
                       .node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"})
                       .output("y"));
}

TEST(OnnxShape, SlicesClampTheirBounds) {
  constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;
  EXPECT_EQ(sliced({"M", "8"}, {0}, {kMax}, {-1}, {2}), "x[:, ::2] : f32[M, 4]");
  EXPECT_EQ(sliced({"M", "8"}, {1}, {INT32_MAX}, {1}, {2}), "x[:, 1::2] : f32[M, 4]");
  EXPECT_EQ(sliced({"M", "8"}, {-3}, {100}, {1}, {1}), "x[:, 5:] : f32[M, 3]");
  EXPECT_EQ(sliced({"M", "8"}, {6}, {2}, {1}, {1}), "x[:, 6:6] : f32[M, 0]");
  EXPECT_EQ(sliced({"M", "8"}, {-1}, {kMin}, {1}, {-1}), "x[:, ::-1] : f32[M, 8]");
  EXPECT_EQ(sliced({"M", "8"}, {1}, {kMax}, {0}, {1}), "x[1:, :] : f32[M + -1, 8]");
  EXPECT_EQ(sliced({"M", "8"}, {0}, {1}, {0}, {0}), "error: a step of 0");
  EXPECT_EQ(sliced({"M", "8"}, {0}, {1}, {2}, {1}), "error: axis 2 is outside a tensor of rank 2");
}

TEST(OnnxShape, SliceAttributesUntilOpset9) {
  EXPECT_EQ(read_node(9, "Slice", {{"M", "8"}},
                      {{"axes", std::vector<int64_t>{1}},
                       {"starts", std::vector<int64_t>{2}},
                       {"ends", std::vector<int64_t>{-1}}}),
            "x[:, 2:7] : f32[M, 5]");
}

TEST(OnnxShape, AxesAreAttributesThenInputs) {
  const std::vector<int64_t> one{1};
  EXPECT_EQ(read_node(11, "Squeeze", {{"M", "1", "4"}}, {{"axes", one}}),
            "reshape(x, [M, 4]) : f32[M, 4]");
  EXPECT_EQ(read_node(11, "Unsqueeze", {{"M", "4"}}, {{"axes", one}}),
            "reshape(x, [M, 1, 4]) : f32[M, 1, 4]");
  const auto by_input = [](const std::string& op, const std::vector<std::string>& shape) {
    return read_text(
        Model(13).input("x", shape).ints("a", {-2}).node(op, {"x", "a"}, {"y"}).output("y"));
  };
  EXPECT_EQ(by_input("Squeeze", {"M", "1", "4"}), "reshape(x, [M, 4]) : f32[M, 4]");
  EXPECT_EQ(by_input("Unsqueeze", {"M", "4"}), "reshape(x, [M, 1, 4]) : f32[M, 1, 4]");
  EXPECT_EQ(by_input("Squeeze", {"M", "4"}), "error: axis 0 of [M, 4] is not 1");
  EXPECT_EQ(read_node(13, "Squeeze", {{"1", "M", "1"}}), "reshape(x, [M]) : f32[M]");
}

TEST(OnnxShape, Flatten) {
  EXPECT_EQ(read_node(13, "Flatten", {{"B", "2", "3"}}), "reshape(x, [B, 6]) : f32[B, 6]");
  EXPECT_EQ(read_node(13, "Flatten", {{"B", "2", "3"}}, {{"axis", int64_t{0}}}),
            "reshape(x, [1, 6*B]) : f32[1, 6*B]");
  EXPECT_EQ(read_node(13, "Flatten", {{"B", "2", "3"}}, {{"axis", int64_t{-1}}}),
            "reshape(x, [2*B, 3]) : f32[2*B, 3]");
}

TEST(OnnxShape, TransposeIsNamedByWhatItDoes) {
  const auto transposed = [](std::vector<int64_t> perm) {
    return read_node(13, "Transpose", {{"A", "B", "C"}}, {{"perm", std::move(perm)}});
  };
  EXPECT_EQ(transposed({0, 2, 1}), "transpose(x) : f32[A, C, B]");
  EXPECT_EQ(transposed({0, 1, 2}), "x : f32[A, B, C]");
  EXPECT_EQ(transposed({1, 0, 2}), "permute(x, [1, 0, 2]) : f32[B, A, C]");
  EXPECT_EQ(read_node(13, "Transpose", {{"A", "B"}}), "transpose(x) : f32[B, A]");
  for (const auto& [perm, text] : {std::pair(std::vector<int64_t>{0, 0, 1}, "0, 0, 1"),
                                   std::pair(std::vector<int64_t>{0, 1}, "0, 1"),
                                   std::pair(std::vector<int64_t>{1, 0, 2, 3}, "1, 0, 2, 3"),
                                   std::pair(std::vector<int64_t>{0, -1, 1}, "0, -1, 1")})
    EXPECT_EQ(transposed(perm), fmt::format("error: perm=[{}] of a tensor of rank 3", text));
}

TEST(OnnxShape, SplitSizes) {
  const auto split = [](int64_t opset, const Attributes& attributes, bool sizes = false) {
    Model model(opset);
    model.input("x", {"M", "7"});
    if (sizes) model.ints("s", {3, 4});
    model.node("Split", sizes ? std::vector<std::string>{"x", "s"} : std::vector<std::string>{"x"},
               {"a", "b"}, attributes);
    return read_text(model.output("a").output("b"));
  };
  const int64_t axis = 1, parts = 2;
  EXPECT_EQ(split(11, {{"axis", axis}, {"split", std::vector<int64_t>{3, 4}}}),
            "x[:, :3] : f32[M, 3]\nx[:, 3:] : f32[M, 4]");
  EXPECT_EQ(split(13, {{"axis", axis}}, true), "x[:, :3] : f32[M, 3]\nx[:, 3:] : f32[M, 4]");
  EXPECT_EQ(split(18, {{"axis", axis}, {"num_outputs", parts}}),
            "x[:, :4] : f32[M, 4]\nx[:, 4:] : f32[M, 3]");
  EXPECT_EQ(split(13, {{"axis", axis}}), "error: cannot split 7 into 2 equal parts");
}

TEST(OnnxShape, ConcatAndGather) {
  EXPECT_EQ(read_node(13, "Concat", {{"M", "2"}, {"M", "3"}}, {{"axis", int64_t{-1}}}),
            "concat(x, y, axis=1) : f32[M, 5]");
  EXPECT_EQ(read_text(Model(13)
                          .input("x", {"V", "8"})
                          .input("ids", {"B", "S"}, kInt64)
                          .node("Gather", {"x", "ids"}, {"y"})
                          .output("y")),
            "gather(x, ids) : f32[B, S, 8]");
}

TEST(OnnxShape, TileAndPad) {
  EXPECT_EQ(read_text(Model(13)
                          .input("x", {"M", "2"})
                          .ints("r", {1, 3})
                          .node("Tile", {"x", "r"}, {"y"})
                          .output("y")),
            "reshape(broadcast(reshape(x, [1, M, 1, 2]), [1, M, 3, 2]), [M, 6]) : f32[M, 6]");
  EXPECT_EQ(read_text(Model(13)
                          .input("x", {"M", "4"})
                          .ints("p", {0, 1, 0, -1})
                          .node("Pad", {"x", "p"}, {"y"})
                          .output("y")),
            "concat(broadcast(0, [M, 1]), x[:, :3], axis=1) : f32[M, 4]");
}

TEST(OnnxShape, GeneratedTensors) {
  const auto made = [](const std::string& op, const Attributes& attributes) {
    return read_text(Model(13).ints("s", {2, 3}).node(op, {"s"}, {"y"}, attributes).output("y"));
  };
  EXPECT_EQ(made("ConstantOfShape", {}), "broadcast(0, [2, 3]) : f32[2, 3]");
  EXPECT_EQ(read_node(14, "Trilu", {{"2", "2"}}),
            "where(constant(s64[2], [0, 1]) - constant(s64[2, 1], [0, 1]) >= 0, x, 0) : f32[2, 2]");
  EXPECT_EQ(read_text(Model(13)
                          .weight("a", {}, std::vector{1}, kInt64)
                          .weight("b", {}, std::vector{8}, kInt64)
                          .weight("c", {}, std::vector{3}, kInt64)
                          .node("Range", {"a", "b", "c"}, {"y"})
                          .output("y")),
            "constant(s64[3], [1, 4, 7]) : s64[3]");
}

}  // namespace
}  // namespace attacca::import
