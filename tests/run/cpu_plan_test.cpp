// Plans against the interpreter fed with the plan's own accumulators: eager to the bit.
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "run/check/random_inputs.hpp"
#include "run/cpu/plan.hpp"
#include "targets.hpp"
#include "unfolded.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Mode;
using ir::Tensor;

ir::Graph parse(const std::string& text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error()));
  return graph ? *std::move(graph) : ir::Graph();
}

Tensor random_tensor(DType dtype, const std::vector<int64_t>& shape, std::mt19937& random) {
  Tensor tensor = *Tensor::make(dtype, shape);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (ir::is_float(dtype))
      tensor.set_number(i, normal(random));
    else
      tensor.set_integer(i, ir::to_integer(dtype, static_cast<int64_t>(random() % 256) - 128));
  }
  return tensor;
}

ir::Bindings random_bindings(const ir::Graph& graph, const ir::SymbolValues& dims) {
  std::mt19937 random(11);
  ir::Bindings inputs;
  for (const ir::Value input : graph.inputs()) {
    const ir::Type& type = graph.type(input);
    inputs[graph[input].name] = random_tensor(type.dtype, *evaluate(type.shape, dims), random);
  }
  return inputs;
}

bool same(double a, double b) {
  return (a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b));
}

// Relative to the largest value: chains cancel.
void expect_close(const Tensor& got, const Tensor& want) {
  double scale = 1e-30;
  for (int64_t i = 0; i < want.size(); ++i)
    if (std::isfinite(want.number_at(i))) scale = std::max(scale, std::fabs(want.number_at(i)));
  const DType dtype = got.dtype();
  const double unit = dtype == DType::BF16  ? 0x1p-7
                      : dtype == DType::F16 ? 0x1p-10
                      : ir::is_fp8(dtype)   ? 0x1p-2
                                            : 2e-5;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double g = got.number_at(i), w = want.number_at(i);
    ASSERT_TRUE(same(g, w) || std::fabs(g - w) <= 1e-5 * scale + unit * std::fabs(w))
        << "element " << i << " got " << g << " want " << w;
  }
}

void expect_same(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_TRUE(same(got.number_at(i), want.number_at(i)))
        << "element " << i << " got " << got.number_at(i) << " want " << want.number_at(i);
}

struct Case {
  ir::SymbolValues dims = {};
  std::vector<std::string> weights = {};
};

// Every combination of mode, fusion and threads.
void check(const std::string& text, const Case& given = {}) {
  SCOPED_TRACE(text);
  const ir::Graph graph = parse(text);
  const ir::Bindings inputs = random_bindings(graph, given.dims);
  for (const Mode mode : {Mode::Eager, Mode::Fp32})
    for (const bool fuse : {true, false}) {
      SCOPED_TRACE(fmt::format("{} fuse={}", name(mode), fuse));
      std::vector<Tensor> first;
      for (const int threads : {1, 3}) {
        CpuOptions options{.threads = threads};
        for (const std::string& weight : given.weights) options.weights[weight] = inputs.at(weight);
        auto plan = CpuPlan::make(unfolded(graph, Target::cpu(mode, fuse)), options);
        ASSERT_TRUE(plan) << to_string(plan.error());
        std::map<ir::Value, Tensor> accumulators;
        auto got = plan->run(inputs, &accumulators);
        ASSERT_TRUE(got) << to_string(got.error());
        ir::InterpreterOptions reference{
            .precision = mode == Mode::Eager ? ir::Precision::Eager : ir::Precision::Fp32,
            .accumulators = accumulators};
        const auto want = ir::interpret(plan->partition().graph, inputs, reference);
        ASSERT_TRUE(want) << to_string(want.error());
        ASSERT_EQ(got->size(), want->size());
        for (size_t k = 0; k < got->size(); ++k) {
          SCOPED_TRACE(fmt::format("output {}", k));
          // Op by op, fp32 mode rounds every intermediate to its dtype in memory.
          const bool exact = mode == Mode::Eager || (fuse && !ir::is_float((*got)[k].dtype()));
          if (exact)
            expect_same((*got)[k], (*want)[k]);
          else if (fuse)
            expect_close((*got)[k], (*want)[k]);
          // Threads divide the rows, and oneDNN may add in another order where few rows are left.
          if (threads > 1 && ir::is_float((*got)[k].dtype()))
            expect_close((*got)[k], first[k]);
          else if (threads > 1)
            expect_same((*got)[k], first[k]);
        }
        first = *got;
      }
    }
}

// The accumulators themselves, against f64 products.
void check_products(const std::string& text, const Case& given = {}) {
  SCOPED_TRACE(text);
  const ir::Graph graph = parse(text);
  const ir::Bindings inputs = random_bindings(graph, given.dims);
  CpuOptions options;
  for (const std::string& weight : given.weights) options.weights[weight] = inputs.at(weight);
  auto plan = CpuPlan::make(unfolded(graph), options);
  ASSERT_TRUE(plan) << to_string(plan.error());
  const auto got = plan->run(inputs);
  ASSERT_TRUE(got) << to_string(got.error());
  const auto want = ir::interpret(graph, inputs);
  ASSERT_TRUE(want);
  for (size_t k = 0; k < got->size(); ++k) expect_close((*got)[k], (*want)[k]);
}

TEST(CpuPlan, MultipliesEveryDType) {
  for (const char* dtype : {"f32", "bf16", "f16", "f8e4m3", "f8e5m2", "f64"})
    check_products(fmt::format(
        "graph g(x: {0}[70, 130], w: {0}[130, 90]) {{ return matmul(x, w, out=f32) }}", dtype));
  for (const char* a : {"s8", "u8"})
    for (const char* b : {"s8", "u8"})
      check_products(
          fmt::format("graph g(x: {}[70, 1300], w: {}[1300, 90]) {{ return matmul(x, w) }}", a, b));
  check_products("graph g(x: f16[70, 130], w: bf16[130, 90]) { return matmul(x, w) }");
  check_products("graph g(x: s32[7, 13], w: s32[13, 9]) { return matmul(x, w) }");
  check_products("graph g(x: s64[7, 13], w: s32[13, 9]) { return matmul(x, w) }");
}

TEST(CpuPlan, MultipliesEverySize) {
  for (const int m : {0, 1, 2, 63, 65, 130})
    for (const int n : {0, 1, 3, 64, 100, 513, 1030})
      for (const int k : {0, 1, 3, 16, 77})
        for (const char* dtype : {"f32", "bf16", "s8"})
          check_products(
              fmt::format("graph g(x: {0}[{1}, {3}], w: {0}[{3}, {2}]) {{ return matmul(x, w) }}",
                          dtype, m, n, k));
}

TEST(CpuPlan, MultipliesViews) {
  for (const char* dtype : {"f32", "bf16", "s8", "f16"}) {
    const auto with = [&](const char* inputs, const char* expression) {
      std::string text = fmt::format("graph g({}) {{ return {} }}", inputs, expression);
      for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, dtype);
      for (const std::vector<std::string>& weights : {std::vector<std::string>{}, {"w"}})
        check_products(text, {{}, weights});
    };
    with("x: T[70, 40], w: T[90, 40]", "matmul(x, transpose(w))");
    with("x: T[40, 70], w: T[40, 90]", "matmul(transpose(x), w)");
    with("x: T[40, 70], w: T[90, 40]", "matmul(transpose(x), transpose(w))");
    with("x: T[70, 80], w: T[80, 90]", "matmul(x[:, 3:50], w[7:54, ::2])");
    with("x: T[70, 80], w: T[80, 90]", "matmul(x[::2, ::2], w[::-2, 3:])");
    with("x: T[3, 20, 40], w: T[40, 30]", "matmul(x, w)");
    with("x: T[3, 20, 40], w: T[3, 40, 30]", "matmul(x, w)");
    with("x: T[2, 1, 20, 40], w: T[3, 40, 30]", "matmul(x, w)");
    with("x: T[2, 20, 3, 40], w: T[2, 30, 3, 40]",
         "matmul(permute(x, axes=[0, 2, 1, 3]), permute(w, axes=[0, 2, 3, 1]))");
    with("x: T[1, 40], w: T[40, 30]", "matmul(broadcast(x, shape=[20, 40]), w)");
  }
}

TEST(CpuPlan, FusesEpilogues) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const auto with = [&](const std::string& inputs, const std::string& body) {
      std::string text =
          fmt::format("graph g(x: T[M, 48], w: T[48, 72], {}) {{ {} }}", inputs, body);
      for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, dtype);
      check(text, {{{"M", 70}}, {"w"}});
    };
    with("b: T[72]", "return gelu(matmul(x, w) + b)");
    with("b: f32[72], r: T[M, 72]", "return silu(matmul(x, w) * 0.1 + b) * r");
    with("c: f32[M, 1], b: T[72]", "a = matmul(x, w); return a * c + b, a, relu(a)");
    with("s: f32[1]", "a = matmul(x, w) * s; return a, cast(a, s8, saturate=true), a > 0");
    with("r: T[72, M]", "return matmul(x, w) + transpose(r)");
    with("r: T[M, 144]", "return tanh(matmul(x, w)) * r[:, ::2] - r[:, 1::2]");
    with("b: T[72]",
         "y = exp(matmul(x, w)) + b; return sum(y, axes=[1]), reduce_max(y, axes=[0]), y");
    with("b: T[72]", "y = matmul(x, w) - b; return amax(y), sum(y, axes=[0])");
  }
  check(
      "graph g(x: s8[M, 48], w: s8[48, 72], s: f32[72], z: s32[72]) { y = cast(matmul(x, w) + z, "
      "f32) * s; return cast(relu(y), bf16), y }",
      {{{"M", 70}}, {}});
  check(
      "graph g(x: f32[3, M, 20], w: f32[20, 30], b: f32[3, 1, 30]) { return relu(matmul(x, w) + b) "
      "}",
      {{{"M", 70}}, {"w"}});
}

TEST(CpuPlan, ReducesAfterAProduct) {
  check(
      "graph g(x: f32[M, 48], w: f32[48, 72]) { y = matmul(x, w); return mean(y, axes=[-1], "
      "keepdims=true), reduce_min(y) }",
      {{{"M", 70}}, {}});
}

// Large enough for several threads, in tiles that are lower than for one.
TEST(CpuPlan, DividesProductsAmongThreads) {
  for (const char* dtype : {"f32", "bf16", "s8"})
    check(
        fmt::format("graph g(x: {}[M, 96], w: {}[96, 300], b: f32[300]) {{ y = cast(matmul(x, w), "
                    "f32) + b; return relu(y), reduce_max(y), reduce_min(y), sum(y, axes=[0]) }}",
                    dtype, dtype),
        {{{"M", 201}}, {"w"}});
  check(
      "graph g(q: f32[2, 3, M, 64], k: f32[2, 3, M, 64]) { s = matmul(q, transpose(k)) * 0.125; "
      "return s, reduce_max(s, axes=[3]) }",
      {{{"M", 130}}, {}});
}

// Scales and zero points are tensors; the products of row vectors and numbers are alike in all
// rows.
TEST(CpuPlan, QuantisesAfterAProduct) {
  for (const char* columns : {"72", "600"})
    check(
        fmt::format(
            "graph g(x: u8[M, 48], w: u8[48, {0}], z: s32[], c: s32[{0}], s: f32[], t: f32[], "
            "n: u8[], b: f32[{0}]) {{ y = cast(matmul(x, w) - z * c, f32) * (abs(s) * t) + b * t; "
            "q = cast(round(y / s) + cast(n, f32), u8, saturate=true); "
            "d = (cast(q, f32) - cast(n, f32)) * s; return q, relu(d), reduce_max(d) }}",
            columns),
        {{{"M", 70}}, {"w", "c"}});
}

TEST(CpuPlan, FusesGates) {
  for (const char* dtype : {"f32", "bf16"}) {
    check(
        fmt::format(
            "graph g(x: {0}[M, 48], w: {0}[48, 144]) {{ h = matmul(x, w); a = min(h[:, ::2], 7.0); "
            "l = clamp(h[:, 1::2], min=-7.0, max=7.0); return a * sigmoid(1.702 * a) * (l "
            "+ 1.0) }}",
            dtype),
        {{{"M", 70}}, {"w"}});
    check(fmt::format("graph g(x: {0}[M, 48], w: {0}[48, 144]) {{ h = matmul(x, w); return "
                      "silu(h[:, 0:72]) * h[:, 72:144] }}",
                      dtype),
          {{{"M", 70}}, {}});
    check(fmt::format("graph g(x: {0}[M, 48], w: {0}[72, 48], u: {0}[72, 48]) {{ return "
                      "silu(matmul(x, transpose(w))) * matmul(x, transpose(u)) }}",
                      dtype),
          {{{"M", 70}}, {"w", "u"}});
  }
}

// Views whose elements follow each other share their operand's memory, unless they are outputs.
TEST(CpuPlan, SharesMemoryOfViews) {
  check(
      "graph g(x: f32[6, 8]) { y = exp(x); part = reshape(sum(y, axes=[1])[2:6], [2, 2]); again = "
      "reshape(part, [4]); return sum(part), again, argsort(permute(part, axes=[1, 0]), axis=1), "
      "part, y }");
  check(
      "graph g(x: f32[4, 1, M]) { return reduce_max(permute(reshape(x[1:3], [2, M, 1]), axes=[0, "
      "2, 1]), axes=[2]), reshape(x, [4*M]) }",
      {{{"M", 5}}, {}});
}

// Rows of one element, short rows that are far apart, and one number for all.
TEST(CpuPlan, DividesByPowersOfTwoToTheBit) {
  for (const char* divisor : {"8", "-0.25", "3", "1e-38", "1e38", "0.0", "1.1754943508222875e-38"})
    check(fmt::format("graph g(x: f32[7, 33]) {{ return x / {0}, exp(x * 40) / {0} }}", divisor));
  check("graph g(x: f16[7, 33]) { return x / 4096, cast(x, f32) / 64 }");
}

TEST(CpuPlan, RunsShortRows) {
  check("graph g(x: f32[3, 50, 1], r: f32[50, 1]) { return sqrt(x * x + 1e-3) * r, sum(x * x) }");
  check(
      "graph g(x: f32[2, 40, 4, 6], r: f32[40, 1, 6], s: f32[4, 1]) { return permute(x, axes=[0, "
      "2, 1, 3]) * permute(r, axes=[1, 0, 2]) + 1, x * s, x * r }");
}

// One value for each row, in chunks of several rows and of parts of one.
TEST(CpuPlan, RepeatsColumns) {
  for (const char* columns : {"5", "72", "300"}) {
    check(fmt::format("graph g(x: u8[M, 48], w: s8[48, {0}], r: s32[M, 1], c: s32[{0}], s: f16[M, "
                      "1], t: f32[M, 1]) {{ y = cast(matmul(x, w) - r - c, f32) * s; return y, "
                      "cast(y + t, bf16), reduce_max(y, axes=[1]), exp(t) * y }}",
                      columns),
          {{{"M", 70}}, {}});
    check(fmt::format("graph g(x: f32[3, M, {0}], m: f32[3, M, 1], n: s64[M, 1]) {{ return exp(x - "
                      "m) / (m * m + 1), broadcast(m, shape=[3, M, {0}]), n + cast(x, s32) }}",
                      columns),
          {{{"M", 70}}, {}});
  }
}

TEST(CpuPlan, RunsOpsOnTheirOwn) {
  check(
      "graph g(x: bf16[3, 5, 7]) { return transpose(x), permute(x, axes=[2, 0, 1]), reshape(x, "
      "[15, 7]), x[::-1, 1:, ::3] }");
  check(
      "graph g(x: f32[3, 5], y: f32[2, 5]) { return concat(x, y, axis=0), broadcast(x, shape=[4, "
      "3, 5]), x }");
  check(
      "graph g(x: f32[6, 5], y: f16[4, 1]) { return sum(x), mean(x, axes=[0]), amax(x, axes=[1], "
      "keepdims=true), reduce_min(y) }");
  check(
      "graph g(x: f64[6, 5], y: s64[6, 5]) { return exp(x) * 2, y * y - 1, cast(y, f32), sum(x, "
      "axes=[1]), x / y }");
  check("graph g(x: f32[8, 4], i: s32[3, 2]) { return gather(x, abs(i - i) + 2, axis=0) }");
  check(
      "graph g(x: f32[8, 4], i: s32[3, 2], u: f32[3, 2, 4]) { return scatter(exp(x), abs(i - i) + "
      "2, u * u), gather(x, argsort(reshape(x[:, :1], [8])), axis=0) }");
  check(
      "graph g(x: f32[M, 4]) { return x * cast(arange([1, M + 1])[0:1], f32), arange([-1*M, 3*M]) "
      "}",
      {{{"M", 3}}, {}});
  check("graph g(o: s32[18], x: f32[M]) { return group_ids(o[::2], [M]), x }", {{{"M", 40}}, {}});
  check("graph g(x: f32[]) { return x + 1, exp(x) }");
  check("graph g(x: f32[M, 0]) { return x * 2, sum(x, axes=[1]) }", {{{"M", 3}}, {}});
}

// The chains that run as one loop, and near relatives that must not; odd widths have tails.
TEST(CpuPlan, RunsChainsOnEveryInstructionSet) {
  for_each_target([] {
    for (const char* dtype : {"f32", "bf16"})
      for (const char* body :
           {"gelu(matmul(x, w) + b)", "silu(matmul(x, w)) * r", "relu(b + matmul(x, w)) + r",
            "gelu_tanh(matmul(x, w) + b) * r", "silu(matmul(x, w), alpha=1.702)",
            "swiglu(matmul(x, w), r)", "r - matmul(x, w)", "cast(cast(matmul(x, w), f32) + b, T)",
            "gelu(matmul(x, w) + r) + b", "matmul(x, w) * matmul(x, w)"}) {
        std::string text = fmt::format(
            "graph g(x: T[M, 24], w: T[24, 77], b: T[77], r: T[M, 77]) {{ return {} }}", body);
        for (const char* mark : {"T[", "T)"})
          for (size_t at; (at = text.find(mark)) != std::string::npos;) text.replace(at, 1, dtype);
        check(text, {{{"M", 131}}, {"w"}});
      }
  });
}

TEST(CpuPlan, RunsChainsOfBytesOnEveryInstructionSet) {
  const std::string number = "cast(matmul(x, w) - z * c, f32) * (abs(s) * 0.001)";
  const std::string gate = "cast(matmul(x, v), f32) * 0.002 * abs(s)";
  const std::string bodies[] = {
      number,
      number + " + b",
      "relu(" + number + " + b)",
      "gelu(" + gate + " + b) + r",
      "gelu_tanh(" + number + ")",
      "swiglu(" + number + ", " + gate + ")",
      "silu(" + gate + ", alpha=1.702) + r",
      "geglu(" + gate + " + b, " + number + ")",
      "r + (" + number + " + b)",
      number + " * 2 * 3",
      number + " + s",
      "relu(cast(matmul(x, w) - d, f32) * 0.01)",
      "cast(round((" + number + " + b) / 0.03), s8, saturate=true)",
      "cast(round(relu(" + gate + " + cast(e, f32) * 0.01) / 0.05) + 7, u8, saturate=true)",
      "cast(round((" + number + ") / 0.03) + 0.5, u8, saturate=true)",
  };
  for_each_target([&] {
    for (const std::string& body : bodies)
      for (const int columns : {5, 77, 300})
        check(fmt::format("graph g(x: u8[M, 24], w: s8[24, {0}], v: s8[24, {0}], c: s32[{0}], "
                          "z: s32[], s: f32[], b: f32[{0}], r: f32[M, {0}], d: s32[M, {0}], "
                          "e: s32[{0}]) {{ y = {1}; return y{2} }}",
                          columns, body,
                          body.ends_with("saturate=true)") ? "" : ", most = reduce_max(y)"),
              {{{"M", 37}}, {"w"}});
  });
}

TEST(CpuPlan, FollowsSymbolsWithoutRecompiling) {
  const ir::Graph graph = parse(
      "graph g(x: bf16[M, 32], w: bf16[32, 40], b: bf16[40]) { return relu(matmul(x, w) + b) }");
  const auto plan = CpuPlan::make(unfolded(graph));
  ASSERT_TRUE(plan);
  for (const int64_t m : {0, 1, 7, 64, 200}) {
    const ir::Bindings inputs = random_bindings(graph, {{"M", m}});
    const auto got = plan->run(inputs);
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ((*got)[0].shape(), (std::vector<int64_t>{m, 40}));
    expect_close((*got)[0], (*ir::interpret(graph, inputs))[0]);
  }
}

// A sum over n x n copies of constants.
ir::Graph graph_of_constants(int64_t n) {
  return parse(
      fmt::format("graph g(x: f32[2]) {{\n"
                  "c = constant(f32[2, 1], [1, 2])\n"
                  "e = broadcast(c[0:1, 0:1], [{0}, {0}])\n"
                  "p = permute(e, [1, 0])\n"
                  "s = sum(gather(p, constant(s64[2], [0, 1]), axis=0), axes=[1])\n"
                  "return x + s\n}}",
                  n));
}

TEST(CpuPlan, ComputesConstantsOnceUnlessTheyAreLarge) {
  const auto regions = [](int64_t n) {
    const auto plan = CpuPlan::make(unfolded(graph_of_constants(n)));
    EXPECT_TRUE(plan);
    const ir::Bindings inputs{{"x", Tensor::of(DType::F32, {2}, {1, 2})}};
    const auto results = plan->run(inputs);
    EXPECT_TRUE(results) << to_string(results.error());
    EXPECT_EQ((*results)[0].number_at(1), static_cast<double>(n) + 2);
    return plan->time_regions(inputs)->size();
  };
  EXPECT_EQ(regions(100), 1);
  EXPECT_GT(regions(4100), 1);  // 64 MiB and more
}

TEST(CpuPlan, MakesNothingHugeOfASmallGraph) {
  for (const int64_t n : {int64_t{40'000}, int64_t{1} << 30}) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(CpuPlan::make(unfolded(graph_of_constants(n))));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  }
}

TEST(CpuPlan, ResultsNeverAlias) {
  const ir::Graph graph = parse("graph g(x: f32[4]) { y = x * 2; return x, again = x, y, z = y }");
  const auto plan = CpuPlan::make(unfolded(graph));
  ASSERT_TRUE(plan);
  ir::Bindings inputs{{"x", Tensor::of(DType::F32, {4}, {1, 2, 3, 4})}};
  const auto first = *plan->run(inputs), second = *plan->run(inputs);
  std::vector<const std::byte*> places{inputs.at("x").data()};
  for (const auto* results : {&first, &second})
    for (const Tensor& tensor : *results) places.push_back(tensor.data());
  std::sort(places.begin(), places.end());
  EXPECT_EQ(std::adjacent_find(places.begin(), places.end()), places.end());
  EXPECT_EQ(second[3].number_at(3), 8);
}

TEST(CpuPlan, TakesStridedInputs) {
  const ir::Graph graph = parse("graph g(x: f32[8, 6], w: f32[6, 5]) { return matmul(x, w) + 1 }");
  const auto plan = CpuPlan::make(unfolded(graph));
  ASSERT_TRUE(plan);
  ir::Bindings dense = random_bindings(graph, {});
  std::vector<float> turned(48);
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 6; ++c) turned[c * 8 + r] = dense.at("x").as<float>()[r * 6 + c];
  ir::Bindings strided = dense;
  strided["x"] = Tensor::view(DType::F32, {8, 6}, turned.data(), {1, 8});
  expect_same((*plan->run(strided))[0], (*plan->run(dense))[0]);
}

// What a dense x of [4, 4] gives where the graph declares these strides.
std::string with_strides(const std::string& strides, const std::vector<double>& x) {
  const ir::Graph graph = parse(fmt::format("graph g(x: f32[M, 4; {}]) {{ return x }}", strides));
  const auto plan = CpuPlan::make(unfolded(graph));
  EXPECT_TRUE(plan);
  const Tensor given = Tensor::of(DType::F32, {4, 4}, x);
  const auto results = plan->run({{"x", given}});
  if (!results) return results.error().what;
  expect_same((*results)[0], given);
  return "same";
}

TEST(CpuPlan, DeclaredStridesKeepEveryValue) {
  std::vector<double> counted(16), same_rows(16), windows(16);
  for (size_t i = 0; i < 16; ++i) {
    counted[i] = static_cast<double>(i);
    same_rows[i] = static_cast<double>(i % 4);
    windows[i] = static_cast<double>(i % 4 + i / 4);
  }
  const std::string differ = "input x declares strides that put different values at one place";
  const std::string far = "input x declares strides that reach further than this machine's memory";
  EXPECT_EQ(with_strides("4, 1", counted), "same");
  EXPECT_EQ(with_strides("1, 4", counted), "same");
  EXPECT_EQ(with_strides("9, 2", counted), "same");
  EXPECT_EQ(with_strides("0, 1", same_rows), "same");
  EXPECT_EQ(with_strides("1, 1", windows), "same");
  EXPECT_EQ(with_strides("0, 1", counted), differ);
  EXPECT_EQ(with_strides("1, 1", counted), differ);
  EXPECT_EQ(with_strides("-4, 1", counted), "input x declares a negative stride");
  EXPECT_EQ(with_strides("4611686018427387904, 1", counted), far);
  EXPECT_EQ(with_strides("2305843009213693951, 1", counted), far);
  EXPECT_EQ(with_strides("100000000000000, 1", counted), far);
}

TEST(CpuPlan, RandomNumbersAgreeWhereStridesOverlap) {
  for (const char* type : {"f32[M, 4; 0, 1]", "f32[M, 4; 1, 1]", "s8[M, 4; 2, 0]", "f32[M; 0]"}) {
    const ir::Graph graph = parse(fmt::format("graph g(x: {}) {{ return x }}", type));
    const auto plan = CpuPlan::make(unfolded(graph));
    for (const int64_t m : {0, 1, 5}) {
      const auto inputs = random_inputs(graph, {{"M", m}}, 1);
      ASSERT_TRUE(inputs) << inputs.error().what;
      const auto results = plan->run(*inputs);
      ASSERT_TRUE(results) << results.error().what;
      expect_same((*results)[0], inputs->at("x"));
    }
  }
  const ir::Graph far = parse("graph g(x: f32[M, 4; 4611686018427387904, 1]) { return x }");
  EXPECT_FALSE(random_inputs(far, {{"M", 5}}, 1));
}

TEST(CpuPlan, RunsConcurrently) {
  const ir::Graph graph = parse(
      "graph g(x: f32[M, 64], w: f32[64, 600], b: f32[600]) { return gelu(matmul(x, w) + b) }");
  const auto plan = CpuPlan::make(unfolded(graph), {.threads = 2});
  ASSERT_TRUE(plan);
  const auto work = [&](int64_t m, bool& good) {
    const ir::Bindings inputs = random_bindings(graph, {{"M", m}});
    const Tensor want = (*plan->run(inputs))[0];
    for (int i = 0; i < 20; ++i) {
      const Tensor got = (*plan->run(inputs))[0];
      good &= std::equal(got.as<float>(), got.as<float>() + got.size(), want.as<float>());
    }
  };
  bool good[3] = {true, true, true};
  std::thread a(work, 65, std::ref(good[0])), b(work, 130, std::ref(good[1]));
  work(64, good[2]);
  a.join();
  b.join();
  EXPECT_TRUE(good[0] && good[1] && good[2]);
}

TEST(CpuPlan, SaysWhatIsWrongWithInputs) {
  const ir::Graph graph = parse("graph g(x: f32[M, 4], y: f32[M, 4]) { return x + y }");
  const auto plan = CpuPlan::make(unfolded(graph));
  ASSERT_TRUE(plan);
  const Tensor a = Tensor::of(DType::F32, {1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(plan->run({{"x", a}}).error().what, "input y is missing");
  const Tensor b = Tensor::of(DType::BF16, {1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(plan->run({{"x", a}, {"y", b}}).error().what,
            "input y is bf16, the graph wants f32[M, 4]");
  EXPECT_FALSE(plan->run({{"x", a}, {"y", Tensor::of(DType::F32, {4}, {1, 2, 3, 4})}}));
  EXPECT_FALSE(CpuPlan::make(unfolded(graph), {.weights = {{"z", a}}}));
}

}  // namespace
}  // namespace attacca::run
