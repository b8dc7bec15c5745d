// The loops of integer_chain.hpp, and the epilogues that they compute.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/integer_chain.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include "run/cpu/kernels/chain.hpp"
#include "run/cpu/kernels/integer_chain.hpp"
#include "run/cpu/kernels/simd_activations-inl.hpp"
#include "run/cpu/kernels/simd_map-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
IntegerChainKernel find_integer_chain_kernel(Activation, Join, ir::DType) {
  return nullptr;
}
#else
namespace {

constexpr hn::ScalableTag<float> kFloats;
constexpr hn::ScalableTag<int32_t> kIntegers;
using Floats = hn::VFromD<hn::ScalableTag<float>>;

HWY_INLINE Floats scaled(const ScaledRow& row, const int32_t* accumulators, const int32_t* shift,
                         int64_t at) {
  auto integers = hn::LoadU(kIntegers, accumulators + at);
  if (shift) integers = hn::Sub(integers, hn::LoadU(kIntegers, shift + at));
  Floats x = hn::Mul(hn::ConvertTo(kFloats, integers), hn::Set(kFloats, row.scales[0]));
  return row.count > 1 ? hn::Mul(x, hn::Set(kFloats, row.scales[1])) : x;
}

template <class T>
HWY_INLINE void store_result(const IntegerChainArgs& args, Floats x, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(x, kFloats, to);
  } else {
    // Rounds as convert.cpp's quantize does.
    const auto low = hn::Set(kFloats, static_cast<float>(hwy::LowestValue<T>()));
    const auto high = hn::Set(kFloats, static_cast<float>(hwy::HighestValue<T>()));
    const auto whole =
        hn::Add(hn::Round(hn::Div(x, hn::Set(kFloats, args.quantum))), hn::Set(kFloats, args.zero));
    const auto number = hn::IfThenElseZero(hn::Eq(whole, whole), whole);
    const auto lanes = hn::ConvertTo(kIntegers, hn::Min(hn::Max(number, low), high));
    const hn::Rebind<T, hn::ScalableTag<int32_t>> narrow;
    hn::StoreU(hn::DemoteTo(narrow, lanes), narrow, to);
  }
}

// Rows in a tail shorter than a vector, padded.
struct Padded {
  HWY_ALIGN int32_t x[kMaxLanes] = {}, x_shift[kMaxLanes] = {}, gate[kMaxLanes] = {},
                    gate_shift[kMaxLanes] = {};
  HWY_ALIGN float bias[kMaxLanes] = {}, other[kMaxLanes] = {};
};
template <class V>
const V* padded(const V* from, int64_t at, size_t count, V* room) {
  if (!from) return nullptr;
  std::memcpy(room, from + at, count * sizeof(V));
  return room;
}

// One row of each operand.
struct Row {
  const int32_t *x, *x_shift, *gate, *gate_shift;
  const float *bias, *other;
};

template <Activation kActivation, Join kJoin>
HWY_INLINE Floats computed(const IntegerChainArgs& args, const Row& row, int64_t at) {
  Floats value = scaled(args.x, row.x, row.x_shift, at);
  if (row.bias) value = hn::Add(value, hn::LoadU(kFloats, row.bias + at));
  value = activate<kActivation>(kFloats, value, args.alpha);
  if constexpr (kJoin == Join::Mul)
    value = hn::Mul(value, scaled(args.gate, row.gate, row.gate_shift, at));
  if constexpr (kJoin == Join::Add) value = hn::Add(value, hn::LoadU(kFloats, row.other + at));
  return value;
}

template <Activation kActivation, Join kJoin, class T>
void run_integer_chain(const IntegerChainArgs& args) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(kFloats));
  const int64_t whole = args.columns / lanes * lanes;
  const auto rest = static_cast<size_t>(args.columns - whole);
  for (int64_t i = 0; i < args.rows; ++i) {
    Row row{args.x.accumulators + i * args.x.stride,
            args.x.shift,
            kJoin == Join::Mul ? args.gate.accumulators + i * args.gate.stride : nullptr,
            args.gate.shift,
            args.bias,
            kJoin == Join::Add ? args.other + i * args.other_stride : nullptr};
    T* out = static_cast<T*>(args.out) + i * args.out_stride;
    for (int64_t at = 0; at < whole; at += lanes)
      store_result(args, computed<kActivation, kJoin>(args, row, at), out + at);
    if (rest == 0) continue;
    Padded room;
    HWY_ALIGN T last[kMaxLanes];
    row = {padded(row.x, whole, rest, room.x),
           padded(row.x_shift, whole, rest, room.x_shift),
           padded(row.gate, whole, rest, room.gate),
           padded(row.gate_shift, whole, rest, room.gate_shift),
           padded(row.bias, whole, rest, room.bias),
           padded(row.other, whole, rest, room.other)};
    store_result(args, computed<kActivation, kJoin>(args, row, 0), last);
    std::memcpy(out + whole, last, rest * sizeof(T));
  }
}

template <Activation kActivation, Join kJoin>
IntegerChainKernel of_dtype(ir::DType dtype) {
  return dtype == ir::DType::F32  ? run_integer_chain<kActivation, kJoin, float>
         : dtype == ir::DType::U8 ? run_integer_chain<kActivation, kJoin, uint8_t>
         : dtype == ir::DType::S8 ? run_integer_chain<kActivation, kJoin, int8_t>
                                  : nullptr;
}
template <Activation kActivation>
IntegerChainKernel of_join(Join join, ir::DType dtype) {
  return join == Join::Mul   ? of_dtype<kActivation, Join::Mul>(dtype)
         : join == Join::Add ? of_dtype<kActivation, Join::Add>(dtype)
                             : of_dtype<kActivation, Join::None>(dtype);
}

}  // namespace

IntegerChainKernel find_integer_chain_kernel(Activation activation, Join join, ir::DType dtype) {
  switch (activation) {
    case Activation::Relu:
      return of_join<Activation::Relu>(join, dtype);
    case Activation::Gelu:
      return of_join<Activation::Gelu>(join, dtype);
    case Activation::GeluTanh:
      return of_join<Activation::GeluTanh>(join, dtype);
    case Activation::Silu:
      return of_join<Activation::Silu>(join, dtype);
    default:
      return of_join<Activation::None>(join, dtype);
  }
}
#endif

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(find_integer_chain_kernel);

namespace {

using epilogue::Epilogue;
using epilogue::Role;
using ir::DType;
using ir::Op;

// Reads a chain from its stored value up to the accumulators.
class IntegerMatcher {
 public:
  explicit IntegerMatcher(const Epilogue& epilogue) : epilogue_(epilogue) {}

  std::optional<IntegerChain> match() {
    if (epilogue_.outputs.empty()) return std::nullopt;
    const int value = epilogue_.outputs[0].value;
    for (const epilogue::Output& output : epilogue_.outputs)
      if (output.value != value) return std::nullopt;
    const DType dtype = dtype_of(value);
    const auto rest = dtype == DType::F32 ? value : match_quantised(value);
    if (!rest || !match_joined(*rest)) return std::nullopt;
    chain_.kernel = HWY_DYNAMIC_DISPATCH(find_integer_chain_kernel)(activation_, join_, dtype);
    if (!chain_.kernel) return std::nullopt;
    return chain_;
  }

 private:
  static constexpr struct {
    Op op;
    Activation activation;
    bool gate;
  } kActivations[] = {
      {Op::Relu, Activation::Relu, false},         {Op::Gelu, Activation::Gelu, false},
      {Op::GeluTanh, Activation::GeluTanh, false}, {Op::Silu, Activation::Silu, false},
      {Op::ReGlu, Activation::Relu, true},         {Op::GeGlu, Activation::Gelu, true},
      {Op::GeGluTanh, Activation::GeluTanh, true}, {Op::SwiGlu, Activation::Silu, true}};

  int inputs() const { return static_cast<int>(epilogue_.inputs.size()); }
  DType dtype_of(int value) const {
    return value < inputs() ? epilogue_.inputs[value].dtype
                            : epilogue_.nodes[value - inputs()].dtype;
  }
  // The node, if it is such an op that computes in f32.
  const epilogue::Node* node(int value, Op op, DType dtype = DType::F32) const {
    if (value < inputs()) return nullptr;
    const epilogue::Node& node = epilogue_.nodes[value - inputs()];
    const bool plain = node.compute.value_or(DType::F32) == DType::F32 && node.function.empty();
    return node.op == op && node.dtype == dtype && plain ? &node : nullptr;
  }
  bool is_accumulator(int value) const {
    return value < inputs() && epilogue_.inputs[value].role == Role::Accumulator &&
           epilogue_.inputs[value].dtype == DType::S32 &&
           epilogue_.inputs[value].rounded == DType::S32;
  }

  // saturate(round(x / quantum) + zero).
  std::optional<int> match_quantised(int value) {
    const DType dtype = dtype_of(value);
    const epilogue::Node* cast = node(value, Op::Cast, dtype);
    if (!cast || !cast->saturate) return std::nullopt;
    int rounded = cast->operands[0];
    if (const epilogue::Node* sum = node(rounded, Op::Add)) {
      chain_.zero = sum->operands[1];
      rounded = sum->operands[0];
    }
    const epilogue::Node* round = node(rounded, Op::Round);
    const epilogue::Node* quotient = round ? node(round->operands[0], Op::Div) : nullptr;
    if (!quotient) return std::nullopt;
    chain_.quantum = quotient->operands[1];
    return quotient->operands[0];
  }

  bool match_joined(int value) {
    if (const epilogue::Node* sum = node(value, Op::Add))
      for (const int side : {1, 0}) {
        const int other = sum->operands[side];
        if (other >= inputs() || epilogue_.inputs[other].role != Role::Full ||
            epilogue_.inputs[other].rows || epilogue_.inputs[other].dtype != DType::F32)
          continue;
        if (!match_activated(sum->operands[1 - side])) return false;
        chain_.other = other;
        join_ = Join::Add;
        return true;
      }
    return match_activated(value);
  }

  bool match_activated(int value) {
    for (const auto& [op, activation, gate] : kActivations) {
      const epilogue::Node* found = node(value, op);
      if (!found) continue;
      activation_ = activation;
      if (!found->params.empty()) chain_.alpha = static_cast<float>(found->params[0]);
      if (gate) {
        chain_.gate = scaled_of(found->operands[1]);
        join_ = Join::Mul;
        if (!chain_.gate) return false;
      }
      return match_biased(found->operands[0]);
    }
    return match_biased(value);
  }

  bool match_biased(int value) {
    std::optional<IntegerChain::Scaled> x = scaled_of(value);
    if (const epilogue::Node* sum = x ? nullptr : node(value, Op::Add))
      for (const int side : {1, 0})
        if (!x && (x = scaled_of(sum->operands[1 - side]))) chain_.bias = sum->operands[side];
    if (x) chain_.x = *std::move(x);
    return x.has_value();
  }

  // f32(accumulator - shift) * scale * scale.
  std::optional<IntegerChain::Scaled> scaled_of(int value) const {
    IntegerChain::Scaled result;
    while (const epilogue::Node* product = node(value, Op::Mul)) {
      result.scales.insert(result.scales.begin(), product->operands[1]);
      value = product->operands[0];
    }
    const epilogue::Node* cast = node(value, Op::Cast);
    if (!cast || result.scales.empty() || result.scales.size() > 2) return std::nullopt;
    result.accumulators = cast->operands[0];
    if (const epilogue::Node* difference = node(result.accumulators, Op::Sub, DType::S32)) {
      result.accumulators = difference->operands[0];
      result.shift = difference->operands[1];
    }
    if (!is_accumulator(result.accumulators)) return std::nullopt;
    return result;
  }

  const Epilogue& epilogue_;
  IntegerChain chain_;
  Activation activation_ = Activation::None;
  Join join_ = Join::None;
};

}  // namespace

std::optional<IntegerChain> match_integer_chain(const Epilogue& epilogue, ir::Mode mode) {
  if (mode != ir::Mode::Fp32) return std::nullopt;
  return IntegerMatcher(epilogue).match();
}

}  // namespace attacca::run
#endif
