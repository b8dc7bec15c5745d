// Whether a template can compute a problem, and where it takes the operands. Nothing else decides
// it: what is legal here is never refused when it is prepared or launched.
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

// Where every operand of the problem goes in the template, or why it cannot compute the problem.
// Three parties answer, each for its own part: the template's metadata (the device, dtypes, packed
// weights, scales of blocks), its hole (accumulators, results), and its builder's check (extents,
// strides, alignments, the candidate's swizzle, raster and splits). Operands that a full or result
// slot cannot take (strides, alignment) go through the context.
using Legality = std::variant<std::shared_ptr<const epilogue::Binding>, std::string>;
Legality legality(const problem::Problem& problem, const templates::Template& kernel,
                  const gpu::DeviceInfo& device, const Candidate& candidate = {});

// A candidate that was read from text, with its binding. One of a template that has a binding, and
// one that is no template's, stay as they are. Errors: no such template, or one that cannot compute
// the problem, with the reason.
Result<Candidate> resolve(Candidate candidate, const problem::Problem& problem,
                          const templates::Catalog& catalog, const gpu::DeviceInfo& device);

// How many of the epilogue's full operands and outputs a binding leaves to the context: what makes
// a template slow for the problem.
int context_operands(const problem::Problem& problem, const epilogue::Binding& binding);

}  // namespace attacca::launch
