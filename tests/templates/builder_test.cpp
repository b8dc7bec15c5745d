// The builders of the mma and pointwise templates: what they refuse and why, and launches.
#include <array>

#include "fmt/format.h"

#include "templates/kernels/pointwise/alternate.hpp"
#include "templates/kernels/pointwise/divisor.hpp"
#include "templates_testing.hpp"

namespace attacca::templates {
namespace {

const Template& aligned() {
  return *testing::built().find("mma_tn_128x128x32_f2_d16");
}
const Template& any_strides() {
  return *testing::built().find("mma_xx_64x64x32_f2_d16");
}
const Template& pointwise() {
  return *testing::built().find("pointwise_f16x4_d16");
}

void* at(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// D[300, 200] = A[300, 64] x B[64, 200], all aligned, B as (N, K).
attacca_gemm_arguments plain() {
  attacca_gemm_arguments arguments{};
  arguments.m = 300;
  arguments.n = 200;
  arguments.k = 64;
  arguments.batch = 1;
  arguments.a = {at(0x1000), 64, 1, 300 * 64};
  arguments.b = {at(0x2000), 1, 64, 200 * 64};
  arguments.result[0] = {at(0x3000), 200, 1, 300 * 200};
  arguments.sm_count = 132;
  return arguments;
}

// Why not; empty where it is legal.
std::string refusal(const Template& kernel, const attacca_gemm_arguments& arguments) {
  char reason[256] = "";
  const int refused = kernel.builder->check(&arguments, reason, sizeof reason);
  EXPECT_EQ(refused != 0, reason[0] != 0);
  return reason;
}

// The grid as "x,y,z".
std::string grid(const Template& kernel, const attacca_gemm_arguments& arguments) {
  std::vector<char> params(kernel.builder->params_bytes);
  uint32_t grid[3] = {};
  char reason[256] = "";
  if (kernel.builder->build(&arguments, params.data(), grid, reason, sizeof reason)) return reason;
  return fmt::format("{},{},{}", grid[0], grid[1], grid[2]);
}

TEST(Builder, TakesWhatIsAligned) {
  EXPECT_EQ(refusal(aligned(), plain()), "");
}

TEST(Builder, SaysWhyNot) {
  const auto with = [](auto change) {
    attacca_gemm_arguments arguments = plain();
    change(arguments);
    // The template for anything takes whatever the aligned one refuses, but for bad extents.
    if (arguments.k >= 0) {
      EXPECT_EQ(refusal(any_strides(), arguments), "");
    }
    return refusal(aligned(), arguments);
  };
  EXPECT_EQ(with([](auto& g) { g.a.pointer = at(0x1002); }),
            "A must be aligned to 16 bytes, not to 2");
  EXPECT_EQ(with([](auto& g) { g.a.row_stride = 65; }),
            "steps of A along m must be a multiple of 16 bytes, not 130");
  EXPECT_EQ(with([](auto& g) { g.a.column_stride = 2; }),
            "A must be contiguous along k, its stride there is 2");
  EXPECT_EQ(with([](auto& g) { g.b.row_stride = 200, g.b.column_stride = 1; }),
            "B must be contiguous along k, its stride there is 200");
  EXPECT_EQ(with([](auto& g) { g.batch = 2, g.b.batch_stride = 12; }),
            "steps of B along batch must be a multiple of 16 bytes, not 24");
  EXPECT_EQ(with([](auto& g) { g.k = -1; }), "k is negative: -1");
}

TEST(Builder, RefusesOperandsThatItHasNoPlaceFor) {
  const auto with = [](const Template& kernel, auto change) {
    attacca_gemm_arguments arguments = plain();
    change(arguments);
    return refusal(kernel, arguments);
  };
  const attacca_operand operand = {at(0x5000), 104, 1, 0};
  EXPECT_EQ(with(aligned(), [&](auto& g) { g.full[2] = operand; }),
            "full operand 2: the template has no such slot");
  EXPECT_EQ(with(aligned(), [&](auto& g) { g.result[1] = operand; }),
            "result 1: the template has no such slot");
  EXPECT_EQ(with(aligned(), [](auto& g) { g.result[0].pointer = at(0x3001); }),
            "result 0 must be aligned to 2 bytes, not to 1");
  EXPECT_EQ(with(aligned(),
                 [](auto& g) {
                   g.row[1] = {at(0x5002), 1, 0, 4, 0};
                 }),
            "row vector 1 must be aligned to 4 bytes, not to 2");
  EXPECT_EQ(with(aligned(),
                 [](auto& g) {
                   g.column[0] = {at(0x5000), 1, 0, 3, 0};
                 }),
            "column vector 0: elements of 3 bytes; 1, 2 or 4 are taken");
  EXPECT_EQ(with(aligned(), [](auto& g) { g.maximum = at(0x5000); }),
            "the template keeps no maximum");
  EXPECT_EQ(with(aligned(), [&](auto& g) { g.b1 = operand; }),
            "B1: the template multiplies by B alone");
  const auto& built = testing::built();
  EXPECT_EQ(with(*built.find("wgmma_tn_128x128x64_2x1_gate_f2_d16"),
                 [&](auto& g) { g.scale_a = operand; }),
            "the template takes no scales of blocks");
  EXPECT_EQ(with(*built.find("wgmma_e4m3_tn_16x64x128_1x1_swap_scaled_f2_d8"),
                 [](auto& g) { g.scale_b.pointer = at(0x5002); }),
            "the scales of B must be aligned to 4 bytes, not to 2");
}

// More rows would read the weights again.
TEST(Builder, OfDotProductsTakesFewRows) {
  const Template& kernel = *testing::built().find("dot_tn_1x2_k4_f2_d16");
  attacca_gemm_arguments arguments = plain();
  EXPECT_EQ(refusal(kernel, arguments), "it computes dot products of at most 1 row of A, not 300");
  arguments.m = 1;
  EXPECT_EQ(grid(kernel, arguments), "100,1,1");
  arguments.b.column_stride = 68;
  EXPECT_EQ(refusal(kernel, arguments),
            "steps of B along n must be a multiple of 16 bytes, not 136");
  arguments.b = {at(0x2000), 200, 1, 0};
  EXPECT_EQ(refusal(kernel, arguments), "B must be contiguous along k, its stride there is 200");
}

// Of an index that names the rows of A.
TEST(Builder, OfNamedRowsTakesAnIndex) {
  const Template& gathers =
      *testing::built().find("grouped_tn_128x128_1x1_pingpong_direct_gather_f1_d16");
  const Template& dense = *testing::built().find("grouped_tn_128x128_1x1_pingpong_direct_f1_d16");
  const auto with = [&](auto change, const Template* kernel = nullptr) {
    attacca_gemm_arguments arguments = plain();
    arguments.group_ends = at(0x4000);
    arguments.group_stride = arguments.groups = 1;
    arguments.a_rows = {at(0x5000), 1, 8, 70};
    change(arguments);
    return refusal(kernel != nullptr ? *kernel : gathers, arguments);
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& g) { g.a_rows = {at(0x5004), 3, 4, 70}; }), "");
  EXPECT_EQ(with([](auto&) {}, &dense), "the template reads A's rows by no index");
  EXPECT_EQ(with([](auto& g) { g.a_rows = {}; }, &dense), "");
  EXPECT_EQ(with([](auto& g) { g.a_rows = {}; }), "an index of 0 bytes; 4 or 8 are taken");
  EXPECT_EQ(with([](auto& g) { g.a_rows.pointer = at(0x5004); }),
            "the index of A's rows must be aligned to 8 bytes, not to 4");
  EXPECT_EQ(with([](auto& g) { g.a_rows.rows = -1; }), "the index names one of -1 rows");
  EXPECT_EQ(with([](auto& g) {
              g.a_rows.rows = 1 << 30;
              g.a.row_stride = 1 << 12;
            }),
            "1073741824 rows of A take more than 3.43597e+10 bytes");
  EXPECT_EQ(
      with([](auto& g) { g.a.row_stride = 68; }),
      "steps of A along rows must be a multiple of 16 bytes, forwards and less than 2^40, not "
      "136");
  EXPECT_EQ(with([](auto& g) {
              g.a_rows.rows = 1;
              g.a.row_stride = 68;
            }),
            "");
}

// Of groups of rows, by mma.sync: at most two blocks for each multiprocessor.
TEST(Builder, OfGroupsTakesEndsAndAMatrixForEach) {
  const Template& kernel = *testing::built().find("grouped_mma_tn_64x64x32_f2_d16");
  const auto grouped = [] {
    attacca_gemm_arguments arguments = plain();
    arguments.group_ends = at(0x4000);
    arguments.group_stride = 1;
    arguments.groups = 7;
    return arguments;
  };
  const auto with = [&](auto change) {
    attacca_gemm_arguments arguments = grouped();
    change(arguments);
    return refusal(kernel, arguments);
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& g) { g.groups = 0; }), "0 groups; 1 to 512 are taken");
  EXPECT_EQ(with([](auto& g) { g.groups = 513; }), "513 groups; 1 to 512 are taken");
  EXPECT_EQ(with([](auto& g) { g.batch = 2; }), "2 batches of groups");
  EXPECT_EQ(with([](auto& g) { g.group_ends = at(0x4002); }),
            "the ends of groups must be aligned to 4 bytes, not to 2");
  EXPECT_EQ(with([](auto& g) {
              g.a_rows = {at(0x5000), 1, 4, 70};
            }),
            "the template reads A's rows by no index");
  EXPECT_EQ(with([](auto& g) { g.b.batch_stride = 12; }),
            "steps of B along group must be a multiple of 16 bytes, not 24");
  EXPECT_EQ(with([](auto& g) { g.a.row_stride = 68; }),
            "steps of A along m must be a multiple of 16 bytes, not 136");
  EXPECT_EQ(with([](auto& g) { g.m = g.n = INT32_MAX; }),
            "1.1259e+15 tiles are too many for 32 bits");
  attacca_gemm_arguments arguments = grouped();
  EXPECT_EQ(grid(kernel, arguments), "48,1,1");  // of up to 12 x 4 tiles
  arguments.sm_count = 11;
  EXPECT_EQ(grid(kernel, arguments), "22,1,1");
  arguments.m = 3;
  EXPECT_EQ(grid(kernel, arguments), "12,1,1");  // each row may be a group's
  arguments.m = 0;
  EXPECT_EQ(grid(kernel, arguments), "0,1,1");
}

TEST(Builder, IgnoresStridesOfAxesOfOne) {
  attacca_gemm_arguments arguments = plain();
  arguments.m = 1;
  arguments.a.row_stride = 3;
  arguments.a.batch_stride = 5;
  EXPECT_EQ(refusal(aligned(), arguments), "");
}

TEST(Builder, OfElementsTakesWhatOneLaunchDoes) {
  attacca_gemm_arguments arguments = plain();
  arguments.m = arguments.batch = arguments.n = 1 << 16;  // 2^45 chunks
  EXPECT_EQ(refusal(pointwise(), arguments),
            "65536 x 65536 x 65536 elements are more than one launch takes");
  arguments.n = 64;
  EXPECT_EQ(refusal(pointwise(), arguments), "");
  EXPECT_EQ(grid(pointwise(), arguments), "67108864,1,1");
  arguments.m = arguments.batch = arguments.n = 0x7fffffff;
  EXPECT_NE(refusal(pointwise(), arguments), "");
}

TEST(Builder, NeedsNoWorkspace) {
  for (const Template* kernel : {&aligned(), &any_strides(), &pointwise()}) {
    const attacca_gemm_arguments arguments = plain();
    size_t zero_offset = 1, zero_bytes = 1;
    EXPECT_EQ(kernel->builder->workspace(&arguments, &zero_offset, &zero_bytes), 0u);
    EXPECT_EQ(zero_bytes, 0u);
  }
}

TEST(Builder, LaunchesABlockATile) {
  attacca_gemm_arguments arguments = plain();
  EXPECT_EQ(grid(aligned(), arguments), "6,1,1");
  EXPECT_EQ(grid(any_strides(), arguments), "20,1,1");
  arguments.batch = 70000;
  EXPECT_EQ(grid(aligned(), arguments), "6,1,65535");
}

// 25 chunks a row.
TEST(Builder, LaunchesSmallerBlocksWhereThereAreFew) {
  const auto blocks = [](int m, int sm_count) {
    attacca_gemm_arguments arguments = plain();
    arguments.m = m;
    arguments.sm_count = sm_count;
    return grid(pointwise(), arguments);
  };
  EXPECT_EQ(blocks(6000, 132), "293,1,1");  // 512 chunks each
  EXPECT_EQ(blocks(5000, 132), "489,1,1");  // 256: 245 blocks of 512 would be too few
  EXPECT_EQ(blocks(300, 132), "59,1,1");    // 128, the fewest
  EXPECT_EQ(blocks(300, 7), "15,1,1");
  EXPECT_EQ(blocks(300, 0), "15,1,1");
}

TEST(Builder, LaunchesNothingWhereThereIsNothing) {
  for (auto extent :
       {&attacca_gemm_arguments::m, &attacca_gemm_arguments::n, &attacca_gemm_arguments::batch}) {
    attacca_gemm_arguments arguments = plain();
    arguments.*extent = 0;
    for (const Template* kernel : {&aligned(), &any_strides(), &pointwise()})
      EXPECT_NE(grid(*kernel, arguments).find('0'), std::string::npos) << kernel->name;
  }
  attacca_gemm_arguments arguments = plain();
  arguments.k = 0;  // zeros for the epilogue
  EXPECT_EQ(grid(aligned(), arguments), "6,1,1");
}

// 300 x 200 of the even and of the odd columns; a row is 400 elements.
attacca_operand columns(uintptr_t address) {
  return {at(address), 400, 2, 300 * 400};
}

// What is loaded of both, or "one by one".
std::string loads(const attacca_operand& first, const attacca_operand& second) {
  using attacca_pointwise::Alternate;
  const Alternate found = attacca_pointwise::find_alternate(first, second);
  if (!found.words.pointer) return "one by one";
  constexpr const char* kAccess[] = {"4", "8", "16"};
  return fmt::format("{} bytes at {}, rows {}, batches {}, halves {:x} {:x}", kAccess[found.access],
                     found.words.pointer, found.words.row_stride, found.words.batch_stride,
                     found.half[0], found.half[1]);
}

TEST(Alternate, AreLoadedAsWordsThatBothFill) {
  EXPECT_EQ(loads(columns(0x1000), columns(0x1002)),
            "16 bytes at 0x1000, rows 200, batches 60000, halves 5410 7632");
  EXPECT_EQ(loads(columns(0x1002), columns(0x1000)),
            "16 bytes at 0x1000, rows 200, batches 60000, halves 7632 5410");
  EXPECT_EQ(loads(columns(0x1008), columns(0x100a)),
            "8 bytes at 0x1008, rows 200, batches 60000, halves 5410 7632");
  EXPECT_EQ(loads(columns(0x1004), columns(0x1006)),
            "4 bytes at 0x1004, rows 200, batches 60000, halves 5410 7632");
}

TEST(Alternate, AreLoadedOneByOneWhereWordsHoldOthers) {
  const auto with = [](uintptr_t address, auto member, int64_t value) {
    attacca_operand operand = columns(address);
    operand.*member = value;
    return operand;
  };
  const attacca_operand first = columns(0x1000), second = columns(0x1002);
  EXPECT_EQ(loads(columns(0x1002), columns(0x1004)),
            "one by one");  // a word of column 0 is another's
  EXPECT_EQ(loads(first, columns(0x1006)), "one by one");
  EXPECT_EQ(loads(first, first), "one by one");
  EXPECT_EQ(loads({}, second), "one by one");
  EXPECT_EQ(loads({}, columns(2)), "one by one");
  EXPECT_EQ(loads(first, {}), "one by one");
  for (auto stride : {&attacca_operand::row_stride, &attacca_operand::column_stride,
                      &attacca_operand::batch_stride}) {
    EXPECT_EQ(loads(with(0x1000, stride, 404), second), "one by one");
    EXPECT_EQ(loads(with(0x1000, stride, 401), with(0x1002, stride, 401)), "one by one");
  }
}

TEST(Alternate, MayBeVectorsOf16Bits) {
  const auto loads_of = [](attacca_vector first, attacca_vector second) {
    using attacca_pointwise::Alternate;
    const Alternate found = attacca_pointwise::find_alternate(first, second);
    return found.words.pointer
               ? fmt::format("{} at {}, rows {}, batches {}", found.access, found.words.pointer,
                             found.words.row_stride, found.words.batch_stride)
               : "one by one";
  };
  const attacca_vector lower{at(0x1000), 2, 400, 2, 0}, upper{at(0x1002), 2, 400, 2, 0};
  EXPECT_EQ(loads_of(lower, upper), "2 at 0x1000, rows 0, batches 200");
  EXPECT_EQ(loads_of(upper, lower), "2 at 0x1000, rows 0, batches 200");
  EXPECT_EQ(loads_of(upper, {at(0x1004), 2, 400, 2, 0}), "one by one");
  EXPECT_EQ(loads_of(lower, {at(0x1002), 2, 400, 1, 0}), "one by one");
  EXPECT_EQ(loads_of({at(0x1000), 2, 400, 1, 0}, {at(0x1002), 2, 400, 1, 0}), "one by one");
  EXPECT_EQ(loads_of({at(0x1000), 1, 400, 2, 0}, {at(0x1002), 1, 400, 2, 0}), "one by one");
  EXPECT_EQ(loads_of(lower, {}), "one by one");
}

TEST(Divisor, DividesExactly) {
  using attacca_pointwise::Divisor;
  using attacca_pointwise::make_divisor;
  constexpr uint32_t kEdge = 0x7fffffff;
  for (uint32_t d : {1u, 2u, 3u, 5u, 7u, 8u, 9u, 25u, 512u, 641u, 65535u, 65537u, 1000003u,
                     kEdge / 2, kEdge - 1, kEdge}) {
    const Divisor divisor = make_divisor(d);
    for (uint64_t x : {uint64_t{0}, uint64_t{1}, uint64_t{d} - 1, uint64_t{d}, uint64_t{d} + 1,
                       uint64_t{kEdge} / d * d - 1, uint64_t{kEdge} / d * d, uint64_t{kEdge}}) {
      if (x > kEdge) continue;
      const uint64_t high = x * divisor.multiplier >> 32;
      EXPECT_EQ((high + x) >> divisor.shift, x / d) << x << " / " << d;
    }
  }
}

}  // namespace
}  // namespace attacca::templates
