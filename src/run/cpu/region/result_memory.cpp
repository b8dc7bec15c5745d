#include "run/cpu/region/result_memory.hpp"

#include <algorithm>

#include "run/shared/extents.hpp"

namespace attacca::run {
namespace {

using ir::Tensor;

// Whether an output has the domain's elements in their order.
bool is_dense(size_t output, const RegionSizes& sizes) {
  const ConcreteAccess& access = sizes.outputs[output];
  const std::vector<int64_t> dense = ir::contiguous_strides(sizes.domain);
  bool same = access.offset == 0;
  for (size_t axis = 0; axis < dense.size(); ++axis)
    same &= sizes.domain[axis] == 1 || access.strides[axis] == dense[axis];
  return same;
}

}  // namespace

ResultMemory::ResultMemory(const ir::Graph& graph, const epilogue::Epilogue& epilogue,
                           const ChunkProgram& program, ir::Mode mode)
    : epilogue_(epilogue), program_(program), mode_(mode) {
  for (const epilogue::Output& output : epilogue.outputs)
    is_graph_output_.push_back(
        std::any_of(graph.outputs().begin(), graph.outputs().end(),
                    [&](const ir::Output& each) { return each.value == output.result; }));
}

bool ResultMemory::is_store(size_t output) const {
  return epilogue_.outputs[output].kind == epilogue::OutputKind::Store;
}

bool ResultMemory::is_tiled(size_t output, const RegionSizes& sizes) const {
  const epilogue::Output& out = epilogue_.outputs[output];
  if (is_pointwise(epilogue_) || count_of(sizes.domain) == 0) return false;
  if (out.kind == epilogue::OutputKind::RowReduce) {
    const bool sums = out.reduction == ir::Op::Sum || out.reduction == ir::Op::Mean;
    return mode_ != ir::Mode::Eager || !sums ||
           block_columns(sizes.domain.back()) >= sizes.domain.back();
  }
  if (out.kind != epilogue::OutputKind::BatchReduce) return false;
  return std::all_of(out.access.strides.begin(), out.access.strides.end() - 2,
                     [](const ir::Dim& stride) { return stride.is(0); });
}

size_t ResultMemory::output_that_holds(size_t output, const RegionSizes& sizes) const {
  if (is_store(output) && (is_graph_output_[output] || !is_dense(output, sizes))) return output;
  for (size_t i = 0; i < program_.stores.size(); ++i) {
    if (program_.stores[i].slot != program_.stores[output].slot ||
        program_.stores[i].dtype != program_.stores[output].dtype)
      continue;
    if (is_store(output) && i >= output) break;
    if (is_store(i) && is_dense(i, sizes)) return i;
    // An earlier reduction may itself read a later result.
    if (!is_store(i) && i < output && !is_store(output) &&
        is_tiled(i, sizes) == is_tiled(output, sizes))
      return output_that_holds(i, sizes);
  }
  return output;
}

Result<std::vector<Tensor>> ResultMemory::make_results(RunState& state,
                                                       const RegionSizes& sizes) const {
  std::vector<Tensor> results;
  for (size_t i = 0; i < sizes.results.size(); ++i) {
    const epilogue::Output& output = epilogue_.outputs[i];
    if (const size_t same = is_store(i) ? output_that_holds(i, sizes) : i; same != i) {
      const auto whole = std::make_shared<Tensor>(results[same]);
      results.push_back(Tensor::adopt(output.dtype, sizes.results[i], {whole, whole->data()}));
      continue;
    }
    ATTACCA_TRY(Tensor result, state.result(output.result, output.dtype, sizes.results[i]));
    results.push_back(std::move(result));
  }
  return results;
}

Result<std::vector<Tensor>> ResultMemory::make_stored(RunState& state, const RegionSizes& sizes,
                                                      const std::vector<Tensor>& results) const {
  std::vector<Tensor> stored = results;
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_store(i) || is_tiled(i, sizes)) continue;
    if (const size_t same = output_that_holds(i, sizes); same != i) {
      stored[i] = Tensor::view(stored[same].dtype(), sizes.domain, stored[same].data());
      continue;
    }
    ATTACCA_TRY(stored[i], state.buffers.tensor(program_.stores[i].dtype, sizes.domain));
  }
  return stored;
}

std::vector<BoundAccess> ResultMemory::bind(const RegionSizes& sizes,
                                            std::vector<Tensor>& stored) const {
  std::vector<BoundAccess> bound;
  for (size_t i = 0; i < stored.size(); ++i) {
    const ConcreteAccess& access = sizes.outputs[i];
    const bool stores = !is_tiled(i, sizes) && output_that_holds(i, sizes) == i;
    std::byte* const first =
        stores ? stored[i].data() + access.offset * ir::size_of(stored[i].dtype()) : nullptr;
    bound.push_back({first, access.strides, nullptr});
  }
  return bound;
}

}  // namespace attacca::run
