// Threads, their registers and the memory they see; instructions as closures over them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/syntax/syntax.hpp"
#include "ptx_interpreter/interpreter.hpp"

namespace attacca::ptx_interpreter {

inline constexpr uint32_t kWarpSize = 32;

enum class Space : uint8_t { Generic, Global, Shared, Local, Parameter };
// Where shared, local and parameter memory lie in generic addresses; each window has 4 GiB.
uint64_t window_of(Space space);

struct Code;
struct Block;

struct Slot {  // of a frame's params
  uint32_t offset = 0, bytes = 0;
};

struct Frame {
  const Code* code = nullptr;
  size_t at = 0;  // the next step
  std::vector<uint64_t> registers;
  std::vector<std::byte> params;  // of a function: its formals, results and arguments of calls
  uint64_t local_base = 0;
  std::vector<Slot> results;  // where the caller's frame wants them
};

enum class State : uint8_t { Ready, AtBarrier, AtCollective, Done };

struct Thread {
  Block* block = nullptr;
  Extent3 index;  // %tid
  uint32_t warp = 0, lane = 0;
  State state = State::Ready;
  uint32_t barrier = 0, barrier_count = 0;  // AtBarrier; count 0: the whole block
  std::vector<Frame> frames;
  std::vector<std::byte> local;
  std::string fault;  // what went wrong, where not empty

  Frame& frame() { return frames.back(); }
  // The bytes at an address; or null, and the reason as the fault.
  std::byte* memory(Space space, uint64_t address, uint32_t bytes);
};

struct Grid {
  Extent3 blocks, threads;
  uint32_t static_shared = 0, shared_bytes = 0;
  std::vector<std::byte> parameters;
  Memory* memory = nullptr;
  const std::function<void(Memory& memory)>* asleep = nullptr;
  uint64_t nanoseconds = 0;  // %globaltimer, which each read advances by a microsecond
};

struct Block {
  Grid* grid = nullptr;
  Extent3 index;  // %ctaid
  std::vector<std::byte> shared;
  std::vector<Thread> threads;
};

using Read = std::function<uint64_t(Thread&)>;
using Write = std::function<void(Thread&, uint64_t)>;
// Does one step; the frame is already at the next one. Sets thread.fault if the step fails.
using Action = std::function<void(Thread&)>;
// The same for all lanes of a warp that take part; null for each other lane.
using Lanes = std::array<Thread*, kWarpSize>;
using WarpAction = std::function<void(Lanes&)>;

struct Step {
  const ptx::Instruction* source = nullptr;
  std::optional<Read> guard = {};  // runs where not 0
  Action run = {};
  Read mask = {};            // of the lanes that a warp action waits for
  WarpAction run_warp = {};  // in place of run
};

struct Code {
  const ptx::Function* function = nullptr;
  std::vector<Step> steps;
  size_t registers = 0;
  uint32_t param_bytes = 0;
  uint32_t local_bytes = 0;
  std::vector<Slot> formals, results;  // in the frame's params; of an entry: in the grid's
};

// The functions that an entry reaches, and where the module's variables lie.
struct Program {
  const ptx::Module* module = nullptr;
  std::map<std::string_view, std::unique_ptr<Code>> functions;
  const Code* entry = nullptr;
  uint32_t static_shared = 0;
};

// Allocates and fills the global variables that the entry reaches.
Result<Program> decode(const ptx::Module& module, std::string_view entry, Memory& memory);

}  // namespace attacca::ptx_interpreter
