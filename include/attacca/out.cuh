// attacca::Out<T>: a kernel's output pointer that applies the epilogue on assignment. For kernels
// that `attacca kernel inspect` refuses, or whose authors want to be sure: docs/out-pointer.md.
//
//   __global__ void kernel(const float* x, attacca::Out<float> out, int n) {
//     ...
//     out[i] = sum;
//   }
//
// It has what a write-only output needs: out[i] = value, *out = value, out + n, ++out and vector
// stores. Reading, taking an address (and so atomics) and converting to T* do not compile, with a
// message that says what to write instead. An Out may be passed on, kept in structs, stored and
// shuffled like any value; each assignment applies the epilogue.
//
// The epilogue is one of these:
// - by default none: the kernel stores what it is given;
// - with -DATTACCA_OPEN, a call of attacca_out, which `attacca kernel fuse` replaces in the PTX by
//   any epilogue in the text form;
// - Out<T, Function>: a function object of your own, T operator()(T value, size index) const.
//
// Needs C++17, and no header; compiles with nvcc and NVRTC.
#pragma once

namespace attacca {

using Index = unsigned long long;
constexpr int kOutOperands = 4;  // pointers that an epilogue may have

struct NoEpilogue {
  template <class T>
  __host__ __device__ T operator()(T value, Index) const {
    return value;
  }
};

}  // namespace attacca

// Called for each element with the raw bits of its value, zero-extended, and its index. `attacca
// kernel fuse` replaces the calls.
extern "C" __device__ unsigned attacca_out(unsigned bits, attacca::Index index,
                                           const void* operand0, const void* operand1,
                                           const void* operand2, const void* operand3);
extern "C" __device__ unsigned long long attacca_out_64(unsigned long long bits,
                                                        attacca::Index index, const void* operand0,
                                                        const void* operand1, const void* operand2,
                                                        const void* operand3);

namespace attacca {

// The epilogue that `attacca kernel fuse` inserts. The pointers are those of the epilogue's
// operands, in the order of the JSON file that the command writes; unused ones may be null.
struct OpenEpilogue {
  const void* operands[kOutOperands] = {};

  template <class T>
  __device__ T operator()(T value, Index index) const {
    static_assert(sizeof(T) <= 8, "attacca::Out: elements have at most 8 bytes");
    if constexpr (sizeof(T) == 8) {
      unsigned long long bits;
      memcpy(&bits, &value, sizeof(T));
      bits = attacca_out_64(bits, index, operands[0], operands[1], operands[2], operands[3]);
      memcpy(&value, &bits, sizeof(T));
    } else {
      unsigned bits = 0;
      memcpy(&bits, &value, sizeof(T));
      bits = attacca_out(bits, index, operands[0], operands[1], operands[2], operands[3]);
      memcpy(&value, &bits, sizeof(T));
    }
    return value;
  }
};

#ifdef ATTACCA_OPEN
using DefaultEpilogue = OpenEpilogue;
#else
using DefaultEpilogue = NoEpilogue;
#endif

#define ATTACCA_OUT_NO_READ                                                                       \
  "attacca::Out is write-only: with an epilogue applied, what was stored is no longer the "        \
  "kernel's own value. Keep it in a variable, or accumulate into another buffer."
#define ATTACCA_OUT_NO_ADDRESS                                                                   \
  "attacca::Out gives no address of an element: atomics and stores through a pointer would pass " \
  "by the epilogue. Assign out[i] = value, pass the Out itself on, or use out.store(i, values)."

// One element. It can only be assigned to, and only its final value.
template <class T, class Epilogue>
class OutElement {
 public:
  __device__ OutElement(T* to, Index index, const Epilogue& epilogue)
      : to_(to), index_(index), epilogue_(epilogue) {}

  __device__ void operator=(T value) const { *to_ = epilogue_(value, index_); }

  // Everything else fails to compile: sizeof(T) == 0 is false, but evaluated only where it is used.
  __device__ operator T() const { static_assert(sizeof(T) == 0, ATTACCA_OUT_NO_READ); }
  __device__ void operator=(const OutElement&) const {
    static_assert(sizeof(T) == 0, ATTACCA_OUT_NO_READ);
  }
  __device__ T* operator&() const { static_assert(sizeof(T) == 0, ATTACCA_OUT_NO_ADDRESS); }
#define ATTACCA_OUT_REFUSE(OPERATOR)                    \
  template <class U>                                    \
  __device__ void operator OPERATOR(const U&) const {   \
    static_assert(sizeof(U) == 0, ATTACCA_OUT_NO_READ); \
  }
  ATTACCA_OUT_REFUSE(+=)
  ATTACCA_OUT_REFUSE(-=)
  ATTACCA_OUT_REFUSE(*=)
  ATTACCA_OUT_REFUSE(/=)
  ATTACCA_OUT_REFUSE(%=)
  ATTACCA_OUT_REFUSE(&=)
  ATTACCA_OUT_REFUSE(|=)
  ATTACCA_OUT_REFUSE(^=)
  ATTACCA_OUT_REFUSE(<<=)
  ATTACCA_OUT_REFUSE(>>=)
#undef ATTACCA_OUT_REFUSE
  __device__ void operator++() const { static_assert(sizeof(T) == 0, ATTACCA_OUT_NO_READ); }
  __device__ void operator++(int) const { static_assert(sizeof(T) == 0, ATTACCA_OUT_NO_READ); }
  __device__ void operator--() const { static_assert(sizeof(T) == 0, ATTACCA_OUT_NO_READ); }
  __device__ void operator--(int) const { static_assert(sizeof(T) == 0, ATTACCA_OUT_NO_READ); }

 private:
  T* to_;
  Index index_;
  const Epilogue& epilogue_;
};

template <class T, class Epilogue = DefaultEpilogue>
class Out {
 public:
  Out() = default;
  // `data`: the first element of the output, which has index 0.
  __host__ __device__ explicit Out(T* data, Epilogue epilogue = {})
      : data_(data), epilogue_(epilogue) {}

  template <class I>
  __device__ OutElement<T, Epilogue> operator[](I i) const {
    const Index index = at_ + static_cast<Index>(i);
    return {data_ + index, index, epilogue_};
  }
  __device__ OutElement<T, Epilogue> operator*() const { return (*this)[0]; }

  // Stores N neighbours at once. REQUIRES: element i is aligned to N elements.
  template <int N>
  __device__ void store(Index i, const T (&values)[N]) const {
    struct alignas(sizeof(T) * N) Vector {
      T element[N];
    } vector;
    for (int j = 0; j < N; ++j) vector.element[j] = epilogue_(values[j], at_ + i + j);
    *reinterpret_cast<Vector*>(data_ + at_ + i) = vector;
  }

  template <class I>
  __host__ __device__ Out operator+(I n) const {
    Out moved = *this;
    moved.at_ += static_cast<Index>(n);
    return moved;
  }
  template <class I>
  __host__ __device__ Out operator-(I n) const {
    return *this + (Index{0} - static_cast<Index>(n));
  }
  template <class I>
  __host__ __device__ Out& operator+=(I n) {
    return *this = *this + n;
  }
  template <class I>
  __host__ __device__ Out& operator-=(I n) {
    return *this = *this - n;
  }
  __host__ __device__ Out& operator++() { return *this += 1; }
  __host__ __device__ Out operator++(int) {
    const Out before = *this;
    ++*this;
    return before;
  }

  __device__ operator T*() const {
    static_assert(sizeof(T) == 0,
                  "attacca::Out is no pointer: what is stored through a T* would pass by the "
                  "epilogue. Let the callee take an attacca::Out, or a template parameter.");
  }

 private:
  T* data_ = nullptr;
  Index at_ = 0;  // elements from the first to this one
  Epilogue epilogue_ = {};
};

#undef ATTACCA_OUT_NO_READ
#undef ATTACCA_OUT_NO_ADDRESS

}  // namespace attacca
