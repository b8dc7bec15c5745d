// Tensors of NumPy and torch, read without a Python object for each of their properties.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "python/binding.hpp"

namespace attacca::python {

// The tensors of one call: their addresses, and as words that are compared their type, dtype,
// device, shape, strides and the alignment of the address.
class CallKey {
 public:
  // False for a tensor that is not read here: of another type or subclass, one that must not be
  // written or read as it is (lazily negated), or one too many.
  bool add(PyObject* tensor, bool writable);
  // Adds a number of the caller's. No tensor begins with a word so small. False: one word too many.
  bool add_number(uint32_t number);
  // After the last tensor. False where torch would differentiate the call or, if `watched`, record
  // it.
  bool finish(bool watched);

  std::span<const int64_t> words() const { return {words_.data(), count_}; }
  std::span<void* const> addresses() const { return {addresses_.data(), tensors_}; }

 private:
  static constexpr size_t kMostTensors = 32, kMostWords = 256;

  bool add_array(PyObject* array, bool writable);
  bool add_tensor(PyObject* tensor);
  bool add_layout(void* address, int64_t kind, size_t rank, const int64_t* shape,
                  const int64_t* strides);

  std::array<int64_t, kMostWords> words_;
  std::array<void*, kMostTensors> addresses_;
  size_t count_ = 0, tensors_ = 0;
  bool has_torch_ = false, requires_grad_ = false;
};

// Tells torch that a tensor's elements were changed; does nothing for tensors of NumPy.
void wrote(PyObject* tensor);

}  // namespace attacca::python
