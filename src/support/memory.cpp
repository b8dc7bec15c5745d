#include "support/memory.hpp"

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace attacca {

int64_t physical_memory() {
  static const int64_t bytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

std::byte* allocate_aligned(size_t bytes) {
  constexpr size_t kLine = 64, kHugePage = size_t{2} << 20;
  const bool huge = bytes >= 2 * kHugePage;
  const size_t alignment = huge ? kHugePage : kLine;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  // Failure is ignored: small pages work too.
  if (huge && memory != nullptr) (void)madvise(memory, rounded, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace attacca
