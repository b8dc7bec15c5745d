// Whether a template can compute a problem, and where it takes the operands. This is decided here
// only: a candidate that is legal here is never refused when it is prepared or launched.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "epilogue/hole.hpp"
#include "gpu/driver/device.hpp"
#include "launch/candidate.hpp"
#include "problem/problem.hpp"
#include "templates/catalog.hpp"

namespace attacca::launch {

// Where the template takes every operand of the problem, or why it cannot compute the problem. The
// template's metadata decide about the device, dtypes, packed weights and scales of blocks; its
// hole about accumulators and results; its builder's check about extents, strides, alignments and
// the candidate's swizzle, raster and splits. Operands whose strides or alignment no full or result
// slot supports go through the context.
//
// Where an index names the rows of A, a template that does not gather them computes the problem
// with_gathered_rows(); one that does not widen weights in codes the problem
// with_widened_weights().
//
// The answer for a batch-invariant problem does not depend on m: a template is legal if it sums the
// products of a row in an order that depends neither on the number of rows nor on which of a tile's
// rows it is, and takes each of kRowCounts rows.
using Legality = std::variant<std::shared_ptr<const epilogue::Binding>, std::string>;
Legality legality(const problem::Problem& problem, const templates::Template& kernel,
                  const gpu::DeviceInfo& device, const Candidate& candidate = {});

// Whether another kernel gathers the rows of A that an index names, before the candidate's.
bool gathers_before(const problem::Problem& problem, const Candidate& candidate,
                    const templates::Catalog& catalog);

// Whether another kernel widens weights in codes before the candidate's.
bool widens_before(const problem::Problem& problem, const Candidate& candidate,
                   const templates::Catalog& catalog);

// Whether another kernel numbers the rows' groups before the candidate's: those of grouped
// templates know them.
bool numbers_before(const problem::Problem& problem, const Candidate& candidate);

// The numbers of rows that are checked, from the fewest to the most, with counts in between that
// fill no tile.
inline constexpr int64_t kRowCounts[] = {1, 3, 17, 100, 513, 1 << 20};

// Adds the binding to a candidate that was read from text. A candidate that has one, or is not of a
// template, stays as it is. Errors: there is no such template, or it cannot compute the problem;
// the error has the reason.
Result<Candidate> resolve(Candidate candidate, const problem::Problem& problem,
                          const templates::Catalog& catalog, const gpu::DeviceInfo& device);

// How many of the epilogue's full operands and outputs a binding leaves to the context. Each makes
// the kernel slower.
int context_operands(const problem::Problem& problem, const epilogue::Binding& binding);

}  // namespace attacca::launch
