// Whole kernels in hand-written PTX: the memory after the run, or the error.
#include <cstring>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ptx_interpreter/interpreter.hpp"

namespace attacca::ptx_interpreter {
namespace {

constexpr const char* kHead = ".version 8.0\n.target sm_90\n.address_size 64\n";

struct Outcome {
  std::string error;  // empty: it ran
  std::vector<uint32_t> words;
};

std::vector<std::byte> bytes_of(uint64_t value, size_t size) {
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &value, size);
  return bytes;
}

// Runs .entry k(.param .u64 out) with 64 words of output; `before` stands in front of it.
Outcome run_body(const std::string& body, Extent3 block = {4}, Extent3 grid = {1},
                 const std::string& before = "") {
  const auto module = ptx::parse(
      fmt::format("{}{}.visible .entry k(.param .u64 out)\n{{\n"
                  "  .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<4>; .reg .f32 %f<8>;\n"
                  "  .reg .b16 %h<8>;\n"
                  "  ld.param.u64 %d0, [out];\n  mov.u32 %r0, %tid.x;\n"
                  "  mul.wide.u32 %d1, %r0, 4;\n  add.u64 %d1, %d0, %d1;\n{}\n  ret;\n}}\n",
                  kHead, before, body),
      "k.ptx");
  if (!module) return {to_string(module.error()), {}};
  Memory memory;
  const uint64_t out = memory.allocate(64 * 4, std::byte{0xFF});
  Launch launch{"k", grid, block, 0, {bytes_of(out, 8)}, 100'000};
  const Status status = run(*module, launch, memory);
  if (!status) return {status.error().what + " at " + status.error().where, {}};
  Outcome result;
  result.words.resize(64);
  std::memcpy(result.words.data(), memory.bytes(out).data(), 64 * 4);
  return result;
}

std::vector<uint32_t> first_words(const Outcome& run, size_t count) {
  EXPECT_EQ(run.error, "");
  return run.words.size() < count
             ? std::vector<uint32_t>()
             : std::vector<uint32_t>(run.words.begin(),
                                     run.words.begin() + static_cast<ptrdiff_t>(count));
}
using Words = std::vector<uint32_t>;

TEST(Interpreter, PredicatesAndLoops) {
  // The sum of 0 .. tid, and 9 for thread 3.
  EXPECT_EQ(first_words(run_body(R"(
  mov.u32 %r1, 0; mov.u32 %r2, 0;
LOOP:
  add.u32 %r1, %r1, %r2;
  add.u32 %r2, %r2, 1;
  setp.le.u32 %p0, %r2, %r0;
  @%p0 bra LOOP;
  setp.eq.u32 %p1|%p2, %r0, 3;
  @%p1 mov.u32 %r1, 9;
  @!%p2 add.u32 %r1, %r1, 100;
  st.global.u32 [%d1], %r1;)"),
                        5),
            (Words{0, 1, 3, 109, 0xFFFFFFFF}));
}

TEST(Interpreter, VectorsAndNarrowTypes) {
  EXPECT_EQ(first_words(run_body(R"(
  st.global.v4.u32 [%d0], {1, 2, 0x80FF, -1};
  ld.global.v2.u32 {%r1, %r2}, [%d0];
  ld.global.s8 %r3, [%d0+9];
  ld.global.u8 %r4, [%d0+9];
  ld.global.u16 %h0, [%d0+8];
  mov.b32 %r5, {%h0, %h0};
  st.global.u32 [%d0+4], %r3; st.global.u32 [%d0+8], %r4; st.global.b32 [%d0+12], %r5;
  add.u32 %r1, %r1, %r2;
  st.global.u8 [%d0], %r1;)",
                                 {1}),
                        4),
            (Words{3, 0xFFFFFF80, 0x80, 0x80FF80FF}));
}

TEST(Interpreter, FloatsAndConversions) {
  EXPECT_EQ(first_words(run_body(R"(
  cvt.rn.f32.u32 %f0, %r0;
  fma.rn.f32 %f1, %f0, 0f40000000, 0f3F800000;
  st.global.f32 [%d1], %f1;)"),
                        3),
            (Words{0x3F800000, 0x40400000, 0x40A00000}));
}

TEST(Interpreter, SharedMemoryAndBarriers) {
  EXPECT_EQ(first_words(run_body(R"(
  .shared .align 4 .b32 turn[4];
  mov.u32 %r1, turn;
  shl.b32 %r2, %r0, 2;
  add.u32 %r3, %r1, %r2;
  st.shared.u32 [%r3], %r0;
  bar.sync 0;
  xor.b32 %r4, %r2, 12;
  add.u32 %r4, %r1, %r4;
  ld.shared.u32 %r5, [%r4];
  cvta.shared.u64 %d2, 0;
  cvt.u64.u32 %d3, %r4;
  add.u64 %d2, %d2, %d3;
  ld.u32 %r6, [%d2];
  mad.lo.u32 %r5, %r6, 10, %r5;
  st.global.u32 [%d1], %r5;)"),
                        4),
            (Words{33, 22, 11, 0}));
}

TEST(Interpreter, Shuffles) {
  const Outcome down = run_body(
      "shfl.sync.down.b32 %r1|%p0, %r0, 1, 31, 0xF;\n"
      "selp.u32 %r2, 100, 0, %p0; add.u32 %r1, %r1, %r2;\n"
      "st.global.u32 [%d1], %r1;",
      {4});
  EXPECT_EQ(down.error.substr(0, 47), "a shuffle from a lane that takes no part: shfl.");
  EXPECT_EQ(
      first_words(run_body("shfl.sync.bfly.b32 %r1, %r0, 2, 31, -1; st.global.u32 [%d1], %r1;"), 4),
      (Words{2, 3, 0, 1}));
  EXPECT_EQ(
      first_words(run_body("shfl.sync.up.b32 %r1, %r0, 1, 0, -1; st.global.u32 [%d1], %r1;"), 4),
      (Words{0, 0, 1, 2}));
  // Segments of two lanes.
  EXPECT_EQ(
      first_words(run_body("shfl.sync.idx.b32 %r1, %r0, 0, 0x1E1F, -1; st.global.u32 [%d1], %r1;"),
                  4),
      (Words{0, 0, 2, 2}));
  EXPECT_EQ(first_words(run_body("setp.gt.u32 %p0, %r0, 1; vote.sync.ballot.b32 %r1, %p0, -1;\n"
                                 "redux.sync.add.u32 %r2, %r0, -1; mad.lo.u32 %r1, %r1, 100, %r2;\n"
                                 "st.global.u32 [%d1], %r1;"),
                        2),
            (Words{1206, 1206}));
}

TEST(Interpreter, CallsAndLocalMemory) {
  EXPECT_EQ(first_words(run_body(R"(
  { .param .b32 given; .param .b64 to; .param .b32 got;
    st.param.b32 [given+0], %r0;
    st.param.b64 [to+0], %d1;
    call.uni (got), twice, (given, to);
    ld.param.b32 %r1, [got+0]; }
  st.global.u32 [%d1+16], %r1;)",
                                 {4}, {1}, R"(
.func (.param .b32 result) twice(.param .b32 x, .param .b64 to)
{
  .local .align 8 .b8 depot[16];
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  mov.u64 %d0, depot;
  cvta.local.u64 %d1, %d0;
  ld.param.u32 %r0, [x];
  st.u32 [%d1+8], %r0;
  ld.local.u32 %r1, [%d0+8];
  add.u32 %r1, %r1, %r0;
  ld.param.u64 %d2, [to];
  st.global.u32 [%d2], %r0;
  st.param.b32 [result], %r1;
  ret;
}
)"),
                        8),
            (Words{0, 1, 2, 3, 0, 2, 4, 6}));
}

TEST(Interpreter, GlobalVariablesAndAtomics) {
  const std::string variables =
      ".const .align 4 .b32 table[3] = {5, -6, 0f3F800000};\n.global .u32 counter = 40;\n";
  EXPECT_EQ(first_words(run_body(R"(
  mov.u64 %d2, counter;
  atom.global.add.u32 %r1, [%d2], 1;
  st.global.u32 [%d1], %r1;
  red.global.max.s32 [%d0+32], %r1;
  mov.u64 %d3, table;
  ld.const.u32 %r2, [%d3+4];
  ld.const.u32 %r3, [table+8];
  st.global.u32 [%d0+16], %r2;
  st.global.u32 [%d0+20], %r3;)",
                                 {2}, {2}, variables),
                        10),
            (Words{42, 43, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFA, 0x3F800000, 0xFFFFFFFF, 0xFFFFFFFF,
                   43, 0xFFFFFFFF}));
}

TEST(Interpreter, ScopesHideNames) {
  EXPECT_EQ(first_words(run_body(R"(
  mov.u32 %r1, 1;
  { .reg .b32 %r1; mov.u32 %r1, 7; bra DONE; mov.u32 %r1, 8; DONE: st.global.u32 [%d0], %r1; }
  { bra DONE; DONE: st.global.u32 [%d0+4], %r1; })",
                                 {1}),
                        2),
            (Words{7, 1}));
}

TEST(Interpreter, TensorCoreTile) {
  // A: row r of ones times r; B: the identity's first column everywhere 1 at k = 0.
  const Outcome run = run_body(R"(
  shr.u32 %r1, %r0, 2;
  and.b32 %r2, %r0, 3;
  cvt.rn.f32.u32 %f0, %r1;
  cvt.rn.bf16.f32 %h0, %f0;
  mov.b32 %r3, {%h0, %h0};
  setp.eq.u32 %p0, %r2, 0;
  selp.b32 %r4, 0x3F80, 0, %p0;
  mov.f32 %f1, 0f3F800000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
      {%f2, %f3, %f4, %f5}, {%r3, %r3, %r3, %r3}, {%r4, 0}, {%f1, %f1, %f1, %f1};
  cvt.rzi.u32.f32 %r5, %f2;
  st.global.u32 [%d1], %r5;)",
                               {32});
  ASSERT_EQ(run.error, "");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(run.words[lane], lane / 4 + 1);
}

TEST(Interpreter, MatricesFromSharedMemory) {
  // An 8 x 8 matrix whose element (row, column) is 8 row + column; rows by the addresses of lanes.
  const std::string body = R"(
  .shared .align 16 .b8 tile[128];
  mov.u32 %r1, tile;
  shl.b32 %r2, %r0, 2;
  add.u32 %r2, %r1, %r2;
  mul.lo.u32 %r3, %r0, 0x20002;
  add.u32 %r3, %r3, 0x10000;
  st.shared.u32 [%r2], %r3;
  bar.sync 0;
  and.b32 %r4, %r0, 7;
  mad.lo.u32 %r4, %r4, 16, %r1;
  ldmatrix.sync.aligned.m8n8.x1TRANS.shared.b16 {%r5}, [%r4];
  st.global.u32 [%d1], %r5;)";
  const size_t at = body.find("TRANS");
  const Outcome rows = run_body(std::string(body).replace(at, 5, ""), {32});
  const Outcome columns = run_body(std::string(body).replace(at, 5, ".trans"), {32});
  ASSERT_EQ(rows.error + columns.error, "");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t row = lane / 4, pair = lane % 4 * 2;
    EXPECT_EQ(rows.words[lane], (8 * row + pair) | (8 * row + pair + 1) << 16);
    EXPECT_EQ(columns.words[lane], (8 * pair + row) | (8 * (pair + 1) + row) << 16);
  }
}

TEST(Interpreter, FaultsSayWhatAndWhere) {
  struct {
    std::string body, error;
  } const cases[] = {
      {"st.global.u32 [%d0+256], %r0;",
       "4 bytes at 0x700000000100 are outside of memory: st.global.u32 [%d0+256], %r0; (thread "
       "0,0,0 "
       "of block 0,0,0) at k.ptx:12:1"},
      {"ld.global.u32 %r1, [%d0+-4];", "4 bytes at 0x6ffffffffffc are outside of memory"},
      {"ld.global.u32 %r1, [%d0+2];", "4 bytes at 0x700000000002 are misaligned"},
      {"ld.shared.u32 %r1, [%r0];", "4 bytes at 0x0 are outside of memory"},
      {"ld.u32 %r1, [%d4];", "4 bytes at 0x0 are outside of memory"},
      {"frobnicate.b32 %r1, %r0;", "the interpreter does not know the opcode: frobnicate.b32"},
      {"mov.u32 %r1, %clock;", "the interpreter does not know the register %clock"},
      {"call.uni nowhere, ();", "the interpreter does not know the function that is called"},
      {"trap;", "a trap: trap;"},
      {"L: bra L;", "too many steps: bra L;"},
      {"setp.eq.u32 %p0, %r0, 0; @%p0 bar.sync 0, 2;", "waits for threads that never come"},
      {"bar.warp.sync 0;", "waits for threads that never come"},
      {"bra nowhere;", "the interpreter does not know the label"}};
  for (const auto& each : cases) {
    const std::string error = run_body(each.body).error;
    EXPECT_NE(error.find(each.error), std::string::npos) << each.body << "\n" << error;
  }
  EXPECT_NE(run_body("", {}, {}, ".visible .entry other() { ret; }").error, "no kernel k");
}

TEST(Interpreter, WrongParametersAreErrors) {
  const auto module =
      ptx::parse(std::string(kHead) + ".visible .entry k(.param .u64 out, .param .u32 n) { ret; }");
  ASSERT_TRUE(module);
  Memory memory;
  EXPECT_EQ(run(*module, {"k", {}, {}, 0, {bytes_of(0, 8)}}, memory).error().what,
            "k takes 2 parameters, got 1");
  EXPECT_EQ(run(*module, {"k", {}, {}, 0, {bytes_of(0, 8), bytes_of(0, 8)}}, memory).error().what,
            "parameter 1 of k has 4 bytes, got 8");
  EXPECT_EQ(run(*module, {"other", {}, {}, 0, {}}, memory).error().what, "no kernel other");
}

}  // namespace
}  // namespace attacca::ptx_interpreter
