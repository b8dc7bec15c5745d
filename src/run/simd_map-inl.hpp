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

#include "run/kernel.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

// One operand as the loop sees it: the next vector, or one value in every lane.
template <class D, bool kSplat>
struct Operand {
  using T = hn::TFromD<D>;
  const T* data;
  HWY_INLINE hn::VFromD<D> at(D d, size_t i) const {
    if constexpr (kSplat)
      return hn::Set(d, *data);
    else
      return hn::LoadU(d, data + i);
  }
  HWY_INLINE hn::VFromD<D> tail(D d, size_t i, size_t count) const {
    if constexpr (kSplat)
      return hn::Set(d, *data);
    else
      return load_tail(d, data + i, count);
  }
};

// out[i] = f(operands[i]...) for 4-byte lane types.
template <class D, class DOut, class F, class... Operands>
HWY_INLINE void map_loop(D d, DOut out_tag, const KernelArgs& args, F f, Operands... operands) {
  auto* out = static_cast<hn::TFromD<DOut>*>(args.out);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= args.count; i += lanes) hn::StoreU(f(operands.at(d, i)...), out_tag, out + i);
  if (const size_t rest = args.count - i)
    store_tail(f(operands.tail(d, i, rest)...), out_tag, out + i, rest);
}

template <bool kSplat, class D>
HWY_INLINE Operand<D, kSplat> operand(D, const KernelArgs& args, int index) {
  return {static_cast<const hn::TFromD<D>*>(args.in[index])};
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
