#include "epilogue/code/tail_fetch.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

struct Fetch {
  std::string_view type, load, constraint, holder;
};
constexpr Fetch kFetches[] = {
    {"double", "f64", "d", "double"},
    {"float", "f32", "f", "float"},
    {"unsigned short", "u16", "h", "unsigned short"},
    {"unsigned char", "u8", "r", "unsigned int"},
    {"signed char", "s8", "r", "int"},
    {"int", "s32", "r", "int"},
    {"long long", "s64", "l", "long long"},
};

constexpr int kMostWords = 4;  // of one load

// One load of `words` words if the address is aligned to them, else one load for each value.
std::string load_words(int bytes, int words, int first) {
  std::string outputs, vector, apart;
  for (int i = 0; i < words; ++i) {
    vector += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    outputs += fmt::format("{}\"=r\"(pack.word[{}])", i == 0 ? "" : ", ", first + i);
    if (bytes == 4)
      apart += fmt::format("      \"@p ld.global.nc.u32 %{}, [%{}+{}];\\n\"\n", i, words, 4 * i);
    else
      for (int half = 0; half < 2; ++half)
        apart += fmt::format("      \"@p ld.global.nc.u16 h{}, [%{}+{}];\\n\"\n", half, words,
                             4 * i + 2 * half) +
                 (half == 1 ? fmt::format("      \"@p mov.b32 %{}, {{h0, h1}};\\n\"\n", i) : "");
  }
  const std::string suffix = words == 1 ? "u32" : fmt::format("v{}.u32", words);
  return fmt::format(R"(  asm("{{\n.reg .pred p;\n.reg .b16 h0, h1;\n"
      "setp.ne.u64 p, %{0}, 0;\n"
      "@!p ld.global.nc.{1} {2}, [%{3}];\n"
{4}      "}}"
      : {5}
      : "l"(at + {6}), "l"((unsigned long long)(at + {6}) & {7}));
)",
                     words + 1, suffix, words == 1 ? "%0" : fmt::format("{{{}}}", vector), words,
                     apart, outputs, 4 * first, 4 * words - 1);
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
)",
                         fetch.type, fetch.load, fetch.constraint, fetch.holder);
  ATTACCA_CHECK(false, "a type that no memory holds");
}

bool can_fetch_pack(int bytes, int count) {
  return (bytes == 2 || bytes == 4) && bytes * count >= 4 && bytes * count % 4 == 0;
}

std::string fetch_pack_function(int bytes, int count) {
  const int words = bytes * count / 4;
  const std::string type = fmt::format("attacca_pack_{}x{}", bytes, count);
  std::string text = fmt::format("struct {} {{ uint32_t word[{}]; }};\n", type, words);
  text += fmt::format("__device__ __forceinline__ {0} attacca_fetch_{1}x{2}(const void* from) {{\n",
                      type, bytes, count);
  text += fmt::format("  const char* at = (const char*)from;\n  {} pack;\n", type);
  for (int first = 0; first < words; first += kMostWords)
    text += load_words(bytes, std::min(words - first, kMostWords), first);
  return text + "  return pack;\n}\n";
}

std::string pack_element(int bytes, const std::string& pack, int i) {
  if (bytes == 4) return fmt::format("{}.word[{}]", pack, i);
  return fmt::format("(unsigned short)({}.word[{}] >> {})", pack, i / 2, 16 * (i % 2));
}

}  // namespace attacca::epilogue
