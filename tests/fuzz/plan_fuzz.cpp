#include <cstddef>
#include <cstdint>

#include "fuzz/plans.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attacca::fuzz::try_plan({reinterpret_cast<const char*>(data), size});
  return 0;
}
