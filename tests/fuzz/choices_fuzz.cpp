#include <cstddef>
#include <cstdint>

#include "fuzz/choices.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attacca::fuzz::try_choices({reinterpret_cast<const char*>(data), size});
  return 0;
}
