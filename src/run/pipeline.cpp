#include "run/pipeline.hpp"

#include "import/onnx/onnx.hpp"
#include "ir/text/text.hpp"
#include "support/files/file.hpp"

namespace attacca::run {
namespace {

// Eager mode promises the graph's own roundings, and the unfused path is the graph as it stands.
fold::FoldResult fold_if_allowed(const ir::Graph& graph, ir::Mode mode, bool fuse) {
  if (mode == ir::Mode::Eager || !fuse) return {graph, {}};
  return fold::fold(graph);
}

}  // namespace

Result<ir::Graph> load_graph(const std::string& path) {
  if (path.ends_with(".onnx")) return import::read_onnx(path);
  ATTACCA_TRY(const std::string text, read_file(path));
  return ir::parse_graph(text, path);
}

Prepared prepare(const ir::Graph& graph, ir::Mode mode, bool fuse) {
  fold::FoldResult folded = fold_if_allowed(graph, mode, fuse);
  fuse::Partition partition = fuse::partition(folded.graph, {.fuse = fuse});
  return {std::move(folded), std::move(partition)};
}

Result<Compiled> compile(const ir::Graph& graph, const CpuOptions& options) {
  ATTACCA_TRY_VOID(ir::verify(graph));
  fold::FoldResult folded = fold_if_allowed(graph, options.mode, options.fuse);
  ATTACCA_TRY(CpuPlan plan, CpuPlan::compile(folded.graph, options));
  return Compiled{std::move(folded.applied), std::move(plan)};
}

}  // namespace attacca::run
