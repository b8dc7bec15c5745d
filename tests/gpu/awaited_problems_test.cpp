// One launch for several problems whose operands come while it runs: real templates on the PTX
// interpreter, against sums in f64.
#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/several_kernels.hpp"

namespace attacca::gpu {
namespace {

constexpr std::string_view kGate = "silu(acc0) * acc1", kProduct = "silu(acc)";
constexpr uint32_t kHere = 7, kDone = 9;
constexpr int kSleeps = 3;  // before the next operand comes

struct Sizes {
  int m = 0, n = 0, k = 0;
};

// The rows of one rank, of which memory has none before they come with the second of two words, and
// their result, behind which another word becomes kDone.
struct Part {
  Numbers rows;
  uint64_t word = 0, result = 0, done = 0, counter = 0;
  bool is_here = false;

  void arrive(Memory& memory) {
    std::memcpy(memory.bytes(rows.address).data(), rows.values.data(), rows.values.size() * 2);
    std::memcpy(memory.bytes(word).data() + sizeof kHere, &kHere, sizeof kHere);
    is_here = true;
  }

  // The largest error, as a part of what rounding to bf16 allows.
  double error(Memory& memory, const Numbers& b, const Numbers* b1, const Sizes& sizes) const {
    const auto [m, n, k] = sizes;
    const auto product = [&](const Numbers& weights, int row, int column) {
      double sum = 0;
      for (int i = 0; i < k; ++i)
        sum +=
            rows[static_cast<size_t>(row * k + i)] * weights[static_cast<size_t>(column * k + i)];
      return sum;
    };
    return largest_error(memory, result, m, n, [&](int row, int column) {
      return silu(product(b, row, column)) * (b1 ? product(*b1, row, column) : 1);
    });
  }
};

struct Ran {
  std::string wrong;  // empty: nothing
  int sleeps = 0;
};

uint32_t word_at(Memory& memory, uint64_t address) {
  uint32_t value = 0;
  std::memcpy(&value, memory.bytes(address).data(), sizeof value);
  return value;
}

// A launch for parts of which the first awaits nothing, the second is here, and the others come
// while the launch sleeps. `comes`: whether they do. All but the first report that they are done.
Ran run(const std::string& name, const Sizes& sizes, size_t count, bool is_gate, bool comes = true,
        uint32_t most_ms = 0) {
  auto kernel = kernel_of(name, count, is_gate ? kGate : kProduct, true);
  if (!kernel) return {to_string(kernel.error())};
  const auto [m, n, k] = sizes;
  Memory memory;
  std::mt19937 random(20261126);
  const auto weights = static_cast<size_t>(n) * static_cast<size_t>(k);
  const Numbers b = random_numbers(memory, random, weights);
  const Numbers b1 = random_numbers(memory, random, weights);
  std::vector<Part> parts(count);
  for (Part& part : parts) {
    part.rows = random_numbers(memory, random, static_cast<size_t>(m) * static_cast<size_t>(k));
    part.word = memory.allocate(2 * sizeof(uint32_t));
    std::memcpy(memory.bytes(part.word).data(), &kHere, sizeof kHere);
    part.done = memory.allocate(sizeof(uint32_t));
    part.counter = memory.allocate(sizeof(uint32_t));
    part.result =
        memory.allocate(static_cast<size_t>(m) * static_cast<size_t>(n) * 2, std::byte{0xFF});
    // The memory of rows that are not here yet holds NaNs.
    const auto bytes = memory.bytes(part.rows.address);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
  }
  parts[0].arrive(memory);
  parts[1].arrive(memory);
  std::vector<attacca_gemm_arguments> arguments;
  std::vector<ptx::Signals> signals;
  for (const Part& part : parts) {
    arguments.push_back(product_of(m, n, k, part.rows, b, part.result));
    if (is_gate) arguments.back().b1 = {pointer_to(b1.address), 1, k, 0};
    const bool first = &part == parts.data();
    signals.push_back(
        {{first ? 0 : part.word, kHere, most_ms, 2}, {first ? 0 : part.done, part.counter, kDone}});
  }
  auto launch = launch_of(*kernel, arguments, signals);
  if (!launch) return {to_string(launch.error())};
  Ran ran;
  launch->most_steps = comes ? 50'000'000u : 1'000'000u;
  launch->asleep = [&](Memory& all) {
    if (++ran.sleeps % kSleeps != 0 || !comes) return;
    for (Part& part : parts)
      if (!part.is_here) return part.arrive(all);
  };
  if (const Status status = run(*kernel, *launch, memory); !status) {
    ran.wrong = to_string(status.error());
    return ran;
  }
  for (size_t i = 0; i < count; ++i)
    if (const double error = parts[i].error(memory, b, is_gate ? &b1 : nullptr, sizes); error > 1)
      ran.wrong += fmt::format("part {}: {} times the allowed error\n", i, error);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t done = word_at(memory, parts[i].done);
    const uint32_t counted = word_at(memory, parts[i].counter);
    if (done != (i == 0 ? 0 : kDone) || counted != 0)
      ran.wrong += fmt::format("part {}: its word is {}, its counter {}\n", i, done, counted);
  }
  return ran;
}

void expect_right(const std::string& name, const Sizes& sizes, size_t count, bool is_gate) {
  const Ran ran = run(name, sizes, count, is_gate);
  EXPECT_EQ(ran.wrong, "") << name;
  EXPECT_EQ(ran.sleeps, kSleeps * static_cast<int>(count - 2)) << name;
}

TEST(AwaitedProblems, Products) {
  expect_right("dot_tn_1x2_k4_f2_d16", {1, 40, 256}, 2, false);
  expect_right("dot_tn_1x2_k4_f2_d16", {1, 40, 256}, 4, false);
  expect_right("mma_tn_128x128x32_f2_d16", {20, 144, 64}, 3, false);
  expect_right("mma_xx_64x64x32_f2_d16", {70, 65, 33}, 4, false);
}

TEST(AwaitedProblems, Gates) {
  expect_right("dot_tn_1x2_k4_gate_f2_d16", {1, 24, 256}, 3, true);
  expect_right("mma_tn_64x64x32_gate_f2_d16", {40, 72, 64}, 4, true);
}

TEST(AwaitedProblems, WhatNeverComesIsWaitedForUntilTheTimeIsOver) {
  const Ran ran = run("dot_tn_1x2_k4_f2_d16", {1, 8, 256}, 3, false, false);
  EXPECT_NE(ran.wrong.find("steps"), std::string::npos) << ran.wrong;
  EXPECT_GT(ran.sleeps, 1000);
  const Ran shorter = run("dot_tn_1x2_k4_f2_d16", {1, 8, 256}, 3, false, false, 2);
  EXPECT_NE(shorter.wrong.find("a trap"), std::string::npos) << shorter.wrong;
  EXPECT_NEAR(shorter.sleeps, 2000, 10);  // a microsecond each
}

// What cannot be run here: kernels that read by TMA.
TEST(AwaitedProblems, PersistentKernelsAssemble) {
  for (const auto& [name, tail] :
       {std::pair{"wgmma_tn_64x64x64_1x1x2_deep_swap_f1_d16", kProduct},
        std::pair{"wgmma_tn_128x128x64_2x1_pingpong_direct_f1_d16", kProduct},
        std::pair{"wgmma_tn_128x128x64_2x1_gate_f2_d16", kGate}}) {
    const auto kernel = kernel_of(name, 3, tail, true);
    ASSERT_TRUE(kernel) << to_string(kernel.error());
    EXPECT_NE(kernel->ptx.find("fence.proxy.async;"), std::string::npos) << name;
    // Results that a copy stores are written before the word.
    EXPECT_EQ(kernel->ptx.find("cp.async.bulk.wait_group 0;") != std::string::npos,
              std::string_view(name).find("direct") != std::string_view::npos)
        << name;
    const auto image = Toolchain().assemble(kernel->ptx, "sm_90a");
    ASSERT_TRUE(image) << to_string(image.error());
  }
}

TEST(AwaitedProblems, AKernelThatAwaitsNothingIsAsItWas) {
  const auto kernel = kernel_of("mma_tn_128x128x32_f2_d16", 3, kProduct);
  ASSERT_TRUE(kernel) << to_string(kernel.error());
  for (const char* added :
       {"nanosleep", "ld.acquire", "%several_signals", "$several_again", "barrier.sync"})
    EXPECT_EQ(kernel->ptx.find(added), std::string::npos) << added;
}

std::string refusal_to_await(const std::string& target, const std::string& parameter,
                             const std::string& body = "ret;") {
  const auto module = ptx::parse(".version 8.3\n.target " + target +
                                 "\n.address_size 64\n.visible .entry k(.param " + parameter +
                                 " p[64])\n{\n  " + body + "\n}\n");
  EXPECT_TRUE(module);
  const auto several = ptx::compute_several(*module, "k", 2, true);
  return several ? "" : several.error().what;
}

TEST(AwaitedProblems, RefusesWhatCannotAwait) {
  EXPECT_EQ(refusal_to_await("sm_80", ".align 8 .b8"), "");
  EXPECT_EQ(refusal_to_await("sm_60", ".align 8 .b8"),
            "'k' is for sm_60, with a parameter aligned to 8 bytes");
  EXPECT_EQ(refusal_to_await("sm_90", ".align 4 .b8"),
            "'k' is for sm_90, with a parameter aligned to 4 bytes");
  const std::string several = "'k' ends in several places, or not for all threads";
  EXPECT_EQ(refusal_to_await("sm_80", ".align 8 .b8", ".reg .pred %p;\n  @%p ret;\n  ret;"),
            several);
  EXPECT_EQ(refusal_to_await("sm_80", ".align 8 .b8", "bra A;\nA:\n  ret;\n  ret;"), several);
  EXPECT_EQ(refusal_to_await("sm_80", ".align 8 .b8", "exit;"), several);
  EXPECT_EQ(refusal_to_await("sm_80", ".align 8 .b8", "bra A;\nA:\n  ret;"), "");
  EXPECT_EQ(refusal_to_await("sm_80", ".align 8 .b8", "trap;"), "'k' has no `ret`");
}

}  // namespace
}  // namespace attacca::gpu
