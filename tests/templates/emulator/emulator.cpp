#include "templates/emulator/emulator.hpp"

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <ucontext.h>
#include <vector>

#include "support/check.hpp"

dim3 threadIdx, blockIdx, gridDim;

namespace attacca::emulator {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kLanes = 32;

struct Copy {
  uint32_t to;
  const void* from;
  int bytes;
};

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
  std::deque<std::vector<Copy>> groups;  // committed, the oldest first
  std::vector<Copy> open;
};

// Where a number of threads meet: the last one to come acts for all.
struct Meeting {
  int size = 0, present = 0, round = 0;
};

struct WarpArguments {
  uint32_t address[kLanes];
  uint32_t (*matrices[kLanes])[4];
  float (*c[kLanes])[4];
  const uint32_t (*a[kLanes])[4];
  const uint32_t (*b[kLanes])[2];
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Meeting> warps;
  std::vector<WarpArguments> arguments;
  Meeting barrier;
  std::vector<char> shared;
  bool copies_at_once = false;
  ucontext_t scheduler;
  int current = 0;
  const std::function<void(char*)>* kernel = nullptr;
};

Block* block = nullptr;

char* shared_base() {
  // Aligned as dynamic shared memory is.
  const auto address = reinterpret_cast<uintptr_t>(block->shared.data());
  return block->shared.data() + (128 - address % 128) % 128;
}

Thread& current_thread() {
  return block->threads[static_cast<size_t>(block->current)];
}

void yield() {
  const int self = block->current;
  swapcontext(&current_thread().context, &block->scheduler);
  block->current = self;
  threadIdx = {static_cast<uint32_t>(self), 0, 0};
}

void meet(Meeting& meeting, const std::function<void()>& act) {
  const int round = meeting.round;
  if (++meeting.present == meeting.size) {
    act();
    meeting.present = 0;
    ++meeting.round;
    return;
  }
  while (meeting.round == round) yield();
}

// All lanes of a warp come with their arguments; `act` sees those of all.
template <class Put, class Act>
void warp_instruction(Put put, Act act) {
  const size_t warp = static_cast<size_t>(block->current) / kLanes;
  put(block->arguments[warp], block->current % kLanes);
  meet(block->warps[warp], [&] { act(block->arguments[warp]); });
}

void copy_now(const Copy& copy) {
  char* to = shared_base() + copy.to;
  std::memset(to, 0, 16);
  if (copy.bytes > 0) std::memcpy(to, copy.from, static_cast<size_t>(copy.bytes));
}

uint16_t element(uint32_t address, int index) {
  ATTACCA_CHECK(address % 16 == 0, "ldmatrix rows start at multiples of 16 bytes");
  uint16_t bits;
  std::memcpy(&bits, shared_base() + address + index * 2, sizeof bits);
  return bits;
}

void load_all_matrices(WarpArguments& all, bool transposed) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint32_t word = 0;
      for (int i = 0; i < 2; ++i) {
        const int row = transposed ? lane % 4 * 2 + i : lane / 4;
        const int column = transposed ? lane / 4 : lane % 4 * 2 + i;
        word |= uint32_t{element(all.address[matrix * 8 + row], column)} << (16 * i);
      }
      (*all.matrices[lane])[matrix] = word;
    }
  }
}

float bf16(uint32_t word, int half) {
  return std::bit_cast<float>(half ? word & 0xffff0000u : word << 16);
}

// As the PTX manual places the fragments of m16n8k16.
float a_element(const WarpArguments& all, int row, int k) {
  const int lane = row % 8 * 4 + k % 8 / 2;
  return bf16((*all.a[lane])[k / 8 * 2 + row / 8], k % 2);
}
float b_element(const WarpArguments& all, int k, int column) {
  return bf16((*all.b[column * 4 + k % 8 / 2])[k / 8], k % 2);
}

void multiply_all(WarpArguments& all) {
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a_element(all, row, k) * b_element(all, k, column);
      (*all.c[row % 8 * 4 + column / 2])[row / 8 * 2 + column % 2] += sum;
    }
  }
}

void thread_main() {
  (*block->kernel)(shared_base());
  current_thread().done = true;
  swapcontext(&current_thread().context, &block->scheduler);
}

void start(Thread& thread) {
  thread.stack = std::make_unique<char[]>(kStackBytes);
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = kStackBytes;
  thread.context.uc_link = nullptr;
  makecontext(&thread.context, thread_main, 0);
}

void run_block(const Launch& launch, const std::function<void(char*)>& kernel, uint32_t seed) {
  Block here;
  block = &here;
  here.threads.resize(static_cast<size_t>(launch.threads));
  here.warps.resize(here.threads.size() / kLanes, Meeting{kLanes, 0, 0});
  here.arguments.resize(here.warps.size());
  here.barrier.size = launch.threads;
  // Garbage that no product survives unnoticed.
  here.shared.assign(static_cast<size_t>(launch.shared_bytes) + 128, '\x7f');
  here.copies_at_once = launch.copies_at_once;
  here.kernel = &kernel;
  for (Thread& thread : here.threads) start(thread);
  std::vector<int> order(here.threads.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::minstd_rand random(seed);
  for (bool busy = true; busy;) {
    std::shuffle(order.begin(), order.end(), random);
    busy = false;
    for (int index : order) {
      Thread& thread = here.threads[static_cast<size_t>(index)];
      if (thread.done) continue;
      busy = true;
      here.current = index;
      threadIdx = {static_cast<uint32_t>(index), 0, 0};
      swapcontext(&here.scheduler, &thread.context);
    }
  }
  block = nullptr;
}

}  // namespace

void launch(const Launch& launch, const std::function<void(char*)>& kernel) {
  gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
  uint32_t seed = launch.seed;
  for (uint32_t z = 0; z < launch.grid[2]; ++z) {
    for (uint32_t y = 0; y < launch.grid[1]; ++y) {
      for (uint32_t x = 0; x < launch.grid[0]; ++x) {
        blockIdx = {x, y, z};
        run_block(launch, kernel, ++seed);
      }
    }
  }
}

}  // namespace attacca::emulator

using namespace attacca::emulator;

void check_aligned(const void* pointer, size_t bytes) {
  ATTACCA_CHECK(reinterpret_cast<uintptr_t>(pointer) % bytes == 0, "a misaligned device access");
}

void __syncthreads() {
  meet(block->barrier, [] {});
}

uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const char*>(pointer) - shared_base());
}

void copy_async(uint32_t to, const void* from, int bytes) {
  ATTACCA_CHECK(to % 16 == 0 && bytes >= 0 && bytes <= 16, "cp.async of 16 bytes at a multiple");
  if (bytes > 0) check_aligned(from, 16);
  const Copy copy{to, from, bytes};
  if (block->copies_at_once) {
    copy_now(copy);
  } else {
    current_thread().open.push_back(copy);
  }
}

void commit_copies() {
  current_thread().groups.push_back(std::move(current_thread().open));
  current_thread().open.clear();
}

void wait_copies(int pending) {
  auto& groups = current_thread().groups;
  while (groups.size() > static_cast<size_t>(pending)) {
    for (const Copy& copy : groups.front()) copy_now(copy);
    groups.pop_front();
  }
}

void load_matrices(uint32_t (&to)[4], uint32_t address) {
  warp_instruction(
      [&](WarpArguments& all, int lane) {
        all.matrices[lane] = &to;
        all.address[lane] = address;
      },
      [](WarpArguments& all) { load_all_matrices(all, false); });
}

void load_matrices_transposed(uint32_t (&to)[4], uint32_t address) {
  warp_instruction(
      [&](WarpArguments& all, int lane) {
        all.matrices[lane] = &to;
        all.address[lane] = address;
      },
      [](WarpArguments& all) { load_all_matrices(all, true); });
}

void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  warp_instruction(
      [&](WarpArguments& all, int lane) {
        all.c[lane] = &c;
        all.a[lane] = &a;
        all.b[lane] = &b;
      },
      [](WarpArguments& all) { multiply_all(all); });
}
