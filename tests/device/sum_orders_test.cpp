// Templates of the same order of sums (templates/sum_order.hpp) give the same bits of the
// accumulator: what batch-invariant results rest on where the template depends on the number of
// rows.
#include <gtest/gtest.h>
#include <map>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "launch/legality.hpp"
#include "run/check/random_inputs.hpp"
#include "support/check.hpp"
#include "templates/sum_order.hpp"

namespace attacca::testing {
namespace {

// A product's accumulators. `o`: the ends of groups of rows.
struct Products {
  const char *parameters, *sum;
};
constexpr Products kProducts[] = {
    {"a: bf16[M, 2056], b: bf16[264, 2056]", "a @ transpose(b)"},
    {"a: f16[M, 4096], b: f16[136, 4096]", "a @ transpose(b)"},
    {"a: bf16[M, 1096], b: bf16[1096, 264]", "a @ b"},
    {"a: bf16[M, 515], b: bf16[77, 515]", "a @ transpose(b)"},
    {"a: bf16[M, 2056], b: bf16[264, 2056], c: bf16[264, 2056]",
     "a @ transpose(b) - a @ transpose(c)"},
    {"a: f16[M, 2048], b: f16[2048, 264], c: f16[2048, 264]", "a @ b - a @ c"},
    {"a: f8e4m3[M, 4096], b: f8e4m3[272, 4096]", "cast(matmul(a, transpose(b)), f32)"},
    {"a: f8e4m3[M, 4096], b: f8e4m3[272, 4096]", "cast(matmul(a, transpose(b), fast=true), f32)"},
    {"a: bf16[M, 2048], b: s8[272, 2048]", "a @ transpose(cast(b, bf16))"},
    {"a: f16[M, 2048], b: s8[2048, 272]", "a @ cast(b, f16)"},
    {"a: bf16[M, 1096], b: bf16[4, 264, 1096], o: s32[4]", "grouped_matmul(a, transpose(b), o)"},
    {"a: f16[M, 1096], b: f16[4, 1096, 264], o: s32[4]", "grouped_matmul(a, b, o)"},
};

// A bf16 result holds 8 bits of the sum. Three graphs give the first ones, the next ones, and the
// rest: all bits but those of small sums.
constexpr const char* kPieces[] = {"high", "middle", "sum - high - middle"};

std::string text_of(const Products& products, const char* piece) {
  return fmt::format(
      "graph g({}) {{\n  sum = ({}) * 0.015625\n  high = round(sum * 32.0) * 0.03125\n"
      "  middle = round((sum - high) * 8192.0) * 0.0001220703125\n  return cast({}, bf16)\n}}\n",
      products.parameters, products.sum, piece);
}

Case case_of(const std::string& text, int64_t m) {
  const auto graph = ir::parse_graph(text);
  ATTACCA_CHECK(graph.has_value(), text + to_string(graph.error()));
  ir::Bindings given;
  if (text.find("o: s32") != std::string::npos) {
    ir::Tensor ends = *ir::Tensor::make(ir::DType::S32, {4});
    int64_t group = 0;
    for (const int64_t end : {m / 3, m / 3, m / 2, m}) ends.set_integer(group++, end);
    given.emplace("o", std::move(ends));
  }
  auto inputs = run::random_inputs(*graph, {{"M", m}}, 5, std::move(given));
  ATTACCA_CHECK(inputs.has_value(), "no inputs");
  auto made = make_case(*graph, {{"M", m}}, ir::Mode::Fp32, *std::move(inputs));
  ATTACCA_CHECK(made.has_value(), text + to_string(made.error()));
  return *std::move(made);
}

TEST(SumOrders, GiveTheSameBits) {
  struct First {
    std::string kernel;
    std::vector<ir::Tensor> outputs;
  };
  std::map<std::string, int> compared;
  for (const Products& products : kProducts)
    for (const char* piece : kPieces)
      for (const int64_t m : {1, 77, 300}) {
        const std::string text = text_of(products, piece);
        const Case each = case_of(text, m);
        std::vector<std::string> kernels;
        for (const templates::Template& kernel : toolbox()->catalog().templates())
          if (kernel.family == templates::Family::Gemm &&
              templates::sum_order(kernel) != kernel.name && !is_refused(each, kernel.name))
            kernels.push_back(kernel.name);
        std::vector<Result<std::vector<ir::Tensor>>> outputs(
            kernels.size(), tl::make_unexpected(Error{"not run", "", ""}));
        in_parallel(static_cast<int>(kernels.size()), [&](int i) {
          const auto index = static_cast<size_t>(i);
          outputs[index] =
              run_candidate(each, {.kind = launch::CandidateKind::Fused, .kernel = kernels[index]});
        });
        std::map<std::string, First> orders;
        for (size_t i = 0; i < kernels.size(); ++i) {
          ASSERT_TRUE(outputs[i]) << kernels[i] << to_string(outputs[i].error());
          const std::string order = templates::sum_order(*toolbox()->catalog().find(kernels[i]));
          const auto& [first, is_new] = orders.try_emplace(order, First{kernels[i], *outputs[i]});
          if (is_new) continue;
          EXPECT_EQ("", compare_bits(*outputs[i], first->second.outputs))
              << kernels[i] << " and " << first->second.kernel << ", " << m << " rows of\n"
              << text;
          ++compared[order];
        }
      }
  for (const auto& [order, count] : compared) fmt::print("{}: {} comparisons\n", order, count);
  EXPECT_EQ(compared.size(), 3u);
}

}  // namespace
}  // namespace attacca::testing
