// The part of a tail that the vendor library computes, and the rest.
#include "launch/vendor_epilogue.hpp"

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "problem_testing.hpp"

namespace attacca::tune {
namespace {

constexpr const char* kTails[] = {"product", "+ bias", "gelu_tanh(+ bias)"};

// "product: THE REST | + bias: THE REST", for a: bf16[M, 64] times w: bf16[N, 64] transposed.
std::string ways(const std::string& tail, const std::string& more = "b: bf16[N]",
                 ir::Mode mode = ir::Mode::Fp32) {
  testing::MakeOptions options{.symbols = {{"M", 16}, {"N", 32}}};
  options.mode = mode;
  const auto made = testing::make("a: bf16[M, 64], w: bf16[N, 64], " + more,
                                  "acc = matmul(a, transpose(w))\nreturn " + tail, options);
  if (!made.problem) return to_string(made.problem.error());
  std::string text;
  for (const launch::VendorEpilogue& way : launch::vendor_epilogues(*made.problem))
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : " | ", kTails[static_cast<size_t>(way.tail)],
                    print(way.rest, made.partition.graph, way.rest.outputs[0]));
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

TEST(VendorEpilogue, AnOutputKeepsItsValue) {
  EXPECT_EQ(ways("acc + b, gelu_tanh(acc + b)"), "product: acc + row(b) | + bias: acc");
}

}  // namespace
}  // namespace attacca::tune
