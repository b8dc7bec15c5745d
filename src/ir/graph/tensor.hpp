// A dense or strided block of numbers in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// A view of shared storage. Copying a Tensor copies the view, not the numbers.
class Tensor {
 public:
  Tensor() = default;
  // New zeroed storage, row-major, 64-byte aligned. An error where the size overflows or memory
  // runs out.
  static Result<Tensor> make(DType dtype, std::vector<int64_t> shape);
  // A view of the caller's memory, which must outlive it. Strides in elements; empty: row-major.
  static Tensor view(DType dtype, std::vector<int64_t> shape, void* data,
                     std::vector<int64_t> strides = {});
  // Shares storage that was allocated elsewhere. Strides in elements; empty: row-major.
  static Tensor adopt(DType dtype, std::vector<int64_t> shape, std::shared_ptr<std::byte> storage,
                      std::vector<int64_t> strides = {});
  // A scalar or vector of the given values, rounded to the dtype.
  static Tensor of(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }  // in elements
  int64_t size() const;                                             // elements
  int64_t bytes() const { return size() * size_of(dtype_); }
  bool is_contiguous() const;
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

  // A row-major copy, or this tensor if it is row-major already.
  Result<Tensor> contiguous() const;

  // The element at an offset in elements, as a number. Only integer_at is exact for s64.
  double number_at(int64_t offset) const;
  int64_t integer_at(int64_t offset) const;
  // Stores at an offset, rounding to the dtype (Overflow::Ieee).
  void set_number(int64_t offset, double value);
  void set_integer(int64_t offset, int64_t value);

 private:
  DType dtype_ = DType::F32;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  std::shared_ptr<std::byte> data_;
};

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);
std::string to_string(const std::vector<int64_t>& shape);  // "[2, 3]"

}  // namespace attacca::ir
