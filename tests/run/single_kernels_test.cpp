// The helper kernels of single ops, compiled for the host and run thread by thread: what they write
// equals the interpreter's result. Reductions, whose threads wait for each other, are not here.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "host_library.hpp"
#include "ir/interpret/interpreter.hpp"
#include "ir/text/text.hpp"
#include "launch/helpers/device_types.hpp"
#include "launch/helpers/gather_rows_source.hpp"
#include "launch/helpers/group_ids_source.hpp"
#include "launch/helpers/plain_grouped_source.hpp"
#include "launch/helpers/widen_codes_source.hpp"
#include "run/cuda/single_source.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Tensor;

// What CUDA C++ has and C++ has not. Of half precision only the declarations compile.
constexpr const char* kHost = R"(
#include <cstring>
#define __device__
#define __global__
#define __launch_bounds__(threads)
#define asm(...) r = 0
struct Index { unsigned x; };
struct uint4 { unsigned x, y, z, w; };
static Index blockIdx, threadIdx, gridDim;
template <class To, class From> To bits(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
static float __uint_as_float(unsigned x) { return bits<float>(x); }
static unsigned __float_as_uint(float x) { return bits<unsigned>(x); }
template <class T> T atomicMax(T* at, T x) { const T old = *at; if (x > old) *at = x; return old; }
template <class T> T atomicExch(T* at, T x) { const T old = *at; *at = x; return old; }
extern "C" void at_thread(unsigned block, unsigned blocks, unsigned thread) {
  blockIdx.x = block; gridDim.x = blocks; threadIdx.x = thread;
}
)";

// A source compiled behind kDeviceTypes, with a grid of three blocks.
class HostKernels {
 public:
  explicit HostKernels(const std::string& macros, const char* source = kSingleSource)
      : library_(std::string(kHost) + launch::kDeviceTypes + macros + source) {}

  template <class... Parameters>
  void run(const char* name, Parameters... parameters) const {
    constexpr unsigned kBlocks = 3, kThreads = 256;
    const auto kernel = reinterpret_cast<void (*)(Parameters...)>(library_.function(name));
    const auto at =
        reinterpret_cast<void (*)(unsigned, unsigned, unsigned)>(library_.function("at_thread"));
    for (unsigned block = 0; block < kBlocks; ++block)
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        at(block, kBlocks, thread);
        kernel(parameters...);
      }
  }

 private:
  testing::HostLibrary library_;
};

Tensor interpreted(const std::string& text, const ir::Bindings& inputs) {
  const auto graph = ir::parse_graph(text, "<test>");
  EXPECT_TRUE(graph) << to_string(graph.error());
  auto results = ir::interpret(*graph, inputs);
  EXPECT_TRUE(results) << to_string(results.error());
  return std::move(results->front());
}

// Small integers, so that many are equal; floats have some NaN and infinities.
Tensor random_tensor(DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor made = *Tensor::make(dtype, shape);
  for (int64_t i = 0; i < made.size(); ++i) {
    const auto drawn = static_cast<int64_t>(random() % 40);
    if (!ir::is_float(dtype))
      made.set_integer(i, drawn - 20);
    else
      made.set_number(i, drawn == 0   ? NAN
                         : drawn == 1 ? INFINITY
                         : drawn == 2 ? -INFINITY
                                      : static_cast<double>(drawn - 20));
  }
  return made;
}

void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.size(), want.size());
  for (int64_t i = 0; i < got.size(); ++i) {
    const double x = got.number_at(i), y = want.number_at(i);
    EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << i << ": " << x << ", not " << y;
  }
}

TEST(SingleKernels, Argsort) {
  const HostKernels floats("#define ARGSORT\n#define FROM F32\n");
  const HostKernels integers("#define ARGSORT\n#define FROM S64\n");
  for (const DType dtype : {DType::F32, DType::S64})
    for (const int64_t axis : {0, 1, 2}) {
      const std::vector<int64_t> shape = {3, 37, 5};
      const Tensor x = random_tensor(dtype, shape, static_cast<uint64_t>(axis));
      const Tensor want = interpreted(fmt::format("graph g(x: {}[3, 37, 5]) {{ return argsort(x, "
                                                  "axis={}) }}",
                                                  ir::name(dtype), axis),
                                      {{"x", x}});
      const std::vector<int64_t> strides = {185, 5, 1};
      SingleAxes lines;
      for (size_t i = 0; i < 3; ++i)
        if (static_cast<int64_t>(i) != axis) {
          lines.extent[lines.count] = shape[i];
          lines.stride[lines.count] = lines.other_stride[lines.count] = strides[i];
          ++lines.count;
        }
      Tensor got = *Tensor::make(DType::S64, shape);
      const auto sorted = static_cast<size_t>(axis);
      (dtype == DType::F32 ? floats : integers)
          .run("attacca_argsort", static_cast<const void*>(x.data()),
               static_cast<void*>(got.data()), lines, static_cast<long long>(x.size()),
               static_cast<long long>(shape[sorted]), static_cast<long long>(strides[sorted]),
               static_cast<long long>(strides[sorted]));
      expect_equal(got, want);
    }
}

TEST(SingleKernels, Scatter) {
  const HostKernels kernels("#define SCATTER\n#define ELEMENT unsigned\n#define INDEX S64\n");
  const Tensor x = random_tensor(DType::F32, {9, 7}, 1);
  const Tensor updates = random_tensor(DType::F32, {30, 7}, 2);
  Tensor index = *Tensor::make(DType::S64, {30});
  std::mt19937_64 random(3);
  for (int64_t i = 0; i < 30; ++i)  // rows from the end too, most of them several times
    index.set_integer(i, static_cast<int64_t>(random() % 14) - 7);
  const Tensor want =
      interpreted("graph g(x: f32[9, 7], i: s64[30], u: f32[30, 7]) { return scatter(x, i, u) }",
                  {{"x", x}, {"i", index}, {"u", updates}});
  std::vector<unsigned long long> last(9, 0);
  Tensor got = *Tensor::make(DType::F32, {9, 7});
  kernels.run("attacca_scatter_last", static_cast<const void*>(index.data()), last.data(), 9LL,
              30LL);
  kernels.run("attacca_scatter", static_cast<const void*>(x.data()),
              static_cast<const void*>(updates.data()),
              static_cast<const unsigned long long*>(last.data()), static_cast<void*>(got.data()),
              9LL, 7LL);
  expect_equal(got, want);
}

// Lists by looking through the index alone, and by chains; whole pieces and single elements.
TEST(SingleKernels, ScatterAdd) {
  const std::string macros =
      "#define SCATTER_ADD\n#define ELEMENT BF16\n#define INDEX S32\n#define SUM float\n";
  const std::string once = "#define ROUND(X) (X)\n";
  const std::string each = "#define ROUND(X) ELEMENT::load(ELEMENT::store(X))\n";
  std::mt19937_64 random(3);
  std::normal_distribution<double> draw;
  Tensor x = *Tensor::make(DType::BF16, {9, 16}), updates = *Tensor::make(DType::BF16, {60, 16});
  for (Tensor* tensor : {&x, &updates})
    for (int64_t i = 0; i < tensor->size(); ++i) tensor->set_number(i, draw(random));
  Tensor index = *Tensor::make(DType::S32, {60});
  for (int64_t i = 0; i < 60; ++i)  // rows from the end too, two of them never
    index.set_integer(i, static_cast<int64_t>(random() % 7) - static_cast<int64_t>(random() % 2));
  const auto graph = ir::parse_graph(
      "graph g(x: bf16[9, 16], i: s32[60], u: bf16[60, 16]) { return scatter_add(x, i, u) }");
  ASSERT_TRUE(graph);
  for (const bool eager : {false, true}) {
    const auto precision = eager ? ir::Precision::Eager : ir::Precision::Fp32;
    const auto want = ir::interpret(*graph, {{"x", x}, {"i", index}, {"u", updates}},
                                    {.precision = precision, .accumulators = {}});
    ASSERT_TRUE(want) << to_string(want.error());
    for (const long long width : {1, 8}) {
      const HostKernels kernels(macros + (eager ? each : once) +
                                fmt::format("#define WIDTH {}\n", width));
      for (const long long near : {0, 3, 60}) {
        std::vector<long long> links(69), heads(9, -1), chain(60);
        Tensor got = *Tensor::make(DType::BF16, {9, 16});
        kernels.run("attacca_scatter_chains", static_cast<const void*>(index.data()), heads.data(),
                    chain.data(), 9LL, 60LL);
        kernels.run("attacca_scatter_links", static_cast<const void*>(index.data()),
                    static_cast<const long long*>(heads.data()),
                    static_cast<const long long*>(chain.data()), links.data(), 9LL, 60LL, near);
        kernels.run("attacca_scatter_add", static_cast<const void*>(x.data()),
                    static_cast<const void*>(updates.data()),
                    static_cast<const long long*>(links.data()), static_cast<void*>(got.data()),
                    9LL, 16 / width);
        expect_equal(got, want->front());
      }
    }
  }
}

// Eight weights at once, and one by one where the memory is not aligned.
constexpr size_t kOffsets[] = {0, 4};

std::byte* aligned(std::vector<std::byte>& memory) {
  return memory.data() + -reinterpret_cast<uintptr_t>(memory.data()) % 16;
}

TEST(SingleKernels, MxFp4) {
  const HostKernels kernels(launch::kWidenEightSource, launch::kWidenMxFp4Source);
  Tensor codes = *Tensor::make(DType::U8, {256, 16}), scales = *Tensor::make(DType::U8, {256, 1});
  for (int64_t i = 0; i < codes.size(); ++i) codes.set_integer(i, i * 37 % 256);
  for (int64_t i = 0; i < 256; ++i) scales.set_integer(i, i);
  const auto graph =
      ir::parse_graph("graph g(c: u8[256, 16], s: u8[256, 1]) { return mxfp4(c, s) }");
  ASSERT_TRUE(graph);
  const auto want = ir::interpret(*graph, {{"c", codes}, {"s", scales}},
                                  {.precision = ir::Precision::Fp32, .accumulators = {}});
  ASSERT_TRUE(want);
  Tensor got = *Tensor::make(DType::BF16, {256, 32});
  const auto bytes = static_cast<size_t>(got.size()) * 2;
  for (const size_t offset : kOffsets) {
    std::vector<std::byte> to(bytes + offset + 16);
    std::byte* const at = aligned(to) + offset;
    kernels.run("attacca_mxfp4", static_cast<const void*>(codes.data()),
                static_cast<const void*>(scales.data()), static_cast<void*>(at), 8192LL);
    std::memcpy(got.data(), at, bytes);
    expect_equal(got, want->front());
  }
}

TEST(SingleKernels, Decode) {
  struct Case {
    const char *defines, *text;
    int bits, scales;  // scales: of a row
    DType codes, dtype;
    int zero;
    bool zeros;
  };
  const Case cases[] = {
      {"#define BITS 4\n#define SIGNED 0\n#define SCALE BF16\n#define STORED BF16\n",
       "graph g(c: u8[64, 32], s: bf16[64, 2], z: u8[64, 2]) { return decode(c, s, z) }", 4, 2,
       DType::U8, DType::BF16, 0, true},
      {"#define BITS 4\n#define SIGNED 1\n#define SCALE BF16\n#define STORED F32\n",
       "graph g(c: s8[64, 32], s: bf16[64, 2]) { return decode(c, s, dtype=f32) }", 4, 2, DType::S8,
       DType::F32, 0, false},
      {"#define BITS 8\n#define SIGNED 0\n#define SCALE F32\n#define STORED F32\n",
       "graph g(c: u8[64, 32], s: f32[64, 2]) { return decode(c, s, bits=8, zero=77, dtype=f32) }",
       8, 2, DType::U8, DType::F32, 77, false},
      {"#define BITS 8\n#define SIGNED 1\n#define SCALE F32\n#define STORED BF16\n",
       "graph g(c: s8[64, 32], s: f32[64, 2]) { return decode(c, s, bits=8) }", 8, 2, DType::S8,
       DType::BF16, 0, false},
      {"#define BITS 4\n#define SIGNED 0\n#define SCALE F32\n#define STORED BF16\n",
       "graph g(c: u8[64, 32], s: f32[64, 16], z: u8[64, 16]) { return decode(c, s, z) }", 4, 16,
       DType::U8, DType::BF16, 0, true}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    const int64_t count = 64 * 32 * 8 / each.bits, block = count / 64 / each.scales;
    const HostKernels kernels(
        each.defines + fmt::format("#define BLOCK {}\n", block) + launch::kWidenEightSource,
        launch::kDecodeSource);
    const auto graph = ir::parse_graph(each.text);
    ASSERT_TRUE(graph);
    Tensor codes = *Tensor::make(each.codes, {64, 32});
    Tensor zeros = *Tensor::make(DType::U8, {64, each.scales});
    for (int64_t i = 0; i < codes.size(); ++i)
      codes.set_integer(i, i * 37 % 256 - (each.codes == DType::S8 ? 128 : 0));
    for (int64_t i = 0; i < zeros.size(); ++i) zeros.set_integer(i, i * 91 % 256);
    const Tensor scales = random_tensor(graph->type(*graph->find("s")).dtype, {64, each.scales}, 5);
    ir::Bindings inputs = {{"c", codes}, {"s", scales}};
    if (each.zeros) inputs["z"] = zeros;
    const auto want =
        ir::interpret(*graph, inputs, {.precision = ir::Precision::Fp32, .accumulators = {}});
    ASSERT_TRUE(want);
    Tensor got = *Tensor::make(each.dtype, {64, count / 64});
    const auto bytes = static_cast<size_t>(count * ir::size_of(each.dtype));
    for (const size_t offset : kOffsets) {
      std::vector<std::byte> to(bytes + offset + 16);
      std::byte* const at = aligned(to) + offset;
      kernels.run("attacca_decode", static_cast<const void*>(codes.data()),
                  static_cast<const void*>(scales.data()),
                  static_cast<const void*>(each.zeros ? zeros.data() : nullptr),
                  static_cast<void*>(at), static_cast<long long>(count), each.zero);
      std::memcpy(got.data(), at, bytes);
      expect_equal(got, want->front());
    }
  }
}

TEST(SingleKernels, Gather) {
  const HostKernels kernels("#define GATHER\n#define ELEMENT unsigned\n#define INDEX S32\n");
  const Tensor x = random_tensor(DType::F32, {4, 11, 6}, 1);
  Tensor index = *Tensor::make(DType::S32, {5});
  for (int64_t i = 0; i < 5; ++i) index.set_integer(i, 3 * i - 6);
  const Tensor want =
      interpreted("graph g(x: f32[4, 11, 6], i: s32[5]) { return gather(x, i, axis=1) }",
                  {{"x", x}, {"i", index}});
  Tensor got = *Tensor::make(DType::F32, {4, 5, 6});
  kernels.run("attacca_gather", static_cast<const void*>(x.data()),
              static_cast<const void*>(index.data()), static_cast<void*>(got.data()), 4LL, 11LL,
              5LL, 6LL);
  expect_equal(got, want);
}

// Whole pieces, and elements of strided rows; rows that do not exist have all bits set.
TEST(SingleKernels, GatherOfRows) {
  const HostKernels pieces("#define INDEX S64\n#define PIECE uint4\n", launch::kGatherRowsSource);
  const HostKernels halves("#define INDEX S32\n#define PIECE u16\n", launch::kGatherRowsSource);
  constexpr int64_t kRows = 40, kColumns = 24, kExtent = 7;
  const Tensor x = random_tensor(DType::F32, {kExtent, kColumns}, 1);
  std::vector<int64_t> index;
  for (int64_t i = 0; i < kRows; ++i) index.push_back(i * 5 % 23 - 11);
  std::vector<int32_t> narrow(index.begin(), index.end());
  const auto row_of = [](int64_t named) {
    return named < -kExtent || named >= kExtent ? -1 : named < 0 ? named + kExtent : named;
  };
  std::vector<uint32_t> got(kRows * kColumns);
  const auto* from = reinterpret_cast<const uint32_t*>(x.data());
  pieces.run(
      "attacca_gather_rows", static_cast<const void*>(from), static_cast<const void*>(index.data()),
      static_cast<void*>(got.data()),
      launch::GatherParameters{kRows, kColumns / 4, kExtent, kColumns / 4, 1, kColumns / 4, 1});
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const int64_t row = row_of(index[static_cast<size_t>(i / kColumns)]);
    EXPECT_EQ(got[static_cast<size_t>(i)], row < 0 ? ~0u : from[row * kColumns + i % kColumns]);
  }
  // Every second 16-bit half of x, by every second element of the index.
  std::vector<uint16_t> half(kRows / 2 * kColumns);
  const auto* words = reinterpret_cast<const uint16_t*>(x.data());
  halves.run("attacca_gather_rows", static_cast<const void*>(words),
             static_cast<const void*>(narrow.data()), static_cast<void*>(half.data()),
             launch::GatherParameters{kRows / 2, kColumns, kExtent, 2 * kColumns, 2, kColumns, 2});
  for (int64_t i = 0; i < kRows / 2 * kColumns; ++i) {
    const int64_t row = row_of(index[static_cast<size_t>(i / kColumns * 2)]);
    EXPECT_EQ(half[static_cast<size_t>(i)],
              row < 0 ? 0xffff : words[row * 2 * kColumns + i % kColumns * 2]);
  }
}

TEST(SingleKernels, GroupedProduct) {
  const HostKernels floats("typedef BF16 A; typedef F32 B; typedef F32 D; typedef double SUM;\n",
                           launch::kPlainGroupedSource);
  const HostKernels integers("typedef S8 A; typedef U8 B; typedef S32 D; typedef s64 SUM;\n",
                             launch::kPlainGroupedSource);
  const std::vector<std::vector<double>> ends = {{4, 4, 11}, {0, 0, 5},   {11, 11, 11},
                                                 {6, 2, 30}, {-1, -4, 3}, {0, 0, 0}};
  for (const bool real : {true, false})
    for (const std::vector<double>& each : ends) {
      const DType types[] = {real ? DType::BF16 : DType::S8, real ? DType::F32 : DType::U8,
                             real ? DType::F32 : DType::S32};
      const Tensor x = random_tensor(types[0], {11, 7}, 1),
                   w = random_tensor(types[1], {3, 5, 7}, 2);
      const Tensor offsets = Tensor::of(DType::S32, {3}, each);
      const Tensor want =
          interpreted(fmt::format("graph g(x: {}[11, 7], w: {}[3, 5, 7], o: s32[3]) {{ return "
                                  "grouped_matmul(x, transpose(w), o) }}",
                                  ir::name(types[0]), ir::name(types[1])),
                      {{"x", x}, {"w", w}, {"o", offsets}});
      Tensor got = *Tensor::make(types[2], {11, 5});
      (real ? floats : integers)
          .run("attacca_grouped_product", static_cast<const void*>(x.data()),
               static_cast<const void*>(w.data()), static_cast<const void*>(offsets.data()),
               static_cast<void*>(got.data()), nullptr, nullptr,
               launch::GroupedParameters{11, 5, 7, 3, 7, 1, 35, 1, 7, 5, 1, 1});
      expect_equal(got, want);
    }
}

// Blocks of 4 here; the last ones are shorter. The host has no code for 8-bit floats.
TEST(SingleKernels, GroupedProductOfScaledBlocks) {
  const HostKernels kernels(
      "typedef S8 A; typedef S8 B; typedef F32 D; typedef double SUM;\n#define SCALE_BLOCK 4\n",
      launch::kPlainGroupedSource);
  const Tensor x = random_tensor(DType::S8, {11, 10}, 1),
               w = random_tensor(DType::S8, {3, 6, 10}, 2);
  const Tensor u = random_tensor(DType::F32, {11, 3}, 3),
               v = random_tensor(DType::F32, {3, 2, 3}, 4);
  const Tensor offsets = Tensor::of(DType::S32, {3}, {4, 4, 10});
  const Tensor want = interpreted(
      "graph g(x: s8[11, 10], u: f32[11, 3], w: s8[3, 6, 10], v: f32[3, 2, 3], o: s32[3]) "
      "{ return grouped_matmul(scale_blocks(x, u, [1, 4]), "
      "transpose(scale_blocks(w, v, [1, 4, 4])), o) }",
      {{"x", x}, {"u", u}, {"w", w}, {"v", v}, {"o", offsets}});
  Tensor got = *Tensor::make(DType::F32, {11, 6});
  kernels.run("attacca_grouped_product", static_cast<const void*>(x.data()),
              static_cast<const void*>(w.data()), static_cast<const void*>(offsets.data()),
              static_cast<void*>(got.data()), static_cast<const void*>(u.data()),
              static_cast<const void*>(v.data()),
              launch::GroupedParameters{11, 6, 10, 3, 10, 1, 60, 1, 10, 6, 1, 1, 3, 1, 6, 1, 3});
  expect_equal(got, want);
}

// The ends lie in a column of a wider tensor.
TEST(SingleKernels, GroupIds) {
  const HostKernels kernels("", launch::kGroupIdsSource);
  const std::vector<std::vector<int>> all = {{4, 4, 11},
                                             {0, 900, 905},
                                             {11, 11, 11},
                                             {6, 2, 2000},
                                             {-1, -4, 3},
                                             {0, 0, 0},
                                             {7},
                                             {},
                                             {3, 9, 1, 40, 12, 800, 20, 2}};
  for (const std::vector<int>& ends : all) {
    std::vector<int> column;
    for (const int end : ends) column.insert(column.end(), {end, 5});
    std::vector<int> got(1000);
    kernels.run("attacca_group_ids", static_cast<const int*>(column.data()), got.data(),
                static_cast<long long>(ends.size()), 2LL, 1000LL);
    for (int row = 0; row < 1000; ++row) {
      int want = std::max(static_cast<int>(ends.size()) - 1, 0);
      for (int group = static_cast<int>(ends.size()) - 1; group >= 0; --group)
        if (ends[static_cast<size_t>(group)] > row) want = group;
      ASSERT_EQ(got[static_cast<size_t>(row)], want) << "row " << row;
    }
  }
}

TEST(SingleKernels, Arange) {
  const HostKernels kernels("#define ARANGE\n");
  std::vector<long long> got(2000);
  kernels.run("attacca_arange", got.data(), -7LL, 2000LL);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<long long>(i) - 7);
}

}  // namespace
}  // namespace attacca::run
