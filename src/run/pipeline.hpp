// The whole flow, top to bottom: a file goes in, a plan that runs comes out.
#pragma once

#include <string>

#include "fold/fold.hpp"
#include "ir/graph/graph.hpp"
#include "run/cpu/plan.hpp"

namespace attacca::run {

// Reads a model: .onnx through the importer, anything else as Attacca's text form.
Result<ir::Graph> load_graph(const std::string& path);

// What happened on the way from a graph to its regions.
struct Prepared {
  fold::FoldResult folded;  // nothing applied in eager mode or with fuse off
  fuse::Partition partition;
};

Prepared prepare(const ir::Graph& graph, ir::Mode mode, bool fuse = true);

struct Compiled {
  std::vector<fold::Applied> folds;
  CpuPlan plan;
};

Result<Compiled> compile(const ir::Graph& graph, const CpuOptions& options = {});

}  // namespace attacca::run
