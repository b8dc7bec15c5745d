// What of an epilogue the vendor library can compute in its own product: a bias, then perhaps an
// activation. The rest stays for the pointwise kernel.
#pragma once

#include <optional>
#include <vector>

#include "launch/cublaslt.hpp"
#include "problem/problem.hpp"

namespace attacca::launch {

struct VendorEpilogue {
  VendorTail tail;                   // what the library computes
  std::optional<size_t> bias_input;  // of the problem's epilogue
  // The epilogue with its accumulator standing for what the library gives; inputs as they were.
  epilogue::Epilogue rest;
};

// Every way, the one that leaves the library the bare product first. More than that one only where
// the library's result is no less exact than the unfused graph's: fp32 mode, one product, a bias of
// the product's dtype. Its relu is left out, because nothing says that it keeps NaN.
std::vector<VendorEpilogue> vendor_epilogues(const problem::Problem& problem);

// Whether `rest`, of one of the ways, stores what the library gives: no second kernel.
bool is_bare_product(const problem::Problem& problem, const epilogue::Epilogue& rest);

}  // namespace attacca::launch
