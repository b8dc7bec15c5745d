// Quantising a dequantised tensor again, with the same scale and zero point, gives its bytes:
//
//   quantize(reshape(dequantize(q, s, z)), s, z)  ->  reshape(q)
//
// behind any views, where s is a constant number and z is constant. As written, (q - z) * s / s is
// off by at most two roundings of f32, far less than the rounding to whole numbers takes away.
#pragma once

#include "fold/result.hpp"

namespace attacca::fold {

FoldResult drop_requantized(const ir::Graph& graph);

}  // namespace attacca::fold
