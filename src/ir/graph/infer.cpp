// The type rule of every op: result type and completed attributes, or what is wrong and the fix.
#include <algorithm>
#include <numeric>

#include "fmt/format.h"

#include "ir/graph/graph.hpp"
#include "ir/graph/packed_layout.hpp"
#include "ir/graph/product_dtype.hpp"
#include "ir/graph/size_functions.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

using Types = std::vector<Type>;

std::string type_list(const Types& types) {
  std::vector<std::string> parts;
  for (const Type& type : types) parts.push_back(to_string(type));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Result<int64_t> axis_of(int64_t axis, size_t rank, Op op) {
  return normalise_axis(axis, static_cast<int64_t>(rank), name(op));
}

Result<DType> promote_all(Op op, const Types& types, size_t first = 0) {
  DType dtype = types[first].dtype;
  for (size_t i = first + 1; i < types.size(); ++i) {
    const auto promoted = promote(dtype, types[i].dtype);
    if (!promoted)
      return fail(fmt::format("{} mixes {} and {}", name(op), name(dtype), name(types[i].dtype)),
                  {}, "cast one operand, e.g. cast(x, f32)");
    dtype = *promoted;
  }
  return dtype;
}

Result<Shape> broadcast_all(Op op, const Types& types) {
  Shape shape = types[0].shape;
  for (size_t i = 1; i < types.size(); ++i) {
    const auto joined = broadcast(shape, types[i].shape);
    if (!joined)
      return fail(fmt::format("{} cannot broadcast {} with {}", name(op), to_string(shape),
                              to_string(types[i].shape)),
                  {}, "dimensions must be equal or 1; a symbol equals only itself");
    shape = *joined;
  }
  return shape;
}

Status check_elementwise_attrs(Op op, ElementwiseAttrs& attrs, DType result) {
  const auto params = info(op).params;
  if (attrs.params.empty())
    for (const Param& param : params) attrs.params.push_back(param.default_value);
  if (attrs.params.size() != params.size())
    return fail(fmt::format("{} takes {} parameters, got {}", name(op), params.size(),
                            attrs.params.size()));
  if (attrs.compute && (!is_float(*attrs.compute) || !is_float(result)))
    return fail(fmt::format("compute={} of {} is not a float type", name(*attrs.compute), name(op)),
                {}, "compute= takes a float dtype, on float operands");
  return {};
}

Result<Inferred> infer_elementwise(Op op, const Types& types, ElementwiseAttrs attrs) {
  ATTACCA_TRY(Shape shape, broadcast_all(op, types));
  const TypeRule rule = info(op).rule;
  DType dtype = DType::Bool;
  switch (rule) {
    case TypeRule::Any:
    case TypeRule::Float: {
      ATTACCA_TRY(dtype, promote_all(op, types));
      if (rule == TypeRule::Float && !is_float(dtype))
        return fail(fmt::format("{} needs floats, got {}", name(op), type_list(types)), {},
                    "cast the operand, e.g. cast(x, f32)");
      if (dtype == DType::Bool)
        return fail(fmt::format("{} does not take bool", name(op)), {},
                    "cast the operand, e.g. cast(x, s32)");
      break;
    }
    case TypeRule::Compare: {
      ATTACCA_TRY_VOID(promote_all(op, types));
      break;
    }
    case TypeRule::Logic:
      for (const Type& type : types)
        if (type.dtype != DType::Bool)
          return fail(fmt::format("{} needs bool, got {}", name(op), type_list(types)), {},
                      "compare first, e.g. x != 0");
      break;
    case TypeRule::Where: {
      if (types[0].dtype != DType::Bool)
        return fail(fmt::format("where needs a bool condition, got {}", to_string(types[0])), {},
                    "compare first, e.g. where(x > 0, a, b)");
      ATTACCA_TRY(dtype, promote_all(op, types, 1));
      break;
    }
  }
  ATTACCA_TRY_VOID(check_elementwise_attrs(op, attrs, dtype));
  return Inferred{{dtype, std::move(shape)}, std::move(attrs)};
}

// Sets the product's dtype.
Status check_product(std::string_view name, const Types& factors, MatMulAttrs& attrs) {
  ATTACCA_TRY(attrs.dtype, product_dtype(factors[0].dtype, factors[1].dtype, attrs.dtype));
  if (attrs.fast && !(is_fp8(factors[0].dtype) && is_fp8(factors[1].dtype)))
    return fail(fmt::format("{} of {} has no fast accumulation", name, type_list(factors)), {},
                "leave fast= away: products of 8-bit floats alone have it");
  return {};
}

Result<Inferred> infer_matmul(const Types& types, MatMulAttrs attrs) {
  const Shape &a = types[0].shape, &b = types[1].shape;
  if (a.size() < 2 || b.size() < 2)
    return fail(fmt::format("matmul needs matrices, got {}", type_list(types)), {},
                "reshape a vector to [1, K] or [K, 1]");
  const Dim &k = a.back(), &kb = b[b.size() - 2];
  if (!(k == kb))
    return fail(fmt::format("matmul needs equal inner dimensions, got {} and {}", to_string(k),
                            to_string(kb)),
                {}, b.back() == k ? "did you mean matmul(a, transpose(b))?" : "check the shapes");
  const auto batch = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!batch)
    return fail(fmt::format("matmul cannot broadcast the batch dimensions of {} and {}",
                            to_string(a), to_string(b)),
                {}, "batch dimensions must be equal or 1");
  ATTACCA_TRY_VOID(check_product("matmul", types, attrs));
  Shape shape = *batch;
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return Inferred{{*attrs.dtype, std::move(shape)}, std::move(attrs)};
}

Result<Inferred> infer_grouped_matmul(const Types& types, MatMulAttrs attrs) {
  const Shape &x = types[0].shape, &w = types[1].shape, &offsets = types[2].shape;
  if (x.size() != 2 || w.size() != 3)
    return fail(fmt::format("grouped_matmul needs rows [R, K] and a matrix [K, N] of each of E "
                            "groups, got {}",
                            type_list({types[0], types[1]})),
                {}, "give x[R, K] and w[E, K, N]");
  if (types[2].dtype != DType::S32 || !(offsets == Shape{w[0]}))
    return fail(fmt::format("grouped_matmul needs the ends of {} groups as s32[{}], got {}",
                            to_string(w[0]), to_string(w[0]), to_string(types[2])),
                {}, "give the sums of the groups' row counts, e.g. cast(offsets, s32)");
  if (!(x[1] == w[1]))
    return fail(fmt::format("grouped_matmul needs equal inner dimensions, got {} and {}",
                            to_string(x[1]), to_string(w[1])),
                {},
                w[2] == x[1] ? "did you mean grouped_matmul(x, transpose(w), offsets)?"
                             : "check the shapes");
  ATTACCA_TRY_VOID(check_product("grouped_matmul", {types[0], types[1]}, attrs));
  return Inferred{{*attrs.dtype, {x[0], w[2]}}, std::move(attrs)};
}

Result<Inferred> infer_transpose(const Type& x) {
  if (x.shape.size() < 2)
    return fail(fmt::format("transpose needs two axes, got {}", to_string(x)));
  Shape shape = x.shape;
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return Inferred{{x.dtype, std::move(shape)}, {}};
}

Result<Inferred> infer_permute(const Type& x, PermuteAttrs attrs) {
  const size_t rank = x.shape.size();
  std::vector<bool> seen(rank, false);
  Shape shape;
  for (int64_t& axis : attrs.axes) {
    ATTACCA_TRY(axis, axis_of(axis, rank, Op::Permute));
    if (seen[axis])
      return fail(fmt::format("permute names axis {} twice", axis), {}, "name every axis once");
    seen[axis] = true;
    shape.push_back(x.shape[axis]);
  }
  if (attrs.axes.size() != rank)
    return fail(fmt::format("permute names {} axes of {}", attrs.axes.size(), rank), {},
                "name every axis once");
  return Inferred{{x.dtype, std::move(shape)}, std::move(attrs)};
}

Result<Inferred> infer_reshape(const Type& x, ShapeAttrs attrs) {
  const Dim count = element_count(x.shape);
  Dim known = 1;
  Dim* unknown = nullptr;
  for (Dim& dim : attrs.shape) {
    if (!dim.is(-1)) {
      if (dim.is_static() && dim.value() < 0)
        return fail(fmt::format("reshape to the negative dimension {}", dim.value()));
      known = known * dim;
    } else if (unknown) {
      return fail("reshape has two -1", {}, "leave at most one dimension open");
    } else {
      unknown = &dim;
    }
  }
  if (unknown) {
    const auto quotient = known.is(0) ? std::nullopt : divide(count, known);
    if (!quotient)
      return fail(fmt::format("reshape cannot divide the {} elements of {} by {}", to_string(count),
                              to_string(x), to_string(known)),
                  {}, "give all dimensions");
    *unknown = *quotient;
  }
  if (!(element_count(attrs.shape) == count))
    return fail(fmt::format("reshape of {} to {} changes the number of elements", to_string(x),
                            to_string(attrs.shape)),
                {}, fmt::format("the product of the dimensions must be {}", to_string(count)));
  const Type result{x.dtype, attrs.shape};
  return Inferred{result, std::move(attrs)};
}

// Known to be outside 0..extent; a symbolic bound is checked when the symbols are bound.
bool outside(const Dim& bound, const Dim& extent) {
  if (bound.is_static() && bound.value() < 0) return true;
  const Dim rest = extent - bound;
  return rest.is_static() && rest.value() < 0;
}

Result<Dim> slice_extent(const SliceRange& range, const Dim& extent) {
  if (range.step == 0) return fail("a slice with step 0", {}, "use a step of 1 or more");
  const bool forward = range.step > 0;
  // A negative step runs from `begin` down to, not including, `end`, which may be -1.
  const bool bad = forward ? outside(range.begin, extent) || outside(range.end, extent)
                           : outside(range.begin + 1, extent) || outside(range.end + 1, extent);
  const Dim span = forward ? range.end - range.begin : range.begin - range.end;
  if (bad || (span.is_static() && span.value() < 0) || span.overflowed())
    return fail(fmt::format("slice {}:{}:{} of an axis of {}", to_string(range.begin),
                            to_string(range.end), range.step, to_string(extent)),
                {}, "keep begin and end inside the axis");
  return ceil_div(span, std::abs(range.step));  // 1::2 of 2*N has N elements
}

Result<Inferred> infer_slice(const Type& x, SliceAttrs attrs) {
  if (attrs.ranges.size() != x.shape.size())
    return fail(fmt::format("slice names {} axes of {}", attrs.ranges.size(), to_string(x)));
  Shape shape;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    ATTACCA_TRY(Dim extent, slice_extent(attrs.ranges[i], x.shape[i]));
    shape.push_back(std::move(extent));
  }
  return Inferred{{x.dtype, std::move(shape)}, std::move(attrs)};
}

Result<Inferred> infer_concat(const Types& types, AxisAttrs attrs) {
  ATTACCA_TRY(attrs.axis, axis_of(attrs.axis, types[0].shape.size(), Op::Concat));
  Shape shape = types[0].shape;
  for (size_t i = 1; i < types.size(); ++i) {
    bool agree = types[i].dtype == types[0].dtype && types[i].shape.size() == shape.size();
    for (size_t axis = 0; agree && axis < shape.size(); ++axis)
      agree = static_cast<int64_t>(axis) == attrs.axis || types[i].shape[axis] == shape[axis];
    if (!agree)
      return fail(fmt::format("concat of {} along axis {}", type_list(types), attrs.axis), {},
                  "all dtypes and all other dimensions must be equal");
    shape[attrs.axis] = shape[attrs.axis] + types[i].shape[attrs.axis];
  }
  return Inferred{{types[0].dtype, std::move(shape)}, std::move(attrs)};
}

Result<Inferred> infer_broadcast(const Type& x, ShapeAttrs attrs) {
  const auto joined = broadcast(x.shape, attrs.shape);
  const bool negative = std::any_of(attrs.shape.begin(), attrs.shape.end(), [](const Dim& dim) {
    return dim.is_static() && dim.value() < 0;
  });
  if (!joined || negative || !(*joined == attrs.shape))
    return fail(fmt::format("{} does not broadcast to {}", to_string(x), to_string(attrs.shape)),
                {}, "a dimension can only grow from 1");
  const Type result{x.dtype, attrs.shape};
  return Inferred{result, std::move(attrs)};
}

Result<Inferred> infer_gather(const Type& x, const Type& index, AxisAttrs attrs) {
  if (index.dtype != DType::S32 && index.dtype != DType::S64)
    return fail(fmt::format("gather needs s32 or s64 indices, got {}", to_string(index)), {},
                "cast(index, s64)");
  ATTACCA_TRY(attrs.axis, axis_of(attrs.axis, x.shape.size(), Op::Gather));
  Shape shape(x.shape.begin(), x.shape.begin() + attrs.axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), x.shape.begin() + attrs.axis + 1, x.shape.end());
  return Inferred{{x.dtype, std::move(shape)}, std::move(attrs)};
}

Result<Inferred> infer_scatter(Op op, const Type& x, const Type& index, const Type& updates) {
  if (index.dtype != DType::S32 && index.dtype != DType::S64)
    return fail(fmt::format("{} needs s32 or s64 indices, got {}", name(op), to_string(index)), {},
                "cast(index, s64)");
  if (op == Op::ScatterAdd && (x.dtype == DType::Bool || is_fp8(x.dtype)))
    return fail(fmt::format("scatter_add into {}", to_string(x)), {}, "cast(x, f32)");
  Shape shape = index.shape;
  if (!x.shape.empty()) shape.insert(shape.end(), x.shape.begin() + 1, x.shape.end());
  if (x.shape.empty() || updates.dtype != x.dtype || !(updates.shape == shape))
    return fail(fmt::format("{} of {} to {} into {}", name(op), to_string(updates),
                            to_string(index), to_string(x)),
                {},
                "the updates have x's dtype, and its shape with axis 0 replaced by the index's");
  return Inferred{{x.dtype, x.shape}, NoAttrs{}};
}

Result<Inferred> infer_argsort(const Type& x, AxisAttrs attrs) {
  ATTACCA_TRY(attrs.axis, axis_of(attrs.axis, x.shape.size(), Op::Argsort));
  return Inferred{{DType::S64, x.shape}, attrs};
}

Result<Inferred> infer_arange(ShapeAttrs attrs) {
  if (attrs.shape.size() != 2)
    return fail(fmt::format("arange of {}", to_string(attrs.shape)), {}, "write arange([0, N])");
  const Dim count = attrs.shape[1] - attrs.shape[0];
  if (count.overflowed())
    return fail(
        fmt::format("arange of {} has more elements than 64 bits count", to_string(attrs.shape)));
  if (count.is_static() && count.value() < 0)
    return fail(fmt::format("arange of {} ends before it begins", to_string(attrs.shape)));
  return Inferred{{DType::S64, {count}}, std::move(attrs)};
}

Result<Inferred> infer_group_ids(const Type& offsets, ShapeAttrs attrs) {
  if (offsets.dtype != DType::S32 || offsets.shape.size() != 1)
    return fail(
        fmt::format("group_ids needs the ends of the groups as s32[E], got {}", to_string(offsets)),
        {}, "cast them to s32");
  if (attrs.shape.size() != 1 || (attrs.shape[0].is_static() && attrs.shape[0].value() < 0))
    return fail(fmt::format("group_ids of rows {}", to_string(attrs.shape)), {},
                "write group_ids(offsets, [R])");
  return Inferred{{DType::S32, attrs.shape}, std::move(attrs)};
}

Result<Inferred> infer_cast(const Type& x, CastAttrs attrs) {
  if (attrs.compute) {
    if (*attrs.compute != DType::F32)
      return fail(fmt::format("compute={} of a cast", name(*attrs.compute)), {},
                  "write compute=f32, or leave it out");
    if (!is_float(x.dtype) || !is_float(attrs.dtype) || attrs.dtype == DType::F64)
      return fail(
          fmt::format("cast from {} to {} with compute=f32", name(x.dtype), name(attrs.dtype)), {},
          "compute= is for floats that become floats of at most 32 bits");
    if (attrs.saturate)
      return fail("a cast with both saturate= and compute=", {},
                  "saturate= rounds in either mode: leave one of them out");
  }
  return Inferred{{attrs.dtype, x.shape}, attrs};
}

Result<Inferred> infer_kernel(const Types& types, KernelAttrs attrs) {
  ATTACCA_TRY_VOID(verify(attrs.call, types.size()));
  for (const Dim& dim : attrs.shape)
    if (dim.is_static() && dim.value() < 0)
      return fail(fmt::format("kernel with the negative dimension {}", dim.value()));
  const Type result{attrs.dtype, attrs.shape};
  return Inferred{result, std::move(attrs)};
}

Result<Inferred> infer_unpack(const Type& x, UnpackAttrs attrs) {
  if (attrs.shape.size() != 2 || !attrs.shape[0].is_static() || !attrs.shape[1].is_static())
    return fail(fmt::format("unpack to {}", to_string(attrs.shape)), {},
                "give the weights' shape as two numbers, [N, K]");
  ATTACCA_TRY(const PackedLayout layout,
              packed_layout(attrs.packing, attrs.shape[0].value(), attrs.shape[1].value()));
  if (x.dtype != DType::U8 || !(x.shape == Shape{layout.bytes}))
    return fail(fmt::format("weights [{}, {}] with {} are u8[{}] packed, got {}", layout.n,
                            layout.k, to_string(attrs.packing), layout.bytes, to_string(x)),
                {}, "declare the packed tensor so, or pack it as the graph says");
  if (attrs.packing.whole()) {
    if (attrs.dtype != DType::S8)
      return fail(fmt::format("unpack to {} with scales of u8", name(attrs.dtype)), {},
                  "write dtype=s8, which such weights are");
  } else if (!is_float(attrs.dtype) || is_fp8(attrs.dtype)) {
    return fail(fmt::format("unpack to {}", name(attrs.dtype)), {}, "use f32, bf16, f16 or f64");
  }
  const Type result{attrs.dtype, attrs.shape};
  return Inferred{result, std::move(attrs)};
}

// The number of blocks along an axis; nullopt if the extent is symbolic and a block has more than
// one element.
std::optional<Dim> blocks_of(const Dim& extent, int64_t block) {
  if (block == 1) return extent;
  const auto known = extent.maybe_value();
  if (!known) return std::nullopt;
  return Dim(*known / block + (*known % block != 0));
}

Result<Inferred> infer_scale_blocks(const Type& x, const Type& scale, BlocksAttrs attrs) {
  const auto narrow = [](DType dtype) { return is_float(dtype) && dtype != DType::F64; };
  if (!(is_byte(x.dtype) || narrow(x.dtype)) || !narrow(scale.dtype) || is_fp8(scale.dtype))
    return fail(fmt::format("scale_blocks of {} by {}", to_string(x), to_string(scale)), {},
                "it takes bytes or floats, and scales of f32, bf16 or f16");
  const size_t rank = x.shape.size();
  if (rank == 0 || attrs.block.size() != rank || scale.shape.size() != rank)
    return fail(fmt::format("scale_blocks of {} by {} in blocks of {}", to_string(x),
                            to_string(scale), to_string(attrs.block)),
                {}, "give the scale and the block an extent for each axis, e.g. [1, 128]");
  for (size_t i = 0; i < rank; ++i) {
    const int64_t block = attrs.block[i];
    const auto blocks = block < 1 ? std::nullopt : blocks_of(x.shape[i], block);
    if (!blocks)
      return fail(fmt::format("blocks of {} along an axis of {}", block, to_string(x.shape[i])), {},
                  "use blocks of 1 or more, and of 1 along an axis whose extent is a symbol");
    if (!(*blocks == scale.shape[i]))
      return fail(fmt::format("scale_blocks of {} in blocks of {} takes {} scales along axis {}, "
                              "got {}",
                              to_string(x), to_string(attrs.block), to_string(*blocks), i,
                              to_string(scale)),
                  {}, "a last block may be shorter, and has a scale too");
  }
  return Inferred{{DType::F32, x.shape}, std::move(attrs)};
}

Result<Inferred> infer_mxfp4(const Type& codes, const Type& scales) {
  const size_t rank = codes.shape.size();
  const bool fits = codes.dtype == DType::U8 && scales.dtype == DType::U8 && rank > 0 &&
                    scales.shape.size() == rank && codes.shape.back() == scales.shape.back() * 16 &&
                    std::equal(codes.shape.begin(), codes.shape.end() - 1, scales.shape.begin());
  if (!fits)
    return fail(fmt::format("mxfp4 of {} with {}", to_string(codes), to_string(scales)), {},
                "give u8 codes [..., K / 2], two a byte, and u8 scales [..., K / 32]");
  Shape shape = codes.shape;
  shape.back() = shape.back() * 2;
  return Inferred{{DType::BF16, std::move(shape)}, NoAttrs{}};
}

Status check_decode(const Types& types, const DecodeAttrs& attrs) {
  const Type &codes = types[0], &scales = types[1];
  const bool narrow = is_float(scales.dtype) && size_of(scales.dtype) > 1;
  if (!is_byte(codes.dtype) || !narrow || scales.dtype == DType::F64)
    return fail(fmt::format("decode of {} by {}", to_string(codes), to_string(scales)), {},
                "give codes of u8 or s8, and scales of f32, bf16 or f16");
  if (attrs.bits != 4 && attrs.bits != 8)
    return fail(fmt::format("decode of {} bits", attrs.bits), {}, "write bits=4 or bits=8");
  if (!is_float(attrs.dtype) || is_fp8(attrs.dtype) || attrs.dtype == DType::F64)
    return fail(fmt::format("decode to {}", name(attrs.dtype)), {}, "use bf16, f16 or f32");
  const bool is_signed = codes.dtype == DType::S8;
  const int64_t most = is_signed ? 0 : (1 << attrs.bits) - 1;
  if (attrs.zero < 0 || attrs.zero > most || (is_signed && types.size() > 2))
    return fail(fmt::format("decode of {} codes with {}", name(codes.dtype),
                            types.size() > 2 ? "zero points" : fmt::format("zero={}", attrs.zero)),
                {}, fmt::format("use zero points of u8 codes alone, zero= from 0 to {}", most));
  const size_t rank = codes.shape.size();
  const bool matches = rank > 0 && scales.shape.size() == rank &&
                       std::equal(codes.shape.begin(), codes.shape.end() - 1, scales.shape.begin());
  const auto bytes = rank > 0 ? codes.shape.back().maybe_value() : std::nullopt;
  const auto blocks = matches ? scales.shape.back().maybe_value() : std::nullopt;
  if (!matches || !bytes || !blocks || *blocks < 1 || *bytes % *blocks != 0)
    return fail(fmt::format("decode of {} by {}", to_string(codes), to_string(scales)), {},
                "give codes [..., K * bits / 8] and scales [..., G], where G blocks of whole bytes "
                "are a row");
  if (types.size() > 2 && (types[2].dtype != DType::U8 || types[2].shape != scales.shape))
    return fail(fmt::format("decode with zero points {}", to_string(types[2])), {},
                fmt::format("give one of u8 for each scale, {}", to_string(scales.shape)));
  return {};
}

Result<Inferred> infer_decode(const Types& types, DecodeAttrs attrs) {
  ATTACCA_TRY_VOID(check_decode(types, attrs));
  Shape shape = types[0].shape;
  shape.back() = shape.back() * (8 / attrs.bits);
  const DType dtype = attrs.dtype;
  return Inferred{{dtype, std::move(shape)}, std::move(attrs)};
}

Result<Inferred> infer_reduction(Op op, const Type& x, ReductionAttrs attrs) {
  const size_t rank = x.shape.size();
  if (!is_float(x.dtype) && (op == Op::Mean || (x.dtype != DType::S32 && x.dtype != DType::S64)))
    return fail(fmt::format("{} of {}", name(op), to_string(x)), {},
                op == Op::Mean ? "cast the operand to a float, e.g. cast(x, f32)"
                               : "cast the operand to a float, s32 or s64, e.g. cast(x, f32)");
  if (attrs.axes.empty()) {
    attrs.axes.resize(rank);
    std::iota(attrs.axes.begin(), attrs.axes.end(), 0);
  }
  std::vector<bool> reduced(rank, false);
  for (int64_t& axis : attrs.axes) {
    ATTACCA_TRY(axis, axis_of(axis, rank, op));
    if (reduced[axis])
      return fail(fmt::format("{} names axis {} twice", name(op), axis), {},
                  "name every axis once");
    reduced[axis] = true;
  }
  std::sort(attrs.axes.begin(), attrs.axes.end());
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    if (!reduced[i])
      shape.push_back(x.shape[i]);
    else if (attrs.keepdims)
      shape.push_back(1);
  }
  return Inferred{{x.dtype, std::move(shape)}, std::move(attrs)};
}

// The default attributes of an op, searched for from kind I on.
template <size_t I = 0>
Attrs default_attributes(size_t kind) {
  if constexpr (I < std::variant_size_v<Attrs>) {
    if (kind == I) return Attrs(std::in_place_index<I>);
    return default_attributes<I + 1>(kind);
  }
  ATTACCA_CHECK(false, "an op of the table has attributes of no known kind");
}

Result<Inferred> infer_structural(Op op, const Types& types, Attrs attrs) {
  switch (op) {
    case Op::MatMul:
      return infer_matmul(types, std::get<MatMulAttrs>(std::move(attrs)));
    case Op::GroupedMatMul:
      return infer_grouped_matmul(types, std::get<MatMulAttrs>(std::move(attrs)));
    case Op::Transpose:
      return infer_transpose(types[0]);
    case Op::Permute:
      return infer_permute(types[0], std::get<PermuteAttrs>(std::move(attrs)));
    case Op::Reshape:
      return infer_reshape(types[0], std::get<ShapeAttrs>(std::move(attrs)));
    case Op::Slice:
      return infer_slice(types[0], std::get<SliceAttrs>(std::move(attrs)));
    case Op::Concat:
      return infer_concat(types, std::get<AxisAttrs>(std::move(attrs)));
    case Op::Broadcast:
      return infer_broadcast(types[0], std::get<ShapeAttrs>(std::move(attrs)));
    case Op::Cast:
      return infer_cast(types[0], std::get<CastAttrs>(std::move(attrs)));
    case Op::Gather:
      return infer_gather(types[0], types[1], std::get<AxisAttrs>(std::move(attrs)));
    case Op::Scatter:
    case Op::ScatterAdd:
      return infer_scatter(op, types[0], types[1], types[2]);
    case Op::Argsort:
      return infer_argsort(types[0], std::get<AxisAttrs>(std::move(attrs)));
    case Op::Arange:
      return infer_arange(std::get<ShapeAttrs>(std::move(attrs)));
    case Op::GroupIds:
      return infer_group_ids(types[0], std::get<ShapeAttrs>(std::move(attrs)));
    case Op::Kernel:
      return infer_kernel(types, std::get<KernelAttrs>(std::move(attrs)));
    case Op::Unpack:
      return infer_unpack(types[0], std::get<UnpackAttrs>(std::move(attrs)));
    case Op::MxFp4:
      return infer_mxfp4(types[0], types[1]);
    case Op::Decode:
      return infer_decode(types, std::get<DecodeAttrs>(std::move(attrs)));
    case Op::ScaleBlocks:
      return infer_scale_blocks(types[0], types[1], std::get<BlocksAttrs>(std::move(attrs)));
    default:
      ATTACCA_CHECK(false, "no type rule");
  }
}

Result<Inferred> infer_by_kind(Op op, const Types& types, Attrs attrs) {
  switch (info(op).kind) {
    case OpKind::Elementwise:
      return infer_elementwise(op, types, std::get<ElementwiseAttrs>(std::move(attrs)));
    case OpKind::Reduction:
      return infer_reduction(op, types[0], std::get<ReductionAttrs>(std::move(attrs)));
    case OpKind::Structural:
      return infer_structural(op, types, std::move(attrs));
  }
  ATTACCA_CHECK(false, "unknown kind");
}

}  // namespace

Result<Inferred> infer(Op op, const std::vector<Type>& operands, Attrs attrs) {
  const auto arity = static_cast<int>(operands.size());
  if (arity < info(op).min_arity || arity > info(op).max_arity)
    return fail(fmt::format("{} takes {} operands, got {}", name(op), info(op).min_arity, arity));
  const auto kind = static_cast<size_t>(info(op).attributes);
  if (std::holds_alternative<NoAttrs>(attrs)) {
    if (op == Op::Cast)
      return fail("cast without a dtype", {}, fmt::format("one of {}", all_dtype_names()));
    if (op == Op::Kernel) return fail("kernel without a file");
    attrs = default_attributes(kind);
  }
  ATTACCA_CHECK(attrs.index() == kind, "a node with the attributes of another op");
  ATTACCA_TRY(Inferred inferred, infer_by_kind(op, operands, std::move(attrs)));
  if (element_count(inferred.type.shape).overflowed())
    return fail(fmt::format("the result of {} has a shape that overflows 64 bits", name(op)), {},
                "use smaller dimensions");
  return inferred;
}

}  // namespace attacca::ir
