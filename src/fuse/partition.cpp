#include "fuse/workspace.hpp"

namespace attacca::fuse {

Partition partition(ir::Graph graph, const FuseOptions& options) {
  Workspace work(graph);
  work.fusing = options.fuse;
  work.reductions = options.reductions;
  work.packed = options.packed;
  work.grouped = options.grouped;
  work.rows = options.rows && options.fuse;
  work.indexed_operands = (options.rows || options.indexed_operands) && options.fuse;
  work.grouped_rows = options.grouped_rows && options.grouped && options.fuse;
  work.codes = options.codes && options.fuse;
  work.grouped_codes = options.grouped_codes && options.grouped && options.fuse;
  work.transposes = options.transposes && options.fuse;
  if (options.fuse) {
    draft_kernels(work);
    draft_gemms(work);
    draft_pointwise(work);
  } else {
    draft_alone(work);
  }
  return assemble(work, graph);
}

}  // namespace attacca::fuse
