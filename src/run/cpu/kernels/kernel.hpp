// One step of an epilogue over a short chunk of columns. Values live in lanes: f32 for f32 and
// every narrower float, s32 for integers up to 32 bits and bool (0 or 1), f64 and s64 for
// themselves. A kernel is compiled for each instruction set; a plan chooses one when it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/dtype.hpp"
#include "ir/graph/op.hpp"

namespace attacca::run {

enum class Lane : uint8_t { F32, S32, F64, S64 };

constexpr Lane lane_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64:
      return Lane::F64;
    case ir::DType::S64:
      return Lane::S64;
    case ir::DType::F32:
    case ir::DType::F16:
    case ir::DType::BF16:
    case ir::DType::F8E4M3:
    case ir::DType::F8E5M2:
      return Lane::F32;
    default:
      return Lane::S32;
  }
}
constexpr bool is_wide(Lane lane) {
  return lane == Lane::F64 || lane == Lane::S64;
}
constexpr bool is_float(Lane lane) {
  return lane == Lane::F32 || lane == Lane::F64;
}

// Whether elements in memory have the form of lanes.
constexpr bool has_lanes(ir::DType dtype) {
  return dtype == ir::DType::F32 || dtype == ir::DType::S32 || is_wide(lane_of(dtype));
}

// What the lane-by-lane kernel needs to give the reference's bits.
struct ScalarCall {
  ir::Op op = ir::Op::Add;  // elementwise or Cast
  int arity = 1;
  Lane in[3] = {};
  Lane out = Lane::F32;
  bool over_floats = true;  // computes in floats, else in integers
  bool narrow = true;       // in f32, not f64: integer operands are rounded to f32 first
  ir::DType dtype = ir::DType::F32;
  ir::Overflow overflow = ir::Overflow::Ieee;
  std::vector<double> params = {};
};

// One value broadcast over the chunk has splat set; a kernel whose operands all are computes one
// element (count 1). `out` overlaps no operand unless it equals it and lane sizes agree.
struct KernelArgs {
  void* out = nullptr;
  const void* in[3] = {};
  bool splat[3] = {};
  size_t count = 0;
  double params[3] = {};
  const ScalarCall* scalar = nullptr;
};
using Kernel = void (*)(const KernelArgs&);

// Each returns nullptr where there is no vector kernel.
// Elementwise ops on f32 lanes (f32 or s32 out: comparisons). Exact: the result is the f64
// reference's, rounded once to f32; else transcendental functions are approximated.
Kernel float_kernel(ir::Op op, bool exact);
// Elementwise ops on s32 lanes; wraps modulo 2^32.
Kernel integer_kernel(ir::Op op);
// Elementwise ops on s64 lanes, as the reference; comparisons give s32 lanes, and what selects is
// in s64 lanes.
Kernel wide_kernel(ir::Op op);
// s32 to s64 lanes; s64 lanes to their low halves or, for bool, to 0 and 1; s64 to f32 lanes.
Kernel widen_kernel();
Kernel narrow_kernel(ir::DType dtype);
Kernel wide_to_float_kernel();
// Selection by s32 lanes, of either 4-byte type.
Kernel select_kernel();
// Any op, lane types and modes: KernelArgs::scalar says which.
Kernel scalar_kernel();

// f32 lanes to the nearest value of a float dtype, still in f32 lanes. nullptr for f32 itself
// (unless it saturates).
Kernel round_kernel(ir::DType dtype, ir::Overflow overflow);
// Convert packed elements in memory to their lane type, and back, rounding floats (integer lanes
// must hold values of the dtype). For f32 and s32 they copy.
Kernel load_kernel(ir::DType dtype);
Kernel store_kernel(ir::DType dtype);
// s32 lanes to f32 and f32 lanes to s32 holding a value of `dtype`.
Kernel int_to_float_kernel();
Kernel float_to_int_kernel(ir::DType dtype, ir::Overflow overflow);
// f32 lanes, a scale and a zero point, both broadcast f32: round(x / scale) + zero as s32 lanes,
// saturated to s8 or u8 (nullptr for other dtypes), and the other way (x - zero) * scale.
Kernel quantize_kernel(ir::DType dtype);
Kernel dequantize_kernel();
// Two operands of s32 lanes and a broadcast f32 scale: (x - y) * scale in f32 lanes.
Kernel scale_difference_kernel();
// s32 lanes wrapped or clamped to an integer dtype of 32 bits or fewer; nullptr for s32.
Kernel wrap_kernel(ir::DType dtype, ir::Overflow overflow);

}  // namespace attacca::run
