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
    auto access = fuse::regroup(shape, strides, writer->epilogue.domain);
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
