#include <cstddef>
#include <cstdint>

#include "fuzz/entries.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attacca::fuzz::try_format("text", {reinterpret_cast<const char*>(data), size});
  return 0;
}
