// A launch on the stand-in for the driver (ATTACCA_LIBCUDA) allocates no host memory, the first one
// neither, whatever its addresses.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/fake_cuda.hpp"
#include "ir/text/text.hpp"
#include "run/pipeline.hpp"

namespace {

thread_local bool counting = false;
std::atomic<int> allocations = 0;

void note() {
  if (counting) ++allocations;
}

}  // namespace

// The sanitizers have a malloc of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  note();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  note();
  *memory = __libc_memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}
}
#endif

namespace attacca::run {
namespace {

struct Prepared {
  std::shared_ptr<const CudaInstance> instance;
  size_t inputs = 0, outputs = 0;
};

Prepared prepared(const std::string& text, Tuning tuning = Tuning::Known) {
  const auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error())) << text;
  if (!graph) return {};
  const auto plan =
      compile(*graph, Target::of({.cuda = true}).value(), {.cuda = {.tuning = tuning}});
  EXPECT_TRUE(plan) << (plan ? "" : to_string(plan.error()));
  if (!plan) return {};
  const auto instance = plan->cuda().instance({{"M", 24}});
  EXPECT_TRUE(instance) << (instance ? "" : to_string(instance.error())) << text;
  if (!instance) return {};
  return {*instance, graph->inputs().size(), graph->outputs().size()};
}

// The allocations of a launch whose addresses begin at `base`.
int allocations_of(const Prepared& made, uintptr_t base) {
  std::vector<void*> inputs, outputs;
  for (size_t i = 0; i < made.inputs; ++i)
    inputs.push_back(reinterpret_cast<void*>(base + 0x10000 * i));
  for (size_t i = 0; i < made.outputs; ++i)
    outputs.push_back(reinterpret_cast<void*>(base + 0x100000 * (i + 1)));
  const int before = allocations;
  counting = true;
  const Status status =
      made.instance->launch(inputs, outputs, reinterpret_cast<void*>(base + 0x1000000), nullptr);
  counting = false;
  EXPECT_TRUE(status) << (status ? "" : to_string(status.error()));
  return allocations - before;
}

// Rows of 120 bytes: what takes them needs no tensor map, which the stand-in cannot encode.
const std::string kGraphs[] = {
    "graph product(x: f16[M, 60], w: f16[60, 60], bias: f32[60]) {\n"
    "  return silu(x @ transpose(w) + bias)\n}",
    "graph two_products(x: f16[M, 60], w: f16[60, 60], v: f16[60, 60]) {\n"
    "  return silu(x @ transpose(w)) @ transpose(v)\n}",
    "graph together(x: f16[M, 60], w: f16[60, 60], v: f16[20, 60]) {\n"
    "  return q = relu(x @ transpose(w)), k = relu(x @ transpose(v))\n}",
    "graph pointwise(x: f32[M, 60], y: f32[M, 60]) { return z = exp(x) * y, t = x - y }",
    "graph reduction(x: f32[M, 60]) { return s = sum(exp(x), axes=[1]) }",
    "graph ten_axes(x: f32[2, 3, 2, 2, 2, 2, 2, 2, M, 2], y: f32[2, 2, 2, 2, 2, 2, 2, 2, 2, M]) {\n"
    "  return s = sum(x, axes=[1]), i = argsort(y, axis=9)\n}",
    "graph repeated(x: f32[M, 60]) { return y = x, z = x }",
    "graph batches(x: f16[3, 2, M, 60], w: f16[2, 60, 60], r: f16[3, 1, M, 60]) {\n"
    "  return silu(x @ w) + r\n}",
    "graph no_columns_of_its_own(x: f64[M, 60], w: f64[60, 60]) { return relu(x @ w) }",
    "graph named_rows(x: f16[9, 60], i: s32[M], w: f16[3, 60, 60], o: s32[3]) {\n"
    "  return silu(grouped_matmul(gather(x, i), w, o))\n}",
    "graph rows_of_groups(x: f16[M, 60], w: f16[3, 60, 60], o: s32[3], b: f16[3, 60], e: f16[9, "
    "60],\n"
    "                     g: s32[M]) {\n"
    "  return silu(grouped_matmul(x, w, o) + gather(b, group_ids(o, [M])) * gather(e, g))\n}",
    "graph mxfp4(x: bf16[9, 20], i: s32[M], c: u8[3, 20, 16], s: u8[3, 20, 1], o: s32[3],\n"
    "            b: bf16[3, 32], g: s32[M]) {\n"
    "  return silu(grouped_matmul(gather(x, i), mxfp4(c, s), o) + gather(b, g))\n}",
    "graph decoded(x: f16[9, 20], i: s32[M], c: u8[3, 20, 16], s: f16[3, 20, 1], z: u8[3, 20, 1],\n"
    "              o: s32[3]) {\n"
    "  return silu(grouped_matmul(gather(x, i), decode(c, s, z, dtype=f16), o))\n}",
    "graph added_rows(x: f32[9, 60], i: s64[100*M], u: f32[100*M, 60]) {\n"
    "  return scatter_add(x, i, u)\n}",
    "graph copies(x: f32[M, 60]) { return y = x, z = transpose(x) }",
    fmt::format("graph kernel(x: f32[M, 8], bias: f32[8]) {{\n"
                "  k = kernel(\"{}/tests/run/user_kernels.cu\", x, f32[M, 8], s32(M), s32(8), "
                "f32(0.5), entry=scale, grid=[ceildiv(8*M, 256)], block=[256])\n"
                "  return silu(k + bias)\n}}",
                ATTACCA_SOURCE_DIR),
};

class Launch : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { fake<decltype(fake_cuda_be_quiet)>("fake_cuda_be_quiet")(1); }
  void TearDown() override { fake<decltype(fake_cuda_be_quiet)>("fake_cuda_be_quiet")(0); }
};

TEST_P(Launch, AllocatesNothing) {
  counting = true;
  void* volatile some = std::malloc(1);
  std::free(some);
  counting = false;
  if (allocations == 0) GTEST_SKIP() << "a sanitizer's malloc is not counted";
  for (const Tuning tuning : {Tuning::Known, Tuning::Unfused}) {
    const Prepared made = prepared(GetParam(), tuning);
    ASSERT_TRUE(made.instance);
    for (const uintptr_t base : {0x10000000, 0x10000000, 0x20000000})
      EXPECT_EQ(allocations_of(made, base), 0) << "at " << base;
  }
}

TEST_P(Launch, ThreadsTakeTurns) {
  const Prepared made = prepared(GetParam());
  ASSERT_TRUE(made.instance);
  std::vector<std::thread> threads;
  for (uintptr_t i = 1; i <= 8; ++i)
    threads.emplace_back([&, i] {
      for (int run = 0; run < 100; ++run) allocations_of(made, 0x10000000 * i);
    });
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Graphs, Launch, testing::ValuesIn(kGraphs), [](const auto& info) {
  const std::string& text = info.param;
  return text.substr(6, text.find('(') - 6);
});

}  // namespace
}  // namespace attacca::run
