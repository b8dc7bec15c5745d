// Makes regions with an epilogue of single ops, for executors without a kernel for each op.
#pragma once

#include <vector>

#include "fuse/fuse.hpp"

namespace attacca::run {

// An elementwise op or cast as a pointwise region of one node.
fuse::Region pointwise_region(const ir::Graph& graph, const fuse::Region& single);

// Ops that only move elements: transpose, permute, reshape, slice, broadcast, concat.
bool is_copy(ir::Op op);
// Where the result of a view op reads its operand, which has these strides; the operand of a
// reshape is row-major.
epilogue::Access copied_access(const ir::Graph& graph, ir::Value view,
                               std::vector<ir::Dim> strides);
// One region a source of the node (several for concat), each copying to its part of the result.
// REQUIRES: is_copy(graph[value].op).
std::vector<fuse::Region> copy_regions(const ir::Graph& graph, ir::Value value);

// A matmul on its own as a GEMM region that stores its product.
Result<fuse::Region> matmul_region(const ir::Graph& graph, const fuse::Region& single);

}  // namespace attacca::run
