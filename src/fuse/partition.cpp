#include "fuse/assemble.hpp"
#include "fuse/draft.hpp"
#include "fuse/user_kernels.hpp"
#include "fuse/workspace.hpp"

namespace attacca::fuse {
namespace {

// The same options, where each is set only if those that it needs are, too.
FuseOptions normalized(const FuseOptions& options) {
  FuseOptions result = options;
  const bool fuse = options.fuse, grouped = options.grouped;
  result.rows = options.rows && fuse;
  result.indexed_operands = (options.rows || options.indexed_operands) && fuse;
  result.grouped_rows = options.grouped_rows && grouped && fuse;
  result.codes = options.codes && fuse;
  result.grouped_codes = options.grouped_codes && grouped && fuse;
  result.transposes = options.transposes && fuse;
  return result;
}

}  // namespace

Partition partition(ir::Graph graph, const FuseOptions& options) {
  Workspace work(graph, normalized(options));
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
