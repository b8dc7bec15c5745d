// The attributes of ops: one struct for each kind. The op table says which kind an op has
// (OpInfo::attributes).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "ir/graph/dim.hpp"
#include "ir/graph/dtype.hpp"
#include "ir/graph/kernel_call.hpp"
#include "ir/graph/op.hpp"
#include "ir/graph/packing.hpp"

namespace attacca::ir {

struct NoAttrs {
  friend bool operator==(const NoAttrs&, const NoAttrs&) = default;
};

struct MatMulAttrs {
  std::optional<DType> dtype;  // the result's; required in a graph
  // true: products of 8-bit floats may be summed by the tensor cores, which keep about 14 bits of
  // each sum; false: they are summed as f32.
  bool fast = false;
  friend bool operator==(const MatMulAttrs&, const MatMulAttrs&) = default;
};

struct PermuteAttrs {
  std::vector<int64_t> axes;  // a permutation: axis i of the result is axis axes[i] of the operand
  friend bool operator==(const PermuteAttrs&, const PermuteAttrs&) = default;
};

// Reshape, Broadcast, GroupIds: the result's shape. Arange: begin and end.
struct ShapeAttrs {
  Shape shape;
  friend bool operator==(const ShapeAttrs&, const ShapeAttrs&) = default;
};

// x[begin:end:step] along one axis; begin and end normalised to 0 <= begin <= end <= extent.
// A step is positive, or negative with begin >= end as in Python after normalisation.
struct SliceRange {
  Dim begin = 0;
  Dim end = 0;
  int64_t step = 1;
  friend bool operator==(const SliceRange&, const SliceRange&) = default;
};

struct SliceAttrs {
  std::vector<SliceRange> ranges;  // one for each axis
  friend bool operator==(const SliceAttrs&, const SliceAttrs&) = default;
};

// Concat, Gather, Argsort.
struct AxisAttrs {
  int64_t axis = 0;  // normalised to 0 <= axis < rank
  friend bool operator==(const AxisAttrs&, const AxisAttrs&) = default;
};

struct CastAttrs {
  DType dtype = DType::F32;  // the result's
  bool saturate = false;     // Overflow::Saturate
  // None, or f32: in fp32 mode the value is rounded to f32, and to `dtype` where it is stored, as
  // an elementwise op's. Eager mode rounds it to `dtype` alone.
  std::optional<DType> compute = {};
  friend bool operator==(const CastAttrs&, const CastAttrs&) = default;
};

struct KernelAttrs {
  KernelCall call;
  DType dtype = DType::F32;  // the result's, and its shape
  Shape shape;
  friend bool operator==(const KernelAttrs&, const KernelAttrs&) = default;
};

struct UnpackAttrs {
  Packing packing;           // the operand's
  Shape shape;               // the result's
  DType dtype = DType::F32;  // what the weights become
  friend bool operator==(const UnpackAttrs&, const UnpackAttrs&) = default;
};

struct BlocksAttrs {
  std::vector<int64_t> block;  // the extents of a block of values that share a scale
  friend bool operator==(const BlocksAttrs&, const BlocksAttrs&) = default;
};

struct DecodeAttrs {
  int64_t bits = 4;           // of a code: 4, two a byte, the first one in its lower half; or 8
  int64_t zero = 0;           // the code of 0, where there are no zero points
  DType dtype = DType::BF16;  // what the weights become
  friend bool operator==(const DecodeAttrs&, const DecodeAttrs&) = default;
};

struct ReductionAttrs {
  std::vector<int64_t> axes;  // the reduced ones, ascending; given empty: all
  bool keepdims = false;
  friend bool operator==(const ReductionAttrs&, const ReductionAttrs&) = default;
};

struct ElementwiseAttrs {
  std::vector<double> params;    // all of the op's, in table order; given empty: the defaults
  std::optional<DType> compute;  // the declared compute type. None: f32 (f64 for f64) in fp32 mode
  // By bits: 0 and -0 clamp to different results.
  friend bool operator==(const ElementwiseAttrs& a, const ElementwiseAttrs& b) {
    return a.compute == b.compute &&
           std::equal(a.params.begin(), a.params.end(), b.params.begin(), b.params.end(),
                      [](double x, double y) {
                        return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
                      });
  }
};

// The alternatives have the order of `Attributes`. NoAttrs stands for the op's default attributes.
using Attrs = std::variant<NoAttrs, MatMulAttrs, PermuteAttrs, ShapeAttrs, SliceAttrs, AxisAttrs,
                           CastAttrs, KernelAttrs, UnpackAttrs, BlocksAttrs, DecodeAttrs,
                           ReductionAttrs, ElementwiseAttrs>;
static_assert(std::variant_size_v<Attrs> == static_cast<size_t>(Attributes::Elementwise) + 1);

}  // namespace attacca::ir
