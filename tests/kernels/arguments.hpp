// The parameters of a kernel as text, for small examples:
//
//   f32[13*9] bf16[64]   a buffer of so many elements, filled with numbers by a seed
//   permutation[80]      s32: every index once, in an order by the seed
//   out                  the output, rows * columns elements of the kernel's dtype
//   s32:13 f32:0.5       a number
//   {f32[60] s32:60 out} a struct passed by value, laid out as C does; they nest
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/tensor.hpp"
#include "kernels/catalog.hpp"

namespace attacca::kernels {

struct Field {  // of one parameter
  size_t offset = 0;
  std::vector<std::byte> number;  // empty: the address of a buffer
  size_t buffer = 0;
};

struct Parameter {
  size_t bytes = 0, alignment = 1;
  std::vector<Field> fields;
};

struct Arguments {
  std::vector<Parameter> parameters;
  std::vector<ir::Tensor> buffers;  // in the order of the text
  size_t output = 0;                // among the buffers

  // The bytes of each parameter, given the buffers' addresses.
  std::vector<std::vector<std::byte>> pack(std::span<const uint64_t> addresses) const;
};

// `special`: some of the numbers are infinities, NaN, denormals and zeros of either sign.
Result<Arguments> make_arguments(const Kernel& kernel, uint64_t seed, bool special);

// A tensor of numbers by a seed.
ir::Tensor random_tensor(ir::DType dtype, std::vector<int64_t> shape, uint64_t seed, bool special);

std::span<const std::byte> bytes_of(const ir::Tensor& tensor);
std::span<std::byte> bytes_of(ir::Tensor& tensor);

}  // namespace attacca::kernels
