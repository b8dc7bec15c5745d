// Stores in, PTX out: each golden is assembled by assemble_check.py.
#include "ptx/analysis/fuse_kernel.hpp"

#include <cstdlib>

#include "fmt/format.h"

#include "kernel_testing.hpp"
#include "ptx_testing.hpp"

namespace attacca::ptx {
namespace {

using testing::kernel_around;
using testing::parsed;

// value + operand0[index], on the bits: a tail of so many bytes.
std::string tail_text(uint32_t bytes) {
  const int bits = bytes == 8 ? 64 : 32;
  const char* const registers = bits == 64 ? "rv" : "r";
  return fmt::format(R"(.version 8.0
.target sm_80
.address_size 64

.visible .func (.param .b{0} result) attacca_tail(
	.param .b{0} value,
	.param .b64 index,
	.param .b64 operand
)
{{
	.reg .b{0} %{1}<4>;
	.reg .b64 %rd<4>;
	ld.param.b{0} %{1}1, [value];
	ld.param.b64 %rd1, [index];
	ld.param.b64 %rd2, [operand];
	mad.lo.s64 %rd3, %rd1, {2}, %rd2;
	ld.u{3} %{1}2, [%rd3];
	add.u{0} %{1}3, %{1}1, %{1}2;
	st.param.b{0} [result], %{1}3;
	ret;
}}
)",
                     bits, registers, bytes, bytes * 8);
}

Result<FusedKernel> fused(const std::string& text, uint32_t bytes) {
  const Module module = parsed(text);
  const auto analysis = analyse_output(module, "k", {"out"}, bytes);
  if (!analysis) return tl::make_unexpected(analysis.error());
  if (!analysis->eligible()) return fail(analysis->reasons[0].what, analysis->reasons[0].where);
  return fuse_stores(module, *analysis, parsed(tail_text(bytes)), {"attacca_tail", {"bias"}});
}

struct Case {
  std::string name, body;
  uint32_t bytes = 4;
  std::string before = {};
};

void PrintTo(const Case& each, std::ostream* to) {
  *to << each.name;
}

class Fused : public ::testing::TestWithParam<Case> {};

TEST_P(Fused, IsAsReviewed) {
  const Case& each = GetParam();
  const auto result = fused(kernel_around(each.body, each.before), each.bytes);
  ASSERT_TRUE(result) << to_string(result.error());
  const auto path = testing::kFolder / "golden" / ("fused_" + each.name + ".ptx");
  if (std::getenv("UPDATE_GOLDEN")) std::ofstream(path, std::ios::binary) << result->ptx;
  EXPECT_EQ(result->ptx, testing::read_file(path)) << "UPDATE_GOLDEN=1 rewrites " << path;
  const auto again = parse(result->ptx);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(print(*again), result->ptx);
}

constexpr const char* kHelpers = R"(
.weak .func put(.param .b64 p, .param .b32 v)
{
	.reg .b64 %rd<3>;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.param.f32 %f1, [v];
	st.f32 [%rd1], %f1;
	ret;
}
.visible .func (.param .b32 r) put_both(.param .b64 p, .param .b64 q, .param .b32 v)
{
	.reg .b64 %rd<3>;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	ld.param.f32 %f1, [v];
	{
	.param .b64 a;
	.param .b32 b;
	st.param.b64 [a], %rd1;
	st.param.f32 [b], %f1;
	call put, (a, b);
	}
	{
	.param .b64 a;
	.param .b32 b;
	st.param.b64 [a], %rd2;
	st.param.f32 [b], %f1;
	call.uni put, (a, b);
	}
	st.param.f32 [r], %f1;
	ret;
}
)";

INSTANTIATE_TEST_SUITE_P(
    Stores, Fused,
    ::testing::Values(
        Case{"scalar", "st.global.f32 [%rd5+8], %f1;"},
        Case{"predicated",
             "setp.lt.s32 %p1, %r1, %r2;\n\t@%p1 st.global.f32 [%rd5], %f1;\n\t"
             "@!%p1 st.global.f32 [%rd5+-4], 0f3F800000;"},
        Case{"immediates",
             "st.global.v4.f32 [%rd5], {0f3F800000, %f1, 0f00000000, %f2};\n\t"
             "st.global.b32 [%rd5], 7;\n\tst.b32 [%rd5], -1;"},
        Case{"cached",
             "createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;\n\t"
             "st.global.L1::no_allocate.L2::cache_hint.v2.b32 [%rd5], {%r1, %r2}, "
             "%rd9;\n\tst.global.cs.f32 [%rd5], %f1;"},
        Case{"wide_units", "st.global.v2.b64 [%rd5], {%rd3, %rd4};\n\tst.global.b64 [%rd5], 5;"},
        Case{"narrow_from_wide", "st.global.u32 [%rd5], %rd3;"},
        Case{"halves",
             "st.global.b16 [%rd5], %rs1;\n\tst.global.u16 [%rd5+2], %r1;\n\t"
             "st.global.u16 [%rd5+4], 3;\n\tst.global.v4.b16 [%rd5], "
             "{%rs1, %rs2, %rs3, %rs4};",
             2},
        Case{"packed_halves",
             "st.global.b32 [%rd5], %r1;\n\tst.global.v4.b32 [%rd5], "
             "{%r1, %r2, %r3, %r4};\n\tst.global.v2.f32 [%rd5], {%f1, %f2};",
             2},
        Case{"packed_halves_in_64",
             "st.global.b64 [%rd5], %rd3;\n\tst.global.v2.f64 [%rd5], {%fd1, 0d3FF0000000000000};",
             2},
        Case{"bytes",
             "st.global.u8 [%rd5], %rs1;\n\tst.global.b8 [%rd5+1], %r1;\n\t"
             "st.global.u8 [%rd5+2], 255;\n\tst.global.v4.u8 [%rd5], "
             "{%rs1, %r2, %rs3, %rs4};",
             1},
        Case{"packed_bytes",
             "st.global.b32 [%rd5], %r1;\n\tst.global.b16 [%rd5], %rs1;\n\t"
             "st.global.b64 [%rd5], %rd3;",
             1},
        Case{"doubles", "st.global.f64 [%rd5], %fd1;\n\tst.global.v2.b64 [%rd5], {%rd3, 1};", 8},
        Case{"float_registers", "{\n\t.reg .f16 %h;\n\tst.global.b16 [%rd5], %h;\n\t}", 2},
        Case{"behind_locations",
             ".loc 1 5 0 st.global.f32 [%rd5], %f1;\n\t.loc 1 6 0 @%p1 st.global.f32 [%rd5], %f2;",
             4, ".file 1 \"kernel.cu\"\n"},
        Case{"calls",
             "{\n\t.param .b64 a;\n\t.param .b64 b;\n\t.param .b32 c;\n\t.param .b32 d;\n\t"
             "st.param.b64 [a], %rd5;\n\tst.param.b64 [b], %rd4;\n\tst.param.f32 [c], %f1;\n\t"
             "setp.lt.s32 %p1, %r1, %r2;\n\t@%p1 call (d), put_both, (a, b, c);\n\t}",
             4, kHelpers}),
    [](const auto& info) { return info.param.name; });

// A result with the function's name, and an attribute that no second function may have.
TEST(FuseKernel, CopiesHeaders) {
  const std::string function = R"(
.visible .func .attribute(.unified(1, 2)) (.param .b32 put) put(.param .b64 p)
{
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.u32 [%rd1], 1;
	st.param.b32 [put], 1;
	ret;
}
)";
  const auto result = fused(kernel_around("{ .param .b64 a; .param .b32 b; st.param.b64 [a], %rd5; "
                                          "call (b), put, (a); }",
                                          function),
                            4);
  ASSERT_TRUE(result) << to_string(result.error());
  const auto count = [&](std::string_view text) {
    int found = 0;
    for (size_t at = 0; (at = result->ptx.find(text, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("(.param .b32 put) tail_1_put(.param .b64 p,"), 2);  // declared, and defined
  EXPECT_EQ(count(".attribute(.unified(1, 2))"), 1);
}

TEST(FuseKernel, AppendsItsParameters) {
  const auto result = fused(kernel_around("st.f32 [%rd5], %f1; st.f32 [%rd5+4], %f1;"), 4);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->stores, 2);
  EXPECT_EQ(result->appended, (std::vector<AppendedParameter>{{"bias", "tail_param_0", 5}}));
  const Module module = parsed(result->ptx);
  const Function* kernel = nullptr;
  for (const Item& item : module.items)
    if (const auto* function = std::get_if<Function>(&item); function && function->is_entry)
      kernel = function;
  ASSERT_TRUE(kernel);
  ASSERT_EQ(kernel->parameters.size(), 6);
  EXPECT_EQ(kernel->parameters[5].name, "tail_param_0");
}

// Two elements at once: the operand's by one load or two, then the sums.
constexpr const char* kPairTail = R"(
.visible .func (.param .align 4 .b8 result[8]) attacca_tail_fetch_2(
	.param .b64 index,
	.param .b64 operand
)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<4>;
	ld.param.b64 %rd1, [index];
	ld.param.b64 %rd2, [operand];
	mad.lo.s64 %rd3, %rd1, 4, %rd2;
	ld.v2.u32 {%r1, %r2}, [%rd3];
	st.param.b32 [result], %r1;
	st.param.b32 [result+4], %r2;
	ret;
}
.visible .func (.param .align 4 .b8 result[8]) attacca_tail_fetch_2_apart(
	.param .b64 index,
	.param .b64 operand
)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<4>;
	ld.param.b64 %rd1, [index];
	ld.param.b64 %rd2, [operand];
	mad.lo.s64 %rd3, %rd1, 4, %rd2;
	ld.u32 %r1, [%rd3];
	ld.u32 %r2, [%rd3+4];
	st.param.b32 [result], %r1;
	st.param.b32 [result+4], %r2;
	ret;
}
.visible .func (.param .align 4 .b8 result[8]) attacca_tail_2(
	.param .align 4 .b8 value[8],
	.param .align 4 .b8 fetched[8]
)
{
	.reg .b32 %r<5>;
	ld.param.v2.b32 {%r1, %r2}, [value];
	ld.param.b32 %r3, [fetched];
	ld.param.b32 %r4, [fetched+4];
	add.u32 %r1, %r1, %r3;
	add.u32 %r2, %r2, %r4;
	st.param.b32 [result], %r1;
	st.param.b32 [result+4], %r2;
	ret;
}
)";

Result<FusedKernel> fused_in_pairs(const std::string& body) {
  const Module module = parsed(kernel_around(body));
  const auto analysis = analyse_output(module, "k", {"out"}, 4);
  if (!analysis) return tl::make_unexpected(analysis.error());
  StoreTail tail{"attacca_tail", {"bias"}, {{2, {2, true}}}};
  tail.wide_operands = {0};
  return fuse_stores(module, *analysis, parsed(tail_text(4) + kPairTail), tail);
}

void expect_golden(const Result<FusedKernel>& result, const std::string& name) {
  ASSERT_TRUE(result) << to_string(result.error());
  const auto path = testing::kFolder / "golden" / ("fused_" + name + ".ptx");
  if (std::getenv("UPDATE_GOLDEN")) std::ofstream(path, std::ios::binary) << result->ptx;
  EXPECT_EQ(result->ptx, testing::read_file(path)) << "UPDATE_GOLDEN=1 rewrites " << path;
}

// Two elements at once where the tail has functions for them. What two stores need is loaded at
// once; a store of one element does not wait for it.
TEST(FuseKernel, TakesPacks) {
  expect_golden(
      fused_in_pairs("setp.lt.s32 %p1, %r1, %r2;\n\t@!%p1 st.global.v2.f32 [%rd5], {%f1, "
                     "0f3F800000};\n\tst.global.b64 [%rd5+8], %rd3;\n\tst.global.f32 [%rd5], %f1;"),
      "packs");
}

// The operands are loaded behind the kernel's own last load: the address and the predicate of the
// second store are computed there, too.
TEST(FuseKernel, LoadsOperandsAheadOfBarriers) {
  expect_golden(fused_in_pairs("ld.global.f32 %f2, [%rd4+4];\n\tbar.sync 0;\n\t"
                               "st.global.b64 [%rd5], %rd3;\n\tadd.s64 %rd6, %rd5, 64;\n\t"
                               "setp.lt.s32 %p1, %r1, %r2;\n\t"
                               "@%p1 st.global.b64 [%rd6], %rd3;"),
                "ahead");
}

// What lies between the loads and the stores decides what can be loaded at once, and where.
struct Placement {
  const char* body;
  int groups;     // of stores whose operands are loaded at once
  bool is_ahead;  // of the barrier
};
TEST(FuseKernel, LoadsOperandsWhereTheirAddressesAreKnown) {
  constexpr const char* kFirst = "ld.global.f32 %f2, [%rd4+4];\n\tbar.sync 0;\n\t";
  const Placement cases[] = {
      {"st.global.b64 [%rd5], %rd3;\n\tst.global.b64 [%rd5+8], %rd3;", 1, true},
      // A label to which something jumps, and one that only names a place.
      {"st.global.b64 [%rd5], %rd3;\n\t@%p1 bra end;\n\tend: st.global.b64 [%rd5+8], %rd3;", 2,
       true},
      {"st.global.b64 [%rd5], %rd3;\n\there: st.global.b64 [%rd5+8], %rd3;", 1, true},
      // Addresses that memory gives, or that are computed under a predicate or with a carry.
      {"ld.shared.b64 %rd7, [cell];\n\tadd.s64 %rd6, %rd5, %rd7;\n\t"
       "st.global.b64 [%rd6], %rd3;",
       1, false},
      {"add.cc.u32 %r3, %r1, 8;\n\tsetp.lt.u32 %p1, %r3, %r2;\n\t@%p1 st.global.b64 [%rd5], %rd3;",
       1, false},
      {"@%p1 add.s64 %rd5, %rd5, 8;\n\tst.global.b64 [%rd5], %rd3;", 1, false},
      // Written again for the second store, or behind both.
      {"st.global.b64 [%rd5], %rd3;\n\tadd.s64 %rd5, %rd5, 8;\n\tst.global.b64 [%rd5], %rd3;", 1,
       true},
      {"st.global.b64 [%rd5], %rd3;\n\tst.global.b64 [%rd5+8], %rd3;\n\tadd.s64 %rd5, %rd5, 8;", 1,
       true},
      // Computed from a variable whose name means nothing, or another variable, at the load.
      {"{\n\t.shared .align 4 .b8 own[16];\n\t.reg .b32 %a, %b;\n\tmov.u32 %a, own;\n\t"
       "mov.u32 %b, own;\n\tsub.u32 %r3, %a, %b;\n\t}\n\tcvt.u64.u32 %rd7, %r3;\n\t"
       "add.s64 %rd6, %rd5, %rd7;\n\tst.global.b64 [%rd6], %rd3;",
       1, false},
      // Another kernel's results may be the operands.
      {"griddepcontrol.wait;\n\tst.global.b64 [%rd5], %rd3;", 1, false},
  };
  for (const Placement& each : cases) {
    const auto result = fused_in_pairs(std::string(kFirst) + each.body);
    ASSERT_TRUE(result) << each.body << ": " << to_string(result.error());
    int groups = 0;
    for (size_t at = 0; (at = result->ptx.find("@%tail_apart bra", at)) != std::string::npos; ++at)
      ++groups;
    EXPECT_EQ(groups, each.groups) << each.body;
    EXPECT_EQ(result->ptx.find("@%tail_apart bra") < result->ptx.find("bar.sync"), each.is_ahead)
        << each.body;
  }
}

// More stores directly behind a load than wait for it together.
TEST(FuseKernel, LoadsTheOperandsOfEachGroup) {
  std::string body = "ld.global.f32 %f2, [%rd4+4];";
  for (int i = 0; i < 20; ++i) body += fmt::format("\n\tst.global.b64 [%rd5+{}], %rd3;", 8 * i);
  const auto result = fused_in_pairs(body);
  ASSERT_TRUE(result) << to_string(result.error());
  for (int i = 0; i < 20; ++i) {
    const std::string fetched = fmt::format("%tail_f{}_0", i);
    const size_t written = result->ptx.find("mov.b32 " + fetched + ",");
    EXPECT_NE(written, std::string::npos) << fetched;
  }
}

// A function that is called with the output and with another buffer. `declarations` stand in it.
std::string kernel_with_counter(std::string_view declarations, std::string_view statements) {
  const auto call = [](std::string_view pointer) {
    return fmt::format("{{\n\t.param .b64 a;\n\tst.param.b64 [a], {};\n\tcall count, (a);\n\t}}\n",
                       pointer);
  };
  const std::string function = fmt::format(R"(
.visible .func count(.param .b64 p)
{{
	.reg .b64 %rd<5>;
	.reg .b32 %r<5>;
	{}
	ld.param.u64 %rd1, [p];
	{}
	st.u32 [%rd1], %r1;
	ret;
}}
)",
                                           declarations, statements);
  return kernel_around(call("%rd4") + call("%rd5"), function);
}

// Those of a function that is copied stay one each: the copy and the function share them.
TEST(FuseKernel, KeepsStaticVariables) {
  expect_golden(
      fused(kernel_with_counter(
                ".shared .align 8 .b32 sum[4], %last;\n\t.local .b32 own[2];\n\t"
                ".const .b32 two = 2;\n\t.global .b32 calls = 1;\n\t"
                ".global .align 8 .u64 places[2] = {generic(calls)+4, count};",
                "ld.shared.u32 %r1, [sum+4];\n\tmov.b64 %rd2, %last;\n\t"
                "ld.shared.u32 %r2, [%last];\n\tst.local.u32 [own+4], %r2;\n\t"
                "ld.const.u32 %r3, [two];\n\tld.global.u64 %rd3, [places];\n\t"
                "{\n\t.shared .b32 sum;\n\t.reg .b32 calls;\n\tmov.b32 calls, 0;\n\t"
                "st.shared.u32 [sum], calls;\n\t}\n\tatom.global.add.u32 %r4, [calls], 1;"),
            4),
      "statics");
}

TEST(FuseKernel, MovesNoVariableOfItsOwn) {
  const auto result = fused(kernel_with_counter(".local .b32 own[2];", ""), 4);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->ptx.find("static"), std::string::npos);
}

TEST(FuseKernel, SaysHowManyThreads) {
  const std::string text = kernel_around("st.f32 [%rd5], %f1;");
  const auto fused = [](std::string kernel) {
    const Module module = parsed(std::move(kernel));
    const auto analysis = analyse_output(module, "k", {"out"}, 4);
    return fuse_stores(module, *analysis, parsed(tail_text(4)), {"attacca_tail", {"b"}, {}, 256})
        ->ptx;
  };
  EXPECT_NE(fused(text).find("\n)\n.maxntid 256, 1, 1\n{"), std::string::npos);
  std::string own = text;
  own.insert(own.find("{\n\t.reg"), ".reqntid 128, 1, 1\n");
  EXPECT_EQ(fused(own).find(".maxntid"), std::string::npos);
}

// A second tail after the first: no name clashes.
TEST(FuseKernel, FusesAgain) {
  const auto once = fused(kernel_around("st.f32 [%rd5], %f1;"), 4);
  ASSERT_TRUE(once);
  const auto twice = fused(once->ptx, 4);
  ASSERT_TRUE(twice) << to_string(twice.error());
  EXPECT_EQ(twice->appended[0].index, 6);
  EXPECT_NE(twice->appended[0].parameter, once->appended[0].parameter);
}

TEST(FuseKernel, NamesWhatIsTaken) {
  const auto result =
      fused(kernel_around("st.f32 [%rd5], %f1;", ".global .b32 attacca_tail;\n"), 4);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().what, "the kernel's file uses the name 'attacca_tail' itself");
}

}  // namespace
}  // namespace attacca::ptx
