// Memory of a GPU, or page-locked host memory, that is kept when it is given back: the driver's own
// functions wait for the whole device. A block is handed out again when the work that may still use
// it is done, or to the stream on which that work is.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "attacca/attacca.hpp"

namespace attacca::ort {

enum class Memory : uint8_t { Device, PinnedHost };

// For any number of threads.
class Pool {
 public:
  Pool(Device device, Memory memory) : device_(std::move(device)), memory_(memory) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  // Aligned to 256 bytes; 0 bytes: a null pointer. `stream`: the one on which the block is used
  // alone; null: any. Errors: the device has no more memory.
  Result<void*> allocate(size_t bytes, void* stream);
  // Work that uses the block may still be on its stream, or, where it has none, on any.
  void give_back(void* block);

  // Work was put on the stream; all of its work is done.
  void busy(void* stream);
  void idle(void* stream);

 private:
  using Streams = std::set<void*>;
  struct Block {
    size_t bytes = 0;
    void* stream = nullptr;
    Streams waits = {};  // of a free block: streams with work that may use it
  };
  using Free = std::multimap<size_t, void*>;

  void* reuse(size_t bytes, void* stream);
  Result<void*> from_driver(size_t bytes) const;
  void to_driver(void* block) const;
  void drop_free();

  const Device device_;
  const Memory memory_;
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  Free free_;     // by size
  Streams busy_;  // streams with work
};

}  // namespace attacca::ort
