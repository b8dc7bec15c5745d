// A graph's inputs as callers give them: their sizes, and copies in the layout that it declares.
#pragma once

#include "ir/graph/graph.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::run {

// The values that the inputs' shapes give the graph's symbols. Errors: those of ir::bind_symbols.
Result<ir::SymbolValues> symbols_of(const ir::Graph& graph, const ir::Bindings& inputs);

// The elements from an input's first to its last with these strides. Errors:
// strides that are negative, or reach beyond this machine's memory.
Result<int64_t> span_of(const ir::Node& input, const std::vector<int64_t>& shape,
                        const std::vector<int64_t>& strides);

// Whether strides may put two elements at one place. May be true although they do not.
// REQUIRES: span_of() them.
bool may_overlap(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

// The tensor in the layout that the input declares, row-major if it declares none. Not copied if it
// already has that layout. Errors: strides that reach beyond memory, or that put different values
// at one place. Throws std::bad_alloc.
Result<ir::Tensor> laid_out(const ir::Node& input, const ir::Tensor& tensor,
                            const ir::SymbolValues& symbols);

}  // namespace attacca::run
