// Sizes that a model computes through floats, as exporters write ceil(length / stride): Cast to
// float, Div, Ceil, Cast back.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::import {

// The elements of an integer tensor of rank 0 or 1, if they are computed from sizes by arithmetic
// on f32 or f64 whose results are exact, or are rounded once and then to a whole number, which then
// is the exact one. nullopt: they depend on data, or on how floats are rounded. Sizes are taken to
// be below 2^24 (multiplied by others than powers of two: 2^20), so that f32 holds every integer.
std::optional<std::vector<ir::Dim>> sizes_through_floats(const ir::Graph& graph, ir::Value value);

}  // namespace attacca::import
