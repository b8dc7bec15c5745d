// Made-up inputs for running and checking a model without data.
#pragma once

#include <random>

#include "ir/interpret/interpreter.hpp"
#include "ir/packed/packed.hpp"

namespace attacca::run {

// A tensor for every input that `given` lacks. Floats are N(0, 1), those that a matmul reads as its
// second operand N(0, 1/K); s8 and u8 use their full range; other integers are indices valid for
// every gather they reach, else 0..7; packed weights are packed. The same seed gives the same
// numbers for a name, whatever the other inputs. Symbols must be bound (to_shape errors name the
// one that is not).
Result<ir::Bindings> random_inputs(const ir::Graph& graph, const ir::SymbolValues& symbols,
                                   uint64_t seed, ir::Bindings given = {});

// Codes of the full range (f8e4m3: below 2), scales that make the weights N(0, 1/K).
Result<ir::Tensor> random_packed(const ir::PackedLayout& layout, std::mt19937_64& random);

// Inputs that the matmuls of the graph read as their second operand, through views: its weights.
std::vector<ir::Value> weight_inputs(const ir::Graph& graph);

}  // namespace attacca::run
