// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/linear.hpp"
#include "import/onnx/tensor.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

bool is_quantized(DType dtype) {
  return ir::is_byte(dtype) || ir::is_fp8(dtype);
}

// What is quantised to int16 or uint16.
std::optional<SixteenBits> sixteen_bits(Node& node, size_t input) {
  return node.has(input) ? node.entry(input)->sixteen_bits : std::nullopt;
}

// The zero point in the type of the arithmetic; none where it is 0.
Result<std::optional<Value>> real_zero(Node& node, const std::optional<Value>& zero) {
  if (!zero || is_zero(node, *zero)) return std::nullopt;
  ATTACCA_TRY(const Value real, folded(cast(node.expr(*zero), DType::F32)).value);
  return std::optional(real);
}

Result<Quantisation> quantisation(Node& node, size_t scale_at, size_t zero_at, int64_t axis,
                                  int64_t rank) {
  ATTACCA_TRY(const Value scale, node.input(scale_at));
  ATTACCA_TRY_VOID(check_scale(node, scale));
  Quantisation result;
  ATTACCA_TRY(result.scale, along_axis(node, scale, axis, rank));
  if (!node.has(zero_at)) return result;
  ATTACCA_TRY(const Value zero, node.input(zero_at));
  ATTACCA_TRY(result.zero, along_axis(node, zero, axis, rank));
  return result;
}

// round(x / scale), divided in the scale's type: a quotient of 16 bits may be a tie where the one
// in f32 is not.
Expr rounded_quotient(Node& node, const Expr& x, Value scale) {
  const DType precision = node.dtype(scale);
  if (precision == DType::F32) return emit(Op::Round, x / node.expr(scale));
  const Expr quotient =
      emit(Op::Div, std::vector<Expr>{x, node.expr(scale)}, ir::ElementwiseAttrs{{}, precision});
  return emit(Op::Round, cast(quotient, DType::F32));
}

// round(x / scale) + zero as f32, between the ends of 16 bits. NaN becomes the lowest number, as
// ONNX Runtime has it.
Result<Value> quantized_sixteen_bits(Node& node, Value x, const Quantisation& by,
                                     const SixteenBits& bits) {
  const DType precision = node.dtype(by.scale);
  const bool as_it_is = ir::is_float(node.dtype(x)) && ir::size_of(precision) < 4;
  const Expr in = as_it_is ? node.expr(x) : cast(node.expr(x), precision);
  ATTACCA_TRY(const auto zero, real_zero(node, by.zero));
  const Expr rounded = rounded_quotient(node, in, by.scale);
  const Expr moved = zero ? rounded + node.expr(*zero) : rounded;
  const Expr is_number = emit(Op::Eq, std::vector<Expr>{moved, moved});
  return where(is_number, emit_with(Op::Clamp, moved, {bits.low, bits.high}),
               scalar_like(moved, bits.low))
      .value;
}

// x times the scale of its block.
Expr scale_blocks(const Expr& x, const Expr& scale, const std::vector<int64_t>& block) {
  return emit(Op::ScaleBlocks, std::vector<Expr>{x, scale}, ir::BlocksAttrs{block});
}

// A number for each block, as one for each element, in f32.
Expr repeated(Node& node, const Expr& of_blocks, const Shape& shape,
              const std::vector<int64_t>& block) {
  const Expr one = node.expr(node.graph().literal(1, DType::F32));
  return scale_blocks(broadcast_to(one, shape), folded(of_blocks), block);
}

struct Blocks {
  std::vector<int64_t> extents;
  std::optional<Expr> zeros;  // of each element, in f32
};

// Blocks of so many elements along axis=, of a tensor of this shape.
Result<Blocks> blocks_of(Node& node, int64_t extent, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 1), rank));
  Blocks blocks{std::vector<int64_t>(shape.size(), 1), {}};
  blocks.extents[static_cast<size_t>(axis)] = extent;
  if (!node.has(2)) return blocks;
  ATTACCA_TRY(const Value zero, node.input(2));
  if (!is_zero(node, zero))
    blocks.zeros = repeated(node, cast(node.expr(zero), DType::F32), shape, blocks.extents);
  return blocks;
}

// (q - zero) * scale in f32, both of a block along one axis.
Result<Expr> dequantized_blocks(Node& node, int64_t extent) {
  ATTACCA_TRY(const Value q, node.input(0));
  ATTACCA_TRY(const Blocks blocks, blocks_of(node, extent, node.shape(q)));
  const bool plain = !blocks.zeros && !sixteen_bits(node, 0);
  Expr numbers = plain ? node.expr(q) : cast(node.expr(q), DType::F32);
  if (blocks.zeros) numbers = numbers - *blocks.zeros;
  return scale_blocks(numbers, node.x(1), blocks.extents);
}

// round(x / scale) + zero, both of a block along one axis.
Result<Expr> quantized_blocks(Node& node, Value x, Value scale, int64_t extent, DType dtype) {
  if (!ir::is_byte(dtype) || node.dtype(scale) != DType::F32)
    return fail(fmt::format("blocks are quantised from {} by a scale of {} to {}",
                            ir::name(node.dtype(x)), ir::name(node.dtype(scale)), ir::name(dtype)),
                {}, "quantise float to uint8 or int8");
  ATTACCA_TRY(const Blocks blocks, blocks_of(node, extent, node.shape(x)));
  const Expr scales = repeated(node, node.expr(scale), node.shape(x), blocks.extents);
  const Expr rounded = emit(Op::Round, cast(node.expr(x), DType::F32) / scales);
  return cast(blocks.zeros ? rounded + *blocks.zeros : rounded, dtype, true);
}

}  // namespace

Result<Value> along_axis(Node& node, Value parameter, int64_t axis, int64_t rank) {
  const Shape shape = node.shape(parameter);
  if (shape.empty()) return parameter;
  if (shape.size() != 1)
    return fail(fmt::format("a scale or zero point of shape {} (blocked) is not supported",
                            ir::to_string(shape)),
                {}, "quantise per tensor or per axis");
  if (shape[0].is(1)) return folded(reshape(node.expr(parameter), {})).value;
  ATTACCA_TRY(const int64_t at, normalise_axis(axis, rank));
  Shape spread(static_cast<size_t>(rank), 1);
  spread[static_cast<size_t>(at)] = shape[0];
  return folded(reshape(node.expr(parameter), spread)).value;
}

Status check_quantized(DType dtype) {
  if (is_quantized(dtype)) return {};
  return fail(fmt::format("numbers are quantised to {}", ir::name(dtype)), {},
              "quantise to uint8, int8, float8e4m3fn or float8e5m2");
}

Status check_scale(Node& node, Value scale) {
  if (ir::is_float(node.dtype(scale))) return {};
  return fail(fmt::format("a scale of {}", ir::name(node.dtype(scale))), {},
              "cast it to float, float16 or bfloat16");
}

Status check_zero(Node& node, Value zero, DType quantized) {
  if (node.dtype(zero) == quantized) return {};
  return fail(fmt::format("a zero point of {} for numbers of {}", ir::name(node.dtype(zero)),
                          ir::name(quantized)),
              {}, "give it the type of what it belongs to");
}

Result<Value> quantize_to(Node& node, Value x, const Quantisation& by, DType dtype) {
  ATTACCA_TRY_VOID(check_quantized(dtype));
  const bool floats = ir::is_float(node.dtype(x));
  const Expr in = floats ? node.expr(x) : cast(node.expr(x), node.dtype(by.scale));
  ATTACCA_TRY(const Value value, in.value);
  if (ir::is_fp8(dtype))
    return cast(in / node.expr(by.scale), dtype, node.integer("saturate", 1) != 0).value;
  ATTACCA_TRY(const auto zero, real_zero(node, by.zero));
  const DType precision = node.dtype(by.scale);
  if (precision == DType::F32 || precision == DType::F64)
    return ir::quantize(node.graph(), value, by.scale, zero, dtype);
  const Expr rounded = rounded_quotient(node, in, by.scale);
  return cast(zero ? rounded + node.expr(*zero) : rounded, dtype, true).value;
}

Result<Outputs> quantize_linear(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  if (sixteen_bits(node, 0)) return fail("x is of 16-bit integers", {}, "dequantise it first");
  std::optional<SixteenBits> bits = sixteen_bits(node, 2);
  DType dtype = DType::U8;
  if (node.has(2)) {
    ATTACCA_TRY(const Value zero, node.input(2));
    dtype = node.dtype(zero);
  }
  if (const int64_t code = node.integer("output_dtype", 0); code != 0) {
    bits = sixteen_bits_of(static_cast<int32_t>(code));
    if (node.has(2) && bits != sixteen_bits(node, 2))
      return fail("output_dtype is not the type of the zero point");
    if (!bits) {
      ATTACCA_TRY(dtype, read_dtype(static_cast<int32_t>(code)));
    }
  }
  if (const int64_t extent = node.integer("block_size", 0); extent != 0) {
    if (bits) return fail("blocks are quantised to 16 bits", {}, "quantise them to uint8 or int8");
    ATTACCA_TRY(const Value scale, node.input(1));
    ATTACCA_TRY(const Expr blocks, quantized_blocks(node, x, scale, extent, dtype));
    return blocks;
  }
  ATTACCA_TRY(Quantisation by, quantisation(node, 1, 2, node.integer("axis", 1), node.rank(x)));
  if (by.zero && !bits) ATTACCA_TRY_VOID(check_zero(node, *by.zero, dtype));
  // The type of the division, else that of its operands.
  Value in = x;
  if (const int64_t code = node.integer("precision", 0); code != 0) {
    ATTACCA_TRY(const DType precision, read_dtype(static_cast<int32_t>(code)));
    ATTACCA_TRY(by.scale, folded(cast(node.expr(by.scale), precision)).value);
    ATTACCA_TRY(in, cast(node.expr(x), precision).value);
  }
  if (!bits) return quantize_to(node, in, by, dtype);
  ATTACCA_TRY(Entry entry, quantized_sixteen_bits(node, in, by, *bits));
  entry.sixteen_bits = bits;
  return Outputs(std::vector<Entry>{std::move(entry)});
}

Result<Outputs> dequantize_linear(Node& node) {
  ATTACCA_TRY(const Value q, node.input(0));
  const std::optional<SixteenBits> bits = sixteen_bits(node, 0);
  if (const DType from = node.dtype(q); !bits && !is_quantized(from) && from != DType::S32)
    return fail(fmt::format("numbers of {} are not quantised", ir::name(from)), {},
                "dequantise uint8, int8, uint16, int16, int32, float8e4m3fn or float8e5m2");
  ATTACCA_TRY(const Value scale, node.input(1));
  if (node.has(2)) {
    ATTACCA_TRY(const Value zero, node.input(2));
    if (sixteen_bits(node, 2) != bits || node.entry(2)->four_bits != node.entry(0)->four_bits)
      return fail("the type of the zero point is not that of the numbers");
    if (!bits) ATTACCA_TRY_VOID(check_zero(node, zero, node.dtype(q)));
  }
  DType dtype = node.dtype(scale);
  if (const int64_t code = node.integer("output_dtype", 0); code != 0) {
    ATTACCA_TRY(dtype, read_dtype(static_cast<int32_t>(code)));
  }
  if (const int64_t extent = node.integer("block_size", 0); extent != 0) {
    ATTACCA_TRY(const Expr blocks, dequantized_blocks(node, extent));
    return cast(blocks, dtype);
  }
  ATTACCA_TRY(const Quantisation by,
              quantisation(node, 1, 2, node.integer("axis", 1), node.rank(q)));
  if (by.zero && !bits && node.dtype(q) == DType::S32 && !is_zero(node, *by.zero)) {
    ATTACCA_TRY(const Value moved, (node.expr(q) - node.expr(*by.zero)).value);
    return cast({&node.graph(), ir::dequantize(node.graph(), moved, by.scale)}, dtype);
  }
  ATTACCA_TRY(const auto zero, real_zero(node, by.zero));
  return cast({&node.graph(), ir::dequantize(node.graph(), q, by.scale, zero)}, dtype);
}

// An x of zeros alone has scale 0, as the formula says; y and its zero point are 0 then.
Result<DynamicallyQuantized> dynamically_quantized(Node& node, Value x) {
  const Expr in = node.expr(x);
  const std::vector<int64_t> axes = all_axes(node.rank(x));
  const Expr high = emit(Op::Max, reduce(Op::ReduceMax, in, axes, false), 0.0);
  const Expr low = emit(Op::Min, reduce(Op::ReduceMin, in, axes, false), 0.0);
  ATTACCA_TRY(const Value scale, ((high - low) / 255.0).value);
  const Expr zero = emit(Op::Round, emit_with(Op::Clamp, -low / node.expr(scale), {0.0, 255.0}));
  ATTACCA_TRY(const Value point, cast(zero, DType::U8, true).value);
  ATTACCA_TRY(const Value y, quantize_to(node, x, {scale, point}, DType::U8));
  return DynamicallyQuantized{{y, point}, scale};
}

Result<Outputs> dynamic_quantize_linear(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const DynamicallyQuantized made, dynamically_quantized(node, x));
  return std::vector<Value>{made.operand.q, made.scale, *made.operand.zero};
}

}  // namespace attacca::import
