#pragma once

#include <cstddef>
#include <cstdint>

namespace attacca {

// Bytes of memory in this machine, so that a larger request can be refused before the process is
// killed.
int64_t physical_memory();

// At least that many bytes at a multiple of 64, for std::free; nullptr if there is not enough
// memory. Large blocks ask for huge pages: kernels walk columns of rows that lie pages apart.
std::byte* allocate_aligned(size_t bytes);

}  // namespace attacca
