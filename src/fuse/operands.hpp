// The operands of matrix products: which ops in front of a product its kernel does itself, and what
// the kernel then reads from memory.
#pragma once

#include <optional>

#include "fuse/gathers.hpp"
#include "fuse/workspace.hpp"

namespace attacca::fuse {

// The dtype in which a product is summed, or which a user's kernel stores.
ir::DType accumulator_of(const Facts& facts, ir::Value product);

// The op that computes B of this product from quantised weights, and that the product's kernel does
// itself: an unpack whose result is read transposed, or a cast of bytes to A's dtype of 16 bits,
// whose result may be read transposed. The op reads an input or a constant.
std::optional<ir::Value> quantized_weights(const Workspace& work, ir::Value matmul);

// The mxfp4 or decode op that computes B of this product, and that the product's kernel does
// itself.
std::optional<ir::Value> coded_weights(const Workspace& work, ir::Value matmul);

// The scale_blocks ops whose results are A and B of this product, B possibly transposed, and which
// the product's kernel does itself. Their values are 8-bit floats in the blocks of BlockScales.
struct ScaledOperands {
  ir::Value of[2];
};
std::optional<ScaledOperands> scaled_operands(const Workspace& work, ir::Value matmul);

// The rows of the gather whose result, as it is, is A of this product, or the 8-bit floats that A's
// scale_blocks scales, where the product's kernel reads the rows itself.
std::optional<GatheredRows> gathered_a(const Workspace& work, ir::Value matmul);

// What the product's kernel reads.
Gemm describe_gemm(const Workspace& work, ir::Value matmul);

}  // namespace attacca::fuse
