// How a tail reads its operands, as CUDA C++. They do not change while the kernel runs, so that
// ptxas may load them ahead of earlier stores (ld.global.nc).
#pragma once

#include <string>
#include <string_view>

namespace attacca::epilogue {

// attacca_fetch(const TYPE*): one value. The types are those of memory_type().
std::string fetch_function(std::string_view type);

// Whether `count` values of so many bytes can be read at once.
bool can_fetch_pack(int bytes, int count);
// attacca_fetch_BYTESxCOUNT(const void*): `count` consecutive values as they are in memory, as
// struct attacca_pack_BYTESxCOUNT { uint32_t word[]; }. The address is aligned to a value. Takes
// the fewest loads that its alignment allows, without a branch. REQUIRES: can_fetch_pack.
std::string fetch_pack_function(int bytes, int count);
// Value number i of such a pack, as memory_type(): an unsigned short or raw 32 bits.
std::string pack_element(int bytes, const std::string& pack, int i);

}  // namespace attacca::epilogue
