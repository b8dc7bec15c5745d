#include "run/cpu/buffer_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "fmt/format.h"

#include "support/files/process_gate.hpp"
#include "support/memory.hpp"

namespace attacca::run {

namespace {

// Sizes of buffers are rounded up, by a quarter at most, so that the buffers of one run fit the
// next one's requests in whatever order they come back.
size_t rounded_size(size_t bytes) {
  constexpr size_t kLeast = 4096;
  if (bytes <= kLeast) return kLeast;
  const size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

// Returned buffers, kept for the next request: as many bytes as were ever lent at one time, beside
// what is lent.
struct BufferPool::Shelf {
  std::mutex mutex;
  std::multimap<size_t, std::byte*> idle;  // by capacity
  size_t idle_bytes = 0, lent_bytes = 0, most_lent = 0;

  ~Shelf() {
    for (const auto& [capacity, memory] : idle) std::free(memory);
  }

  // The last buffer of the rounded size that came back, or nullptr.
  std::byte* take(size_t bytes, size_t& capacity) {
    const ForkSafeLock lock(mutex);
    capacity = rounded_size(bytes);
    const auto next = idle.upper_bound(capacity);
    std::byte* memory = nullptr;
    if (next != idle.begin() && std::prev(next)->first == capacity) {
      const auto found = std::prev(next);
      memory = found->second;
      idle_bytes -= capacity;
      idle.erase(found);
    }
    lent_bytes += capacity;
    most_lent = std::max(most_lent, lent_bytes);
    return memory;
  }

  void forget(size_t capacity) {
    const ForkSafeLock lock(mutex);
    lent_bytes -= capacity;
  }

  void give_back(std::byte* memory, size_t capacity) {
    const ForkSafeLock lock(mutex);
    lent_bytes -= capacity;
    if (idle_bytes + capacity > most_lent) {
      std::free(memory);
      return;
    }
    idle.emplace(capacity, memory);
    idle_bytes += capacity;
  }
};

BufferPool::BufferPool() : shelf_(std::make_shared<Shelf>()) {}

Result<ir::Tensor> BufferPool::tensor(ir::DType dtype, std::vector<int64_t> shape) {
  int64_t bytes = ir::size_of(dtype);
  bool overflow = false, empty = false;
  for (const int64_t extent : shape) {
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes);
  }
  if (overflow || bytes > physical_memory())
    return fail(fmt::format("a tensor {}{} is too large", name(dtype), ir::to_string(shape)), {},
                "use smaller dimensions");
  const size_t wanted = (static_cast<size_t>(empty ? 0 : bytes) + 64) / 64 * 64;
  size_t capacity = 0;
  std::byte* memory = shelf_->take(wanted, capacity);
  if (!memory) memory = allocate_aligned(capacity);
  if (!memory) {
    shelf_->forget(capacity);
    return fail(fmt::format("no memory for a tensor {}{} ({} bytes)", name(dtype),
                            ir::to_string(shape), bytes));
  }
  std::shared_ptr<std::byte> storage(
      memory, [shelf = shelf_, capacity](std::byte* p) { shelf->give_back(p, capacity); });
  return ir::Tensor::adopt(dtype, std::move(shape), std::move(storage));
}

}  // namespace attacca::run
