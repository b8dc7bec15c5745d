// The C interface: packed weights.
#include <cstring>

#include "fmt/format.h"

#include "api/c/status.hpp"
#include "ir/packed/header.hpp"
#include "ir/packed/packed.hpp"
#include "ir/text/dtype_named.hpp"

namespace {

namespace ir = attacca::ir;

Status check_size(const attacca_packing* packing) {
  ATTACCA_REQUIRE(packing);
  if (packing->size == sizeof(attacca_packing)) return {};
  return fail(fmt::format("attacca_packing of {} bytes, this library's have {}", packing->size,
                          sizeof(attacca_packing)),
              "packing", "set size to sizeof(attacca_packing), with this version's header");
}

Result<ir::PackedLayout> layout_of(const attacca_packing& given) {
  ATTACCA_TRY_VOID(required("weights, scales", {given.weights, given.scales}));
  ir::Packing packing;
  ATTACCA_TRY(packing.weights, ir::dtype_named(given.weights, "weights"));
  ATTACCA_TRY(packing.scales, ir::dtype_named(given.scales, "scales"));
  packing.bits = given.bits;
  packing.group = given.group;
  packing.zeros = given.zeros != 0;
  return ir::packed_layout(packing, given.n, given.k);
}

// Nothing is written through it.
ir::Tensor view(ir::DType dtype, std::vector<int64_t> shape, const void* data) {
  return ir::Tensor::view(dtype, std::move(shape), const_cast<void*>(data));
}

std::span<const std::byte> span_of(const void* data, size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

// Names the argument that an error is about.
template <class T>
Result<T> at(Result<T> result, const char* argument) {
  if (!result && result.error().where.empty()) result.error().where = argument;
  return result;
}

void copy(const ir::Tensor& from, void* to) {
  std::memcpy(to, from.data(), static_cast<size_t>(from.bytes()));
}

}  // namespace

extern "C" {

attacca_status* attacca_weights_pack(const attacca_packing* packing, const void* weights,
                                     const void* scales, const void* zeros,
                                     attacca_bytes** packed) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(check_size(packing));
    ATTACCA_REQUIRE(weights, scales, packed);
    ATTACCA_TRY(const ir::PackedLayout layout, at(layout_of(*packing), "packing"));
    if (layout.packing.zeros) ATTACCA_REQUIRE(zeros);
    const ir::DType dtype = layout.packing.weights;
    ir::Quantized from{
        view(dtype, {layout.n, layout.packing.bits == 4 ? layout.k / 2 : layout.k}, weights),
        view(layout.packing.scales, {layout.n, layout.groups}, scales), std::nullopt};
    if (layout.packing.zeros) from.zeros = view(dtype, {layout.n, layout.groups}, zeros);
    ATTACCA_TRY(const ir::Tensor made, at(ir::pack(from, layout.packing), "weights"));
    *packed = new attacca_bytes{
        std::string(reinterpret_cast<const char*>(made.data()), static_cast<size_t>(made.bytes()))};
    return {};
  });
}

attacca_status* attacca_weights_describe(const void* packed, size_t bytes,
                                         attacca_packing* packing) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(packed);
    ATTACCA_TRY_VOID(check_size(packing));
    ATTACCA_TRY(const ir::PackedLayout layout,
                at(ir::verify_packed(span_of(packed, bytes)), "packed"));
    *packing = {sizeof(attacca_packing),
                layout.n,
                layout.k,
                ir::name(layout.packing.weights).data(),
                layout.packing.bits,
                layout.packing.zeros,
                layout.packing.group,
                ir::name(layout.packing.scales).data()};
    return {};
  });
}

attacca_status* attacca_weights_unpack(const void* packed, size_t bytes, void* weights,
                                       void* scales, void* zeros) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(packed, weights, scales);
    ATTACCA_TRY(const ir::Quantized from, at(ir::unpack(span_of(packed, bytes)), "packed"));
    if (from.zeros) ATTACCA_REQUIRE(zeros);
    copy(from.weights, weights);
    copy(from.scales, scales);
    if (from.zeros) copy(*from.zeros, zeros);
    return {};
  });
}

}  // extern "C"
