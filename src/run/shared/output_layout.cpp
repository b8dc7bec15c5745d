#include "run/shared/output_layout.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "fuse/views.hpp"

namespace attacca::run {
namespace {

using ir::Value;

Status refuse(const ir::Output& output, std::string_view why) {
  return fail(fmt::format("output {} is not row-major, and {}", output.name, why), output.name,
              "give a row-major tensor");
}

bool holds(const std::vector<Value>& values, Value value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Strides over a result's axes as strides over the domain of its region, whose points reach the
// result by `dense` strides when it is row-major. nullopt: there are none.
std::optional<std::vector<ir::Dim>> over_domain(const ir::Shape& shape,
                                                const std::vector<ir::Dim>& strides,
                                                const ir::Shape& domain,
                                                const std::vector<ir::Dim>& dense) {
  const std::vector<ir::Dim> own = fuse::dense_strides(shape);
  if (fuse::regroup(shape, own, domain) == dense) return fuse::regroup(shape, strides, domain);
  // Behind a transpose: each axis of the domain is one of the result.
  std::vector<ir::Dim> result(domain.size());
  for (size_t axis = 0; axis < domain.size(); ++axis) {
    if (domain[axis].is(1)) continue;
    size_t same = 0;
    while (same < shape.size() && (shape[same] != domain[axis] || own[same] != dense[axis])) ++same;
    if (same == shape.size()) return std::nullopt;
    result[axis] = strides[same];
  }
  return result;
}

Status lay_out(fuse::Partition& partition, size_t index, std::vector<ir::Dim> strides) {
  const ir::Output& output = partition.graph.outputs()[index];
  const ir::Shape& shape = partition.graph.type(output.value).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis].is(1)) strides[axis] = 0;
  size_t results = 0;
  for (const ir::Output& each : partition.graph.outputs()) results += each.value == output.value;
  if (results > 1) return refuse(output, "repeats another output");
  fuse::Region* writer = nullptr;
  for (fuse::Region& region : partition.regions) {
    if (holds(region.inputs, output.value)) return refuse(output, "the graph reads it again");
    if (holds(region.outputs, output.value)) writer = &region;
  }
  if (writer == nullptr) return refuse(output, "repeats an input or a constant");
  if (writer->kind == fuse::RegionKind::Single || writer->kind == fuse::RegionKind::UserKernel)
    return refuse(output, "what computes it writes rows one after the other");
  for (epilogue::Output& stored : writer->epilogue.outputs) {
    if (stored.result != output.value) continue;
    auto access = over_domain(shape, strides, writer->epilogue.domain, stored.access.strides);
    if (stored.kind != epilogue::OutputKind::Store || !access)
      return refuse(output, "what computes it writes rows one after the other");
    stored.access.strides = *std::move(access);
  }
  return {};
}

}  // namespace

Status lay_out_outputs(fuse::Partition& partition, const OutputStrides& strides) {
  for (size_t i = 0; i < strides.size(); ++i)
    if (strides[i]) ATTACCA_TRY_VOID(lay_out(partition, i, *strides[i]));
  return {};
}

}  // namespace attacca::run
