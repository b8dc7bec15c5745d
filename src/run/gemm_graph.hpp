// One matrix product and its epilogue's text as a graph: what `attacca bench gemm`, the C API and
// the tests say when they mean "D = silu(acc + row(bias)) * full(res)".
#pragma once

#include <string>

#include "epilogue/text.hpp"
#include "ir/graph.hpp"

namespace attacca::run {

struct GemmForm {
  ir::DType input = ir::DType::BF16;
  bool b_is_nk = true;   // b: [N, K], as weights are kept; false: [K, N]
  bool batched = false;  // a: [B, M, K], full operands [B, M, N]; b and the others shared
  std::string epilogue = "acc";
  epilogue::TextOptions text = {};
};

// graph gemm(a: [M, K], b: [N, K], operands...), in the symbols M, N, K (and B); one output a
// result of the epilogue. Errors: those of the epilogue's text.
Result<ir::Graph> gemm_graph(const GemmForm& form);

}  // namespace attacca::run
