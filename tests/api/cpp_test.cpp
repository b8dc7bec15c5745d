// The C++ interface on the CPU: built, loaded, compiled, asked, run.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "gtest/gtest.h"

#include "attacca/attacca.hpp"

namespace {

using attacca::DType;

constexpr const char* kLinear =
    "graph linear(x: f32[M, 3], w: f32[4, 3], b: f32[4]) {\n"
    "  return y = relu(matmul(x, transpose(w)) + b)\n"
    "}\n";

struct Data {
  int64_t m;
  std::vector<float> x, w, b;

  explicit Data(int64_t rows) : m(rows), x(static_cast<size_t>(rows) * 3), w(12), b(4) {
    float next = 0;
    for (auto* values : {&x, &w, &b})
      for (float& value : *values) value = std::sin(next += 1);
  }
  std::vector<float> expected() const {
    std::vector<float> y;
    for (size_t i = 0; i < static_cast<size_t>(m); ++i)
      for (size_t j = 0; j < 4; ++j) {
        float sum = b[j];
        for (size_t k = 0; k < 3; ++k) sum += x[i * 3 + k] * w[j * 3 + k];
        y.push_back(std::fmax(sum, 0.0f));
      }
    return y;
  }
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

attacca::Plan linear_plan(const attacca::Options& options = {}) {
  return *attacca::Plan::compile(*attacca::Graph::parse(kLinear), options);
}

void expect_linear(const attacca::Plan& plan, int64_t m) {
  const Data data(m);
  const auto instance = plan.prepare({{"M", m}});
  ASSERT_TRUE(instance) << instance.status().text();
  std::vector<float> y(static_cast<size_t>(m) * 4, -1.0f);
  ASSERT_EQ(instance->output_bytes(0), y.size() * sizeof(float));
  const auto status = instance->run({data.x.data(), data.w.data(), data.b.data()}, {y.data()});
  ASSERT_TRUE(status) << status.text();
  expect_near(y, data.expected());
}

TEST(Api, KnowsAlignmentsOfAddresses) {
  alignas(32) static const char bytes[33] = {};
  for (const auto& [at, alignment] : {std::pair{0, 16},
                                      {1, 1},
                                      {2, 2},
                                      {4, 4},
                                      {6, 2},
                                      {8, 8},
                                      {12, 4},
                                      {15, 1},
                                      {16, 16},
                                      {24, 8},
                                      {32, 16}})
    EXPECT_EQ(attacca::alignment_of(bytes + at), alignment) << at;
}

TEST(Api, NamesWhatDecides) {
  const auto stamp = attacca::decision_stamp();
  ASSERT_TRUE(stamp);
  EXPECT_TRUE(stamp->starts_with("sources ")) << *stamp;
  EXPECT_NE(stamp->find(", templates "), std::string::npos) << *stamp;
  EXPECT_NE(stamp->find(", choices "), std::string::npos) << *stamp;
  EXPECT_EQ(*stamp, *attacca::decision_stamp());
}

TEST(Api, RunsTextAtSeveralSizes) {
  const attacca::Plan plan = linear_plan();
  for (const int64_t m : {1, 5, 64}) expect_linear(plan, m);
}

TEST(Api, RunsOpByOpAndEagerly) {
  expect_linear(linear_plan({.mode = attacca::Mode::Eager}), 5);
  expect_linear(linear_plan({.fuse = false}), 5);
}

TEST(Api, BuildsAndExplainsKernelsOfTheCallersOwn) {
  using attacca::KernelArgument;
  attacca::Builder builder("own");
  const auto x = builder.input("x", DType::F32, {"M", 8});
  const auto bias = builder.input("bias", DType::F32, {4});
  const auto k = builder.kernel(
      "my kernels.cu",
      {x, KernelArgument::result(DType::F32, {"M", 4}), KernelArgument::number(DType::S32, "M"),
       KernelArgument::number(DType::F32, "0.5")},
      "entry=gemm, grid=[ceildiv(M, 64)], block=[64]");
  builder.output(builder.compute("silu(k + b)", {{"k", k}, {"b", bias}}), "y");
  const auto graph = builder.finish();
  ASSERT_TRUE(graph) << graph.status().text();
  EXPECT_EQ(*graph->text(),
            "graph own(x: f32[M, 8], bias: f32[4]) {\n"
            "  return y = silu(kernel(\"my kernels.cu\", x, f32[M, 4], s32(M), f32(0.5), "
            "entry=gemm, grid=[ceildiv(M, 64)], block=[64]) + bias)\n}\n");
  const auto plan = attacca::Plan::compile(*graph);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.status().what(), "the kernel of my kernels.cu runs on a GPU alone");
  EXPECT_EQ(plan.status().fix(), "run with --device cuda");
}

TEST(Api, KernelsKnowTheGraphsSymbolsAlone) {
  attacca::Builder builder("own");
  const auto x = builder.input("x", DType::F32, {"M", 8});
  builder.output(builder.kernel("k.ptx", {x, attacca::KernelArgument::result(DType::F32, {"M", 4})},
                                "grid=[K], block=[64]"),
                 "y");
  EXPECT_EQ(builder.finish().status().what(), "no input has a dimension K");
  attacca::Builder other("own");
  other.call("kernel", {other.input("x", "f32[M]")});
  EXPECT_EQ(other.finish().status().fix(), "use attacca_builder_kernel, or Builder::kernel in C++");
}

TEST(Api, NoRowsAreNoWork) {
  const Data data(1);
  const auto instance = linear_plan().prepare({{"M", 0}});
  ASSERT_TRUE(instance) << instance.status().text();
  EXPECT_EQ(instance->output_bytes(0), 0u);
  EXPECT_TRUE(instance->run({nullptr, data.w.data(), data.b.data()}, {nullptr}));
}

TEST(Api, SaysWhatItTakesAndGives) {
  const attacca::Plan plan = linear_plan();
  ASSERT_EQ(plan.inputs().size(), 3u);
  EXPECT_EQ(plan.inputs()[0].name, "x");
  EXPECT_EQ(plan.inputs()[0].dtype, "f32");
  EXPECT_EQ(plan.inputs()[0].type, "f32[M, 3]");
  EXPECT_EQ(plan.inputs()[0].shape, (std::vector<std::string>{"M", "3"}));
  ASSERT_EQ(plan.outputs().size(), 1u);
  EXPECT_EQ(plan.outputs()[0].name, "y");
  EXPECT_EQ(plan.outputs()[0].type, "f32[M, 4]");
  EXPECT_EQ(plan.symbols(), std::vector<std::string>{"M"});
  EXPECT_EQ(plan.device(), "cpu");
  EXPECT_EQ(plan.mode(), "fp32");
  const auto instance = plan.prepare({{"M", 7}});
  EXPECT_EQ(instance->input_shape(0), (std::vector<int64_t>{7, 3}));
  EXPECT_EQ(instance->output_shape(0), (std::vector<int64_t>{7, 4}));
  EXPECT_EQ(instance->workspace_bytes(), 0u);
  EXPECT_TRUE(instance->decisions().empty());
  EXPECT_EQ(*instance->decisions_json(), "[]");
}

TEST(Api, Explains) {
  const attacca::Plan plan = linear_plan();
  EXPECT_NE(plan.explain_text()->find("region 1: gemm over [M, 4]"), std::string::npos);
  EXPECT_EQ(plan.explain_json()->front(), '{');
  EXPECT_TRUE(plan.explain_dot()->starts_with("digraph"));
}

TEST(Api, BuilderMakesTheSameGraph) {
  attacca::Builder builder("linear");
  const auto x = builder.input("x", DType::F32, {"M", 3});
  const auto w = builder.input("w", DType::F32, {4, 3});
  const auto b = builder.input("b", "f32[4]");
  const auto product = builder.call("matmul", {x, builder.call("transpose", {w})});
  builder.output(builder.call("relu", {builder.call("add", {product, b})}), "y");
  const auto graph = builder.finish();
  ASSERT_TRUE(graph) << graph.status().text();
  EXPECT_EQ(*graph->text(), *attacca::Graph::parse(kLinear)->text());
  expect_linear(*attacca::Plan::compile(*graph), 5);
}

TEST(Api, BuilderTakesExpressionsAttributesAndConstants) {
  const std::vector<float> scale = {1, 2};
  attacca::Builder builder;
  const auto x = builder.input("x", DType::F32, {"2*M", 2});
  const auto c = builder.constant(DType::F32, {2}, bytes_of(scale));
  const auto y = builder.compute("a / (1 + exp(-a)) * s", {{"a", x}, {"s", c}});
  builder.output(builder.call("sum", {y}, "axes=[-1]"));
  builder.output(builder.call("cast", {y}, "f16"), "half");
  const auto plan = attacca::Plan::compile(*builder.finish());
  ASSERT_TRUE(plan) << plan.status().text();
  EXPECT_EQ(plan->outputs()[0].type, "f32[2*M]");
  EXPECT_EQ(plan->outputs()[1].type, "f16[2*M, 2]");
  EXPECT_NE(plan->explain_text()->find("silu"), std::string::npos);
  const std::vector<float> in = {1, 2, 3, 4};
  std::vector<float> sums(2);
  std::vector<uint16_t> halves(4);
  ASSERT_TRUE(plan->prepare({{"M", 1}})->run({in.data()}, {sums.data(), halves.data()}));
  const auto silu = [](float v) { return v / (1 + std::exp(-v)); };
  expect_near(sums, {silu(1) + 2 * silu(2), silu(3) + 2 * silu(4)});
}

TEST(Api, BuilderMultipliesGroups) {
  attacca::Builder builder;
  const auto x = builder.input("x", "f32[R, 2]");
  const auto w = builder.input("w", "f32[3, 2, 2]");
  const auto offsets = builder.input("offsets", "s32[3]");
  builder.output(builder.call("relu", {builder.call("grouped_matmul", {x, w, offsets})}), "y");
  const auto plan = attacca::Plan::compile(*builder.finish());
  ASSERT_TRUE(plan) << plan.status().text();
  EXPECT_NE(plan->explain_text()->find("region 1: gemm over [R, 2]"), std::string::npos);
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6},
                           weights = {1, 0, 0, 1, 9, 9, 9, 9, -1, 0, 0, 2};
  const std::vector<int32_t> ends = {1, 1, 2};  // no row in the second group, the last row in none
  std::vector<float> y(6);
  ASSERT_TRUE(
      plan->prepare({{"R", 3}})->run({rows.data(), weights.data(), ends.data()}, {y.data()}));
  expect_near(y, {1, 2, 0, 8, 0, 0});
}

TEST(Api, StridedInputs) {
  const auto graph = attacca::Graph::parse("graph g(x: f32[M, 2; 5, 1]) { return y = x * 2 }");
  const auto plan = attacca::Plan::compile(*graph);
  const std::vector<float> x = {1, 2, 0, 0, 0, 3, 4};
  std::vector<float> y(4);
  const auto instance = plan->prepare({{"M", 2}});
  EXPECT_EQ(instance->input_bytes(0), x.size() * sizeof(float));
  ASSERT_TRUE(instance->run({x.data()}, {y.data()}));
  expect_near(y, {2, 4, 6, 8});
}

TEST(Api, InputsBecomeConstants) {
  const Data data(5);
  const auto graph = attacca::Graph::parse(kLinear);
  const auto bound = graph->with_constant("w", bytes_of(data.w));
  ASSERT_TRUE(bound) << bound.status().text();
  const auto plan = attacca::Plan::compile(*bound);
  ASSERT_EQ(plan->inputs().size(), 2u);
  std::vector<float> y(20);
  ASSERT_TRUE(plan->prepare({{"M", 5}})->run({data.x.data(), data.b.data()}, {y.data()}));
  expect_near(y, data.expected());
}

TEST(Api, AStridedInputBecomesAConstant) {
  const auto graph = attacca::Graph::parse("graph g(x: f32[2, 3; 1, 2]) { return y = x * 2 }");
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};  // row by row, wherever the input lay
  const auto bound = graph->with_constant("x", bytes_of(x));
  ASSERT_TRUE(bound) << bound.status().text();
  std::vector<float> y(6);
  ASSERT_TRUE(attacca::Plan::compile(*bound)->prepare()->run({}, {y.data()}));
  expect_near(y, {2, 4, 6, 8, 10, 12});
}

TEST(Api, SizesOfAnyIntegerType) {
  attacca::Builder b;
  const std::vector<float> rows(5);
  b.output(b.call("relu", {b.input("x", DType::F32, {rows.size(), 3u, 2LL, short{4}})}));
  const auto graph = b.finish();
  ASSERT_TRUE(graph) << graph.status().text();
  EXPECT_EQ(attacca::Plan::compile(*graph)->inputs()[0].type, "f32[5, 3, 2, 4]");
}

TEST(Api, MatmulPlan) {
  const Data data(5);
  for (const std::string layout : {"nk", "kn"}) {
    const auto plan =
        attacca::Plan::matmul(DType::F32, layout, "relu(acc + row(bias))", DType::F32);
    ASSERT_TRUE(plan) << plan.status().text();
    std::vector<float> b = data.w;
    if (layout == "kn")
      for (size_t n = 0; n < 4; ++n)
        for (size_t k = 0; k < 3; ++k) b[k * 4 + n] = data.w[n * 3 + k];
    std::vector<float> y(20);
    const auto instance = plan->prepare({{"M", 5}, {"N", 4}, {"K", 3}});
    ASSERT_TRUE(instance) << instance.status().text();
    ASSERT_TRUE(instance->run({data.x.data(), b.data(), data.b.data()}, {y.data()}));
    expect_near(y, data.expected());
  }
}

// Rows by the matrices of two groups, of which the last row is in neither.
TEST(Api, GroupedMatmulPlan) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, bias = {100, 200};
  const std::vector<float> b = {1, 0, 0, 1, 10, 0, 0, 10};  // [2, N, K]
  const std::vector<int32_t> ends = {1, 3};
  const auto plan = attacca::Plan::matmul(DType::F32, "groups nk", "acc + row(bias)", DType::F32);
  ASSERT_TRUE(plan) << plan.status().text();
  const auto instance = plan->prepare({{"M", 4}, {"N", 2}, {"K", 2}, {"E", 2}});
  ASSERT_TRUE(instance) << instance.status().text();
  std::vector<float> y(8);
  ASSERT_TRUE(instance->run({x.data(), b.data(), ends.data(), bias.data()}, {y.data()}));
  EXPECT_EQ(y, (std::vector<float>{101, 202, 130, 240, 150, 260, 100, 200}));
}

// A positive, normal 8-bit float.
double decoded(uint8_t bits, DType dtype) {
  const int fraction = dtype == DType::F8E4M3 ? 3 : 2, bias = dtype == DType::F8E4M3 ? 7 : 15;
  const int mantissa = (bits & ((1 << fraction) - 1)) | (1 << fraction);
  return std::ldexp(mantissa, (bits >> fraction) - bias - fraction);
}

// Sums and scaled sums that are exact in f32, but not in bf16 or an 8-bit float.
void expect_exact_sums(const attacca::Plan& plan, DType a_type, DType b_type) {
  constexpr size_t kM = 3, kN = 5, kK = 40;
  const std::vector<float> sa = {0.5f, 2, 3}, sb = {1, 0.25f, 3, 4, 0.125f};
  const auto values = [](size_t count, DType dtype, size_t step) {
    std::vector<uint8_t> bits;
    for (size_t i = 0; i < count; ++i)
      bits.push_back(static_cast<uint8_t>((dtype == DType::F8E4M3 ? 0x38 : 0x3c) + i * step % 13));
    return bits;
  };
  const std::vector<uint8_t> a = values(kM * kK, a_type, 7), b = values(kN * kK, b_type, 5);
  const auto instance = plan.prepare({{"M", kM}, {"N", kN}, {"K", kK}});
  ASSERT_TRUE(instance) << instance.status().text();
  std::vector<float> scaled(kM * kN), plain(kM * kN);
  const auto ran =
      instance->run({a.data(), b.data(), sa.data(), sb.data()}, {scaled.data(), plain.data()});
  ASSERT_TRUE(ran) << ran.text();
  for (size_t m = 0; m < kM; ++m)
    for (size_t n = 0; n < kN; ++n) {
      double sum = 0;
      for (size_t k = 0; k < kK; ++k)
        sum += decoded(a[m * kK + k], a_type) * decoded(b[n * kK + k], b_type);
      EXPECT_EQ(plain[m * kN + n], sum);
      EXPECT_EQ(scaled[m * kN + n], sum * sa[m] * sb[n]);
    }
}

TEST(Api, EightBitFloatsGiveAccumulatorsInF32) {
  const auto text = [](DType dtype) { return std::string(attacca::name(dtype)); };
  for (const auto mode : {attacca::Mode::Fp32, attacca::Mode::Eager})
    for (const DType a : {DType::F8E4M3, DType::F8E5M2})
      for (const DType b : {DType::F8E4M3, DType::F8E5M2}) {
        const auto graph = attacca::Graph::parse(
            "graph g(a: " + text(a) + "[M, K], b: " + text(b) +
            "[N, K], sa: f32[M, 1], sb: f32[N]) {\n"
            "  acc = matmul(a, transpose(b))\n  return acc * sa * sb, acc\n}\n");
        ASSERT_TRUE(graph) << graph.status().text();
        const auto plan = attacca::Plan::compile(*graph, {.mode = mode});
        ASSERT_TRUE(plan) << plan.status().text();
        expect_exact_sums(*plan, a, b);
        if (a != b) continue;
        const auto product = attacca::Plan::matmul(a, "nk", "acc * col(sa) * row(sb), acc",
                                                   DType::F32, {.mode = mode});
        ASSERT_TRUE(product) << product.status().text();
        expect_exact_sums(*product, a, b);
      }
}

TEST(Api, MatmulPlanKnowsTheResultOfEachDtype) {
  for (const auto& [dtype, result] : {std::pair{"bf16", "bf16"},
                                      {"f32", "f32"},
                                      {"f8e4m3", "bf16"},
                                      {"f8e5m2", "bf16"},
                                      {"s8", "s32"},
                                      {"u8", "s32"}}) {
    attacca_plan* plan = nullptr;
    const attacca::Status made(
        attacca_matmul_plan(dtype, nullptr, nullptr, nullptr, nullptr, &plan));
    ASSERT_TRUE(made) << dtype << ": " << made.text();
    attacca_tensor_info info = {};
    ASSERT_TRUE(attacca::Status(attacca_plan_output(plan, 0, &info)));
    EXPECT_STREQ(info.dtype, result) << dtype;
    attacca_plan_free(plan);
  }
}

TEST(Api, ThreadsShareAPlan) {
  const attacca::Plan plan = linear_plan({.threads = 1});
  std::vector<std::thread> threads;
  for (int64_t m = 1; m <= 6; ++m)
    threads.emplace_back([&plan, m] {
      for (int turn = 0; turn < 10; ++turn) expect_linear(plan, m);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Api, InstancesOutliveTheirPlan) {
  const Data data(3);
  const auto instance = linear_plan().prepare({{"M", 3}});
  std::vector<float> y(12);
  ASSERT_TRUE(instance->run({data.x.data(), data.w.data(), data.b.data()}, {y.data()}));
  expect_near(y, data.expected());
}

// The text of the plan's graph is a graph again, of an equal plan: what is fused and computed
// stays.
TEST(Api, PlansGiveTheirGraph) {
  const attacca::Plan plan = linear_plan();
  const auto text = plan.graph_text();
  ASSERT_TRUE(text) << text.status().text();
  const auto graph = attacca::Graph::parse(*text);
  ASSERT_TRUE(graph) << graph.status().text();
  EXPECT_EQ(*graph->text(), *text);
  const auto again = attacca::Plan::compile(*graph);
  ASSERT_TRUE(again) << again.status().text();
  expect_linear(*again, 5);
  EXPECT_EQ(*again->explain_text(), *plan.explain_text());

  const auto product = attacca::Plan::matmul(DType::F32, "kn", "acc + row(bias)", DType::F32);
  ASSERT_TRUE(product) << product.status().text();
  const std::string epilogue = *product->graph_text();
  for (const char* part : {"a: f32[M, K]", "b: f32[K, N]", "bias: f32[N]"})
    EXPECT_NE(epilogue.find(part), std::string::npos) << epilogue;
}

TEST(Api, PlansGoThroughFiles) {
  const std::string path = testing::TempDir() + "linear.plan";
  ASSERT_TRUE(linear_plan().save(path));
  const auto plan = attacca::Plan::load(path);
  ASSERT_TRUE(plan) << plan.status().text();
  expect_linear(*plan, 5);
  EXPECT_EQ(*plan->serialize(), *linear_plan().serialize());
}

TEST(Api, LoadsModels) {
  const auto graph = attacca::Graph::load(ATTACCA_SOURCE_DIR "/examples/llama3_8b_mlp.attacca");
  ASSERT_TRUE(graph) << graph.status().text();
  const auto plan = attacca::Plan::compile(*graph);
  EXPECT_NE(plan->explain_text()->find("swiglu"), std::string::npos);
}

TEST(Api, ReadsModelsInMemory) {
  std::ifstream file(ATTACCA_SOURCE_DIR "/examples/bert_mlp.onnx", std::ios::binary);
  const std::string model{std::istreambuf_iterator<char>(file), {}};
  const auto graph = attacca::Graph::from_onnx(std::as_bytes(std::span(model)));
  ASSERT_TRUE(graph) << graph.status().text();
  const auto loaded = attacca::Graph::load(ATTACCA_SOURCE_DIR "/examples/bert_mlp.onnx");
  EXPECT_EQ(*graph->text(), *loaded->text());
  EXPECT_FALSE(attacca::Graph::from_onnx(std::as_bytes(std::span(model).first(100))));
  const auto sized = attacca::Graph::from_onnx(std::as_bytes(std::span(model)), {}, {{"S", 5}});
  ASSERT_FALSE(sized);
  EXPECT_EQ(sized.status().what(), "the model has no dimension S");
  EXPECT_EQ(sized.status().fix(), "all its dimensions are fixed");
  const auto text =
      attacca::Graph::load(ATTACCA_SOURCE_DIR "/examples/llama3_8b_mlp.attacca", {{"M", 5}});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.status().what(), "a graph in the text form is read without sizes");
}

}  // namespace
