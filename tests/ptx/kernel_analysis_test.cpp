// Kernels in, decisions out, one line for each rule. tests/kernels has whole kernels.
#include "ptx/analysis/kernel_analysis.hpp"

#include "fmt/format.h"

#include "kernel_testing.hpp"
#include "ptx_testing.hpp"

namespace attacca::ptx {
namespace {

using testing::kernel_around;
using testing::parsed;

// "2 stores", or the rules that refuse, in order.
std::string decision(const std::string& text, const std::string& output = "out",
                     uint32_t bytes = 4) {
  const Module module = parsed(text);
  const auto spec = parse_output(output);
  if (!spec) return to_string(spec.error());
  const auto analysis = analyse_output(module, "k", *spec, bytes);
  if (!analysis) return analysis.error().what;
  if (analysis->eligible()) return fmt::format("{} stores", analysis->stores.size());
  std::string rules;
  for (const Reason& reason : analysis->reasons)
    rules += fmt::format("{}{}", rules.empty() ? "" : " ", reason.rule);
  return rules;
}

struct Case {
  std::string_view body, expected;
};

void check(std::initializer_list<Case> cases) {
  for (const Case& each : cases)
    EXPECT_EQ(decision(kernel_around(each.body)), each.expected) << each.body;
}

TEST(KernelAnalysis, FollowsTheAddress) {
  check({
      {"st.global.f32 [%rd5], %f1;", "1 stores"},
      {"st.f32 [%rd5+16], %f1;", "1 stores"},
      {"cvta.to.global.u64 %rd6, %rd5; st.global.f32 [%rd6], %f1; st.global.f32 [%rd6+4], %f1;",
       "2 stores"},
      {"mad.wide.s32 %rd6, %r1, 4, %rd2; st.global.f32 [%rd6], %f1;", "1 stores"},
      {"mad.lo.s64 %rd6, %rd3, 4, %rd2; st.global.f32 [%rd6], %f1;", "1 stores"},
      {"sub.s64 %rd6, %rd5, %rd3; st.global.f32 [%rd6], %f1;", "1 stores"},
      {"L: st.global.f32 [%rd2], %f1; add.s64 %rd2, %rd2, 4; setp.lt.u64 %p1, %rd2, %rd5;"
       "@%p1 bra L;",
       "1 stores"},
      {"selp.b64 %rd6, %rd5, %rd2, %p1; st.global.f32 [%rd6], %f1;", "1 stores"},
      {"and.b64 %rd6, %rd5, 15; setp.eq.s64 %p1, %rd6, 0; @%p1 st.global.f32 [%rd5], %f1;",
       "1 stores"},
      {"mov.b64 %rd6, out; ld.param.u64 %rd7, [%rd6]; st.global.f32 [%rd7], %f1;", "1 stores"},
      {"{ .reg .b64 %rd2; ld.param.u64 %rd2, [out]; st.global.f32 [%rd2], %f1; }", "1 stores"},
      {"sub.s64 %rd6, %rd5, %rd2; st.global.f32 [%rd5], %f1;", "1 stores"},
      {"prefetch.global.L2 [%rd5]; st.global.f32 [%rd5], %f1;", "1 stores"},
      {"isspacep.global %p1, %rd5; st.f32 [%rd5], %f1;", "1 stores"},
  });
}

TEST(KernelAnalysis, RefusesWhatIsNoPlainStore) {
  check({
      {"ld.global.f32 %f2, [%rd5]; st.global.f32 [%rd5], %f2;", "read"},
      {"ld.volatile.global.f32 %f2, [%rd5]; st.global.f32 [%rd5], %f2;", "read"},
      {"atom.global.add.f32 %f2, [%rd5], %f1;", "atomic"},
      {"atom.global.cas.b32 %r3, [%rd5], %r1, %r2;", "atomic"},
      {"red.global.add.f32 [%rd5], %f1;", "reduction"},
      {"st.volatile.global.f32 [%rd5], %f1;", "volatile"},
      {"st.relaxed.gpu.global.f32 [%rd5], %f1;", "volatile"},
      {"st.release.sys.global.f32 [%rd5], %f1;", "volatile"},
      {"st.global.u8 [%rd5], %r1;", "partial-element"},
      {"st.global.v2.b16 [%rd5], {%rs1, %rs2};", "partial-element"},
      {"cp.async.ca.shared.global [cell], [%rd5], 4;", "async-copy"},
      {"cp.async.bulk.global.shared::cta.bulk_group [%rd5], [cell], 8;", "bulk-copy"},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd5], [cell], 8;",
       "bulk-copy"},
      {"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd5, {%r1}], [cell];", "tma"},
      {"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd5], {%f1, %f2}, %r1;",
       "matrix-store"},
      {"multimem.st.global.f32 [%rd5], %f1;", "reduction"},
      {"frobnicate.global [%rd5], %f1;", "opcode"},
      {"", "never-stored"},
  });
}

TEST(KernelAnalysis, RefusesWhatItCannotFollow) {
  const auto through = [](std::string_view computation) {
    return kernel_around(fmt::format("{} st.global.f32 [%rd5], %f1;", computation));
  };
  for (const auto& [computation, expected] : std::initializer_list<Case>{
           {"st.global.b64 [%rd4], %rd5;", "escape"},
           {"st.shared.b64 [cell], %rd5;", "escape"},
           {"st.global.b64 [hidden], %rd2;", "escape"},
           {"xor.b64 %rd6, %rd5, %rd3;", "opcode"},
           {"shl.b64 %rd6, %rd5, 1;", "opcode"},
           {"cvt.u32.u64 %r3, %rd5;", "opcode"},
           {"and.b64 %rd6, %rd5, -16;", "opcode"},
           {"and.b64 %rd6, %rd5, 240;", "opcode"},
           {"sub.s64 %rd6, %rd4, %rd5;", "opcode"},
           {"add.s64 %rd6, %rd5, %rd2;", "opcode"},
           {"mul.lo.s64 %rd6, %rd5, 2;", "opcode"},
           {"mov.b64 {%r3, %r4}, %rd5;", "1 stores"},
           {"mov.b64 {%r3, %r4}, %rd5; add.s32 %r5, %r3, 4;", "split"},
           {"mov.b64 {%r3, %r4}, %rd5; st.shared.b32 [cell], %r3;", "escape"},
           {"mov.b64 {%r3, %r4}, %rd5; shfl.sync.idx.b32 %r5|%p1, %r3, 0, 31, -1;", "shuffle"},
           {"ld.param.u32 %r3, [out];", "split"},
           {"ld.param.u32 %r3, [out+4];", "split"},
           {"shfl.sync.idx.b32 %r3|%p1, %rd5, 0, 31, -1;", "shuffle"},
           {"prmt.b32 %r3, %rd5, 0, 1;", "byte-permute"},
           {"unheard.of %rd6, %rd5;", "opcode"},
       })
    EXPECT_EQ(decision(through(computation)), expected) << computation;
}

// The parameters: in 0 to 8, out 8 to 16, n 16 to 20, args 24 to 48, other 48 to 56.
TEST(KernelAnalysis, RefusesToLeaveAParameter) {
  const auto beside = [](std::string_view code) {
    return kernel_around(fmt::format("{} st.global.f32 [%rd5], %f1;", code));
  };
  for (const auto& [code, expected] : std::initializer_list<Case>{
           {"ld.param.u64 %rd7, [in+8];", "parameter"},
           {"ld.param.u64 %rd7, [in+8]; ld.global.f32 %f2, [%rd7];", "parameter unknown-address"},
           {"ld.param.u32 %r3, [in+8];", "parameter"},
           {"ld.param.u8 %rs1, [in+8];", "parameter"},
           {"ld.param.u64 %rd7, [in+4];", "parameter"},
           {"ld.param.u64 %rd7, [n];", "parameter"},
           {"ld.param.u64 %rd7, [n-8];", "parameter"},
           {"ld.param.u64 %rd7, [other-40]; ld.global.f32 %f2, [%rd7];",
            "parameter unknown-address"},
           {"ld.param.u32 %r3, [n+4];", "parameter"},
           {"ld.param.u64 %rd7, [args+24];", "parameter"},
           {"ld.param.u64 %rd7, [args+20];", "parameter"},
           {"ld.param.u64 %rd7, [args+4];", "parameter"},
           {"ld.param.u64 %rd7, [args+16];", "1 stores"},
           {"ld.param.u32 %r3, [args+20];", "1 stores"},
           {"ld.param.u8 %rs1, [args+23];", "1 stores"},
           {"ld.param.u16 %rs1, [args+23];", "parameter"},
           {"ld.param.b128 %rq1, [in];", "parameter"},
           // Vectors.
           {"ld.param.v2.u64 {%rd7, %rd8}, [in];", "parameter"},
           {"ld.param.v2.u32 {%r3, %r4}, [in];", "1 stores"},
           {"ld.param.v4.u32 {%r3, %r4, %r5, %r6}, [in];", "parameter"},
           {"ld.param.v2.u64 {%rd7, %rd8}, [args];", "1 stores"},
           {"ld.param.v2.u64 {%rd7, %rd8}, [args+16];", "parameter"},
           {"ld.param.v2.u64 {%rd7, %rd8}, [args+8];", "parameter"},
           {"ld.param.u64 {%rd7, %rd8}, [in];", "parameter"},
           // By register, and as generic addresses.
           {"mov.b64 %rd6, in; ld.param.u64 %rd7, [%rd6];", "1 stores"},
           {"mov.b64 %rd6, in; ld.param.u64 %rd7, [%rd6+8];", "parameter"},
           {"mov.b64 %rd6, in; add.s64 %rd6, %rd6, 8; ld.param.u64 %rd7, [%rd6-8];", "1 stores"},
           {"mov.b64 %rd6, args; sub.s64 %rd8, %rd6, 16; ld.param.u64 %rd7, [%rd8];", "parameter"},
           {"mov.b64 %rd6, in; ld.param.v2.u64 {%rd7, %rd8}, [%rd6];", "parameter"},
           {"mov.b64 %rd6, args; cvta.param.u64 %rd7, %rd6; ld.u64 %rd8, [%rd7+16];", "1 stores"},
           {"mov.b64 %rd6, args; cvta.param.u64 %rd7, %rd6; ld.u64 %rd8, [%rd7+24];", "parameter"},
           {"mov.b64 %rd6, in+8; ld.param.u32 %r3, [%rd6];", "parameter"},
           {"selp.b64 %rd6, %rd7, %rd3, %p1; ld.param.u64 %rd8, [%rd6];", "parameter"},
           {"ld.param.u64 %rd7, [%rd1];", "parameter"},
           {"ld.param.u64 %rd7, [%rd3];", "parameter"},
           {"ld.param.u32 %r3, [16];", "parameter"},
           // What calls pass, and writes.
           {"{ .param .b64 a; st.param.b64 [a], %rd1; ld.param.b64 %rd7, [a]; }", "1 stores"},
           {"{ .param .b64 a; .param .b64 b; st.param.b64 [b], %rd1; st.param.b64 [a+8], %rd3; }",
            "parameter"},
           {"{ .param .b64 a; .param .b64 b; st.param.b64 [b], %rd1; ld.param.b64 %rd7, [a+8]; }",
            "parameter"},
           {"{ .param .b64 a; .param .b64 b; st.param.b64 [b-8], %rd1; }", "parameter"},
           {"{ .param .align 16 .b8 a[32]; st.param.v2.b64 [a+16], {%rd1, %rd3}; }", "1 stores"},
           {"st.param.b64 [in], %rd3;", "parameter"},
           {"mov.b64 %rd6, in; st.param.b64 [%rd6], %rd3;", "parameter"},
           {"mov.b64 %rd6, in; cvta.param.u64 %rd7, %rd6; st.u64 [%rd7], %rd3;", "opcode"},
           {"mov.b64 %rd6, in; cvta.param.u64 %rd7, %rd6; atom.add.u64 %rd8, [%rd7+8], 4;",
            "opcode"},
           // A tensor map has 128 bytes.
           {"mov.b64 %rd6, args; cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::"
            "complete_tx::bytes [cell], [%rd6, {%r1}], [cell];",
            "parameter"},
       })
    EXPECT_EQ(decision(beside(code)), expected) << code;
}

TEST(KernelAnalysis, RefusesAddressesOfUnknownOrigin) {
  check({
      {"st.global.f32 [%rd5], %f1; ld.global.b64 %rd6, [hidden]; st.global.f32 [%rd6], %f1;",
       "unknown-address"},
      {"st.global.f32 [%rd5], %f1; ld.global.b64 %rd6, [hidden]; add.s64 %rd7, %rd6, %rd3;"
       "ld.f32 %f2, [%rd7];",
       "unknown-address"},
      {"st.global.f32 [%rd5], %f1; ld.global.v2.b32 {%r3, %r4}, [hidden];"
       "mov.b64 %rd6, {%r3, %r4}; st.f32 [%rd6], %f1;",
       "unknown-address"},
      {"st.global.f32 [%rd5], %f1; cvt.u64.u32 %rd6, %r1; st.f32 [%rd6], %f1;", "unknown-address"},
      {"st.global.f32 [%rd5], %f1; st.f32 [4096], %f1;", "unknown-address"},
      {"st.global.f32 [%rd5], %f1; st.global.f32 [hidden], %f1;", "1 stores"},
      {"st.global.f32 [%rd5], %f1; cvta.shared.u64 %rd6, %rd3; st.f32 [%rd6], %f1;", "1 stores"},
      {"st.global.f32 [%rd5], %f1; st.shared.f32 [%r1], %f1;", "1 stores"},
      {"ld.param.u64 %rd6, [other]; selp.b64 %rd7, %rd5, %rd6, %p1; st.global.f32 [%rd7], %f1;",
       "mixed"},
      // A register that is the output's address once and a number later is added to a pointer.
      {"ld.param.u64 %rd6, [other]; mov.u64 %rd7, %rd5; mov.u32 %r3, %tid.x;"
       "mul.wide.u32 %rd7, %r3, 4; add.s64 %rd7, %rd7, %rd6; st.global.f32 [%rd7], %f1;",
       "mixed"},
      {"ld.param.u64 %rd6, [other]; st.global.f32 [%rd6], %f1; st.global.f32 [%rd5], %f1;",
       "1 stores"},
  });
}

TEST(KernelAnalysis, FindsPointersInStructs) {
  const std::string text = kernel_around(
      "ld.param.v2.u64 {%rd6, %rd7}, [args]; ld.global.f32 %f2, [%rd6];"
      "st.global.f32 [%rd7], %f2;");
  EXPECT_EQ(decision(text, "args+8"), "1 stores");
  EXPECT_EQ(decision(text, "3+8"), "1 stores");
  EXPECT_EQ(decision(text, "args"), "read");
  EXPECT_EQ(decision(text, "args+16"), "never-stored");
  EXPECT_EQ(decision(text, "args+20"), "parameter 3 of 'k' holds no pointer at offset 20");
  EXPECT_EQ(decision(text, "n"), "parameter 2 of 'k' holds no pointer at offset 0");
  EXPECT_EQ(decision(text, "7"), "'k' has no parameter '7'");
  EXPECT_EQ(decision(kernel_around("mov.b64 %rd6, args; add.s64 %rd6, %rd6, %rd3;"
                                   "ld.param.u64 %rd7, [%rd6]; st.global.f32 [%rd7], %f1;"),
                     "args+8"),
            "indexed-parameter unknown-address");
}

constexpr std::string_view kPut = R"(
.func put(.param .b64 p, .param .b32 v)
{
	.reg .b64 %rd<3>;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.param.f32 %f1, [v];
	st.f32 [%rd1], %f1;
	ret;
}
.func (.param .b64 r) next(.param .b64 p)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	add.s64 %rd1, %rd1, 4;
	st.param.b64 [r], %rd1;
	ret;
}
.func (.param .b32 r) peek(.param .b64 p)
{
	.reg .b64 %rd<3>;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.f32 %f1, [%rd1];
	st.param.f32 [r], %f1;
	ret;
}
.func (.reg .b64 r) same(.reg .b64 p)
{
	mov.b64 r, p;
	ret;
}
.func again(.param .b64 p)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	{
	.param .b64 a;
	st.param.b64 [a], %rd1;
	call again, (a);
	}
	ret;
}
.extern .func outside(.param .b64 p);
)";

std::string call(std::string_view function, std::string_view pointer) {
  return fmt::format(
      "{{ .param .b64 a; .param .b32 b; st.param.b64 [a], {}; st.param.f32 [b], %f1;"
      " call {}, (a{}); }}\n",
      pointer, function, function == "put" ? ", b" : "");
}

TEST(KernelAnalysis, FollowsCalls) {
  const auto decided = [](const std::string& body) { return decision(kernel_around(body, kPut)); };
  EXPECT_EQ(decided(call("put", "%rd5")), "1 stores");
  EXPECT_EQ(decided(call("put", "%rd5") + call("put", "%rd2")), "1 stores");
  EXPECT_EQ(decided(call("put", "%rd5") + call("put", "%rd4")), "1 stores");
  EXPECT_EQ(decided("{ .param .b64 a; .param .b64 b; st.param.b64 [a], %rd5;"
                    "call (b), next, (a); ld.param.b64 %rd6, [b]; } st.f32 [%rd6], %f1;"),
            "1 stores");
  EXPECT_EQ(decided("{ .param .b64 a; .param .b32 b; st.param.b64 [a], %rd5;"
                    "call (b), peek, (a); } st.f32 [%rd5], %f1;"),
            "read");
  EXPECT_EQ(decided("{ .param .b64 a; .param .b32 b; st.param.b64 [a], %rd4;"
                    "call (b), peek, (a); } st.f32 [%rd5], %f1;"),
            "1 stores");
  EXPECT_EQ(decided("st.f32 [%rd5], %f1;" + call("again", "%rd5")), "recursion");
  for (const char* use : {"st.global.f32 [%rd6+4], %f1;", "ld.global.f32 %f2, [%rd6+4];",
                          "atom.global.add.f32 %f2, [%rd6+4], %f1;"})
    EXPECT_EQ(decided(fmt::format("st.global.f32 [%rd5], %f1; mov.b64 %rd6, %rd4;"
                                  "call (%rd6), same, (%rd5); {}",
                                  use)),
              "register-call");
  EXPECT_EQ(decided("st.f32 [%rd5], %f1;" + call("outside", "%rd4")), "external-call");
  EXPECT_EQ(decided("st.f32 [%rd5], %f1; " + call("vprintf", "%rd4")), "1 stores");
  EXPECT_EQ(decided("st.f32 [%rd5], %f1; " + call("vprintf", "%rd5")), "escape");
  EXPECT_EQ(decided("st.f32 [%rd5], %f1; mov.b64 %rd6, put;" + call("%rd6", "%rd4")),
            "indirect-call");
}

TEST(KernelAnalysis, RefusesDebugBuilds) {
  EXPECT_EQ(decision(kernel_around("st.f32 [%rd5], %f1;", "", "sm_80, debug")), "debug");
}

TEST(KernelAnalysis, RefusesNarrowAddresses) {
  std::string text = kernel_around("st.f32 [%rd5], %f1;");
  text.replace(text.find("_size 64"), 8, "_size 32");
  EXPECT_EQ(decision(text), "address-size");
}

TEST(KernelAnalysis, NamesTheSourceLine) {
  const Module module = parsed(kernel_around(".loc 1 12 3\n\tld.global.f32 %f2, [%rd5];\n\t"
                                             ".loc 2 99 1, function_name x, inlined_at 1 12 3\n\t"
                                             "red.global.add.f32 [%rd5], %f2;") +
                               ".file 1 \"/home/me/kern.cu\"\n.file 2 \"/usr/header.h\"\n");
  const auto analysis = analyse_output(module, "k", {"out"}, 4);
  ASSERT_TRUE(analysis);
  ASSERT_EQ(analysis->reasons.size(), 2);
  EXPECT_EQ(analysis->reasons[0].where, "kern.cu:12");
  EXPECT_EQ(analysis->reasons[0].what, "it reads its output (ld.global.f32)");
  EXPECT_EQ(analysis->reasons[1].where, "kern.cu:12");
}

TEST(KernelAnalysis, SeesInstructionsOnTheLineOfADirective) {
  check({
      {".loc 1 5 0 st.global.f32 [%rd5], %f1; st.global.f32 [%rd5+4], %f1;", "2 stores"},
      {".target sm_80 st.global.f32 [%rd5], %f1;", "1 stores"},
      {".loc 1 5 0 ld.global.f32 %f1, [%rd5]; st.global.f32 [%rd5], %f1;", "read"},
      {".loc 1 5 0, function_name .debug_str+4, inlined_at 1 2 3 mov.b64 %rd5, %rd4;"
       "st.global.f32 [%rd5], %f1;",
       "mixed"},
  });
}

TEST(KernelAnalysis, TellsWhatEachPointerIsUsedFor) {
  const Module module =
      parsed(kernel_around("ld.param.u64 %rd6, [other]; atom.global.add.u32 %r3, [%rd6], 1;"
                           "ld.param.u64 %rd7, [args+8]; st.global.u32 [%rd7], %r3;"
                           "st.global.b64 [%rd7], %rd4; st.global.f32 [%rd5], %f1;"));
  const auto analysis = analyse_output(module, "k", {"out"}, 4);
  ASSERT_TRUE(analysis);
  std::string text;
  for (const PointerUse& use : analysis->uses)
    text += fmt::format("{}{}{}{}{}{} ", use.name, use.read ? " r" : "", use.written ? " w" : "",
                        use.atomics ? " a" : "", use.escapes ? " e" : "",
                        use.is_output ? " output;" : ";");
  EXPECT_EQ(text, "in r e; out w output; args+8 w; other a; ");
}

TEST(KernelAnalysis, KnowsDeclaredPointers) {
  std::string text = kernel_around("st.global.f32 [%rd5], %f1;");
  for (const char* name : {" in,", " out,", " other\n"})
    text.insert(text.find(name), " .ptr .global .align 16");
  const Module module = parsed(text);
  const auto analysis = analyse_output(module, "k", {"out"}, 4);
  ASSERT_TRUE(analysis);
  ASSERT_EQ(analysis->uses.size(), 3);
  EXPECT_TRUE(analysis->uses[1].is_output);
  EXPECT_FALSE(analysis->uses[2].read || analysis->uses[2].written);
}

TEST(KernelAnalysis, KnowsItsKernels) {
  const Module module = parsed(kernel_around(""));
  const auto analysis = analyse_output(module, "kk", {"out"}, 4);
  ASSERT_FALSE(analysis);
  EXPECT_EQ(analysis.error().what, "there is no kernel 'kk'");
  EXPECT_EQ(analysis.error().fix, "one of k");
  EXPECT_FALSE(parse_output(""));
  EXPECT_FALSE(parse_output("out+x"));
}

}  // namespace
}  // namespace attacca::ptx
