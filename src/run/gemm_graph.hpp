// Makes a graph of one matrix product, or the two of a gate, and its epilogue's text, such as
// "silu(acc + row(bias)) * full(res)", for `attacca bench gemm`, the C API and the tests.
#pragma once

#include <string>

#include "epilogue/text.hpp"
#include "ir/graph/graph.hpp"

namespace attacca::run {

// The weights of the second product, for an epilogue that reads acc0 and acc1.
enum class Gate : uint8_t {
  None,
  Two,     // b1: [N, K] besides b
  Halves,  // b: [2 N, K], acc0 the product with the first N rows
  Rows,    // b: [2 N, K], acc0 the product with every other row from the first on
};

struct GemmForm {
  ir::DType input = ir::DType::BF16;
  bool b_is_nk = true;   // b: [N, K], as weights are kept; false: [K, N]
  bool batched = false;  // a: [B, M, K], full operands [B, M, N]; b and the others shared
  bool grouped = false;  // a matrix for each group of a's rows: b: [E, N, K], offsets: s32[E]
  std::string epilogue = "acc";
  epilogue::TextOptions text = {};
  Gate gate = Gate::None;  // the others: b_is_nk
  bool fast = false;       // of 8-bit floats: the matmul's fast=true
};

// The form's weights by a name: nk, kn (of one product), two, halves, rows (of a gate); with
// "groups " in front, of a grouped product.
Status set_layout(GemmForm& form, std::string_view layout);

// Gives `acc` in the form's text the dtype of the product (ir/graph/product_dtype.hpp). Operands
// without a dtype get the same, or f32 if it is an integer. Errors: an input dtype that has no
// product.
Status set_product(GemmForm& form);

// graph gemm(a: [M, K], b: [N, K], operands...), in the symbols M, N, K (and B or E); offsets
// follow the weights of a grouped product; one output a result of the epilogue. Errors: those of
// the epilogue's text.
Result<ir::Graph> gemm_graph(const GemmForm& form);

}  // namespace attacca::run
