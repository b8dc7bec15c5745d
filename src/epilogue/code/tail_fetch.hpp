// How a tail reads its operands, as CUDA C++. They do not change while the kernel runs. Where they
// are read between stores, ptxas may load them ahead of earlier ones (ld.global.nc); where they are
// read ahead of all, it may not put the loads off behind a barrier or a store, as it would to save
// registers (ld.global).
#pragma once

#include <string>
#include <string_view>

namespace attacca::epilogue {

// attacca_fetch(const TYPE*): one value; attacca_fetch_here(const TYPE*): ahead of all stores;
// attacca_bits(TYPE): its bits, zero-extended to a word or two. The types are those of
// memory_type().
std::string fetch_function(std::string_view type);

// ---- `count` values of so many bytes in words of 32 bits, as they lie in memory. Values of less
// than a word that fill no words have one each.

int words_of_values(int bytes, int count);
// Whether they are whole words.
bool can_fetch_pack(int bytes, int count);
// Statement: to.word[first], ... become the words at an address, which is aligned to 16 bytes or to
// all of them.
std::string fetch_vectors(const std::string& from, int words, size_t first);
// Statement: `value` becomes number i of the values that begin at to.word[first], in order.
std::string put_value(const std::string& value, int bytes, int count, int i, size_t first);
// Expression: the bits of value i, zero-extended.
std::string value_in_words(int bytes, int count, int i, size_t first);

}  // namespace attacca::epilogue
