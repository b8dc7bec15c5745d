#include "import/onnx_testing.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Tensor;

Model indexed(const std::string& op, const Tensor& indices, const Attributes& attributes = {}) {
  std::vector<double> values;
  for (int64_t i = 0; i < indices.size(); ++i) values.push_back(indices.number_at(i));
  Model model(17);
  model.input("x", {"2", "3"});
  model.weight("i", indices.shape(), values, kInt64);
  model.node(op, {"x", "i"}, {"y"}, attributes).output("y");
  return model;
}

std::string computed(const Model& model) {
  const auto graph = parse_onnx(model.bytes());
  if (!graph) return "error: " + graph.error().what;
  const auto result =
      ir::interpret(*graph, {{"x", Tensor::of(DType::F32, {2, 3}, {0, 1, 2, 3, 4, 5})}}, {});
  if (!result) return "error: " + result.error().what;
  std::string text;
  for (int64_t i = 0; i < result->front().size(); ++i)
    text += fmt::format("{} ", result->front().number_at(i));
  return text;
}

TEST(OnnxIndex, EachIndexStaysInsideItsOwnAxis) {
  EXPECT_EQ(computed(indexed("GatherND", Tensor::of(DType::S64, {2, 2}, {1, -1, 0, -3}))), "5 0 ");
  EXPECT_EQ(computed(indexed("GatherND", Tensor::of(DType::S64, {1, 2}, {0, 3}))),
            "error: gather index 6 is outside an axis of 6");
  EXPECT_EQ(computed(indexed("GatherND", Tensor::of(DType::S64, {1, 2}, {1, -4}))),
            "error: gather index 9 is outside an axis of 6");
  EXPECT_EQ(computed(indexed("GatherElements", Tensor::of(DType::S64, {1, 2}, {1, -2}))), "3 1 ");
  EXPECT_EQ(computed(indexed("GatherElements", Tensor::of(DType::S64, {1, 1}, {2}))),
            "error: gather index 6 is outside an axis of 6");
}

std::string scattered(const std::string& op, const Tensor& indices, const Tensor& updates,
                      const Attributes& attributes = {}) {
  Model model = indexed(op, indices, attributes);
  std::vector<double> values;
  for (int64_t i = 0; i < updates.size(); ++i) values.push_back(updates.number_at(i));
  model.weight("u", updates.shape(), values);
  model.proto().mutable_graph()->mutable_node(0)->add_input("u");
  return computed(model);
}

TEST(OnnxIndex, UpdatesStayInsideTheirAxes) {
  const Tensor two = Tensor::of(DType::F32, {1, 2}, {8, 9});
  EXPECT_EQ(scattered("ScatterElements", Tensor::of(DType::S64, {1, 2}, {1, -2}), two),
            "0 9 2 8 4 5 ");
  EXPECT_EQ(scattered("ScatterElements", Tensor::of(DType::S64, {1, 2}, {2, 0}), two),
            "error: scatter index 6 is outside an axis of 6");
  EXPECT_EQ(scattered("ScatterND", Tensor::of(DType::S64, {1, 1}, {-1}),
                      Tensor::of(DType::F32, {1, 3}, {7, 8, 9})),
            "0 1 2 7 8 9 ");
  EXPECT_EQ(scattered("ScatterND", Tensor::of(DType::S64, {1, 1}, {-3}),
                      Tensor::of(DType::F32, {1, 3}, {7, 8, 9})),
            "error: scatter index 2 is outside an axis of 2");
  EXPECT_EQ(scattered("ScatterND", Tensor::of(DType::S64, {1, 1}, {0}), two),
            "error: updates of shape [1, 2], wanted [1, 3]");
  EXPECT_EQ(scattered("ScatterND", Tensor::of(DType::S64, {1, 1}, {0}), two,
                      {{"reduction", std::string("add")}}),
            "error: updates of shape [1, 2], wanted [1, 3]");
}

// Also where the index times a row's length is no s64, and where updates reach a part of the rows.
TEST(OnnxIndex, ReducedUpdatesStayInsideTheirAxes) {
  for (const std::string how : {"add", "mul", "max", "min"})
    for (const double index : {2.0, -3.0, 0x1p62}) {
      const auto at = [&](int64_t columns) {
        return Tensor::of(DType::S64, {1, columns},
                          std::vector(static_cast<size_t>(columns), index));
      };
      const Attributes reduction{{"reduction", how}};
      const Tensor row = Tensor::of(DType::F32, {1, 3}, {7, 8, 9});
      const std::string op = how == "add" ? "scatter_add" : "gather";
      EXPECT_EQ(scattered("ScatterElements", at(3), row, reduction),
                how == "add" ? "error: scatter_add index 8 is outside an axis of 6"
                             : "error: gather index 2 is outside an axis of 2");
      EXPECT_EQ(scattered("ScatterElements", at(1), Tensor::of(DType::F32, {1, 1}, {7}), reduction),
                fmt::format("error: {} index 6 is outside an axis of 6", op));
      EXPECT_EQ(scattered("ScatterND", at(1), row, reduction),
                fmt::format("error: {} index 2 is outside an axis of 2", op));
    }
}

// Onto 0 1 2 / 3 4 5.
TEST(OnnxIndex, UpdatesOfOnePlaceAreReduced) {
  const Tensor twice = Tensor::of(DType::S64, {2, 1}, {1, -1});
  const Tensor rows = Tensor::of(DType::F32, {2, 3}, {10, 20, -9, 1, 2, 3});
  const auto reduced = [&](std::string how) {
    return scattered("ScatterND", twice, rows, {{"reduction", std::move(how)}});
  };
  EXPECT_EQ(reduced("add"), "0 1 2 14 26 -1 ");
  EXPECT_EQ(reduced("mul"), "0 1 2 30 160 -135 ");
  EXPECT_EQ(reduced("max"), "0 1 2 10 20 5 ");
  EXPECT_EQ(reduced("min"), "0 1 2 1 2 -9 ");
  EXPECT_EQ(reduced("mean"), "error: reduction=mean is not supported");
  EXPECT_EQ(
      scattered("ScatterElements", Tensor::of(DType::S64, {2, 2}, {0, 1, -2, 1}),
                Tensor::of(DType::F32, {2, 2}, {1, 2, 3, 4}), {{"reduction", std::string("add")}}),
      "4 1 2 3 10 5 ");
}

TEST(OnnxIndex, ShapesOfIndicesAreChecked) {
  EXPECT_EQ(computed(indexed("GatherND", Tensor::of(DType::S64, {1, 3}, {0, 0, 0}))),
            "error: indices of shape [1, 3] with batch_dims=0 into a tensor of shape [2, 3]");
  EXPECT_EQ(computed(indexed("GatherND", Tensor::of(DType::S64, {2, 1}, {0, 0}),
                             {{"batch_dims", int64_t{2}}})),
            "error: indices of shape [2, 1] with batch_dims=2 into a tensor of shape [2, 3]");
  EXPECT_EQ(computed(indexed("GatherND", Tensor::of(DType::S64, {3, 1}, {0, 0, 0}),
                             {{"batch_dims", int64_t{1}}})),
            "error: the batch axis 0 is 2 of the data and 3 of the indices");
  EXPECT_EQ(computed(indexed("GatherElements", Tensor::of(DType::S64, {1, 4}, {0, 0, 0, 0}))),
            "error: axis 1 is 4 of the indices and 3 of the data");
  EXPECT_EQ(computed(indexed("GatherElements", Tensor::of(DType::S64, {1}, {0}))),
            "error: indices of shape [1] into a tensor of shape [2, 3]");
}

}  // namespace
}  // namespace attacca::import
