#include "epilogue/code/tail_fetch.hpp"

#include <algorithm>
#include <cstdint>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

struct Fetch {
  std::string_view type, load, constraint, holder, bits;  // `bits`: the value's, zero-extended
};
constexpr Fetch kFetches[] = {
    {"double", "f64", "d", "double", "__double_as_longlong(value)"},
    {"float", "f32", "f", "float", "__float_as_uint(value)"},
    {"unsigned short", "u16", "h", "unsigned short", "value"},
    {"unsigned char", "u8", "r", "unsigned int", "value"},
    {"signed char", "s8", "r", "int", "(unsigned char)value"},
    {"int", "s32", "r", "int", "value"},
    {"long long", "s64", "l", "long long", "value"},
};

constexpr int kMostWords = 4;  // of one load

// Values of less than a word share words where they fill them.
int values_in_word(int bytes, int count) {
  return bytes < 4 && bytes * count % 4 == 0 ? 4 / bytes : 1;
}

}  // namespace

std::string fetch_function(std::string_view type) {
  for (const Fetch& fetch : kFetches)
    if (fetch.type == type)
      return fmt::format(R"(__device__ __forceinline__ {0} attacca_fetch(const {0}* from) {{
#ifdef __CUDA_ARCH__
  {3} value;
  asm("ld.global.nc.{1} %0, [%1];" : "={2}"(value) : "l"(from));
  return ({0})value;
#else
  return *from;
#endif
}}
__device__ __forceinline__ {0} attacca_fetch_here(const {0}* from) {{
#ifdef __CUDA_ARCH__
  {3} value;
  asm("ld.global.{1} %0, [%1];" : "={2}"(value) : "l"(from));
  return ({0})value;
#else
  return *from;
#endif
}}
__device__ __forceinline__ {5} attacca_bits({0} value) {{ return ({5}){4}; }}
)",
                         fetch.type, fetch.load, fetch.constraint, fetch.holder, fetch.bits,
                         fetch.load.ends_with("64") ? "unsigned long long" : "uint32_t");
  ATTACCA_CHECK(false, "a type that no memory holds");
}

bool can_fetch_pack(int bytes, int count) {
  return bytes * count % 4 == 0;
}

int words_of_values(int bytes, int count) {
  return bytes >= 4 ? count * bytes / 4 : count / values_in_word(bytes, count);
}

std::string fetch_vectors(const std::string& from, int words, size_t first) {
  std::string code;
  for (int at = 0; at < words; at += kMostWords) {
    const int count = std::min(words - at, kMostWords);
    std::string names, outputs;
    for (int i = 0; i < count; ++i) {
      names += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
      outputs += fmt::format("{}\"=r\"(to.word[{}])", i == 0 ? "" : ", ",
                             first + static_cast<size_t>(at + i));
    }
    const std::string vector = count == 1 ? "" : fmt::format(".v{}", count);
    code += fmt::format(
        "  asm(\"ld.global{}.u32 {}, [%{}];\" : {} : \"l\"((const char*)({}) + {}));\n", vector,
        count == 1 ? names : fmt::format("{{{}}}", names), count, outputs, from, 4 * at);
  }
  return code;
}

std::string put_value(const std::string& value, int bytes, int count, int i, size_t first) {
  if (bytes == 8)
    return fmt::format(
        "  {{\n    const unsigned long long bits = attacca_bits({0});\n"
        "    to.word[{1}] = (uint32_t)bits;\n    to.word[{2}] = (uint32_t)(bits >> 32);\n  }}\n",
        value, first + static_cast<size_t>(2 * i), first + static_cast<size_t>(2 * i + 1));
  const int each = values_in_word(bytes, count);
  const size_t word = first + static_cast<size_t>(i / each);
  if (i % each == 0) return fmt::format("  to.word[{}] = attacca_bits({});\n", word, value);
  return fmt::format("  to.word[{}] |= attacca_bits({}) << {};\n", word, value,
                     8 * bytes * (i % each));
}

std::string value_in_words(int bytes, int count, int i, size_t first) {
  const auto word = [&](int at) {
    return fmt::format("from.word[{}]", first + static_cast<size_t>(at));
  };
  if (bytes == 8)
    return fmt::format("({} | (unsigned long long){} << 32)", word(2 * i), word(2 * i + 1));
  const int each = values_in_word(bytes, count);
  if (each == 1) return word(i);
  const int shift = 8 * bytes * (i % each);
  return fmt::format("({} >> {} & {}u)", word(i / each), shift, (1U << 8 * bytes) - 1);
}

}  // namespace attacca::epilogue
