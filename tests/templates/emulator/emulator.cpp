#include "templates/emulator/emulator.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "ir/graph/dtype.hpp"
#include "support/check.hpp"
#include "templates/kernels/common/element.cuh"

dim3 threadIdx, blockIdx, gridDim;

// Keeps where this stack goes on in *from and goes on where `to` was kept. swapcontext() does the
// same with a system call, which takes longer than what a thread does between two of them.
extern "C" void attacca_switch_stack(void** from, void* to);
asm(R"(
.text
.type attacca_switch_stack, @function
attacca_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size attacca_switch_stack, . - attacca_switch_stack
)");

namespace attacca::emulator {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kLanes = 32, kGroupThreads = 128;
constexpr int kSlowness = 4;  // passes to one of a slow warp
constexpr size_t kSharedAlignment = 1024;
constexpr int kMostPasses = 1 << 17;  // over the threads of a cluster: more, and it hangs

struct Copy {
  uint32_t to;
  const void* from;
  int bytes;
};

struct Thread {
  void* stack_pointer = nullptr;  // where it goes on
  bool done = false;
  std::deque<std::vector<Copy>> groups;  // committed, the oldest first
  std::vector<Copy> open;
  std::vector<std::function<void()>> words;  // copies that no barrier waits for yet
  // Copies out of shared memory, likewise.
  std::deque<std::vector<std::function<void()>>> results;
  std::vector<std::function<void()>> open_results;
};

// A barrier of a number of threads: the last one to arrive acts for all.
struct Meeting {
  int size = 0, present = 0, round = 0;
};

struct WarpArguments {
  uint32_t address[kLanes];
  uint32_t (*matrices[kLanes])[4];
  void* c[kLanes];
  const uint32_t (*a[kLanes])[4];
  const uint32_t (*b[kLanes])[2];
  uint32_t words[kLanes];
  uint32_t* received[kLanes];
};

// A phase ends when so many threads have arrived and all bytes that were announced have come.
struct TransactionBarrier {
  int arrivals = 0, missing = 0;
  int64_t bytes = 0;
  uint32_t phase = 0;
};

struct GroupArguments {
  void* d[kGroupThreads];
  const uint32_t (*a[kGroupThreads])[4];
};

// A warpgroup's products: those that were committed, the oldest first, and those that were not.
struct Group {
  Meeting meeting{kGroupThreads, 0, 0};
  GroupArguments arguments;
  std::vector<std::function<void()>> open;
  std::deque<std::vector<std::function<void()>>> committed;
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Meeting> warps;
  std::vector<WarpArguments> arguments;
  std::vector<Group> groups;
  Meeting barrier;
  std::map<uint32_t, TransactionBarrier> barriers;
  std::vector<char> shared;
  int rank = 0;  // in the cluster
  dim3 index;
};

struct Cluster {
  std::vector<Block> blocks;
  Meeting barrier;
  bool copies_at_once = false;
  std::vector<std::function<void()>> copies;  // of boxes, under way
  void* scheduler = nullptr;                  // its stack pointer
  const std::function<void(char*)>* kernel = nullptr;
};

Cluster* cluster = nullptr;
// The running thread.
Block* block = nullptr;
int current = 0;

char* shared_base(Block& of) {
  // Aligned as dynamic shared memory may be.
  const auto address = reinterpret_cast<uintptr_t>(of.shared.data());
  return of.shared.data() + (kSharedAlignment - address % kSharedAlignment) % kSharedAlignment;
}
char* shared_base() {
  return shared_base(*block);
}

Thread& current_thread() {
  return block->threads[static_cast<size_t>(current)];
}

// The scheduler makes this the running thread again.
void yield() {
  attacca_switch_stack(&current_thread().stack_pointer, cluster->scheduler);
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

// All lanes of a warp arrive with their arguments; `act` gets the arguments of all.
template <class Put, class Act>
void warp_instruction(Put put, Act act) {
  const size_t warp = static_cast<size_t>(current) / kLanes;
  put(block->arguments[warp], current % kLanes);
  meet(block->warps[warp], [&] { act(block->arguments[warp]); });
}

void copy_now(Block& of, const Copy& copy) {
  char* to = shared_base(of) + copy.to;
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

// Beyond those of common/element.cuh.
constexpr int kElementF16 = 100;

int bytes_of(int element) {
  return element == ELEMENT_BF16 || element == kElementF16 ? 2 : 1;
}

double value_of(int element, uint32_t bits) {
  if (element == ELEMENT_BF16) return ir::decode16(ir::DType::BF16, static_cast<uint16_t>(bits));
  if (element == kElementF16) return ir::decode16(ir::DType::F16, static_cast<uint16_t>(bits));
  if (element == ELEMENT_E4M3) return ir::decode8(ir::DType::F8E4M3, static_cast<uint8_t>(bits));
  return static_cast<int8_t>(bits);
}

// Accumulator `index` of a thread; products of the tests are whole numbers.
void accumulate(int element, void* accumulators, int index, double sum, bool add) {
  if (element == ELEMENT_S8) {
    int32_t& to = static_cast<int32_t*>(accumulators)[index];
    to = (add ? to : 0) + static_cast<int32_t>(sum);
  } else {
    float& to = static_cast<float*>(accumulators)[index];
    to = (add ? to : 0) + static_cast<float>(sum);
  }
}

// As the PTX manual places the fragments of m16n8k16, and of m16n8k32 for bytes: a word has four
// bytes of k, of which 32 are multiplied.
double byte_element(int element, const uint32_t* words, int k) {
  const int bytes = bytes_of(element), at = k * bytes;
  const uint32_t bits = words[at / 16] >> (at % 4 * 8);
  return value_of(element, bytes == 2 ? bits & 0xffff : bits & 0xff);
}
double a_element(int element, const WarpArguments& all, int row, int k) {
  const int lane = row % 8 * 4 + k * bytes_of(element) % 16 / 4;
  const auto& words = *all.a[lane];
  const uint32_t of_row[] = {words[row / 8], words[2 + row / 8]};
  return byte_element(element, of_row, k);
}
double b_element(int element, const WarpArguments& all, int k, int column) {
  return byte_element(element, *all.b[column * 4 + k * bytes_of(element) % 16 / 4], k);
}

void multiply_all(int element, WarpArguments& all) {
  constexpr int kMostK = kStepBytes;
  const int values = kStepBytes / bytes_of(element);
  double a[16][kMostK], b[kMostK][8];
  for (int k = 0; k < values; ++k) {
    for (int row = 0; row < 16; ++row) a[row][k] = a_element(element, all, row, k);
    for (int column = 0; column < 8; ++column) b[k][column] = b_element(element, all, k, column);
  }
  for (int row = 0; row < 16; ++row) {
    double sums[8] = {};  // the compiler adds several at once
    for (int k = 0; k < values; ++k)
      for (int column = 0; column < 8; ++column) sums[column] += a[row][k] * b[k][column];
    for (int column = 0; column < 8; ++column)
      accumulate(element, all.c[row % 8 * 4 + column / 2], row / 8 * 2 + column % 2, sums[column],
                 true);
  }
}

void thread_main() {
  (*cluster->kernel)(shared_base());
  ATTACCA_CHECK(current_thread().results.empty() && current_thread().open_results.empty(),
                "a thread ended before its results were read");
  current_thread().done = true;
  yield();
}

// The stacks of a cluster's threads, which the next cluster's take over.
char* stack(size_t index) {
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= index) stacks.emplace_back(new char[kStackBytes]);
  char* const result = stacks[index].get();
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(result, kStackBytes);  // the last thread left its frames there
#endif
  return result;
}

// A stack that attacca_switch_stack() enters thread_main() from.
void* first_stack_pointer(size_t index) {
  constexpr size_t kSavedRegisters = 6;
  const auto top = reinterpret_cast<uintptr_t>(stack(index) + kStackBytes) / 16 * 16;
  // The registers, where to go, and the address that thread_main() would return to.
  auto* const words = reinterpret_cast<void**>(top) - kSavedRegisters - 2;
  std::fill(words, words + kSavedRegisters, nullptr);
  words[kSavedRegisters] = reinterpret_cast<void*>(thread_main);
  words[kSavedRegisters + 1] = nullptr;
  return words;
}

void set_up(Block& of, const Launch& launch) {
  of.threads.resize(static_cast<size_t>(launch.threads));
  of.warps.resize(of.threads.size() / kLanes, Meeting{kLanes, 0, 0});
  of.arguments.resize(of.warps.size());
  of.groups.resize(of.threads.size() / kGroupThreads);
  of.barrier.size = launch.threads;
  // A value that makes every product wrong.
  of.shared.assign(static_cast<size_t>(launch.shared_bytes) + kSharedAlignment, '\x7f');
}

void resume(Block& of, int index) {
  block = &of;
  current = index;
  threadIdx = {static_cast<uint32_t>(index), 0, 0};
  blockIdx = of.index;
  attacca_switch_stack(&cluster->scheduler, current_thread().stack_pointer);
}

void finish_some_copies(std::minstd_rand& random) {
  auto& copies = cluster->copies;
  // Blocks send each other many small ones.
  for (size_t some = random() % (2 + copies.size() / 8); some > 0; --some) {
    if (copies.empty()) return;
    std::swap(copies[random() % copies.size()], copies.back());
    const std::function<void()> copy = std::move(copies.back());
    copies.pop_back();
    copy();
  }
}

// `first`: the index of the cluster's first block.
void run_cluster(const Launch& launch, const std::function<void(char*)>& kernel, dim3 first,
                 uint32_t seed) {
  Cluster here;
  cluster = &here;
  here.copies_at_once = launch.copies_at_once;
  here.kernel = &kernel;
  here.barrier.size = launch.threads * launch.cluster;
  here.blocks.resize(static_cast<size_t>(launch.cluster));
  std::vector<std::pair<Block*, int>> order;
  for (int rank = 0; rank < launch.cluster; ++rank) {
    Block& each = here.blocks[static_cast<size_t>(rank)];
    set_up(each, launch);
    each.rank = rank;
    for (size_t i = 0; i < each.threads.size(); ++i)
      each.threads[i].stack_pointer = first_stack_pointer(order.size() + i);
    each.index = {first.x + static_cast<uint32_t>(rank), first.y, first.z};
    for (int i = 0; i < launch.threads; ++i) order.emplace_back(&each, i);
  }
  std::minstd_rand random(seed);
  const int warps = launch.threads / kLanes;
  const int slow = launch.slow_warp ? static_cast<int>(random()) % warps : -1;
  int passes = 0;
  for (bool busy = true; busy; ++passes) {
    ATTACCA_CHECK(passes < kMostPasses, "the kernel hangs");
    std::shuffle(order.begin(), order.end(), random);
    busy = false;
    for (const auto& [of, index] : order) {
      if (of->threads[static_cast<size_t>(index)].done) continue;
      busy = true;
      if (index / kLanes == slow && passes % kSlowness != 0) continue;
      resume(*of, index);
    }
    finish_some_copies(random);
  }
  ATTACCA_CHECK(here.copies.empty(), "a block ended before its copies");
  cluster = nullptr;
  block = nullptr;
}

}  // namespace

void launch(const Launch& launch, const std::function<void(char*)>& kernel) {
  gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
  uint32_t seed = launch.seed;
  for (uint32_t z = 0; z < launch.grid[2]; ++z) {
    for (uint32_t y = 0; y < launch.grid[1]; ++y) {
      for (uint32_t x = 0; x < launch.grid[0]; x += static_cast<uint32_t>(launch.cluster))
        run_cluster(launch, kernel, {x, y, z}, ++seed);
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

void __syncwarp() {
  warp_instruction([](WarpArguments&, int) {}, [](WarpArguments&) {});
}

namespace {

// The value of the lane that `of` gives for this one.
uint32_t value_of_lane(uint32_t value, const std::function<int(int)>& of) {
  uint32_t received = 0;
  warp_instruction(
      [&](WarpArguments& all, int lane) {
        all.words[lane] = value;
        all.received[lane] = &received;
      },
      [&](WarpArguments& all) {
        for (int lane = 0; lane < kLanes; ++lane) *all.received[lane] = all.words[of(lane)];
      });
  return received;
}

}  // namespace

uint32_t exchange_lanes(uint32_t value, int bits) {
  return value_of_lane(value, [=](int lane) { return lane ^ bits; });
}

int lane_before(int value, int distance) {
  return static_cast<int>(value_of_lane(static_cast<uint32_t>(value), [=](int lane) {
    return lane < distance ? lane : lane - distance;
  }));
}

int last_lane(int value) {
  return static_cast<int>(
      value_of_lane(static_cast<uint32_t>(value), [](int) { return kLanes - 1; }));
}

bool elected() {
  return threadIdx.x % kLanes == 0;
}

uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const char*>(pointer) - shared_base());
}

void copy_async(uint32_t to, const void* from, int bytes) {
  ATTACCA_CHECK(to % 16 == 0 && bytes >= 0 && bytes <= 16, "cp.async of 16 bytes at a multiple");
  if (bytes > 0) check_aligned(from, 16);
  const Copy copy{to, from, bytes};
  if (cluster->copies_at_once) {
    copy_now(*block, copy);
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
    for (const Copy& copy : groups.front()) copy_now(*block, copy);
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

void multiply_fragments(int element, void* c, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  warp_instruction(
      [&](WarpArguments& all, int lane) {
        all.c[lane] = c;
        all.a[lane] = &a;
        all.b[lane] = &b;
      },
      [element](WarpArguments& all) { multiply_all(element, all); });
}

void multiply_halves(bool bf16, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  multiply_fragments(bf16 ? ELEMENT_BF16 : kElementF16, c, a, b);
}

uint32_t multiply_add_pair(bool bf16, uint32_t a, uint32_t b, uint32_t c) {
  const attacca::ir::DType dtype = bf16 ? attacca::ir::DType::BF16 : attacca::ir::DType::F16;
  uint32_t result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto half = [&](uint32_t word) {
      return double{attacca::ir::decode16(dtype, static_cast<uint16_t>(word >> shift))};
    };
    // Exact before it is rounded: the operands have at most 11 bits.
    const auto sum = static_cast<float>(attacca::ir::round_to(dtype, half(a) * half(b) + half(c)));
    result |= uint32_t{attacca::ir::encode16(dtype, sum)} << shift;
  }
  return result;
}

uint32_t pair_of_floats(bool bf16, float low, float high) {
  const attacca::ir::DType dtype = bf16 ? attacca::ir::DType::BF16 : attacca::ir::DType::F16;
  return attacca::ir::encode16(dtype, low) | uint32_t{attacca::ir::encode16(dtype, high)} << 16;
}

float float_of_half(uint32_t bits) {
  return attacca::ir::decode16(attacca::ir::DType::F16, static_cast<uint16_t>(bits));
}

uint32_t choose_bytes(uint32_t a, uint32_t b, uint32_t which) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(both >> (which >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
  return result;
}

// ---- Hopper

namespace {

// The contents of a tensor map, instead of the hardware's bits.
struct BoxMap {
  void* address;
  uint32_t extents[3];
  uint64_t strides[2];  // bytes
  uint32_t box[3];
  uint32_t bytes;  // of an element
};

constexpr uint32_t kRowBytes = 128;  // of a factor's box: the swizzle's span

// The 16-byte chunks of a row of `span` bytes are exchanged by the row's place in 8 rows.
uint32_t swizzled(uint32_t address, uint32_t span = kRowBytes) {
  return address ^ (address >> 7 & (span / 16 - 1)) << 4;
}

void settle(TransactionBarrier& barrier) {
  if (barrier.missing > 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.missing = barrier.arrivals;
}

TransactionBarrier& barrier_at(Block& of, uint32_t address) {
  const auto found = of.barriers.find(address);
  ATTACCA_CHECK(found != of.barriers.end(), "a barrier that was not initialised");
  return found->second;
}

// For each element of a box: its place in the map's memory, null outside, and in shared memory.
template <class Each>
void for_box(Block& of, uint32_t shared_at, const BoxMap& map, int column, int row, int batch,
             Each each) {
  const uint32_t span = map.box[0] * map.bytes;
  for (uint32_t r = 0; r < map.box[1]; ++r)
    for (uint32_t i = 0; i < map.box[0]; ++i) {
      const auto x = static_cast<uint32_t>(column) + i, y = static_cast<uint32_t>(row) + r;
      char* global = static_cast<char*>(map.address) + x * map.bytes + y * map.strides[0] +
                     static_cast<uint32_t>(batch) * map.strides[1];
      each(x < map.extents[0] && y < map.extents[1] ? global : nullptr,
           shared_base(of) + swizzled(shared_at + r * span + i * map.bytes, span));
    }
}

void copy_box_now(Block& to_block, uint32_t to, const BoxMap& map, uint32_t barrier, int k, int row,
                  int batch) {
  for_box(to_block, to, map, k, row, batch, [&](const char* global, char* shared) {
    constexpr uint16_t kZero = 0;
    std::memcpy(shared, global ? static_cast<const void*>(global) : &kZero, map.bytes);
  });
  TransactionBarrier& waiting = barrier_at(to_block, barrier);
  waiting.bytes -= map.box[1] * map.box[0] * map.bytes;
  settle(waiting);
}

// Of a tile that a descriptor describes, a step's values of k of so many rows. Transposed, a row of
// memory is 64 of these rows at one k.
std::vector<double> tile_rows(Block& of, int element, uint64_t descriptor, bool transposed,
                              int rows) {
  ATTACCA_CHECK(descriptor >> 62 == 1, "the descriptor's swizzle is of 128 bytes");
  ATTACCA_CHECK(!transposed || element == ELEMENT_BF16, "what is not bf16 is not transposed");
  const auto start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
  const auto groups_apart = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  const auto boxes_apart = static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
  const auto bytes = static_cast<uint32_t>(bytes_of(element));
  const uint32_t depth = kStepBytes / bytes;
  const auto address_of = [&](uint32_t row, uint32_t k) {
    if (transposed)
      return start + row / 64 * boxes_apart + k / 8 * groups_apart + k % 8 * kRowBytes +
             row % 64 * 2;
    return start + row / 8 * groups_apart + row % 8 * kRowBytes + k * bytes;
  };
  std::vector<double> values;
  for (uint32_t row = 0; row < static_cast<uint32_t>(rows); ++row)
    for (uint32_t k = 0; k < depth; ++k) {
      uint16_t bits = 0;
      std::memcpy(&bits, shared_base(of) + swizzled(address_of(row, k)), bytes);
      values.push_back(value_of(element, bits));
    }
  return values;
}

// The rows of a warpgroup's product whose fragments lie in registers.
std::vector<double> fragment_rows(int element, const GroupArguments& arguments) {
  std::vector<double> values;
  const int each = 4 / bytes_of(element), bits = 32 / each;  // values of a word
  for (int row = 0; row < 64; ++row)
    for (int k = 0; k < 8 * each; ++k) {
      const int thread = row / 16 * 32 + row % 8 * 4 + k % (4 * each) / each;
      const uint32_t word = (*arguments.a[thread])[row % 16 / 8 + k / (4 * each) * 2];
      values.push_back(value_of(element, word >> (k % each * bits) & ((1u << bits) - 1)));
    }
  return values;
}

// As the PTX manual places the accumulators of a warpgroup.
void multiply_group_now(const GroupProduct& product, const GroupArguments& arguments,
                        const std::vector<double>& rows, const std::vector<double>& columns) {
  const auto depth = static_cast<size_t>(kStepBytes / bytes_of(product.element));
  const auto n = static_cast<size_t>(product.n);
  std::vector<double> by_k(columns.size()), sums(n);  // the compiler adds several at once
  for (size_t column = 0; column < n; ++column)
    for (size_t k = 0; k < depth; ++k) by_k[k * n + column] = columns[column * depth + k];
  for (int row = 0; row < 64; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (size_t k = 0; k < depth; ++k) {
      const double factor = rows[static_cast<size_t>(row) * depth + k];
      for (size_t column = 0; column < n; ++column) sums[column] += factor * by_k[k * n + column];
    }
    for (int column = 0; column < product.n; ++column) {
      const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      accumulate(product.element, arguments.d[thread],
                 column / 8 * 4 + row % 16 / 8 * 2 + column % 2, sums[static_cast<size_t>(column)],
                 product.add);
    }
  }
}

BoxMap box_map(const void* map, uint32_t shared_at) {
  BoxMap box;
  std::memcpy(&box, map, sizeof box);
  ATTACCA_CHECK(shared_at % (box.box[0] * box.bytes * 8) == 0,
                "a box starts where the swizzle's pattern does");
  return box;
}

Group& current_group() {
  return block->groups[static_cast<size_t>(current / kGroupThreads)];
}

void multiply_group_registers(int element, int n, const uint32_t (&a)[4], uint64_t b, void* d) {
  Group& group = current_group();
  group.arguments.d[current % kGroupThreads] = d;
  group.arguments.a[current % kGroupThreads] = &a;
  Block* const of = block;
  meet(group.meeting, [&, of] {
    const auto multiply = [=, arguments = group.arguments] {
      multiply_group_now({element, n, 0, false, b, false, true}, arguments,
                         fragment_rows(element, arguments), tile_rows(*of, element, b, false, n));
    };
    if (cluster->copies_at_once)
      multiply();
    else
      group.open.emplace_back(multiply);
  });
}

}  // namespace

namespace attacca::emulator {

int encode_map(void* map, int type, uint32_t rank, const void* address, const uint64_t* extents,
               const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
               int interleave, int swizzle, int promotion, int fill) {
  const uint32_t bytes = type == 0 ? 1 : 2;
  const bool known = type <= 1 && rank == 3 && interleave == 0 && swizzle >= 0 && swizzle <= 3 &&
                     promotion <= 3 && fill == 0 && box[0] * bytes == 16u << swizzle;
  if (!known || reinterpret_cast<uintptr_t>(address) % 16 != 0) return 1;
  BoxMap made{const_cast<void*>(address), {}, {}, {}, bytes};
  for (int i = 0; i < 3; ++i) {
    if (extents[i] < 1 || box[i] < 1 || box[i] > 256 || element_strides[i] != 1) return 1;
    made.extents[i] = static_cast<uint32_t>(extents[i]);
    made.box[i] = box[i];
  }
  for (int i = 0; i < 2; ++i) {
    if (strides[i] % 16 != 0 || strides[i] >> 40 != 0) return 1;
    made.strides[i] = strides[i];
  }
  std::memcpy(map, &made, sizeof made);
  return 0;
}

}  // namespace attacca::emulator

void barrier_init(uint32_t barrier, int arrivals) {
  ATTACCA_CHECK(barrier % 8 == 0, "a misaligned barrier");
  block->barriers[barrier] = {arrivals, arrivals, 0, 0};
}

void barrier_expect(uint32_t barrier, int bytes) {
  TransactionBarrier& at = barrier_at(*block, barrier);
  at.bytes += bytes;
  --at.missing;
  settle(at);
}

void barrier_arrive(uint32_t of_cluster) {
  TransactionBarrier& at = barrier_at(cluster->blocks[of_cluster >> 24], of_cluster & 0xffffff);
  ATTACCA_CHECK(at.missing > 0, "more arrivals than the barrier counts");
  --at.missing;
  settle(at);
}

void wait_all_copies() {
  commit_copies();
  wait_copies(0);
}

void arrive_after_copies(uint32_t barrier) {
  const auto arrive = [=, &of = *block, copies = std::move(current_thread().open)] {
    for (const Copy& copy : copies) copy_now(of, copy);
    TransactionBarrier& at = barrier_at(of, barrier);
    ATTACCA_CHECK(at.missing > 0, "more arrivals than the barrier counts");
    --at.missing;
    settle(at);
  };
  current_thread().open.clear();
  if (cluster->copies_at_once)
    arrive();
  else
    cluster->copies.emplace_back(arrive);
}

void barrier_arrive_here(uint32_t barrier) {
  barrier_arrive(barrier, block_in_cluster());
}

bool barrier_passed(uint32_t barrier, uint32_t parity) {
  if ((barrier_at(*block, barrier).phase & 1) != parity) return true;
  yield();
  return false;
}

void send_four(uint32_t to, uint32_t barrier, uint32_t rank, const uint32_t (&four)[4]) {
  ATTACCA_CHECK(to % 16 == 0, "a misaligned store to another block");
  Block& of = cluster->blocks[rank];
  const std::array<uint32_t, 4> values = {four[0], four[1], four[2], four[3]};
  const auto store = [=, &of] {
    std::memcpy(shared_base(of) + to, values.data(), sizeof values);
    TransactionBarrier& at = barrier_at(of, barrier);
    at.bytes -= 16;
    settle(at);
  };
  if (cluster->copies_at_once)
    store();
  else
    cluster->copies.emplace_back(store);
}

uint32_t block_in_cluster() {
  return static_cast<uint32_t>(block->rank);
}

void cluster_sync() {
  meet(cluster->barrier, [] {});
}

float4 load_from_block(uint32_t address, uint32_t rank) {
  ATTACCA_CHECK(address % 16 == 0, "four floats lie at a multiple of 16");
  float4 four;
  std::memcpy(&four, shared_base(cluster->blocks[rank]) + address, sizeof four);
  return four;
}

void copy_box(uint32_t to, const void* map, uint32_t barrier, int k, int row, int batch) {
  copy_box_to_cluster(to, map, barrier, k, row, batch, static_cast<uint16_t>(1 << block->rank));
}

void copy_box_to_cluster(uint32_t to, const void* map, uint32_t barrier, int k, int row, int batch,
                         uint16_t mask) {
  const BoxMap box = box_map(map, to);
  for (Block& each : cluster->blocks) {
    if ((mask >> each.rank & 1) == 0) continue;
    const auto copy = [=, &each] { copy_box_now(each, to, box, barrier, k, row, batch); };
    if (cluster->copies_at_once)
      copy();
    else
      cluster->copies.emplace_back(copy);
  }
}

void copy_bytes(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  ATTACCA_CHECK(to % 16 == 0 && bytes % 16 == 0, "bulk copies are of multiples of 16 bytes");
  check_aligned(from, 16);
  const auto copy = [=, &of = *block] {
    std::memcpy(shared_base(of) + to, from, static_cast<size_t>(bytes));
    TransactionBarrier& waiting = barrier_at(of, barrier);
    waiting.bytes -= bytes;
    settle(waiting);
  };
  if (cluster->copies_at_once)
    copy();
  else
    cluster->copies.emplace_back(copy);
}

void copy_word(uint32_t to, const void* from, bool valid) {
  ATTACCA_CHECK(to % 4 == 0, "a word at a multiple of 4 bytes");
  if (valid) check_aligned(from, 4);
  current_thread().words.emplace_back([=, &of = *block] {
    constexpr uint32_t kZero = 0;
    std::memcpy(shared_base(of) + to, valid ? from : &kZero, sizeof kZero);
  });
}

void arrive_after_words(uint32_t barrier) {
  const auto arrive = [=, words = std::move(current_thread().words), &of = *block] {
    for (const std::function<void()>& copy : words) copy();
    TransactionBarrier& at = barrier_at(of, barrier);
    ATTACCA_CHECK(at.missing > 0, "more arrivals than the barrier counts");
    --at.missing;
    settle(at);
  };
  current_thread().words.clear();
  if (cluster->copies_at_once)
    arrive();
  else
    cluster->copies.emplace_back(arrive);
}

void copy_result(const void* map, uint32_t from, int column, int row, int batch) {
  const BoxMap box = box_map(map, from);
  const auto copy = [=, of = block] {
    for_box(*of, from, box, column, row, batch, [&](char* global, const char* shared) {
      if (global) std::memcpy(global, shared, box.bytes);
    });
  };
  if (cluster->copies_at_once)
    copy();
  else
    current_thread().open_results.emplace_back(copy);
}

void results_commit() {
  current_thread().results.push_back(std::move(current_thread().open_results));
  current_thread().open_results.clear();
}

void results_read(int pending) {
  auto& results = current_thread().results;
  while (results.size() > static_cast<size_t>(pending)) {
    for (const auto& copy : results.front()) copy();
    results.pop_front();
  }
}

void multiply_group(const GroupProduct& product, void* d) {
  Group& group = current_group();
  group.arguments.d[current % kGroupThreads] = d;
  Block* const of = block;
  meet(group.meeting, [&, of] {
    const auto multiply = [=, arguments = group.arguments] {
      multiply_group_now(
          product, arguments, tile_rows(*of, product.element, product.a, product.transposed_a, 64),
          tile_rows(*of, product.element, product.b, product.transposed_b, product.n));
    };
    if (cluster->copies_at_once)
      multiply();
    else
      group.open.emplace_back(multiply);
  });
}

void multiply_group_fragments(bool bf16, int n, const uint32_t (&a)[4], uint64_t b, void* d) {
  multiply_group_registers(bf16 ? ELEMENT_BF16 : kElementF16, n, a, b, d);
}
void multiply_group_bytes(int n, const uint32_t (&a)[4], uint64_t b, void* d) {
  multiply_group_registers(ELEMENT_S8, n, a, b, d);
}

void products_commit() {
  Group& group = current_group();
  meet(group.meeting, [&] {
    group.committed.push_back(std::move(group.open));
    group.open.clear();
  });
}

void products_wait(int pending) {
  Group& group = current_group();
  meet(group.meeting, [&] {
    while (group.committed.size() > static_cast<size_t>(pending)) {
      for (const auto& product : group.committed.front()) product();
      group.committed.pop_front();
    }
  });
}
