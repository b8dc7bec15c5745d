// Whole models: names, dimensions, weights, functions, and errors.
#include <filesystem>
#include <fstream>

#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

TEST(OnnxModel, ThePrintIsAGraph) {
  const auto graph = parse_onnx(Model()
                                    .input("x", {"batch", "4"})
                                    .weight("fc.weight", {4, 1}, std::vector{1, 2, 3, 4})
                                    .node("MatMul", {"x", "fc.weight"}, {"/fc/MatMul_output_0"})
                                    .node("Relu", {"/fc/MatMul_output_0"}, {"return"})
                                    .output("return")
                                    .bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(ir::print_graph(*graph),
            "graph g(x: f32[batch, 4]) {\n  fc_weight = constant(f32[4, 1], [1, 2, 3, 4])\n  "
            "_fc_MatMul_output_0 = matmul(x, fc_weight)\n  return_ = relu(_fc_MatMul_output_0)\n  "
            "return return_\n}\n");
}

TEST(OnnxModel, DynamicDimensionsBecomeSymbols) {
  EXPECT_EQ(read_text(Model().input("x", {"batch size", "batch_size", "", "-1"}).output("x")),
            "x : f32[batch_size_2, batch_size, x_d2, x_d3]");
  EXPECT_EQ(read_text(Model().input("x", {"f32", "2*M"}).output("x")), "x : f32[f32_, _2_M]");
  EXPECT_EQ(error_of(Model().input("x", {"-2"}).output("x")).what, "the negative dimension -2");
}

// The input type as text, of a model whose other inputs have the dims P, S and batch.
std::string extent_of(const std::string& param) {
  Model model;
  model.input("x", {param, "4"}).input("past", {"P", "S", "batch"}).output("y");
  model.input("past2", {"min"}).node("Relu", {"x"}, {"y"});
  const auto graph = parse_onnx(model.bytes());
  return graph ? ir::to_string(graph->type(graph->inputs()[0])) : graph.error().what;
}

TEST(OnnxModel, ADimensionMayBeAnExpressionOfOthers) {
  EXPECT_EQ(extent_of("P + S"), "f32[P + S, 4]");
  EXPECT_EQ(extent_of("S+P"), "f32[P + S, 4]");
  EXPECT_EQ(extent_of("2*batch"), "f32[2*batch, 4]");
  EXPECT_EQ(extent_of("floordiv(P, 2) + min(min, 3)"), "f32[floordiv(P, 2) + min(min, 3), 4]");
  // Not of names that stand alone somewhere, or no dimension.
  EXPECT_EQ(extent_of("P + N"), "f32[P___N, 4]");
  EXPECT_EQ(extent_of("P + "), "f32[P___, 4]");
  EXPECT_EQ(extent_of("P S"), "f32[P_S, 4]");
  EXPECT_EQ(extent_of("P - P - 3"), "input x has the negative dimension -3");
}

// A decoder's mask is added to the scores, and the past is joined with the new keys.
TEST(OnnxModel, AMaskOfThePastAndTheNewTokens) {
  Model model;
  model.input("past", {"B", "P", "8"}).input("keys", {"B", "S", "8"});
  model.input("mask", {"B", "1", "P + S"});
  model.node("Concat", {"past", "keys"}, {"all"}, {{"axis", int64_t{1}}})
      .node("Transpose", {"all"}, {"t"}, {{"perm", std::vector<int64_t>{0, 2, 1}}})
      .node("MatMul", {"keys", "t"}, {"scores"})
      .node("Add", {"scores", "mask"}, {"y"})
      .output("y");
  const auto graph = parse_onnx(model.bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(ir::to_string(graph->type(graph->outputs()[0].value)), "f32[B, S, P + S]");
  EXPECT_TRUE(
      ir::bind_symbols(*graph, {{"past", {2, 3, 8}}, {"keys", {2, 4, 8}}, {"mask", {2, 1, 7}}}));
  EXPECT_FALSE(
      ir::bind_symbols(*graph, {{"past", {2, 3, 8}}, {"keys", {2, 4, 8}}, {"mask", {2, 1, 6}}}));
}

TEST(OnnxModel, ADeclaredOutputTypeIsTheComputedOne) {
  const auto declared = [](int type) {
    Model model;
    model.input("x", {"4"}).node("Relu", {"x"}, {"y"}).output("y");
    model.proto()
        .mutable_graph()
        ->mutable_output(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->set_elem_type(type);
    return error_of(model);
  };
  EXPECT_EQ(declared(kFloat).what, "no error");
  EXPECT_EQ(declared(onnx::TensorProto::UNDEFINED).what, "no error");
  EXPECT_EQ(declared(kInt64).what, "declared as int64, computed as f32");
  EXPECT_EQ(declared(onnx::TensorProto::INT16).what, "declared as int16, computed as f32");
  EXPECT_EQ(declared(kDouble).where, "output y");
  EXPECT_EQ(declared(kDouble).fix, "declare the type that is computed, or insert a Cast");
}

TEST(OnnxModel, ErrorsSayWhatToDo) {
  const auto fix = [](const char* op, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs = {"y"},
                      const Attributes& attributes = {}) {
    Model model(21);
    model.input("x", {"4"}).ints("less", {-1, 0}).ints("more", {5, 0}).output("y");
    return error_of(model.node(op, inputs, outputs, attributes)).fix;
  };
  EXPECT_EQ(fix("Add", {}), "give the node one input or more");
  EXPECT_EQ(fix("Concat", {}, {"y"}, {{"axis", int64_t{0}}}), "give the node one input or more");
  EXPECT_EQ(fix("MatMul", {"x"}), "give the node this input: the op does not do without it");
  EXPECT_EQ(fix("Relu", {"x"}, {"y", "z"}),
            "export the model without it, or run the file with ONNX Runtime");
  for (const char* mode : {"reflect", "edge", "wrap"})
    EXPECT_EQ(fix("Pad", {"x", "less"}, {"y"}, {{"mode", std::string(mode)}}),
              "take elements away with Slice, and pad by 0 or more");
  EXPECT_EQ(fix("Pad", {"x", "more"}, {"y"}, {{"mode", std::string("reflect")}}),
            "pad by less, or with mode=constant");
}

TEST(OnnxModel, AnOutputMayBeListedAgain) {
  Model model;
  model.input("x", {"4"}).node("Relu", {"x"}, {"y"}).output("y").output("y").output("y_2");
  model.node("Neg", {"x"}, {"y_2"});
  const auto graph = parse_onnx(model.bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(ir::print_graph(*graph),
            "graph g(x: f32[4]) {\n  y = relu(x)\n  y_2 = -x\n  return y, y_3 = y, y_2\n}\n");
}

TEST(OnnxModel, AnInitializerListedAsInputIsAConstant) {
  EXPECT_EQ(read_text(Model(8)
                          .input("x", {"2"})
                          .input("w", {"2"})
                          .weight("w", {2}, std::vector{1, 2})
                          .node("Add", {"x", "w"}, {"y"})
                          .output("y")),
            "x + constant(f32[2], [1, 2]) : f32[2]");
}

// A model whose If computes Relu(x + c) or x * 2; `condition`: what its first input is.
Model branching(const std::string& condition) {
  Model model;
  model.input("x", {"M", "4"}).weight("c", {4}, std::vector{1, 2, 3, 4});
  model.node("If", {condition}, {"y"}).node("Neg", {"y"}, {"z"}).output("z");
  onnx::NodeProto& node = *model.proto().mutable_graph()->mutable_node(0);
  const auto add = [&node](const char* name) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    attribute.mutable_g()->add_output()->set_name(name);
    return attribute.mutable_g();
  };
  const auto add_node = [](onnx::GraphProto* graph, const char* op, const char* a, const char* b,
                           const char* to) {
    onnx::NodeProto& each = *graph->add_node();
    each.set_op_type(op);
    each.add_input(a);
    if (*b) each.add_input(b);
    each.add_output(to);
  };
  onnx::GraphProto* then = add("then_branch");
  add_node(then, "Add", "x", "c", "sum");
  add_node(then, "Relu", "sum", "", "then_branch");
  onnx::GraphProto* otherwise = add("else_branch");
  *otherwise->add_initializer() = tensor_proto(kFloat, {}, std::vector{2});
  otherwise->mutable_initializer(0)->set_name("two");
  add_node(otherwise, "Mul", "x", "two", "else_branch");
  return model;
}

TEST(OnnxModel, AnIfIsTheBranchThatItsConditionTakes) {
  const std::string then = "-relu(x + constant(f32[4], [1, 2, 3, 4])) : f32[M, 4]";
  EXPECT_EQ(read_text(branching("yes").weight("yes", {}, std::vector{1}, onnx::TensorProto::BOOL)),
            then);
  EXPECT_EQ(read_text(branching("no").weight("no", {1}, std::vector{0}, onnx::TensorProto::BOOL)),
            "-(x * 2) : f32[M, 4]");
  Model of_size = branching("four");
  of_size.node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "one"}, {"width"})
      .node("Equal", {"width", "width"}, {"four"})
      .weight("one", {}, std::vector{1}, kInt64);
  EXPECT_EQ(read_text(of_size), then) << "the nodes that it reads stand behind it";
}

TEST(OnnxModel, AnIfWhoseConditionIsUnknownIsRefused) {
  Model of_rows = branching("long");
  of_rows.node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "zero"}, {"rows"})
      .node("Equal", {"rows", "zero"}, {"long"})
      .weight("zero", {}, std::vector{0}, kInt64);
  EXPECT_EQ(error_of(of_rows).what, "which branch is taken depends on the data, or on a size");
  Model nothing = branching("yes").weight("yes", {}, std::vector{1}, onnx::TensorProto::BOOL);
  nothing.proto().mutable_graph()->mutable_node(0)->mutable_attribute()->RemoveLast();
  nothing.proto().mutable_graph()->mutable_node(0)->mutable_attribute()->RemoveLast();
  EXPECT_EQ(error_of(nothing).what, "the attribute then_branch is missing");
}

TEST(OnnxModel, ABranchSeesOnlyWhatStandsAroundIt) {
  Model model = branching("yes").weight("yes", {}, std::vector{1}, onnx::TensorProto::BOOL);
  model.node("Neg", {"sum"}, {"w"}).output("w");
  EXPECT_EQ(error_of(model).what, "nothing before it defines its input sum");
}

TEST(OnnxModel, EveryUnsupportedOpIsListedAtOnce) {
  Model model;
  model.input("x", {"1", "1", "4", "4"});
  model.node("GridSample", {"x", "x"}, {"a"})
      .node("Relu", {"a"}, {"b"})
      .node("GridSample", {"b", "x"}, {"c"});
  model.node("Mish", {"c"}, {"d"}).node("Attention", {"d"}, {"e"}, {}, "my.domain").output("e");
  model.proto().mutable_graph()->mutable_node(0)->set_name("first");
  EXPECT_EQ(error_of(model).what,
            "the model uses ops that are not supported:\n  Attention of domain my.domain: e\n  "
            "GridSample: first, c\n  Mish in opset 17: d");
}

TEST(OnnxModel, OfManyUnsupportedNodesTheFirstAreListed) {
  Model model;
  model.input("x", {"1", "1", "4", "4"}).output("c8");
  for (int i = 0; i < 9; ++i) model.node("GridSample", {"x", "x"}, {fmt::format("c{}", i)});
  EXPECT_EQ(error_of(model).what,
            "the model uses ops that are not supported:\n  GridSample: 9 nodes, c0, c1, c2, c3, "
            "c4, c5, c6, c7 ...");
}

TEST(OnnxModel, ErrorsNameTheNode) {
  const Error error = error_of(
      Model().input("x", {"4"}).input("y", {"3"}).node("Add", {"x", "y"}, {"z"}).output("z"));
  EXPECT_EQ(error.where, "node z (Add)");
  EXPECT_EQ(error.what, "add cannot broadcast [4] with [3]");
}

TEST(OnnxModel, BrokenGraphsAreErrors) {
  const auto what = [](Model& model) { return error_of(model).what; };
  const auto x = [] { return Model().input("x", {"4"}); };
  // A cycle; a name that nothing defines.
  EXPECT_EQ(what(x().node("Add", {"x", "b"}, {"y"}).output("y")),
            "nothing before it defines its input b");
  EXPECT_EQ(what(x().node("Add", {"x", "b"}, {"a"}).node("Relu", {"a"}, {"b"}).output("b")),
            "nothing before it defines its input b");
  EXPECT_EQ(what(x().node("Relu", {"x"}, {"y"}).node("Exp", {"x"}, {"y"}).output("y")),
            "y is defined twice");
  EXPECT_EQ(what(x().node("Relu", {"x"}, {"x"}).output("x")), "x is defined twice");
  EXPECT_EQ(what(x().input("x", {"4"}).output("x")), "the name is used twice");
  EXPECT_EQ(what(x().output("y")), "no node defines it");
  EXPECT_EQ(what(x().node("Relu", {"x"}, {"y"})), "the graph has no outputs");
  EXPECT_EQ(what(x().node("Relu", {}, {"y"}).output("y")), "the node has no inputs");
  EXPECT_EQ(what(x().node("Relu", {"x", "x"}, {"y"}).output("y")), "relu takes 1 operands, got 2");
  EXPECT_EQ(what(x().node("Relu", {"x"}, {"y", "z"}).output("y")), "output 1 (z) is not supported");
  EXPECT_EQ(what(x().input("u", {"4"}, onnx::TensorProto::UINT16).output("u")),
            "ONNX element type uint16 is not supported");
  EXPECT_EQ(what(Model(0).input("x", {"4"}).output("x")), "opset 0 is not supported");
}

TEST(OnnxModel, NodesMayStandInAnyOrder) {
  const auto printed = [](const Model& model) {
    const auto graph = parse_onnx(model.bytes());
    return graph ? ir::print_graph(*graph) : to_string(graph.error());
  };
  EXPECT_EQ(printed(Model()
                        .input("x", {"4"})
                        .node("Sub", {"b", "c"}, {"y"})
                        .node("Relu", {"a"}, {"b"})
                        .node("Exp", {"x"}, {"a"})
                        .node("Tanh", {"a"}, {"c"})
                        .output("y")),
            printed(Model()
                        .input("x", {"4"})
                        .node("Exp", {"x"}, {"a"})
                        .node("Relu", {"a"}, {"b"})
                        .node("Tanh", {"a"}, {"c"})
                        .node("Sub", {"b", "c"}, {"y"})
                        .output("y")));
}

TEST(OnnxModel, NamesWithNulAreErrors) {
  const std::string nul("a\0b", 3);
  const auto refused = [](Model& model, const std::string& where) {
    const Error error = error_of(model);
    EXPECT_EQ(error.what, "the name a?b holds a NUL byte");
    EXPECT_EQ(error.where, where);
  };
  const auto x = [] { return Model().input("x", {"4"}); };
  refused(Model().input(nul, {"4"}).node("Relu", {nul}, {"y"}).output("y"), "input a?b");
  refused(x().weight(nul, {4}, std::vector<double>(4)).output("x"), "initializer a?b");
  refused(x().node("Relu", {"x"}, {nul}).node("Exp", {nul}, {"y"}).output("y"), "node a?b (Relu)");
  refused(x().output(nul), "output a?b");
  refused(Model().input("x", {nul}).output("x"), "input x");
}

TEST(OnnxModel, AnInputWithoutRankOrTensorIsAnError) {
  Model rankless, sequence;
  auto* type = rankless.output("x").proto().mutable_graph()->add_input();
  type->set_name("x");
  type->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  EXPECT_EQ(error_of(rankless).what, "the input's rank is unknown");
  type = sequence.output("x").proto().mutable_graph()->add_input();
  type->set_name("x");
  type->mutable_type()->mutable_sequence_type();
  EXPECT_EQ(error_of(sequence).what, "the input is not a tensor");
}

TEST(OnnxModel, DamagedBytesAreErrors) {
  const std::string bytes =
      Model().input("x", {"4"}).node("Relu", {"x"}, {"y"}).output("y").bytes();
  EXPECT_FALSE(parse_onnx(""));
  EXPECT_FALSE(parse_onnx("not a model"));
  for (size_t length = 0; length < bytes.size(); ++length)
    (void)parse_onnx(bytes.substr(0, length));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    (void)parse_onnx(damaged);
  }
}

// Two bytes a node, hundreds once built: refused before anything is built.
TEST(OnnxModel, ManySmallFieldsAreRefusedUnread) {
  std::string nodes;
  for (int i = 0; i < 9'000'000; ++i) nodes += std::string_view("\x0a\x00", 2);
  std::string bytes("\x3a", 1);
  for (size_t rest = nodes.size(); rest > 0; rest >>= 7)
    bytes += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  const auto graph = parse_onnx(bytes + nodes);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().what, "the model has more than 8000000 fields");
}

// y = f(x) with f(a) = LeakyRelu(a) * b, its slope an attribute, b an optional input.
Model with_function(const Attributes& call, bool recursive = false) {
  Model model;
  model.input("x", {"4"});
  model.proto().add_opset_import()->set_domain("local");
  auto* function = model.proto().add_functions();
  function->set_name("f");
  function->set_domain("local");
  function->add_input("a");
  function->add_input("b");
  function->add_output("r");
  function->add_attribute("slope");
  function->add_opset_import()->set_version(16);
  auto* leaky = function->add_node();
  Model::fill(*leaky, "LeakyRelu", {"a"}, {"l"}, {});
  auto* slope = leaky->add_attribute();
  slope->set_name("alpha");
  slope->set_type(onnx::AttributeProto::FLOAT);
  slope->set_ref_attr_name("slope");
  Model::fill(*function->add_node(), "Clip", {"l", "b"}, {"r"}, {});
  if (recursive) Model::fill(*function->add_node(), "f", {"r"}, {"s"}, {}, "local");
  return model.node("f", {"x"}, {"y"}, call, "local").output("y");
}

TEST(OnnxModel, FunctionsAreInlined) {
  EXPECT_EQ(read_text(with_function({{"slope", 0.25f}})),
            "clamp(leaky_relu(x, alpha=0.25), min=-3.4028234663852886e+38, "
            "max=3.4028234663852886e+38) : f32[4]");
  EXPECT_EQ(
      read_text(with_function({})),
      "clamp(leaky_relu(x), min=-3.4028234663852886e+38, max=3.4028234663852886e+38) : f32[4]");
  EXPECT_EQ(read_text(with_function({}, true)), "error: functions call each other deeper than 32");
}

TEST(OnnxModel, FunctionAttributesMayHaveDefaults) {
  onnx::AttributeProto value;
  set_attribute(value, "slope", 0.5f);
  Model model = with_function({});
  // FunctionProto.attribute_proto = 11, which the schema at hand does not know.
  const std::string field = value.SerializeAsString();
  std::string unknown{static_cast<char>(11 << 3 | 2), static_cast<char>(field.size())};
  *model.proto().mutable_functions(0)->mutable_unknown_fields() = unknown + field;
  EXPECT_EQ(read_text(model),
            "clamp(leaky_relu(x, alpha=0.5), min=-3.4028234663852886e+38, "
            "max=3.4028234663852886e+38) : f32[4]");
}

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(testing::TempDir()) / "attacca_external";
    std::filesystem::create_directories(directory_);
    const float values[] = {1, 2, 3, 4};
    std::ofstream(directory_ / "weights.bin", std::ios::binary)
        .write(reinterpret_cast<const char*>(values), sizeof values);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string read(const std::map<std::string, std::string>& entries) const {
    Model model;
    model.weight("w", {2}, std::vector<double>{}).node("Relu", {"w"}, {"y"}).output("y");
    auto* weight = model.proto().mutable_graph()->mutable_initializer(0);
    weight->set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* entry = weight->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    std::ofstream(directory_ / "model.onnx", std::ios::binary) << model.bytes();
    const auto graph = read_onnx((directory_ / "model.onnx").string());
    return graph ? ir::print_expression(*graph, graph->outputs()[0].value, true)
                 : "error: " + graph.error().what;
  }

  std::filesystem::path directory_;
};

TEST_F(ExternalData, IsReadBesideTheModel) {
  EXPECT_EQ(read({{"location", "weights.bin"}}), "relu(constant(f32[2], [1, 2]))");
  EXPECT_EQ(read({{"location", "weights.bin"}, {"offset", "8"}, {"length", "8"}}),
            "relu(constant(f32[2], [3, 4]))");
}

TEST_F(ExternalData, IsChecked) {
  EXPECT_EQ(read({{"location", "weights.bin"}, {"offset", "12"}}),
            "error: external data file weights.bin has 16 bytes, wanted 8 at 12");
  EXPECT_EQ(read({{"location", "weights.bin"}, {"offset", "-4"}}),
            "error: external data: offset is not a size: -4");
  EXPECT_EQ(read({{"location", "weights.bin"}, {"length", "4"}}),
            "error: external data of the tensor f32[2] holds 4, wanted 8");
  EXPECT_EQ(read({{"location", "absent.bin"}}),
            "error: external data file absent.bin cannot be read");
  EXPECT_EQ(read({}), "error: external data names no file");
  EXPECT_EQ(read({{"location", "../weights.bin"}}),
            "error: external data lies outside the model's directory: ../weights.bin");
  EXPECT_EQ(read({{"location", "/etc/passwd"}}),
            "error: external data lies outside the model's directory: /etc/passwd");
  std::filesystem::create_symlink("/etc/passwd", directory_ / "link");
  EXPECT_EQ(read({{"location", "link"}}),
            "error: external data lies outside the model's directory: link");
}

TEST(OnnxModel, AMissingFileIsAnError) {
  const auto graph = read_onnx("absent.onnx");
  ASSERT_FALSE(graph);
  EXPECT_EQ(to_string(graph.error()),
            "error: cannot read absent.onnx\n  at: absent.onnx\n  fix: check the path\n");
}

}  // namespace
}  // namespace attacca::import
