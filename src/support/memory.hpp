#pragma once

#include <cstddef>
#include <cstdint>

namespace attacca {

// Bytes of memory in this machine: a request beyond it is refused instead of being killed.
int64_t physical_memory();

// At least that many bytes at a multiple of 64, for std::free; nullptr where there is no memory.
// Large blocks ask for huge pages: kernels walk columns of rows that lie pages apart.
std::byte* allocate_aligned(size_t bytes);

}  // namespace attacca
