#include "ort/cuda/pool.hpp"

#include <algorithm>

namespace attacca::ort {
namespace {

constexpr size_t kAlignment = 256, kLarge = size_t{2} << 20;

// Few sizes, so that blocks fit again: steps of an eighth of the size below, whole multiples of
// 2 MiB from there on.
size_t rounded(size_t bytes) {
  size_t step = kAlignment;
  while (step * 16 <= bytes && step < kLarge) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Pool::~Pool() {
  for (const auto& [address, block] : blocks_) to_driver(address);
}

Result<void*> Pool::from_driver(size_t bytes) const {
  return memory_ == Memory::Device ? device_.allocate(bytes) : device_.allocate_host(bytes);
}

void Pool::to_driver(void* block) const {
  (void)(memory_ == Memory::Device ? device_.release(block) : device_.release_host(block));
}

Result<void*> Pool::allocate(size_t bytes, void* stream) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  const size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  if (void* known = reuse(size, stream)) return known;
  auto made = from_driver(size);
  if (!made && !free_.empty()) {
    drop_free();
    made = from_driver(size);
  }
  if (made) blocks_[*made] = {size, stream, {}};
  return made;
}

// The smallest free block that is not much larger than is asked for.
void* Pool::reuse(size_t bytes, void* stream) {
  for (auto at = free_.lower_bound(bytes); at != free_.end() && at->first <= 2 * bytes; ++at) {
    Block& block = blocks_[at->second];
    if (!std::all_of(block.waits.begin(), block.waits.end(),
                     [&](void* each) { return each == stream; }))
      continue;
    void* const address = at->second;
    block.stream = stream;
    block.waits.clear();
    free_.erase(at);
    return address;
  }
  return nullptr;
}

void Pool::drop_free() {
  (void)device_.synchronize();
  for (const auto& [size, address] : free_) {
    to_driver(address);
    blocks_.erase(address);
  }
  free_.clear();
}

void Pool::give_back(void* address) {
  if (address == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;
  Block& block = found->second;
  if (block.stream == nullptr)
    block.waits = busy_;
  else if (busy_.count(block.stream) != 0)
    block.waits = {block.stream};
  free_.emplace(block.bytes, address);
}

void Pool::busy(void* stream) {
  const std::lock_guard lock(mutex_);
  busy_.insert(stream);
}

void Pool::idle(void* stream) {
  const std::lock_guard lock(mutex_);
  busy_.erase(stream);
  for (const auto& [size, address] : free_) blocks_[address].waits.erase(stream);
}

}  // namespace attacca::ort
