// Loops that apply a vector function to whole chunks: broadcast operands, and tails through a
// padded copy, so that nothing is read or written beyond the chunk.
#if defined(ATTACCA_RUN_SIMD_MAP_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_RUN_SIMD_MAP_INL_
#undef ATTACCA_RUN_SIMD_MAP_INL_
#else
#define ATTACCA_RUN_SIMD_MAP_INL_
#endif

#include <cstring>

#include "hwy/highway.h"

#include "run/cpu/kernels/kernel.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A lambda of a kernel: compiled for its target, and always part of the loop around it.
#ifndef ATTACCA_INLINE_LAMBDA
#define ATTACCA_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))
#endif

constexpr size_t kMaxLanes = HWY_MAX_BYTES / 4;

template <class D>
HWY_INLINE hn::VFromD<D> load_tail(D d, const hn::TFromD<D>* from, size_t count) {
  HWY_ALIGN hn::TFromD<D> lanes[kMaxLanes] = {};
  std::memcpy(lanes, from, count * sizeof(lanes[0]));
  return hn::Load(d, lanes);
}
template <class D>
HWY_INLINE void store_tail(hn::VFromD<D> v, D d, hn::TFromD<D>* to, size_t count) {
  HWY_ALIGN hn::TFromD<D> lanes[kMaxLanes];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(lanes[0]));
}

// One operand of a loop: the next vector, or one value in every lane.
template <class D, bool kSplat>
struct Operand {
  using T = hn::TFromD<D>;
  const T* data;
  HWY_ALIGN T last[kMaxLanes] = {};

  HWY_INLINE hn::VFromD<D> at(D d, size_t i) const {
    if constexpr (kSplat)
      return hn::Set(d, *data);
    else
      return hn::LoadU(d, data + i);
  }
  // From now on, at(0) is the tail, padded with zeros.
  HWY_INLINE void turn_to_tail(size_t i, size_t count) {
    if constexpr (!kSplat) {
      std::memcpy(last, data + i, count * sizeof(T));
      data = last;
    }
  }
};

// out[i] = f(operands[i]...) for 4-byte lane types. f appears once, so that it is inlined.
template <class D, class DOut, class F, class... Operands>
HWY_INLINE void map_loop(D d, DOut out_tag, const KernelArgs& args, F f, Operands... operands) {
  using Out = hn::TFromD<DOut>;
  auto* out = static_cast<Out*>(args.out);
  HWY_ALIGN Out last[kMaxLanes];
  const size_t lanes = hn::Lanes(d), rest = args.count % lanes;
  size_t end = args.count - rest;
  for (bool tail = false;; tail = true) {
    for (size_t i = 0; i < end; i += lanes) hn::StoreU(f(operands.at(d, i)...), out_tag, out + i);
    if (tail || rest == 0) break;
    (operands.turn_to_tail(end, rest), ...);
    out = last;
    end = 1;
  }
  if (rest)
    std::memcpy(static_cast<Out*>(args.out) + (args.count - rest), last, rest * sizeof(Out));
}

template <bool kSplat, class D>
HWY_INLINE Operand<D, kSplat> operand(D, const KernelArgs& args, int index) {
  Operand<D, kSplat> made;
  made.data = static_cast<const hn::TFromD<D>*>(args.in[index]);
  return made;
}

template <class D, class DOut, class F>
HWY_INLINE void map1(D d, DOut out_tag, const KernelArgs& args, F f) {
  map_loop(d, out_tag, args, f, operand<false>(d, args, 0));
}

// A broadcast operand of a two-operand kernel costs nothing; both being broadcast has count 1.
template <class D, class DOut, class F>
HWY_INLINE void map2(D d, DOut out_tag, const KernelArgs& args, F f) {
  if (args.splat[0])
    map_loop(d, out_tag, args, f, operand<true>(d, args, 0), operand<false>(d, args, 1));
  else if (args.splat[1])
    map_loop(d, out_tag, args, f, operand<false>(d, args, 0), operand<true>(d, args, 1));
  else
    map_loop(d, out_tag, args, f, operand<false>(d, args, 0), operand<false>(d, args, 1));
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
