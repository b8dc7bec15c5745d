// The graph of one product and its epilogue's text.
#pragma once

#include <string>

#include "ir/graph/graph.hpp"

namespace attacca::api {

// The graph of attacca_matmul_plan (attacca.h). `out_dtype` empty: ir::default_result.
Result<ir::Graph> matmul_graph(const std::string& dtype, const std::string& b_layout,
                               const std::string& epilogue, const std::string& out_dtype);

}  // namespace attacca::api
