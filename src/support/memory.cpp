#include "support/memory.hpp"

#include <unistd.h>

namespace attacca {

int64_t physical_memory() {
  static const int64_t bytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

}  // namespace attacca
