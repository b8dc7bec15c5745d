// Where callers' tensors lie: strides other than the graph's, and memory that is shared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/graph/tensor.hpp"

namespace attacca::api {

// One an input, then one an output; none: as the graph says. Empty: all as the graph says.
using Layouts = std::vector<std::optional<std::vector<int64_t>>>;

// Whether both strides reach the same elements: they may differ along axes of extent 1, and
// wherever nothing is in the tensor.
bool reach_the_same(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                    const std::vector<int64_t>& b);

// Strides of a tensor of `extents`, which are `shape` at certain sizes, as polynomials over the
// symbols of `shape` that are worth these numbers: a stride that follows from the axes further in
// is their product, so that one graph serves other sizes of tensors laid out alike.
std::vector<ir::Dim> symbolic_strides(const ir::Shape& shape, const std::vector<int64_t>& extents,
                                      const std::vector<int64_t>& strides);

// Of a graph's inputs, in order; none: those that it has.
using InputStrides = std::vector<std::optional<std::vector<ir::Dim>>>;

// The graph whose inputs declare these strides.
Result<ir::Graph> with_strides(const ir::Graph& graph, const InputStrides& strides);

// Copies a row-major tensor to elements laid out by strides.
void scatter(const ir::Tensor& dense, const std::vector<int64_t>& strides, std::byte* to);

// Memory that a tensor's elements lie in, strides in bytes; rank 0: one block of `width` bytes.
struct Extent {
  uintptr_t address = 0;
  int64_t width = 0;  // bytes of an element
  std::span<const int64_t> shape, strides;
};
// False: no byte belongs to both. True where some do, or where that cannot be told.
bool may_share(const Extent& a, const Extent& b);

}  // namespace attacca::api
