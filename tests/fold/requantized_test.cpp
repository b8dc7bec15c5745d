// Tensors that are dequantised and quantised again: which are their bytes, which must not be.
#include <cmath>

#include "fmt/format.h"

#include "fold_testing.hpp"

namespace attacca::fold {
namespace {

TEST(Requantized, IsTheSameBytesBehindViews) {
  const std::string q = "(q: u8[M, 64]) ";
  expect_graph(q + "{ return quantize(dequantize(q, 0.03, 7), 0.03, 7, dtype=u8) }",
               q + "{ return out0 = q }");
  expect_graph(q + "{ y = quantize(dequantize(q, 0.03), 0.03, dtype=u8); return y, cast(y, f32) }",
               q + "{ return y = q, out1 = cast(q, f32) }");
  expect_graph(
      q + "{ return quantize(transpose(reshape(dequantize(q, 0.03), [M, 8, 8])), 0.03, dtype=u8) }",
      q + "{ return transpose(reshape(q, [M, 8, 8])) }");
  expect_graph("(q: s8[M, 64]) { return quantize(dequantize(q, 2, 0)[:, 1:9], 2, dtype=s8) }",
               "(q: s8[M, 64]) { return q[:, 1:9] }");
}

TEST(Requantized, NotOnAnotherGrid) {
  for (const char* body : {
           "quantize(dequantize(q, 0.03, 7), 0.031, 7, dtype=u8)",
           "quantize(dequantize(q, 0.03, 7), 0.03, 8, dtype=u8)",
           "quantize(dequantize(q, 0.03, 7), 0.03, 7, dtype=s8)",
           "quantize(dequantize(q, 1e-35, 7), 1e-35, 7, dtype=u8)",
           "quantize(dequantize(q, -0.5, 7), -0.5, 7, dtype=u8)",
           "quantize(dequantize(q, s, 7), s, 7, dtype=u8)",
           "quantize(dequantize(q, 0.03, 7) + 0.03, 0.03, 7, dtype=u8)",
           "quantize(relu(dequantize(q, 0.03, 7)), 0.03, 7, dtype=u8)",
           "cast(round(dequantize(q, 0.03) / 0.03), u8)",
           "cast(round((cast(q, f32) - cast(cast(constant(-200, s32), u8), f32)) * 0.03 / 0.03) "
           "+ -200, u8, saturate=true)",
       }) {
    SCOPED_TRACE(body);
    const ir::Graph graph =
        graph_of(fmt::format("graph g(q: u8[M, 64], s: f32[]) {{ return {} }}", body));
    for (const Applied& applied : fold(graph).applied) EXPECT_NE(applied.rule, "requantized");
  }
}

// Every byte and zero point on many grids, as the graph is written.
TEST(Requantized, DoesNotChangeValues) {
  for (int k = 0; k < 400; ++k) {
    const auto scale = std::ldexp(1.0f + static_cast<float>(k) / 401.0f, k % 190 - 95);
    for (int q = 0; q < 256; ++q)
      for (const int zero : {0, 1, 127, 128, 200, 255}) {
        const float x = (static_cast<float>(q) - static_cast<float>(zero)) * scale;
        const float again = std::nearbyint(x / scale) + static_cast<float>(zero);
        ASSERT_EQ(again, static_cast<float>(q)) << scale << " " << zero;
      }
  }
}

}  // namespace
}  // namespace attacca::fold
