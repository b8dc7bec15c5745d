// Products of dequantised operands become products of the quantised ones:
//
//   ((a - za) * sa) @ ((b - zb) * sb)  ->  f32(a @ b - rowsum(a) zb - za colsum(b - zb)) * sa * sb
//
// where a and b are both bytes (s8, u8), or both 8-bit floats without zero points, and neither
// scales nor zero points vary along k. Quantising the result is an ordinary epilogue.
//
// Where a is of 16 bits, the zero points and scales of b alone follow the product, in f32:
//
//   a @ ((cast(b, 16 bits) - zb) * sb)
//     ->  cast((a @ cast(b, 16 bits) - rowsum(a) zb) * sb, 16 bits)
//
// for bytes b, zero points and scales that do not vary along k, and an a that is not dequantised
// itself. Kernels then widen the bytes where they lie. The graph as written rounds each weight;
// this rounds none. An infinite a with a zero point gives NaN where the graph as written may give
// infinity.
//
// The s32 sum is exact, zero points included, because this rule requires 255 * 255 * K < 2^31. Its
// cast to f32 rounds beyond 2^24; the graph as written rounds every factor and every partial sum.
// Scales that are not finite may give infinity where the graph as written gives NaN (inf * 0 inside
// the sum).
#pragma once

#include "fold/result.hpp"

namespace attacca::fold {

FoldResult multiply_quantized(const ir::Graph& graph);

}  // namespace attacca::fold
