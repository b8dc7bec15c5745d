// The lane-by-lane kernel: any op, any lane types, rounded as the reference interpreter rounds.
#include "run/cpu/kernels/kernel.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

double number_at(Lane lane, const void* data, size_t i) {
  switch (lane) {
    case Lane::F32:
      return static_cast<const float*>(data)[i];
    case Lane::S32:
      return static_cast<const int32_t*>(data)[i];
    case Lane::F64:
      return static_cast<const double*>(data)[i];
    case Lane::S64:
      return static_cast<double>(static_cast<const int64_t*>(data)[i]);
  }
  ATTACCA_CHECK(false, "unknown lane");
}

int64_t integer_at(Lane lane, const void* data, size_t i) {
  ATTACCA_CHECK(!is_float(lane), "an integer op on float lanes");
  return lane == Lane::S32 ? static_cast<const int32_t*>(data)[i]
                           : static_cast<const int64_t*>(data)[i];
}

void set_number(Lane lane, void* data, size_t i, double x) {
  if (lane == Lane::F64)
    static_cast<double*>(data)[i] = x;
  else
    static_cast<float*>(data)[i] = static_cast<float>(x);
}

void set_integer(Lane lane, void* data, size_t i, int64_t x) {
  if (lane == Lane::S64)
    static_cast<int64_t*>(data)[i] = x;
  else
    static_cast<int32_t*>(data)[i] = static_cast<int32_t>(x);
}

// A number operand; integers reach an f32 operation through f32.
double operand_number(const ScalarCall& call, const KernelArgs& args, int k, size_t i) {
  const double x = number_at(call.in[k], args.in[k], i);
  return call.narrow && !is_float(call.in[k]) ? static_cast<double>(static_cast<float>(x)) : x;
}

void cast_element(const ScalarCall& call, const KernelArgs& args, size_t i, size_t from) {
  if (is_float(call.out)) {
    const double x = operand_number(call, args, 0, from);
    set_number(call.out, args.out, i, ir::round_to(call.dtype, x, call.overflow));
  } else if (is_float(call.in[0])) {
    const double x = number_at(call.in[0], args.in[0], from);
    set_integer(call.out, args.out, i, ir::to_integer(call.dtype, x, call.overflow));
  } else {
    const int64_t x = integer_at(call.in[0], args.in[0], from);
    set_integer(call.out, args.out, i, ir::to_integer(call.dtype, x, call.overflow));
  }
}

void elementwise_element(const ScalarCall& call, const KernelArgs& args, size_t i) {
  const auto arity = static_cast<size_t>(call.arity);
  if (call.over_floats) {
    double in[3];
    for (int k = 0; k < call.arity; ++k)
      in[k] = operand_number(call, args, k, args.splat[k] ? 0 : i);
    const double x = ir::evaluate(call.op, std::span<const double>(in, arity), call.params);
    if (is_float(call.out))
      set_number(call.out, args.out, i, x);
    else
      set_integer(call.out, args.out, i, x != 0);
  } else {
    int64_t in[3];
    for (int k = 0; k < call.arity; ++k)
      in[k] = integer_at(call.in[k], args.in[k], args.splat[k] ? 0 : i);
    const int64_t x = ir::evaluate(call.op, std::span<const int64_t>(in, arity), call.params);
    set_integer(call.out, args.out, i, ir::to_integer(call.dtype, x));
  }
}

void evaluate_lanes(const KernelArgs& args) {
  const ScalarCall& call = *args.scalar;
  for (size_t i = 0; i < args.count; ++i) {
    if (call.op == ir::Op::Cast)
      cast_element(call, args, i, args.splat[0] ? 0 : i);
    else
      elementwise_element(call, args, i);
  }
}

}  // namespace

Kernel scalar_kernel() {
  return evaluate_lanes;
}

}  // namespace attacca::run
