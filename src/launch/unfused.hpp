// The unfused path as a candidate. The vendor library computes the products into the workspace,
// with a bias and an activation where it can, and one pointwise kernel computes the rest of the
// tail.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/candidate.hpp"
#include "launch/cublaslt.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// Operands that the library cannot read in place, or whose dtypes it does not multiply, are first
// copied to dense ones of a dtype that holds them exactly.
Result<std::unique_ptr<Runnable>> make_unfused(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem,
                                               const Candidate& candidate);

// Why batch-invariant problems do without the library. Their products are by PlainProduct.
inline constexpr std::string_view kVariantVendor =
    "batch_invariant: cuBLASLt chooses its algorithm by the shape, so that the order of its sums "
    "may depend on M";

// The dtypes in which the library multiplies operands of these dtypes to a result that is stored as
// `stored`: they hold the operands exactly (bytes beside 16 bits: A's). The fastest first; none:
// the library does not, and PlainProduct does.
std::vector<std::pair<ir::DType, ir::DType>> multiplied_as(
    const problem::ProductOperands<problem::View>& views, ir::DType stored);

// A candidate of the unfused path, with the algorithm of its first product if the library computes
// it.
struct Proposal {
  Candidate candidate;
  std::optional<VendorAlgorithm> algorithm;
};
// Every one; for each kind, the one that the library prefers comes first.
Result<std::vector<Proposal>> unfused_proposals(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem);
// Their candidates.
Result<std::vector<Candidate>> unfused_candidates(const std::shared_ptr<Toolbox>& toolbox,
                                                  const problem::Problem& problem);

}  // namespace attacca::launch
