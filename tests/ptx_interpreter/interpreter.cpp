#include "ptx_interpreter/interpreter.hpp"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"

#include "ptx_interpreter/machine.hpp"
#include "support/check.hpp"

namespace attacca::ptx_interpreter {

uint64_t Memory::allocate(size_t bytes, std::byte fill) {
  const uint64_t address = next_;
  next_ += (bytes / kGap + 2) * kGap;
  allocations_[address] = std::vector<std::byte>(bytes, fill);
  return address;
}

std::span<std::byte> Memory::bytes(uint64_t address) {
  const auto at = allocations_.find(address);
  ATTACCA_CHECK(at != allocations_.end(), "no allocation");
  return at->second;
}

std::byte* Memory::find(uint64_t address, uint64_t bytes) {
  auto at = allocations_.upper_bound(address);
  if (at == allocations_.begin()) return nullptr;
  --at;
  const uint64_t offset = address - at->first;
  if (offset > at->second.size() || bytes > at->second.size() - offset) return nullptr;
  return at->second.data() + offset;
}

uint64_t window_of(Space space) {
  constexpr uint64_t kFirst = uint64_t{0x100} << 32;
  switch (space) {
    case Space::Shared:
      return kFirst;
    case Space::Local:
      return 2 * kFirst;
    case Space::Parameter:
      return 3 * kFirst;
    case Space::Global:
    case Space::Generic:
      break;
  }
  return 0;
}

namespace {

constexpr uint64_t kWindowBytes = uint64_t{1} << 32;

std::byte* inside(std::vector<std::byte>& bytes, uint64_t offset, uint64_t count) {
  return offset <= bytes.size() && count <= bytes.size() - offset ? bytes.data() + offset : nullptr;
}

}  // namespace

std::byte* Thread::memory(Space space, uint64_t address, uint32_t bytes) {
  const uint64_t asked = address;
  if (space == Space::Generic) {
    space = Space::Global;
    for (const Space window : {Space::Shared, Space::Local, Space::Parameter})
      if (address - window_of(window) < kWindowBytes) space = window;
    // An entry's parameters are addressed within their window always.
    if (space != Space::Parameter) address -= window_of(space);
  }
  std::byte* data = nullptr;
  if (space == Space::Global) data = block->grid->memory->find(address, bytes);
  if (space == Space::Shared) data = inside(block->shared, address, bytes);
  if (space == Space::Local) data = inside(local, address, bytes);
  if (space == Space::Parameter)
    data = inside(block->grid->parameters, address - window_of(space), bytes);
  if (data == nullptr)
    fault = fmt::format("{} bytes at 0x{:x} are outside of memory", bytes, asked);
  else if (address % bytes != 0)
    fault = fmt::format("{} bytes at 0x{:x} are misaligned", bytes, asked);
  return fault.empty() ? data : nullptr;
}

namespace {

class BlockRunner {
 public:
  BlockRunner(const Program& program, Block& block, uint64_t& steps_left)
      : program_(program), block_(block), steps_left_(steps_left) {}

  Status run() {
    while (true) {
      for (Thread& thread : block_.threads) {
        ATTACCA_TRY_VOID(advance(thread));
      }
      const bool is_done = std::ranges::all_of(
          block_.threads, [](const Thread& thread) { return thread.state == State::Done; });
      if (is_done) return {};
      ATTACCA_TRY(const bool warps_moved, release_warps());
      if (!warps_moved && !release_barriers()) return deadlock();
    }
  }

 private:
  // Until it waits or ends.
  Status advance(Thread& thread) {
    while (thread.state == State::Ready) {
      Frame& frame = thread.frame();
      if (frame.at == frame.code->steps.size()) {  // off the end, which counts as ret
        thread.state = State::Done;
        break;
      }
      const Step& step = frame.code->steps[frame.at];
      if (steps_left_-- == 0) return fault(thread, step, "too many steps");
      if (step.guard && (*step.guard)(thread) == 0) {
        ++frame.at;
      } else if (step.run_warp) {
        thread.state = State::AtCollective;
      } else {
        ++frame.at;
        step.run(thread);
        if (!thread.fault.empty()) return fault(thread, step, thread.fault);
      }
    }
    return {};
  }

  static const Step& waiting_step(Thread& thread) {
    return thread.frame().code->steps[thread.frame().at];
  }

  // Lets every group of lanes that is complete do what it waits for together.
  Result<bool> release_warps() {
    bool moved = false;
    for (Thread& thread : block_.threads) {
      if (thread.state != State::AtCollective) continue;
      Lanes lanes{};
      if (!collect(thread, lanes)) continue;
      const Step& step = waiting_step(thread);
      step.run_warp(lanes);
      for (Thread* lane : lanes) {
        if (lane == nullptr) continue;
        if (!lane->fault.empty())
          return tl::make_unexpected(fault(*lane, step, lane->fault).error());
        ++lane->frame().at;
        lane->state = State::Ready;
      }
      moved = true;
    }
    return moved;
  }

  // The lanes of this thread's mask; false where one has not come yet.
  bool collect(Thread& thread, Lanes& lanes) {
    const Step& step = waiting_step(thread);
    const uint64_t mask = step.mask(thread);
    if ((mask >> thread.lane & 1) == 0) return false;
    const size_t first = size_t{thread.warp} * kWarpSize;
    for (uint32_t lane = 0; lane < kWarpSize && first + lane < block_.threads.size(); ++lane) {
      Thread& other = block_.threads[first + lane];
      if ((mask >> lane & 1) == 0 || other.state == State::Done) continue;
      if (other.state != State::AtCollective || &waiting_step(other) != &step) return false;
      lanes[lane] = &other;
    }
    return true;
  }

  bool release_barriers() {
    std::map<uint32_t, uint32_t> arrived, needed;
    uint32_t alive = 0;
    for (const Thread& thread : block_.threads) alive += thread.state != State::Done;
    for (const Thread& thread : block_.threads) {
      if (thread.state != State::AtBarrier) continue;
      ++arrived[thread.barrier];
      needed[thread.barrier] = thread.barrier_count == 0 ? alive : thread.barrier_count;
    }
    bool moved = false;
    for (Thread& thread : block_.threads) {
      if (thread.state != State::AtBarrier) continue;
      if (arrived[thread.barrier] < needed[thread.barrier]) continue;
      thread.state = State::Ready;
      moved = true;
    }
    return moved;
  }

  Status deadlock() {
    for (Thread& thread : block_.threads)
      if (thread.state != State::Done) {
        const size_t back = thread.state == State::AtBarrier ? 1 : 0;
        const Step& step = thread.frame().code->steps[thread.frame().at - back];
        return fault(thread, step, "waits for threads that never come");
      }
    return {};
  }

  Status fault(const Thread& thread, const Step& step, std::string_view what) const {
    const Extent3 t = thread.index, b = block_.index;
    return fail(fmt::format("{}: {} (thread {},{},{} of block {},{},{})", what,
                            program_.module->text(step.source->span), t.x, t.y, t.z, b.x, b.y, b.z),
                program_.module->where(step.source->span));
  }

  const Program& program_;
  Block& block_;
  uint64_t& steps_left_;
};

Extent3 unflatten(uint64_t i, const Extent3& extent) {
  return {static_cast<uint32_t>(i % extent.x), static_cast<uint32_t>(i / extent.x % extent.y),
          static_cast<uint32_t>(i / extent.x / extent.y)};
}

void start_block(const Program& program, Grid& grid, Block& block) {
  block.grid = &grid;
  block.shared.assign(grid.static_shared + grid.shared_bytes, std::byte{0xCD});
  block.threads.resize(grid.threads.count());
  for (size_t i = 0; i < block.threads.size(); ++i) {
    Thread& thread = block.threads[i];
    thread.block = &block;
    thread.index = unflatten(i, grid.threads);
    thread.warp = static_cast<uint32_t>(i) / kWarpSize;
    thread.lane = static_cast<uint32_t>(i) % kWarpSize;
    thread.local.resize(program.entry->local_bytes);
    Frame frame;
    frame.code = program.entry;
    frame.registers.resize(program.entry->registers);
    frame.params.resize(program.entry->param_bytes);
    thread.frames.push_back(std::move(frame));
  }
}

Result<std::vector<std::byte>> lay_out(const Launch& launch, const Code& entry) {
  if (launch.parameters.size() != entry.formals.size())
    return fail(fmt::format("{} takes {} parameters, got {}", launch.entry, entry.formals.size(),
                            launch.parameters.size()));
  std::vector<std::byte> bytes(entry.param_bytes);
  for (size_t i = 0; i < entry.formals.size(); ++i) {
    if (launch.parameters[i].size() != entry.formals[i].bytes)
      return fail(fmt::format("parameter {} of {} has {} bytes, got {}", i, launch.entry,
                              entry.formals[i].bytes, launch.parameters[i].size()));
    std::ranges::copy(launch.parameters[i], bytes.begin() + entry.formals[i].offset);
  }
  return bytes;
}

}  // namespace

Status run(const ptx::Module& module, const Launch& launch, Memory& memory) {
  ATTACCA_TRY(const Program program, decode(module, launch.entry, memory));
  Grid grid{launch.grid, launch.block, program.static_shared, launch.shared_bytes,
            {},          &memory,      &launch.asleep,        0};
  ATTACCA_TRY(grid.parameters, lay_out(launch, *program.entry));
  uint64_t steps_left = launch.most_steps;
  for (uint64_t i = 0; i < launch.grid.count(); ++i) {
    Block block;
    block.index = unflatten(i, launch.grid);
    start_block(program, grid, block);
    ATTACCA_TRY_VOID(BlockRunner(program, block, steps_left).run());
  }
  return {};
}

}  // namespace attacca::ptx_interpreter
