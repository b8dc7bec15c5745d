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
// fp32 mode, with one product and a bias of the product's dtype. The library's relu is not used,
// because nothing guarantees that it keeps NaN.
std::vector<VendorEpilogue> vendor_epilogues(const problem::Problem& problem);

// Whether `rest`, of one of the ways, stores what the library gives: no second kernel.
bool is_bare_product(const problem::Problem& problem, const epilogue::Epilogue& rest);

}  // namespace attacca::launch
