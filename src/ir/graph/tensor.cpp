#include "ir/graph/tensor.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "fmt/format.h"

#include "support/check.hpp"
#include "support/memory.hpp"

namespace attacca::ir {
namespace {

// Copies a strided view to row-major order, an axis at a time.
void copy_strided(const std::byte* from, const int64_t* shape, const int64_t* strides, size_t rank,
                  int64_t width, std::byte*& to) {
  if (rank == 0) {
    std::memcpy(to, from, static_cast<size_t>(width));
    to += width;
    return;
  }
  if (rank == 1 && strides[0] == 1) {
    std::memcpy(to, from, static_cast<size_t>(shape[0] * width));
    to += shape[0] * width;
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i)
    copy_strided(from + i * strides[0] * width, shape + 1, strides + 1, rank - 1, width, to);
}

}  // namespace

Result<Tensor> Tensor::make(DType dtype, std::vector<int64_t> shape) {
  // Other extents may overflow even if one is zero, because strides multiply them.
  int64_t bytes = size_of(dtype);
  bool overflow = false, empty = false;
  for (const int64_t extent : shape) {
    ATTACCA_CHECK(extent >= 0, "negative extent");
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(bytes, extent == 0 ? 1 : extent, &bytes);
  }
  if (overflow || bytes > physical_memory())
    return fail(fmt::format("a tensor {}{} {}", name(dtype), to_string(shape),
                            empty ? "has too large a size beside its 0"
                                  : "is larger than this machine's memory"),
                {}, "use smaller dimensions");
  const size_t rounded = (static_cast<size_t>(empty ? 0 : bytes) + 64) / 64 * 64;
  auto* memory = allocate_aligned(rounded);
  if (memory == nullptr)
    return fail(
        fmt::format("no memory for a tensor {}{} ({} bytes)", name(dtype), to_string(shape), bytes),
        {}, "use smaller dimensions");
  std::memset(memory, 0, rounded);
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.strides_ = contiguous_strides(shape);
  tensor.shape_ = std::move(shape);
  tensor.data_ = std::shared_ptr<std::byte>(memory, [](std::byte* p) { std::free(p); });
  return tensor;
}

Tensor Tensor::view(DType dtype, std::vector<int64_t> shape, void* data,
                    std::vector<int64_t> strides) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.strides_ = strides.empty() ? contiguous_strides(shape) : std::move(strides);
  tensor.shape_ = std::move(shape);
  tensor.data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(data), [](std::byte*) {});
  return tensor;
}

Tensor Tensor::adopt(DType dtype, std::vector<int64_t> shape, std::shared_ptr<std::byte> storage,
                     std::vector<int64_t> strides) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.strides_ = strides.empty() ? contiguous_strides(shape) : std::move(strides);
  tensor.shape_ = std::move(shape);
  tensor.data_ = std::move(storage);
  return tensor;
}

Tensor Tensor::of(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values) {
  auto made = make(dtype, std::move(shape));
  ATTACCA_CHECK(made && made->size() == static_cast<int64_t>(values.size()),
                "shape and values disagree");
  for (size_t i = 0; i < values.size(); ++i) made->set_number(static_cast<int64_t>(i), values[i]);
  return *std::move(made);
}

int64_t Tensor::size() const {
  int64_t count = 1;
  for (const int64_t extent : shape_) count *= extent;
  return count;
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected) return size() == 0;
    expected *= shape_[i];
  }
  return true;
}

Result<Tensor> Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  ATTACCA_TRY(Tensor copy, make(dtype_, shape_));
  std::byte* to = copy.data();
  copy_strided(data_.get(), shape_.data(), strides_.data(), shape_.size(), size_of(dtype_), to);
  return copy;
}

double Tensor::number_at(int64_t offset) const {
  switch (dtype_) {
    case DType::F64:
      return as<double>()[offset];
    case DType::F32:
      return as<float>()[offset];
    case DType::F16:
    case DType::BF16:
      return decode16(dtype_, as<uint16_t>()[offset]);
    case DType::F8E4M3:
    case DType::F8E5M2:
      return decode8(dtype_, as<uint8_t>()[offset]);
    default:
      return static_cast<double>(integer_at(offset));
  }
}

int64_t Tensor::integer_at(int64_t offset) const {
  switch (dtype_) {
    case DType::S8:
      return as<int8_t>()[offset];
    case DType::U8:
      return as<uint8_t>()[offset];
    case DType::S32:
      return as<int32_t>()[offset];
    case DType::S64:
      return as<int64_t>()[offset];
    case DType::Bool:
      return as<uint8_t>()[offset] != 0;
    default:
      return to_integer(DType::S64, number_at(offset));
  }
}

void Tensor::set_number(int64_t offset, double value) {
  switch (dtype_) {
    case DType::F64:
      as<double>()[offset] = value;
      return;
    case DType::F32:
      as<float>()[offset] = static_cast<float>(value);
      return;
    case DType::F16:
    case DType::BF16:
      as<uint16_t>()[offset] = encode16(dtype_, static_cast<float>(round_to(dtype_, value)));
      return;
    case DType::F8E4M3:
    case DType::F8E5M2:
      as<uint8_t>()[offset] = encode8(dtype_, static_cast<float>(round_to(dtype_, value)));
      return;
    default:
      set_integer(offset, to_integer(dtype_, value));
  }
}

void Tensor::set_integer(int64_t offset, int64_t value) {
  switch (dtype_) {
    case DType::S8:
    case DType::U8:
      as<uint8_t>()[offset] = static_cast<uint8_t>(value);
      return;
    case DType::S32:
      as<int32_t>()[offset] = static_cast<int32_t>(value);
      return;
    case DType::S64:
      as<int64_t>()[offset] = value;
      return;
    case DType::Bool:
      as<uint8_t>()[offset] = value != 0;
      return;
    default:
      set_number(offset, static_cast<double>(value));
  }
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

std::string to_string(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace attacca::ir
