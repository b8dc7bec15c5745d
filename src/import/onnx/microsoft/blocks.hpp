// Weights that are quantised in blocks along K, as MatMulNBits and QMoE store them.
#pragma once

#include <optional>

#include "import/onnx/node.hpp"

namespace attacca::import {

// Which inputs of a node hold the weights of a mixture's experts: codes [E, N, K * bits / 8], the
// first of a byte in its lowest bits; scales [E, N, K / block], or [E, N] where a row is one block;
// zero points of whole blocks, rows packed like the codes, or none: the middle code means 0.
struct QuantisedExperts {
  size_t codes = 0, scales = 0;
  std::optional<size_t> zeros = {};
  int64_t block = 0;  // 0: a row
  int64_t bits = 4;
  ir::DType dtype = ir::DType::F32;  // of the result
};

// The dequantised weights [E, N, K], as a decode of the codes where kernels read such, else as
// numbers. Errors: inputs that are no constants or do not fit each other.
Result<ir::Value> expert_weights(Node& node, const QuantisedExperts& from);

}  // namespace attacca::import
