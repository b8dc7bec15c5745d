// The layouts of callers' tensors: strides that differ from the graph's, and shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/graph/tensor.hpp"

namespace attacca::api {

// One for each input, then for each output; none: the graph's. Empty: all are the graph's.
using Layouts = std::vector<std::optional<std::vector<int64_t>>>;

// Whether both strides give all elements the same places. They may differ along axes of extent 1,
// and if the tensor is empty.
bool reach_the_same(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                    const std::vector<int64_t>& b);

// The strides of a tensor as polynomials over the symbols of `shape`; `extents` is `shape` at
// certain sizes, for which they have these values. A stride that follows from the inner axes is the
// product of their extents, so that one graph serves other sizes of tensors with the same layout.
std::vector<ir::Dim> symbolic_strides(const ir::Shape& shape, const std::vector<int64_t>& extents,
                                      const std::vector<int64_t>& strides);

// The strides of a graph's inputs, in order; nullopt: those that the input has.
using InputStrides = std::vector<std::optional<std::vector<ir::Dim>>>;

// The graph whose inputs declare these strides.
Result<ir::Graph> with_strides(const ir::Graph& graph, const InputStrides& strides);

// Copies a row-major tensor to elements laid out by strides.
void scatter(const ir::Tensor& dense, const std::vector<int64_t>& strides, std::byte* to);

// The memory of a tensor's elements, strides in bytes. Rank 0: one block of `width` bytes.
struct Extent {
  uintptr_t address = 0;
  int64_t width = 0;  // bytes of an element
  std::span<const int64_t> shape, strides;
};
// False: they share no byte. True: they do, or may.
bool may_share(const Extent& a, const Extent& b);

}  // namespace attacca::api
