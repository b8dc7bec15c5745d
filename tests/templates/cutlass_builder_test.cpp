// The Hopper builders without a device: which problems they refuse and why, and the tensor maps,
// grids and workspaces of those they take. The driver's encoder is a fake that writes down its
// arguments.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "host/record.hpp"

extern "C" {
extern const attacca_record attacca_record_cutlass_tn_128x128x64_2x1_pingpong_f1;
extern const attacca_record attacca_record_cutlass_tn_128x128x64_2x1_streamk_f1;
extern const attacca_record attacca_record_cutlass_tn_64x16x128_1x1_pingpong_swap_f1;
}

void* attacca_encode_tiled = nullptr;

namespace {

struct Map {
  const void* address;
  std::vector<uint64_t> extents;  // elements, the contiguous axis first
  std::vector<uint64_t> strides;  // bytes, of all axes but the first
  std::vector<uint32_t> box;
};
std::vector<Map> maps;
int encode_answer = 0;

int fake_encode(void* map, int, uint32_t rank, void* address, const uint64_t* extents,
                const uint64_t* strides, const uint32_t* box, const uint32_t*, int, int, int, int) {
  maps.push_back(
      {address, {extents, extents + rank}, {strides, strides + rank - 1}, {box, box + rank}});
  std::memset(map, 0xff, 128);
  return encode_answer;
}

const attacca_template_entry& pingpong = attacca_record_cutlass_tn_128x128x64_2x1_pingpong_f1.entry;
const attacca_template_entry& streamk = attacca_record_cutlass_tn_128x128x64_2x1_streamk_f1.entry;
const attacca_template_entry& swapped =
    attacca_record_cutlass_tn_64x16x128_1x1_pingpong_swap_f1.entry;

void* at(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// A 520 x 264 x 192 problem, B as (N, K), with a full operand and a bias. Three batches.
attacca_gemm_arguments problem() {
  attacca_gemm_arguments g = {};
  g.m = 520, g.n = 264, g.k = 192, g.batch = 3;
  g.a = {at(0x10000), 192, 1, 520 * 192};
  g.b = {at(0x20000), 1, 192, 264 * 192};
  g.result[0] = {at(0x30000), 272, 1, 520 * 272};
  g.full[0] = {at(0x40000), 264, 1, 0};
  g.row[0] = {at(0x50002), 1, 0, 2, 0};
  g.context.rows = 520, g.context.columns = 264, g.context.batches = 3;
  g.sm_count = 132;
  return g;
}

// Why the template does not take it; empty if it does.
std::string refusal(const attacca_template_entry& entry, const attacca_gemm_arguments& g) {
  char reason[256] = "";
  return entry.check(&g, reason, sizeof reason) ? reason : "";
}

struct Launch {
  std::string refusal;
  uint32_t grid[3] = {};
  std::vector<Map> maps;
};

Launch build(const attacca_template_entry& entry, const attacca_gemm_arguments& g) {
  alignas(128) static char params[8192];
  EXPECT_LE(entry.params_bytes, sizeof params);
  EXPECT_LE(entry.params_align, 128u);
  attacca_encode_tiled = reinterpret_cast<void*>(fake_encode);
  maps.clear();
  Launch launch;
  char reason[256] = "";
  if (entry.build(&g, params, launch.grid, reason, sizeof reason)) launch.refusal = reason;
  launch.maps = maps;
  return launch;
}

const Map* find(const Launch& launch, const void* address) {
  for (const Map& map : launch.maps)
    if (map.address == address) return &map;
  return nullptr;
}

using Numbers = std::vector<uint64_t>;

TEST(CutlassBuilder, TakesAndLaysOutAProblem) {
  const auto g = problem();
  const Launch launch = build(pingpong, g);
  ASSERT_EQ(launch.refusal, "");
  // 5 x 3 tiles a batch, rounded up to clusters of 2 x 1.
  EXPECT_EQ(launch.grid[0] * launch.grid[1] * launch.grid[2], 6u * 3 * 3);
  EXPECT_EQ(launch.grid[0] % 2, 0u);
  ASSERT_EQ(launch.maps.size(), 4u);
  EXPECT_EQ(find(launch, g.a.pointer)->extents, Numbers({192, 520, 3}));
  EXPECT_EQ(find(launch, g.a.pointer)->strides, Numbers({192 * 2, 520 * 192 * 2}));
  EXPECT_EQ(find(launch, g.b.pointer)->extents, Numbers({192, 264, 3}));
  EXPECT_EQ(find(launch, g.b.pointer)->strides, Numbers({192 * 2, 264 * 192 * 2}));
  EXPECT_EQ(find(launch, g.result[0].pointer)->extents, Numbers({264, 520, 3}));
  EXPECT_EQ(find(launch, g.result[0].pointer)->strides, Numbers({272 * 2, 520 * 272 * 2}));
  EXPECT_EQ(find(launch, g.full[0].pointer)->extents, Numbers({264, 520, 3}));
  EXPECT_EQ(find(launch, g.full[0].pointer)->strides, Numbers({264 * 2, 0}));
}

TEST(CutlassBuilder, ASwappedKernelTakesWeightsAsItsMSide) {
  const auto g = problem();
  const Launch launch = build(swapped, g);
  ASSERT_EQ(launch.refusal, "");
  ASSERT_EQ(launch.maps.size(), 4u);
  // A tile is 64 columns of the problem and 16 rows of it.
  EXPECT_EQ(find(launch, g.b.pointer)->extents, Numbers({192, 264, 3}));
  EXPECT_EQ(find(launch, g.b.pointer)->box[1], 64u);
  EXPECT_EQ(find(launch, g.a.pointer)->extents, Numbers({192, 520, 3}));
  EXPECT_EQ(find(launch, g.a.pointer)->box[1], 16u);
  EXPECT_EQ(find(launch, g.result[0].pointer)->extents, Numbers({264, 520, 3}));
  EXPECT_EQ(find(launch, g.result[0].pointer)->strides, Numbers({272 * 2, 520 * 272 * 2}));
  EXPECT_EQ(launch.grid[0] * launch.grid[1] * launch.grid[2], 132u);
}

TEST(CutlassBuilder, AnAbsentFullOperandHasNoMap) {
  auto g = problem();
  g.full[0] = {};
  const Launch launch = build(pingpong, g);
  EXPECT_EQ(launch.refusal, "");
  EXPECT_EQ(launch.maps.size(), 3u);
}

TEST(CutlassBuilder, StridesAlongExtentsOfOneSayNothing) {
  auto g = problem();
  g.m = 1, g.batch = 1;
  g.a = {at(0x10000), 7, 1, -3};
  g.result[0] = {at(0x30000), 1, 1, 5};
  g.full[0] = {at(0x40000), 0, 1, 1};
  for (const auto* entry : {&pingpong, &swapped, &streamk}) {
    EXPECT_EQ(refusal(*entry, g), "");
    if (entry == &streamk) continue;
    for (const Map& map : build(*entry, g).maps)
      for (uint64_t stride : map.strides) EXPECT_EQ(stride % 16, 0u);
  }
  g.n = 1, g.k = 1;
  g.b = {at(0x20000), 5, 9, 0};
  g.a.column_stride = 3;
  g.result[0].column_stride = 2;
  EXPECT_EQ(refusal(pingpong, g), "");
  EXPECT_EQ(build(pingpong, g).refusal, "");
}

struct Flaw {
  const char* reason;  // a part of it
  std::function<void(attacca_gemm_arguments&)> make;
};

TEST(CutlassBuilder, RefusesWithTheReason) {
  const Flaw flaws[] = {
      {"m, n, k, batch are 0,", [](auto& g) { g.m = 0; }},
      {"m, n, k, batch are 520, -1,", [](auto& g) { g.n = -1; }},
      {"264, 0, 3", [](auto& g) { g.k = 0; }},
      {"192, 0;", [](auto& g) { g.batch = 0; }},
      {"sm_count is 0", [](auto& g) { g.sm_count = 0; }},
      {"swizzle is 3", [](auto& g) { g.swizzle = 3; }},
      {"raster is 3", [](auto& g) { g.raster = 3; }},
      {"splits is 2", [](auto& g) { g.splits = 2; }},
      {"splits is -1", [](auto& g) { g.splits = -1; }},
      {"A must be aligned to 16 bytes, not to 8", [](auto& g) { g.a.pointer = at(0x10008); }},
      {"B must be aligned to 16 bytes, not to 2", [](auto& g) { g.b.pointer = at(0x20002); }},
      {"result 0 must be aligned to 16 bytes, not to 4",
       [](auto& g) { g.result[0].pointer = at(0x30004); }},
      {"full operand 0 must be aligned to 16 bytes, not to 8",
       [](auto& g) { g.full[0].pointer = at(0x40008); }},
      {"A must be contiguous along k, its stride there is 2",
       [](auto& g) { g.a.column_stride = 2; }},
      {"steps of A along m "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not 386",
       [](auto& g) { g.a.row_stride = 193; }},
      {"steps of A along m "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not 0",
       [](auto& g) { g.a.row_stride = 0; }},
      {"steps of A along m "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not -384",
       [](auto& g) { g.a.row_stride = -192; }},
      {"steps of A along batch "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not 18",
       [](auto& g) { g.a.batch_stride = 9; }},
      {"B must be contiguous along k, its stride there is 264",
       [](auto& g) {
         g.b = {at(0x20000), 264, 1, 0};
       }},
      {"steps of B along n "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not 392",
       [](auto& g) { g.b.column_stride = 196; }},
      {"steps of B along n "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not 1099511627776",
       [](auto& g) { g.b.column_stride = int64_t(1) << 39; }},
      {"result 0 must be contiguous along n, its stride there is 520",
       [](auto& g) { g.result[0].column_stride = 520, g.result[0].row_stride = 1; }},
      {"steps of result 0 along m "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not 540",
       [](auto& g) { g.result[0].row_stride = 270; }},
      {"result 0: rows of 264 elements every 256 overlap",
       [](auto& g) { g.result[0].row_stride = 256; }},
      {"result 0: every batch at one address", [](auto& g) { g.result[0].batch_stride = 0; }},
      {"full operand 0 must be contiguous along n, its stride there is 2",
       [](auto& g) { g.full[0].column_stride = 2; }},
      {"steps of full operand 0 along batch "
       "must be a multiple of 16 bytes, forwards and less than 2^40, not 8",
       [](auto& g) { g.full[0].batch_stride = 4; }},
      {"full operand 1: the template has no such slot", [](auto& g) { g.full[1] = g.full[0]; }},
      {"result 1: the template has no such slot", [](auto& g) { g.result[1] = g.result[0]; }},
      {"row vector 0: elements of 3 bytes", [](auto& g) { g.row[0].bytes = 3; }},
      {"row vector 0 must be aligned to 2 bytes, not to 1",
       [](auto& g) { g.row[0].pointer = at(0x50001); }},
      {"column vector 1: elements of 8 bytes",
       [](auto& g) {
         g.column[1] = {at(0x60000), 1, 0, 8, 0};
       }},
      {"too many for 32 bits",
       [](auto& g) {
         g.m = g.n = 1 << 30, g.a.row_stride = 192, g.result[0].row_stride = 1 << 30;
       }},
  };
  for (const Flaw& flaw : flaws) {
    auto g = problem();
    flaw.make(g);
    for (const auto* entry : {&pingpong, &swapped}) {
      EXPECT_NE(refusal(*entry, g).find(flaw.reason), std::string::npos)
          << entry->name << " does not say \"" << flaw.reason << "\" but \"" << refusal(*entry, g)
          << "\"";
      EXPECT_EQ(build(*entry, g).refusal, refusal(*entry, g));
    }
  }
}

TEST(CutlassBuilder, NothingIsBuiltWithoutAddresses) {
  auto g = problem();
  g.result[0].pointer = nullptr;
  EXPECT_EQ(refusal(pingpong, g), "");
  EXPECT_EQ(build(pingpong, g).refusal, "A, B and result 0 need addresses");
}

TEST(CutlassBuilder, TheEncodersFailureIsTold) {
  encode_answer = 1;
  EXPECT_EQ(build(pingpong, problem()).refusal, "cuTensorMapEncodeTiled failed with 1");
  encode_answer = 0;
  EXPECT_EQ(build(pingpong, problem()).refusal, "");
}

TEST(CutlassBuilder, StreamKNeedsAWorkspaceWithZeroedCounters) {
  auto g = problem();
  g.k = 4096, g.batch = 1;
  g.a.row_stride = g.b.column_stride = 4096;
  size_t zero_offset = 0, zero_bytes = 0;
  const size_t bytes = streamk.workspace(&g, &zero_offset, &zero_bytes);
  // 6 x 3 tiles of 128 x 128 sums of 4 bytes, each for two groups of threads.
  EXPECT_EQ(zero_offset, 6u * 3 * 128 * 128 * 4);
  EXPECT_GE(zero_bytes, 6u * 3 * 2 * 4);
  EXPECT_EQ(bytes, zero_offset + zero_bytes);
  EXPECT_EQ(build(streamk, g).refusal, "no workspace given");
  g.workspace = at(0x70008);
  EXPECT_EQ(build(streamk, g).refusal,
            "workspace at 0x70008: its address must be a multiple of 16");
  g.workspace = at(0x70000);
  const Launch launch = build(streamk, g);
  EXPECT_EQ(launch.refusal, "");
  EXPECT_EQ(launch.grid[0] * launch.grid[1] * launch.grid[2], 132u);
  EXPECT_EQ(pingpong.workspace(&g, &zero_offset, &zero_bytes), 0u);
}

TEST(CutlassBuilder, SplitsGoUpToTheTilesOfK) {
  auto g = problem();
  g.splits = 3;
  EXPECT_EQ(refusal(streamk, g), "");
  size_t zero_offset = 0, zero_bytes = 0;
  EXPECT_GT(streamk.workspace(&g, &zero_offset, &zero_bytes), 0u);
  g.splits = 4;
  EXPECT_EQ(refusal(streamk, g), "splits is 4; 0 to 3 is taken");
  g.splits = 1;
  EXPECT_EQ(streamk.workspace(&g, &zero_offset, &zero_bytes), 0u);
  EXPECT_EQ(build(streamk, g).refusal, "");
}

TEST(CutlassBuilder, TellsOfItself) {
  const attacca_info info = attacca_record_cutlass_tn_64x16x128_1x1_pingpong_swap_f1.info();
  EXPECT_STREQ(info.arch, "sm_90a");
  EXPECT_TRUE(info.swapped);
  EXPECT_EQ(info.threads, 384);
  EXPECT_LE(info.shared_bytes, 232448);
  EXPECT_GE(info.stages, 8);
  EXPECT_EQ(info.full_bits[0], 16);
  EXPECT_EQ(info.full_bits[1], -1);
  EXPECT_EQ(info.result_bits[0], 16);
  EXPECT_TRUE(attacca_record_cutlass_tn_128x128x64_2x1_streamk_f1.info().stream_k);
}

}  // namespace
