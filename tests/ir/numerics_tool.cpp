// numerics_tool encode|saturate|round|decode DTYPE: converts stdin to stdout for numerics_check.py.
//   encode, saturate  f32 in, the dtype's bits out (16 or 8 bits each)
//   round             f32 in, f32 out: round_to in double
//   decode            the dtype's bits in, f32 out
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ir/graph/dtype.hpp"

using namespace attacca::ir;

namespace {

template <class T>
std::vector<T> read_all() {
  std::vector<T> values(1 << 16);
  std::vector<T> all;
  while (const size_t count = std::fread(values.data(), sizeof(T), values.size(), stdin))
    all.insert(all.end(), values.begin(), values.begin() + static_cast<long>(count));
  return all;
}

template <class T>
void write_all(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

template <class In, class Out, class Convert>
void convert_all(Convert convert) {
  std::vector<Out> out;
  for (const In value : read_all<In>()) out.push_back(convert(value));
  write_all(out);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string action = argc == 3 ? argv[1] : "";
  const auto dtype = argc == 3 ? parse_dtype(argv[2]) : std::nullopt;
  if (!dtype) return 2;
  const auto overflow = action == "saturate" ? Overflow::Saturate : Overflow::Ieee;
  const bool wide = size_of(*dtype) == 2;
  if (action == "round") {
    convert_all<float, float>([&](float x) { return static_cast<float>(round_to(*dtype, x)); });
  } else if (action == "decode" && wide) {
    convert_all<uint16_t, float>([&](uint16_t bits) { return decode16(*dtype, bits); });
  } else if (action == "decode") {
    convert_all<uint8_t, float>([&](uint8_t bits) { return decode8(*dtype, bits); });
  } else if (wide) {
    convert_all<float, uint16_t>([&](float x) { return encode16(*dtype, x, overflow); });
  } else {
    convert_all<float, uint8_t>([&](float x) { return encode8(*dtype, x, overflow); });
  }
  return 0;
}
