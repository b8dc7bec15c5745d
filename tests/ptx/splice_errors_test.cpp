// What splice refuses, with its messages.
#include "ptx/splice/splice.hpp"
#include "ptx_testing.hpp"

namespace attacca::ptx {
namespace {

using testing::parsed;

const std::string kHeader = ".version 8.7\n.target sm_90a\n.address_size 64\n";
const std::string kDeclaration =
    ".extern .func (.param .b32 r) hole (.param .b32 a, .param .align 8 .b8 b[8]);\n";
const std::string kCall =
    "{ .param .b32 p; .param .align 8 .b8 q[8]; .param .b32 v;\n"
    "st.param.b32 [p], 1; st.param.b64 [q], 2;\n"
    "call.uni (v), hole, (p, q);\n"
    "ld.param.b32 %r1, [v]; }\n";
const std::string kEpilogue = kHeader +
                              ".visible .func (.param .b32 r) hole (.param .b32 a, .param .align 8 "
                              ".b8 b[8])\n{ .reg .b32 %r<3>;\nld.param.b32 %r1, [a];\n"
                              "st.param.b32 [r], %r1;\nret; }\n";

std::string kernel(const std::string& body, const std::string& declaration = kDeclaration) {
  return kHeader + declaration + ".visible .entry k() {\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n" +
         body + "ret; }\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string epilogue(const std::string& from, const std::string& to) {
  return replaced(kEpilogue, from, to);
}

TEST(Splice, TheTwoPartsBelowFit) {
  const auto spliced = splice(parsed(kernel(kCall + kCall)), parsed(kEpilogue), "hole");
  ASSERT_TRUE(spliced) << to_string(spliced.error());
  EXPECT_EQ(spliced->calls, 2u);
}

struct Refusal {
  std::string kernel, epilogue, what;
  friend void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.what; }
};
class Refusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refusals, SayWhy) {
  const auto spliced = splice(parsed(GetParam().kernel), parsed(GetParam().epilogue), "hole");
  ASSERT_FALSE(spliced) << spliced->ptx;
  EXPECT_EQ(spliced.error().what, GetParam().what);
  EXPECT_NE(spliced.error().where, "");
  EXPECT_NE(spliced.error().fix, "");
}

const Refusal kRefusals[] = {
    {kernel(""), kEpilogue, "the kernel declares 'hole' and never calls it"},
    {kernel("", ""), kEpilogue, "there is no function 'hole'"},
    {kernel("", ".global .b32 hole;\n"), kEpilogue, "'hole' is a .global variable, not a function"},
    {kernel("", ".entry hole() {}\n"), kEpilogue, "'hole' is a kernel, not a function"},
    {kernel("", ".func hole() {}\n"), kEpilogue, "the kernel defines 'hole' itself"},
    {kernel(kCall), kHeader, "there is no function 'hole'"},
    {kernel(kCall), kHeader + kDeclaration, "'hole' is declared, but has no body"},
    {kernel(kCall), epilogue("sm_90a", "sm_80"),
     "the kernel is for the target sm_90a, the epilogue for sm_80"},
    {kernel(kCall), epilogue("_size 64", "_size 32"),
     "the kernel is for addresses of size 64, the epilogue for 32"},
    {kernel(kCall), epilogue("8.7", "8"), "'8' is no PTX version"},
    {kernel(kCall), epilogue(".b8 b[8]", ".b8 b[16]"),
     "the kernel calls 'hole' as (.b32, .b8[8]) -> (.b32) (<ptx>:4:1), the epilogue defines it as "
     "(.b32, .b8[16]) -> (.b32)"},
    {kernel(kCall, replaced(kDeclaration, ".b32 a", ".f32 a")), epilogue(".b32 a", ".u32 a"),
     "the kernel calls 'hole' as (.f32, .b8[8]) -> (.b32) (<ptx>:4:1), the epilogue defines it as "
     "(.u32, .b8[8]) -> (.b32)"},
    {kernel(kCall + "mov.b64 %rd1, hole;\n"), kEpilogue,
     "'hole' is used other than by a direct call"},
    {kernel(replaced(kCall, "(p, q)", "(p)")), kEpilogue,
     "this call of 'hole' does not match its declaration"},
    {kernel(replaced(kCall, "(p, q)", "(q, q)")), kEpilogue,
     "this call of 'hole' passes q, which has another size"},
    {kernel(replaced(kCall, "(p, q)", "(v, q)")), kEpilogue,
     "this call of 'hole' passes one variable twice"},
    {kernel(replaced(kCall, "(p, q)", "(%r1, q)")), kEpilogue,
     "the call of 'hole' passes %r1, which is no .param variable"},
    {kernel(replaced(kCall, "ld.param", "mov.b64 %rd1, v; ld.param")), kEpilogue,
     "this call of 'hole' passes v, which has other uses, too"},
    {kernel(replaced(kCall, "st.param.b64", "st.param.b32 [q+4], 0; st.param.b64")), kEpilogue,
     "bytes 0 to 7 are written in pieces of different sizes"},
    {kernel(replaced(kCall, ".param .b32 v;", ".param .b32 v, w;")), kEpilogue,
     "one declaration serves a call of the hole and another one"},
    {kHeader + kDeclaration +
         ".func f(.param .b32 p) { .param .align 8 .b8 q[8]; .param .b32 v;\n"
         "call.uni (v), hole, (p, q); }\n",
     kEpilogue, "a function passes its own parameter on to 'hole'"},
    {kernel(kCall), epilogue("ret;", "mov.b32 %r1, b; ret;"),
     "'hole' uses its parameter b other than by plain ld.param and st.param: mov.b32 %r1, b;"},
    {kernel(kCall), epilogue("[a]", "[a+2]"),
     "'hole' uses its parameter a other than by plain ld.param and st.param: ld.param.b32 %r1, "
     "[a+2];"},
    {kernel(kCall), epilogue(".reg", ".shared .b32 s; .reg"),
     "'hole' declares a .shared variable inside"},
    {kernel(kCall), epilogue("ret;", "call hole; ret;"), "'hole' refers to itself"},
    {kernel(kCall, ".extern .func other(.param .b64 x);\n" + kDeclaration),
     replaced(epilogue("ret;", "call other; ret;"), ".visible",
              ".extern .func other(.param .b32 x);\n.visible"),
     "the kernel has 'other' as (.b64) -> (), the epilogue expects (.b32) -> ()"},
};
INSTANTIATE_TEST_SUITE_P(All, Refusals, ::testing::ValuesIn(kRefusals));

TEST(Splice, NamesNeverClash) {
  const std::string busy = kernel(".reg .b32 %fill_r1, slot_end, %slot1_x;\n" + kCall);
  const auto spliced = splice(parsed(busy), parsed(kEpilogue), "hole");
  ASSERT_TRUE(spliced) << to_string(spliced.error());
  EXPECT_NE(spliced->ptx.find("mov.b32 %fill1_r1, %slot2_p_0;"), std::string::npos) << spliced->ptx;
}

TEST(Splice, TakesTheNewerVersion) {
  const auto spliced =
      splice(parsed(kernel(kCall)), parsed(epilogue(".version 8.7", ".version 10.0")), "hole");
  ASSERT_TRUE(spliced) << to_string(spliced.error());
  EXPECT_TRUE(spliced->ptx.starts_with(".version 10.0\n.target sm_90a\n"));
}

}  // namespace
}  // namespace attacca::ptx
