// The part of an epilogue that the vendor library can compute in its product: a bias, and then an
// activation. The pointwise kernel computes the rest.
#pragma once

#include <optional>
#include <vector>

#include "launch/cublaslt.hpp"
#include "problem/problem.hpp"

namespace attacca::launch {

struct VendorEpilogue {
  VendorTail tail;                   // what the library computes
  std::optional<size_t> bias_input;  // of the problem's epilogue
  // The rest of the epilogue, whose accumulator is the library's result; inputs are as before.
  epilogue::Epilogue rest;
};

// Every way to divide the epilogue, first the one in which the library computes the bare product.
// There are others only where the library's result is at least as exact as the unfused graph's: in
// fp32 mode, with one product and a bias of the dtype in which the library stores its result. That
// is the product's, or that of the bias for an f32 product whose part of the tail ends in a cast to
// it. The library's relu is not used, because nothing guarantees that it keeps NaN.
std::vector<VendorEpilogue> vendor_epilogues(const problem::Problem& problem);

// The dtype in which the library stores the result of a product.
ir::DType stored_dtype(const problem::Problem& problem, const VendorEpilogue& way, size_t product);

// Whether the rest of a way stores what the library gives: no second kernel.
bool is_bare_product(const problem::Problem& problem, const VendorEpilogue& way);

}  // namespace attacca::launch
