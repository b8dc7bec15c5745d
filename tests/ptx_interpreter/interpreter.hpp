// A PTX interpreter for tests: runs a grid of small size on host memory, thread after thread, so
// that a kernel's results are known without a GPU. An unknown instruction, and every access outside
// of memory, is an error with the place in the PTX.
//
// Where to read: interpreter.cpp schedules blocks, warps and threads; decode.cpp makes instructions
// of the syntax tree; alu.cpp computes, memory_ops.cpp moves, warp_ops.cpp has what a warp does
// together; numbers.cpp rounds. Approximate instructions (ex2.approx, ...) give correctly rounded
// results, which are not a GPU's to the last bit. Threads run in order, each until it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx_interpreter {

// Global memory: allocations are far apart, so that an access beyond one does not reach another.
class Memory {
 public:
  // Aligned to 256. Returns the device address.
  uint64_t allocate(size_t bytes, std::byte fill = std::byte{0});
  // The host's view of an allocation. REQUIRES: an address that allocate() gave.
  std::span<std::byte> bytes(uint64_t address);
  // Null where [address, address + bytes) is not inside one allocation.
  std::byte* find(uint64_t address, uint64_t bytes);

 private:
  static constexpr uint64_t kGap = uint64_t{1} << 32;
  std::map<uint64_t, std::vector<std::byte>> allocations_;
  uint64_t next_ = uint64_t{0x7000} << 32;
};

struct Extent3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Launch {
  std::string entry;
  Extent3 grid, block;
  uint32_t shared_bytes = 0;                       // dynamic
  std::vector<std::vector<std::byte>> parameters;  // one a parameter of the entry
  uint64_t most_steps = 50'000'000;                // of all threads together
  // Called where a thread sleeps; may write what it waits for.
  std::function<void(Memory& memory)> asleep = {};
};

// Runs a kernel of the module. Global variables are initialised anew for each run.
Status run(const ptx::Module& module, const Launch& launch, Memory& memory);

}  // namespace attacca::ptx_interpreter
