// What the references of the op table share, and the operands that the body reaches itself.
#include "epilogue/code/device_helpers.hpp"
#include "ir/graph/semantics.hpp"

namespace attacca::epilogue {
namespace {

constexpr Helper kOperations[] = {
    // What the references of the op table share (ir/graph/semantics.hpp).
    {"attacca_sem_kInfinity",
     R"(#define attacca_sem_kInfinity __longlong_as_double(0x7FF0000000000000ll)
)"},
    {"attacca_sem_kSqrtHalf", R"(#define attacca_sem_kSqrtHalf 0.70710678118654746
)"},
    {"attacca_sem_kSqrt2OverPi", R"(#define attacca_sem_kSqrt2OverPi 0.79788456080286541
)"},
    {"attacca_sem_kSeluAlpha",
     "#define attacca_sem_kSeluAlpha " ATTACCA_TEXT_OF(ATTACCA_SELU_ALPHA) "\n"},
    {"attacca_sem_kSeluScale",
     "#define attacca_sem_kSeluScale " ATTACCA_TEXT_OF(ATTACCA_SELU_SCALE) "\n"},
    {"attacca_sem_add",
     R"(__device__ __forceinline__ double attacca_sem_add(double x, double y) { return x + y; }
__device__ __forceinline__ long long attacca_sem_add(long long x, long long y) {
  return (long long)((unsigned long long)x + (unsigned long long)y);
}
)"},
    {"attacca_sem_sub",
     R"(__device__ __forceinline__ double attacca_sem_sub(double x, double y) { return x - y; }
__device__ __forceinline__ long long attacca_sem_sub(long long x, long long y) {
  return (long long)((unsigned long long)x - (unsigned long long)y);
}
)"},
    {"attacca_sem_mul",
     R"(__device__ __forceinline__ double attacca_sem_mul(double x, double y) { return x * y; }
__device__ __forceinline__ long long attacca_sem_mul(long long x, long long y) {
  return (long long)((unsigned long long)x * (unsigned long long)y);
}
)"},
    {"attacca_sem_neg",
     R"(__device__ __forceinline__ double attacca_sem_neg(double x) { return -x; }
__device__ __forceinline__ long long attacca_sem_neg(long long x) {
  return (long long)(0ull - (unsigned long long)x);
}
)"},
    {"attacca_sem_abs",
     R"(__device__ __forceinline__ double attacca_sem_abs(double x) { return fabs(x); }
__device__ __forceinline__ long long attacca_sem_abs(long long x) {
  return x < 0 ? (long long)(0ull - (unsigned long long)x) : x;
}
)"},
    {"attacca_sem_div",
     R"(__device__ __forceinline__ double attacca_sem_div(double x, double y) { return x / y; }
__device__ __forceinline__ long long attacca_sem_div(long long x, long long y) {
  if (y == 0) return 0;
  return y == -1 ? (long long)(0ull - (unsigned long long)x) : x / y;
}
)"},
    {"attacca_sem_fmod",
     R"(__device__ __forceinline__ double attacca_sem_fmod(double x, double y) {
  return fmod(x, y);
}
__device__ __forceinline__ long long attacca_sem_fmod(long long x, long long y) {
  return y == 0 || y == -1 ? 0 : x % y;
}
)"},
    {"attacca_sem_pow",
     R"(__device__ __forceinline__ double attacca_sem_pow(double x, double y) { return pow(x, y); }
__device__ __forceinline__ long long attacca_sem_pow(long long x, long long y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  unsigned long long result = 1, base = (unsigned long long)x;
  for (unsigned long long e = (unsigned long long)y; e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return (long long)result;
}
)"},
    {"attacca_sem_saturated",
     R"(__device__ __forceinline__ long long attacca_sem_saturated(double x) {
  if (x >= 9223372036854775808.0) return 9223372036854775807ll;
  return x <= -9223372036854775808.0 ? -9223372036854775807ll - 1 : (long long)x;
}
)"},
    {"attacca_sem_clamp",
     R"(__device__ __forceinline__ double attacca_sem_clamp(double x, double min, double max) {
  const double low = x < min ? min : x;
  return low > max ? max : low;
}
__device__ __forceinline__ long long attacca_sem_clamp(long long x, double min, double max) {
  const long long low = (double)x < min ? attacca_sem_saturated(ceil(min)) : x;
  return (double)low > max ? attacca_sem_saturated(floor(max)) : low;
}
)"},
    {"attacca_sem_sigmoid",
     R"(__device__ __forceinline__ double attacca_sem_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
)"},
    {"attacca_sem_softplus", R"(__device__ __forceinline__ double attacca_sem_softplus(double x) {
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
)"},
    {"attacca_sem_clamped_swiglu",
     R"(__device__ __forceinline__ double attacca_sem_clamped_swiglu(
    double gate, double linear, double alpha, double limit, double one) {
  const double g = gate > limit ? limit : gate;
  return g * attacca_sem_sigmoid(alpha * g) * (attacca_sem_clamp(linear, -limit, limit) + one);
}
)"},
    // Operands that the body reaches itself.
    {"attacca_amax_bits",
     R"(__device__ __forceinline__ uint32_t attacca_amax_bits(float x) {
  return x != x ? 0x7FC00000u : __float_as_uint(x) & 0x7FFFFFFFu;
}
)"},
    {"attacca_inside",
     R"(__device__ __forceinline__ bool attacca_inside(
    const attacca_hole_context* context, int row, int column) {
  return row < context->rows && column < context->columns;
}
)"},
    {"attacca_element_of",
     R"(__device__ __forceinline__ long long attacca_element_of(
    const attacca_operand& operand, int row, int column, int batch) {
  return batch * operand.batch_stride + row * operand.row_stride + column * operand.column_stride;
}
)"},
    {"attacca_load", R"(template <class T>
__device__ __forceinline__ T attacca_load(
    const attacca_hole_context* context, int index, int row, int column, int batch) {
  if (!attacca_inside(context, row, column)) return (T)0;
  const attacca_operand& operand = context->operand[index];
  return ((const T*)operand.pointer)[attacca_element_of(operand, row, column, batch)];
}
)"},
    {"attacca_ones", R"(template <class T>
__device__ __forceinline__ T attacca_ones() { return (T)-1; }
template <>
__device__ __forceinline__ float attacca_ones<float>() { return __uint_as_float(~0u); }
template <>
__device__ __forceinline__ double attacca_ones<double>() { return __longlong_as_double(-1); }
)"},
    // The row that an index names; -1: none. Here and below nothing branches, so that the loads of
    // all elements overlap: what must not be loaded is loaded from elsewhere.
    {"attacca_named", R"(template <class Index>
__device__ __forceinline__ long long attacca_named(
    const attacca_hole_context* context, int by, int row) {
  const attacca_operand& rows = context->operand[by];
  const int inside = row < context->rows ? row : context->rows - 1;
  long long named = __ldg((const Index*)rows.pointer + inside * rows.row_stride);
  named += named < 0 ? rows.batch_stride : 0;
  return (unsigned long long)named < (unsigned long long)rows.batch_stride ? named : -1;
}
)"},
    {"attacca_load_by", R"(template <class T>
__device__ __forceinline__ T attacca_load_by(
    const attacca_hole_context* context, int index, int by, long long named, int column) {
  const attacca_operand& operand = context->operand[index];
  const T* const element =
      (const T*)operand.pointer + named * operand.row_stride + column * operand.column_stride;
  const T* const other = (const T*)context->operand[by].pointer;
  const bool exists = (named >= 0) & (column < context->columns);
  const T* const at = exists ? element : other;
  const T value = __ldg(at);
  return exists ? value : attacca_ones<T>();
}
)"},
    {"attacca_store", R"(template <class T>
__device__ __forceinline__ void attacca_store(
    const attacca_hole_context* context, int index, int row, int column, int batch, T value) {
  if (!attacca_inside(context, row, column)) return;
  const attacca_operand& operand = context->operand[index];
  ((T*)operand.pointer)[attacca_element_of(operand, row, column, batch)] = value;
}
)"},
};

}  // namespace

std::span<const Helper> operation_helpers() {
  return kOperations;
}

}  // namespace attacca::epilogue
