// Every kind of bad input is a status that says what, where, and how to fix it.
#include <cmath>
#include <functional>
#include <limits>

#include "gtest/gtest.h"

#include "attacca/attacca.hpp"

namespace {

using attacca::DType;
using attacca::Status;

constexpr const char* kLinear =
    "graph linear(x: f32[M, 3], w: f32[4, 3]) { return y = matmul(x, transpose(w)) }";

void expect_failure(const Status& status, std::string_view what, std::string_view fix = {}) {
  ASSERT_FALSE(status.ok()) << "no failure, wanted " << what;
  EXPECT_NE(status.what().find(what), std::string_view::npos) << status.text();
  EXPECT_NE(status.fix().find(fix), std::string_view::npos) << status.text();
}

attacca::Plan plan(const char* text = kLinear) {
  return *attacca::Plan::compile(*attacca::Graph::parse(text));
}

Status built(const std::function<void(attacca::Builder&)>& build) {
  attacca::Builder builder;
  build(builder);
  return builder.finish().status();
}

TEST(ApiErrors, Success) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().text(), "");
}

TEST(ApiErrors, Texts) {
  expect_failure(attacca::Graph::parse("graph g(x: f32[M]) { return geluu(x) }").status(), "geluu",
                 "did you mean gelu?");
  const Status place = attacca::Graph::parse("graph g(x: f33[M]) { return x }").status();
  EXPECT_EQ(place.where(), "<text>:1:12");
  expect_failure(attacca::Graph::load("/nowhere/g.attacca").status(), "/nowhere/g.attacca");
  expect_failure(attacca::Graph::load("/nowhere/g.onnx").status(), "/nowhere/g.onnx");
}

TEST(ApiErrors, Builder) {
  expect_failure(built([](auto& b) { b.output(b.call("geluu", {b.input("x", "f32[M]")})); }),
                 "unknown op geluu", "did you mean gelu?");
  expect_failure(built([](auto& b) { b.output(b.call("swish", {b.input("x", "f32[M]")})); }),
                 "unknown op swish", "did you mean silu?");
  expect_failure(built([](auto& b) { b.input("x", "f31[M]"); }), "f31");
  expect_failure(built([](auto& b) { b.input("x", "f32[M], y: f32[M]"); }), "more than a type");
  expect_failure(built([](auto& b) { b.input("x", DType::F32, {-1}); }), "negative");
  expect_failure(built([](auto& b) { b.input("", DType::F32, {1}); }), "needs a name");
  expect_failure(built([](auto& b) {
                   b.input("x", DType::F32, {1});
                   b.input("x", DType::F32, {1});
                 }),
                 "x is defined twice");
  expect_failure(built([](auto& b) {
                   const auto x = b.input("x", DType::F32, {"M", 3});
                   const auto w = b.input("w", DType::F32, {4, 3});
                   b.output(b.call("matmul", {x, w}));
                 }),
                 "inner dimensions", "did you mean matmul(a, transpose(b))?");
  expect_failure(
      built([](auto& b) { b.output(b.call("cast", {b.input("x", DType::F32, {"M"})}, "f17")); }),
      "f17");
  expect_failure(
      built([](auto& b) { b.output(b.call("sum", {b.input("x", DType::F32, {"M"})}, "axis=0")); }),
      "axis");
  expect_failure(built([](auto& b) {
                   b.output(b.call("exp", {b.input("x", DType::F32, {"M"})}, "), x0 * (2"));
                 }),
                 "");
  expect_failure(built([](auto& b) {
                   b.output(b.compute("a, a", {{"a", b.input("x", DType::F32, {"M"})}}));
                 }),
                 "2 results where one is wanted");
  expect_failure(built([](auto& b) { b.output(b.compute("z * 2", {})); }), "z");
  expect_failure(built([](auto& b) { b.constant(DType::F32, {3}, {}); }), "0 bytes for f32[3]");
  expect_failure(built([](auto& b) { b.constant(DType::F32, {"M"}, {}); }), "type f32[M]");
  expect_failure(built([](auto& b) { b.input("x", DType::F32, {1}); }), "no output");
  expect_failure(built([](auto& b) {
                   const auto x = b.input("x", DType::F32, {1});
                   b.output(x, "y");
                   b.output(x, "y");
                 }),
                 "output y comes twice");
  const auto second = [](const char* first, const char* then) {
    return built([&](auto& b) {
      const auto x = b.input("x", DType::F32, {1});
      b.output(b.call("exp", {x}), first);
      b.output(b.call("neg", {x}), then);
    });
  };
  expect_failure(second("out1", ""), "output out1 comes twice", "use another name");
  expect_failure(second("", "out0"), "output out0 comes twice", "use another name");
  EXPECT_TRUE(second("out0", "").ok());
  expect_failure(built([](auto& b) {
                   const auto x = b.input("x", DType::F32, {1});
                   b.output(x);
                   b.output(x);
                 }),
                 "output x comes twice", "use another name");
  expect_failure(built([](auto& b) {
                   attacca::Builder other;
                   b.output(other.input("x", DType::F32, {1}));
                 }),
                 "a value of another builder");
}

TEST(ApiErrors, Constants) {
  const auto graph = *attacca::Graph::parse(kLinear);
  expect_failure(graph.with_constant("weight", {}).status(), "no input weight", "x, w");
  expect_failure(graph.with_constant("w", {}).status(), "0 bytes for f32[4, 3]");
  expect_failure(graph.with_constant("x", {}).status(), "f32[M, 3]");
  const auto weights = attacca::Graph::parse(
      "graph g(x: f32[2]) {\n  w = constant(f32[2], [1, 2])\n  return x * w\n}");
  expect_failure(weights->with_constant("w", {}).status(), "no input w: it is a constant");
}

TEST(ApiErrors, StridesOfAnotherRank) {
  const auto plan = *attacca::Plan::compile(*attacca::Graph::parse(kLinear));
  const auto prepared = [&](std::vector<std::vector<int64_t>> strides) {
    return plan.prepare({{"M", 2}}, {}, strides).status();
  };
  EXPECT_TRUE(prepared({{3, 1}, {}, {}}));
  expect_failure(prepared({{3}, {}, {}}), "1 strides for f32[M, 3]", "one for each axis");
  expect_failure(prepared({{}, {}, {4, 1, 1}}), "3 strides for f32[M, 4]");
  expect_failure(prepared({{3, 1}, {}, {}, {1}}), "4 strides for 2 inputs and 1 outputs");
}

TEST(ApiErrors, Options) {
  const auto graph = *attacca::Graph::parse(kLinear);
  for (const char* device : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu:0"})
    expect_failure(attacca::Plan::compile(graph, {.device = device}).status(), "unknown device",
                   "cuda:1");
  expect_failure(attacca::check_device("tpu"), "unknown device tpu");
  EXPECT_TRUE(attacca::check_device("cpu").ok());
  expect_failure(attacca::export_choices("file", "cpu").status(), "choices are of a GPU",
                 "give cuda");
  expect_failure(attacca::import_choices("file", "tpu").status(), "unknown device tpu");
  expect_failure(attacca::Plan::compile(graph, {.threads = -1}).status(), "-1 threads");
  for (const double seconds : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    expect_failure(attacca::Plan::compile(graph, {.tuning_seconds = seconds}).status(),
                   "tuning_seconds", "finite");
  attacca_options options = {sizeof(attacca_options), nullptr, "eagre", nullptr, 0, 0, 0, 0};
  attacca_plan* none = nullptr;
  expect_failure(Status(attacca_plan_compile(graph.handle(), &options, &none)),
                 "unknown mode eagre", "did you mean eager?");
  options = {sizeof(attacca_options), nullptr, nullptr, "mesure", 0, 0, 0, 0};
  expect_failure(Status(attacca_plan_compile(graph.handle(), &options, &none)),
                 "unknown tuning mesure", "did you mean measure?");
  options.size = 3;
  expect_failure(Status(attacca_plan_compile(graph.handle(), &options, &none)), "3 bytes",
                 "sizeof");
  EXPECT_EQ(none, nullptr);
}

TEST(ApiErrors, Matmul) {
  using attacca::Plan;
  expect_failure(Plan::matmul(DType::BF16, "mn", "acc", DType::BF16).status(), "layout mn", "nk");
  expect_failure(Plan::matmul(DType::BF16, "nk", "geluu(acc)", DType::BF16).status(), "geluu",
                 "did you mean gelu?");
  for (const char* twice : {"acc, acc", "y = acc, y = acc * 2", "out1 = acc, acc * 2"})
    expect_failure(Plan::matmul(DType::F32, "nk", twice, DType::F32).status(), "comes twice",
                   "NAME = VALUE");
  expect_failure(Plan::matmul(DType::BF16, "nk", "acc +", DType::BF16).status(), "expected");
  attacca_plan* none = nullptr;
  expect_failure(Status(attacca_matmul_plan("bf61", nullptr, nullptr, nullptr, nullptr, &none)),
                 "unknown dtype bf61", "bf16");
}

TEST(ApiErrors, Sizes) {
  const auto p = plan();
  expect_failure(p.prepare().status(), "size M has no value", "M");
  expect_failure(p.prepare({{"M", 1}, {"Q", 1}}).status(), "no size Q", "its sizes are M");
  expect_failure(p.prepare({{"M", -1}}).status(), "size M is -1");
  expect_failure(p.prepare({{"M", 1}, {"M", 2}}).status(), "size M comes twice");
  expect_failure(p.prepare({{"M", INT64_MAX}}).status(), "more bytes than there are addresses");
  expect_failure(p.prepare({{"M", 1}}, {16}).status(), "1 alignments for 2 inputs and 1 outputs");
  expect_failure(p.prepare({{"M", 1}}, {16, 3, 16}).status(), "alignment of 3");
  expect_failure(plan("graph g(x: f32[M]) { return x[2:5] }").prepare({{"M", 3}}).status(), "");
}

TEST(ApiErrors, Runs) {
  const auto instance = *plan().prepare({{"M", 1}});
  alignas(16) float x[4] = {}, w[12] = {}, y[4] = {};
  expect_failure(instance.run({x}, {y}), "1 addresses for 2 inputs");
  expect_failure(instance.run({x, w}, {}), "0 addresses for 1 outputs");
  expect_failure(instance.run({x, nullptr}, {y}), "input w has no address", "48 bytes");
  expect_failure(instance.run({x, w}, {nullptr}), "output y has no address");
  expect_failure(instance.run({reinterpret_cast<char*>(x) + 1, w}, {y}), "not aligned");
  expect_failure(instance.run({x, w}, {y}, {}, x), "stream");
  EXPECT_TRUE(instance.run({x, w}, {y}).ok());
}

TEST(ApiErrors, Files) {
  expect_failure(attacca::Plan::deserialize("").status(), "not a plan");
  expect_failure(attacca::Plan::deserialize("attacca-plan 3\n").status(), "version 3", "save");
  expect_failure(attacca::Plan::load("/nowhere/p.plan").status(), "/nowhere/p.plan");
  expect_failure(plan().save("/nowhere/p.plan"), "cannot write", "path");
  expect_failure(attacca::Plan::deserialize(*plan().serialize(), "tpu").status(), "unknown device");
}

// The C interface would see only the part of a text before a NUL. In every case below that part is
// valid.
TEST(ApiErrors, TextsWithANul) {
  using attacca::Graph;
  using attacca::Plan;
  const auto cut = [](std::string_view text) { return std::string(text) + '\0' + "more"; };
  const auto nul = [](const Status& status, const std::string& title) {
    expect_failure(status, "the " + title + " has a NUL character", "take it out");
    EXPECT_EQ(status.where(), title);
    EXPECT_EQ(status.text(),
              "the " + title + " has a NUL character, at " + title + ": take it out");
  };
  const auto graph = *Graph::parse(kLinear);
  const std::vector<std::byte> weights(48);
  nul(Graph::parse(cut(kLinear)).status(), "text");
  nul(Graph::load(cut("/nowhere/g.attacca")).status(), "path");
  nul(Graph::from_onnx(weights, cut("/nowhere")).status(), "directory");
  nul(graph.with_constant(cut("w"), weights).status(), "input");
  nul(graph.with_constant(cut("w"), "f32[4, 3]", weights).status(), "input");
  nul(graph.with_constant("w", cut("f32[4, 3]"), weights).status(), "type");

  nul(attacca::Builder(cut("g")).status(), "name");
  nul(attacca::Builder(cut("g")).finish().status(), "name");
  nul(built([&](auto& b) { b.output(b.input(cut("x"), "f32[3]")); }), "name");
  nul(built([&](auto& b) { b.output(b.input("x", cut("f32[3]"))); }), "type");
  nul(built([&](auto& b) { b.output(b.input("x", DType::F32, {cut("M")})); }), "type");
  const auto of_x = [&](auto build) {
    return built([&](auto& b) { b.output(build(b, b.input("x", "f32[3]"))); });
  };
  nul(of_x([&](auto& b, auto) { return b.constant(DType::F32, {cut("12")}, weights); }), "type");
  nul(of_x([&](auto& b, auto x) { return b.call(cut("exp"), {x}); }), "op");
  nul(of_x([&](auto& b, auto x) { return b.call("cast", {x}, cut("f16")); }), "attributes");
  nul(of_x([&](auto& b, auto x) { return b.compute(cut("a * 2"), {{"a", x}}); }), "expression");
  nul(of_x([&](auto& b, auto x) { return b.compute("a * 2", {{"a", x}, {cut("b"), x}}); }), "name");
  using attacca::KernelArgument;
  const auto result = KernelArgument::result(DType::F32, {3});
  nul(of_x([&](auto& b, auto x) {
        return b.kernel(cut("k.ptx"), {x, result}, "grid=[1]");
      }),
      "file");
  nul(of_x([&](auto& b, auto x) {
        return b.kernel("k.ptx", {x, result}, cut("grid=[1]"));
      }),
      "launch");
  nul(of_x([&](auto& b, auto x) {
        return b.kernel("k.ptx", {x, result, KernelArgument::number(DType::S32, cut("3"))}, "");
      }),
      "argument");
  nul(built([&](auto& b) { b.output(b.input("x", "f32[3]"), cut("y")); }), "name");

  nul(attacca::check_device(cut("cpu")), "device");
  nul(attacca::export_choices("file", cut("cuda")).status(), "device");
  nul(attacca::import_choices(cut("file")).status(), "path");
  nul(attacca::report_page(cut("{}")).status(), "json");
  nul(attacca::machine_json(cut("cuda")).status(), "device");
  nul(attacca::graph_problems(graph, "h200", attacca::Mode::Fp32, {{cut("M"), 1}}).status(),
      "size");
  nul(attacca::tune_problem(cut("{}"), "cuda").status(), "problem");
  nul(attacca::store_choices(cut("[]")).status(), "json");
  nul(attacca::write_choices("GPU", cut("t"), "file").status(), "tools");
  nul(Plan::compile(graph, {.device = cut("cpu")}).status(), "device");
  const auto matmul = [&](const std::string& layout, const std::string& epilogue,
                          const std::string& device) {
    return Plan::matmul(DType::F32, layout, epilogue, DType::F32, {.device = device}).status();
  };
  nul(matmul(cut("nk"), "acc", "cpu"), "b_layout");
  nul(matmul("nk", cut("acc"), "cpu"), "epilogue");
  nul(matmul("nk", "acc", cut("cpu")), "device");
  const auto p = plan();
  nul(Plan::deserialize(*p.serialize(), cut("cpu")).status(), "device");
  nul(Plan::load(cut("/nowhere/p.plan")).status(), "path");
  nul(Plan::load("/nowhere/p.plan", cut("cpu")).status(), "device");
  nul(p.save(cut("/nowhere/p.plan")), "path");
  nul(p.prepare({{cut("M"), 1}}).status(), "size");
  attacca::Packing packing = {.n = 4, .k = 3, .weights = cut("s8")};
  nul(attacca::pack_weights(packing, weights.data(), weights.data()).status(), "weights");
  packing = {.n = 4, .k = 3, .scales = cut("f32")};
  nul(attacca::pack_weights(packing, weights.data(), weights.data()).status(), "scales");
}

// Every argument that may be NULL is accepted; for every other one the error names it.
TEST(ApiErrors, Nulls) {
  attacca_graph* graph = nullptr;
  attacca_builder* builder = nullptr;
  attacca_plan* made = nullptr;
  attacca_instance* instance = nullptr;
  attacca_bytes* bytes = nullptr;
  attacca_value value = 0;
  attacca_tensor_info info = {};
  attacca_decision decision = {};
  const auto null = [](attacca_status* status, const char* name) {
    expect_failure(Status(status), std::string(name) + " is NULL");
  };
  null(attacca_graph_parse(nullptr, &graph), "text");
  null(attacca_graph_parse("", nullptr), "graph");
  null(attacca_graph_load(nullptr, &graph), "path");
  null(attacca_graph_text(nullptr, &bytes), "graph");
  null(attacca_graph_with_constant(nullptr, "x", "", 0, &graph), "graph");
  null(attacca_builder_create("g", nullptr), "builder");
  null(attacca_builder_input(nullptr, "x", "f32[]", &value), "builder");
  null(attacca_builder_constant(nullptr, "f32[]", "", 0, &value), "builder");
  null(attacca_builder_call(nullptr, "exp", &value, 1, nullptr, &value), "builder");
  null(attacca_builder_compute(nullptr, "x", nullptr, nullptr, 0, &value), "builder");
  null(attacca_builder_output(nullptr, 0, nullptr), "builder");
  null(attacca_builder_finish(nullptr, &graph), "builder");
  null(attacca_machine_json(nullptr, &bytes), "device");
  null(attacca_graph_symbols(nullptr, &bytes), "graph");
  null(attacca_graph_problems(nullptr, "h200", nullptr, nullptr, 0, &bytes), "graph");
  null(attacca_problem_tune(nullptr, "cuda", nullptr, 0, &bytes), "problem");
  null(attacca_choices_list(nullptr), "json");
  null(attacca_choices_store(nullptr, nullptr), "json");
  null(attacca_choices_write("GPU", nullptr, "file", nullptr), "tools");
  ASSERT_TRUE(Status(attacca_builder_create(nullptr, &builder)).ok());
  null(attacca_builder_input(builder, nullptr, "f32[]", &value), "name");
  null(attacca_builder_input(builder, "x", nullptr, &value), "type");
  null(attacca_builder_input(builder, "x", "f32[]", nullptr), "value");
  null(attacca_builder_constant(builder, "f32[1]", nullptr, 4, &value), "data");
  null(attacca_builder_call(builder, nullptr, nullptr, 0, nullptr, &value), "op");
  null(attacca_builder_call(builder, "exp", nullptr, 1, nullptr, &value), "operands");
  null(attacca_builder_compute(builder, "x", nullptr, &value, 1, &value), "names");
  const char* nameless = nullptr;
  null(attacca_builder_compute(builder, "x", &nameless, &value, 1, &value), "names");
  attacca_builder_free(builder);
  null(attacca_device_check(nullptr), "device");
  null(attacca_choices_export(nullptr, "file", nullptr), "device");
  null(attacca_choices_import("cuda", nullptr, nullptr), "path");
  null(attacca_decision_stamp(nullptr), "stamp");
  null(attacca_report_page(nullptr, &bytes), "json");
  null(attacca_report_page("{}", nullptr), "html");
  null(attacca_plan_compile(nullptr, nullptr, &made), "graph");
  null(attacca_matmul_plan(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), "plan");
  null(attacca_plan_serialize(nullptr, &bytes), "plan");
  null(attacca_plan_deserialize(nullptr, 0, nullptr, &made), "data");
  null(attacca_plan_save(nullptr, "p"), "plan");
  null(attacca_plan_load(nullptr, nullptr, &made), "path");
  null(attacca_plan_input(nullptr, 0, &info), "plan");
  null(attacca_plan_graph_text(nullptr, &bytes), "plan");
  null(attacca_plan_explain_text(nullptr, &bytes), "plan");
  null(attacca_plan_explain_json(nullptr, &bytes), "plan");
  null(attacca_plan_explain_dot(nullptr, &bytes), "plan");
  null(attacca_graph_from_onnx(nullptr, 0, nullptr, &graph), "model");
  null(attacca_plan_prepare(nullptr, nullptr, 0, nullptr, 0, &instance), "plan");
  null(attacca_instance_run(nullptr, nullptr, 0, nullptr, 0, nullptr, 0, nullptr), "instance");
  attacca_parts* parts = nullptr;
  null(attacca_plan_prepare_parts(nullptr, nullptr, 0, nullptr, 0, 2, &parts), "plan");
  null(attacca_parts_run(nullptr, nullptr, 0, nullptr, 0, nullptr, 0, nullptr, 0, nullptr),
       "parts");
  EXPECT_STREQ(attacca_parts_candidate(nullptr), "");
  EXPECT_EQ(attacca_parts_input_may_be_null(nullptr, 0), 0);
  null(attacca_instance_decision(nullptr, 0, &decision), "instance");
  null(attacca_instance_decisions_json(nullptr, &bytes), "instance");
  const auto p = plan();
  null(attacca_plan_prepare(p.handle(), nullptr, 1, nullptr, 0, &instance), "sizes");
  null(attacca_plan_input(p.handle(), 0, nullptr), "info");
  expect_failure(Status(attacca_plan_output(p.handle(), 1, &info)), "no output 1");
  EXPECT_EQ(attacca_plan_symbol(p.handle(), 1), nullptr);
  null(attacca_plan_prepare_parts(p.handle(), nullptr, 0, nullptr, 0, 2, nullptr), "made");
  expect_failure(p.prepare_parts({{"M", 1}}, {}, 2).status(), "the plan is for the CPU");
  const auto i = *p.prepare({{"M", 1}});
  EXPECT_EQ(attacca_instance_output_shape(i.handle(), 1, nullptr), nullptr);
  null(attacca_instance_run(i.handle(), nullptr, 2, nullptr, 1, nullptr, 0, nullptr), "inputs");
  expect_failure(Status(attacca_instance_decision(i.handle(), 0, &decision)), "no decision 0");
  EXPECT_EQ(attacca_plan_input_count(nullptr) + attacca_plan_output_count(nullptr), 0u);
  EXPECT_EQ(attacca_instance_workspace(nullptr), 0u);
  EXPECT_STREQ(attacca_status_what(nullptr), "");
  EXPECT_STREQ(attacca_bytes_data(nullptr), "");
  attacca_status_free(nullptr);
  attacca_bytes_free(nullptr);
  attacca_graph_free(nullptr);
  attacca_builder_free(nullptr);
  attacca_plan_free(nullptr);
  attacca_instance_free(nullptr);
}

}  // namespace
