// Why a node cannot be part of a region, where the node alone decides.
#pragma once

#include <string>

#include "ir/graph/graph.hpp"

namespace attacca::fuse {

// Why no kernel's epilogue can compute this node; empty if one can.
std::string dtype_obstacle(const ir::Graph& graph, ir::Value node);
// Why a node of this op is never part of an epilogue's expression.
std::string structural_reason(const ir::Graph& graph, ir::Value node);
// Why a matrix product cannot be a Gemm region; empty if it can.
std::string gemm_obstacle(const ir::Graph& graph, ir::Value matmul);

}  // namespace attacca::fuse
