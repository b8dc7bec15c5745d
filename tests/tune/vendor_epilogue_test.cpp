// The part of a tail that the vendor library computes, and the rest.
#include "launch/vendor_epilogue.hpp"

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "problem_testing.hpp"

namespace attacca::tune {
namespace {

constexpr const char* kTails[] = {"product", "+ bias", "gelu_tanh(+ bias)"};

// "product: THE REST | + bias: THE REST", for a: bf16[M, 64] times w: bf16[N, 64] transposed, and
// " as DTYPE" after what is stored in another dtype than the product's.
std::string ways(const std::string& tail, const std::string& more = "b: bf16[N]",
                 ir::Mode mode = ir::Mode::Fp32,
                 const std::string& product = "matmul(a, transpose(w))") {
  testing::MakeOptions options{.symbols = {{"M", 16}, {"N", 32}}};
  options.mode = mode;
  const auto made = testing::make("a: bf16[M, 64], w: bf16[N, 64], " + more,
                                  "acc = " + product + "\nreturn " + tail, options);
  if (!made.problem) return to_string(made.problem.error());
  std::string text;
  for (const launch::VendorEpilogue& way : launch::vendor_epilogues(*made.problem)) {
    const ir::DType stored = launch::stored_dtype(*made.problem, way, 0);
    const bool own = stored == made.problem->products[0].stored;
    text +=
        fmt::format("{}{}{}: {}", text.empty() ? "" : " | ", kTails[static_cast<size_t>(way.tail)],
                    own ? "" : fmt::format(" as {}", name(stored)),
                    print(way.rest, made.partition.graph, way.rest.outputs[0]));
  }
  return text;
}

TEST(VendorEpilogue, TakesABiasAndAnActivation) {
  EXPECT_EQ(ways("acc + b"), "product: acc + row(b) | + bias: acc");
  EXPECT_EQ(ways("b + acc"), "product: row(b) + acc | + bias: acc");
  EXPECT_EQ(ways("gelu_tanh(acc + b)"),
            "product: gelu_tanh(acc + row(b)) | + bias: gelu_tanh(acc) | gelu_tanh(+ bias): acc");
  EXPECT_EQ(ways("silu(acc + b) * r", "b: bf16[N], r: bf16[M, N]"),
            "product: silu(acc + row(b)) * full(r) | + bias: silu(acc) * full(r)");
  EXPECT_EQ(ways("gelu_tanh(acc + b) * 2 + b"),
            "product: gelu_tanh(acc + row(b)) * 2 + row(b) | + bias: gelu_tanh(acc) * 2 + row(b) | "
            "gelu_tanh(+ bias): acc * 2 + row(b)");
}

TEST(VendorEpilogue, LeavesWhatItDoesNotComputeAlike) {
  const std::string alone = "product: ";
  EXPECT_EQ(ways("gelu(acc + b)"), "product: gelu(acc + row(b)) | + bias: gelu(acc)");
  EXPECT_EQ(ways("relu(acc + b)"), "product: relu(acc + row(b)) | + bias: relu(acc)");
  EXPECT_EQ(ways("gelu_tanh(acc) + b"), alone + "gelu_tanh(acc) + row(b)");
  EXPECT_EQ(ways("acc - b"), alone + "acc - row(b)");
  EXPECT_EQ(ways("acc + b", "b: f16[N]"), alone + "acc + row(b)");
  EXPECT_EQ(ways("acc + b", "b: bf16[M, 1]"), alone + "acc + col(b)");
  EXPECT_EQ(ways("acc + b", "b: bf16[M, N]"), alone + "acc + full(b)");
  EXPECT_EQ(ways("acc + b", "b: bf16[N; 2]"), alone + "acc + row(b)");
  EXPECT_EQ(ways("(acc + b) * acc"), alone + "(acc + row(b)) * acc");
  // Rounded twice by the unfused graph, once by the library.
  EXPECT_EQ(ways("acc + b", "b: bf16[N]", ir::Mode::Eager), alone + "acc + row(b)");
}

// Of a sum in f32, as PyTorch's addmm computes it.
std::string ways_of_f32(const std::string& tail, const std::string& more = "b: bf16[N]",
                        ir::Mode mode = ir::Mode::Fp32) {
  return ways(tail, more, mode, "matmul(a, transpose(w), out=f32)");
}

TEST(VendorEpilogue, StoresASumInTheDtypeOfItsBias) {
  const std::string sum = "cast(acc + b, bf16, compute=f32)";
  const std::string shown = "cast(acc + row(b), bf16, compute=f32)";
  EXPECT_EQ(ways_of_f32(sum), "product: " + shown + " | + bias as bf16: acc");
  EXPECT_EQ(ways_of_f32("silu(" + sum + ")"),
            "product: silu(" + shown + ") | + bias as bf16: silu(acc)");
  EXPECT_EQ(ways_of_f32("cast(gelu_tanh(cast(" + sum + ", f32)), bf16)"),
            "product: cast(gelu_tanh(cast(" + shown +
                ", f32)), bf16) | + bias as bf16: "
                "cast(gelu_tanh(cast(acc, f32)), bf16) | gelu_tanh(+ bias) as bf16: acc");
  EXPECT_EQ(ways_of_f32("cast(gelu(cast(" + sum + ", f32)), bf16)"),
            "product: cast(gelu(cast(" + shown +
                ", f32)), bf16) | + bias as bf16: "
                "cast(gelu(cast(acc, f32)), bf16)");
  EXPECT_EQ(ways_of_f32(sum, "b: bf16[N]", ir::Mode::Eager), "product: " + shown);
}

TEST(VendorEpilogue, RoundsNothingThatTheGraphDoesNot) {
  const std::string sum = "cast(acc + b, bf16, compute=f32)";
  const std::string shown = "cast(acc + row(b), bf16, compute=f32)";
  // The result of gelu_tanh is f32.
  EXPECT_EQ(ways_of_f32("gelu_tanh(cast(" + sum + ", f32))"),
            "product: gelu_tanh(cast(" + shown +
                ", f32)) | + bias as bf16: gelu_tanh(cast(acc, "
                "f32))");
  EXPECT_EQ(ways_of_f32("gelu_tanh(acc + b)"), "product: gelu_tanh(acc + row(b))");
  EXPECT_EQ(ways_of_f32("cast(gelu_tanh(acc + b), bf16)"),
            "product: cast(gelu_tanh(acc + row(b)), bf16) | gelu_tanh(+ bias) as bf16: acc");
  EXPECT_EQ(ways_of_f32("cast(acc + b, f16)"), "product: cast(acc + row(b), f16)");
  EXPECT_EQ(ways_of_f32("cast(acc + b, f16)", "b: f16[N]"), "product: cast(acc + row(b), f16)");
}

TEST(VendorEpilogue, RoundsWhereTheGraphDoes) {
  EXPECT_EQ(ways_of_f32("cast(gelu_tanh(cast(cast(acc + b, bf16), f32)), bf16)"),
            "product: cast(gelu_tanh(cast(cast(acc + row(b), bf16), f32)), bf16) | + bias as bf16: "
            "cast(gelu_tanh(cast(acc, f32)), bf16)");
}

TEST(VendorEpilogue, AnOutputKeepsItsValue) {
  EXPECT_EQ(ways("acc + b, gelu_tanh(acc + b)"), "product: acc + row(b) | + bias: acc");
}

}  // namespace
}  // namespace attacca::tune
