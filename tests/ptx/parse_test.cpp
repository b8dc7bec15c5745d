#include "ptx_testing.hpp"

namespace attacca::ptx {
namespace {

using testing::parsed;

const std::string kHeader = ".version 8.7\n.target sm_90a\n.address_size 64\n";

std::string in_function(const std::string& statements) {
  return kHeader + ".func f(.param .b32 a)\n{\n" + statements + "\n}\n";
}

const Function& only_function(const Module& module) {
  return std::get<Function>(module.items.back());
}

class Samples : public ::testing::TestWithParam<std::string> {};

TEST_P(Samples, PrintBackByteForByte) {
  for (const auto& text : {testing::kernel_text(GetParam()), testing::epilogue_text(GetParam())})
    EXPECT_EQ(print(parsed(text)), text);
}

INSTANTIATE_TEST_SUITE_P(All, Samples, ::testing::ValuesIn(testing::sample_names()),
                         [](const auto& info) { return info.param; });

// Texts that people and compilers write; each must parse, and print as the same text.
class Statements : public ::testing::TestWithParam<const char*> {};

TEST_P(Statements, PrintBack) {
  const std::string text = in_function(GetParam());
  const auto module = parse(text);
  ASSERT_TRUE(module) << to_string(module.error());
  EXPECT_EQ(print(*module), text);
}

const char* const kStatements[] = {
    "",
    ";;",
    "{ { } }",
    ".reg .b32 %r<12>, x, y<3>; .reg .v4 .f32 %v; .reg .pred p;",
    ".shared .align 16 .b8 tile[4][32]; .local .b8 depot[28];",
    "a: b: $L__BB0_1: bra a;",
    "@%p1 mov.b32 %r1, -1; @!%p1 mov.f32 %f1, 0fBF800000; mov.f64 %fd1, 0d3FF0000000000000;",
    "mov.f32 %f1, 1.5e-3; mov.u32 %r1, 0x1F; mov.u32 %r2, 0b101U; mov.u32 %r3, 017;",
    "ld.global.v4.b32 {%r1, %r2, _, %r4}, [%rd1+-16]; st.shared.b32 [tile+4], %r1;",
    "ld.global.b32 %r1, [ %rd1 + 0 ]; ld.const.b32 %r1, [16]; ld.b32 %r1, [table-4+8];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%r1], [%rd1, {%r2, %r3}], [%r4];",
    "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;",
    "mov.u32 %r1, %tid.x; mov.b64 {%r1, %r2}, %rd1; shf.l.wrap.b32 %r1, %r2, %r3, WARP_SZ-1;",
    "call.uni (retval0), g, (param0, param1); call g; call (r), %rd1, (p), prototype_0;",
    "prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);",
    "$L_targets: .branchtargets $L1, $L2; brx.idx %r1, $L_targets;",
    "targets: .calltargets f, g;\n.pragma \"nounroll\";",
    ".loc 1 12 3\n.loc\t1 12 3, function_name $L__info_string0, inlined_at 1 5 3 // here\nret;",
    ".loc 1 12 3 st.b32 [%r1], %r2; .loc 0x1 2U 0 @!%p1 ret; .loc 1 2 3 L: .loc 1 2 3 { ret; }",
    ".loc 1 2 3,\nfunction_name $L__info_string0 + 4,\ninlined_at 1\n5 3 ret;",
    ".loc 1 2 3, function_name .debug_str+16, inlined_at 1 5 3\n.target sm_90a, debug ret;",
    "// begin inline asm\n/* two\nlines */ mov.b32 %r1, /* one */ %r2; // end inline asm",
    "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [texture, {%r1, %r2}];",
};
INSTANTIATE_TEST_SUITE_P(All, Statements, ::testing::ValuesIn(kStatements));

class ModuleItems : public ::testing::TestWithParam<const char*> {};

TEST_P(ModuleItems, PrintBack) {
  const std::string text = kHeader + GetParam() + "\n// the end";
  const auto module = parse(text);
  ASSERT_TRUE(module) << to_string(module.error());
  EXPECT_EQ(print(*module), text);
}

const char* const kItems[] = {
    ".global .align 4 .u32 a[2] = {1, 2}, b = 7; .visible .const .f32 c[2][2] = {{1.0, 2.0}, {}};",
    ".global .u64 p = generic(a)+4; .extern .shared .align 128 .b8 smem[]; .weak .global .b32 w;",
    ".global .attribute(.managed) .align 8 .b8 m[8]; .global .texref t;",
    ".visible .entry k() .maxntid 256, 1, 1 .minnctapersm 2 .reqnctapercluster 2, 1, 1 { }",
    ".entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 map[128]) "
    ".explicitcluster .maxclusterrank 8 .pragma \"maxnreg 32\"; { ret; }",
    ".extern .func (.param .b32 r) g(.param .b32 a) .noreturn;",
    ".func (.reg .b32 r) old(.reg .b32 a) { mov.b32 r, a; ret; }",
    ".file 1 \"a.cu\", 1, 2\n.section .debug_info { .b8 1 .b64 $L }\n.section .x\n{\n}",
    ".alias f, g; .file 3 \"b.cu\" .func g; .section .debug_str { .b8 0 } .func h;",
};
INSTANTIATE_TEST_SUITE_P(All, ModuleItems, ::testing::ValuesIn(kItems));

struct BadText {
  std::string text, where, what;
  friend void PrintTo(const BadText& bad, std::ostream* out) { *out << bad.what; }
};
class BadTexts : public ::testing::TestWithParam<BadText> {};

TEST_P(BadTexts, SayWhatAndWhere) {
  const auto module = parse(GetParam().text, "x.ptx");
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().where, GetParam().where);
  EXPECT_EQ(module.error().what, GetParam().what);
}

const BadText kBadTexts[] = {
    {"", "x.ptx:1:1", "the PTX has no .version"},
    {".version 8.7\n", "x.ptx:1:1", "the PTX has no .target"},
    {kHeader + "int main() {}", "x.ptx:4:1",
     "expected a directive, a variable or a function, got 'int'"},
    {kHeader + ".func f {", "x.ptx:4:10", "expected '}', got the end of the text"},
    {kHeader + ".func f", "x.ptx:4:8",
     "expected a function's body or ';', got the end of the text"},
    {kHeader + ".global .b33 x;", "x.ptx:4:14", "expected a type and a name, got 'x'"},
    {kHeader + ".global .b32 x[;", "x.ptx:4:16", "expected an array size, got ';'"},
    {in_function("\tadd.s32 %r1, %r2"), "x.ptx:7:1", "expected ';' after the instruction, got '}'"},
    {in_function("add.s32 %r1, ;"), "x.ptx:6:14", "expected an operand, got ';'"},
    {in_function("ld.b32 %r1, [%r2;"), "x.ptx:7:1", "expected ']' after the address, got '}'"},
    {in_function("@ mov.b32;"), "x.ptx:6:10", "expected an instruction, got ';'"},
    {in_function(".reg .b32 %r<99999999999999999999>;"), "x.ptx:6:14",
     "expected a number of registers, got '99999999999999999999'"},
    {in_function("mov.b32 %r1, `;"), "x.ptx:6:14", "PTX has no use for the byte 0x60 here"},
    {in_function(".pragma \"open;"), "x.ptx:6:9", "a string does not end on its line"},
    {in_function(".loc 1 5 st.b32 [%r1], %r2;"), "x.ptx:6:10", "expected a column, got 'st.b32'"},
    {in_function(".loc 1 5 0, ret;"), "x.ptx:6:13", "expected 'function_name', got 'ret'"},
    {in_function(".loc 1 5 0, function_name f ret;"), "x.ptx:6:29",
     "expected ',' before inlined_at, got 'ret'"},
    {kHeader + ".file 2, .func f;", "x.ptx:4:8", "expected a file's name, got ','"},
    {kHeader + ".section .debug_str .func f; { }", "x.ptx:4:21",
     "expected '{' before the section, got '.func'"},
    {in_function("/* open"), "x.ptx:6:1", "a comment does not end"},
    {in_function(std::string(100, '{')), "x.ptx:6:64", "expected fewer nested scopes, got '{'"},
    {in_function("mov.b32 x, " + std::string(100, '{') + ";"), "x.ptx:6:76",
     "expected fewer nested brackets, got '{'"},
};
INSTANTIATE_TEST_SUITE_P(All, BadTexts, ::testing::ValuesIn(kBadTexts));

TEST(Parse, FindsTheFormOfOperands) {
  const Module module = parsed(in_function(
      "@!%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1+-8], 0x10; setp.eq.b32 %p1|%p2, %r1, 0fBF800000;"));
  const auto& statements = only_function(module).body->statements;
  const auto& load = std::get<Instruction>(statements[0].node);
  EXPECT_TRUE(load.predicate && load.predicate->negated);
  EXPECT_EQ(load.predicate->name, "%p1");
  EXPECT_EQ(load.opcode, "ld.global.v2.b32");
  ASSERT_EQ(load.operands.size(), 3u);
  const auto& registers = std::get<Tuple>(load.operands[0].form).elements;
  ASSERT_EQ(registers.size(), 2u);
  EXPECT_EQ(std::get<Name>(registers[1].form).text, "%r2");
  EXPECT_EQ(std::get<Address>(load.operands[1].form).base, "%rd1");
  EXPECT_EQ(std::get<Address>(load.operands[1].form).offset, -8);
  EXPECT_EQ(std::get<Immediate>(load.operands[2].form).text, "0x10");
  const auto& compare = std::get<Instruction>(statements[1].node);
  EXPECT_TRUE(std::holds_alternative<Expression>(compare.operands[0].form));
  EXPECT_EQ(module.text(compare.operands[0].span), "%p1|%p2");
}

// What follows a directive on its line is a statement, as for ptxas.
TEST(Parse, EndsDirectivesByTheirGrammar) {
  for (const char* directive :
       {".loc 1 5 0", ".loc 1 5 0, function_name $L1, inlined_at 1 2 3",
        ".loc 1 5 0, function_name .debug_str+4, inlined_at 1 2 3", ".target sm_90a, debug"}) {
    const Module module =
        parsed(in_function(std::string(directive) + " st.global.b32 [%rd1], %r1; ret;"));
    const auto& statements = only_function(module).body->statements;
    ASSERT_EQ(statements.size(), 3u) << directive;
    EXPECT_EQ(module.text(std::get<Directive>(statements[0].node).span), directive);
    EXPECT_EQ(std::get<Instruction>(statements[1].node).opcode, "st.global.b32");
  }
}

TEST(Parse, FindsTheShapeOfParameters) {
  const Module module = parsed(
      kHeader +
      ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 map[128])\n"
      ".maxntid 128, 1, 1\n{\n.reg .b32 %r<12>;\n}\n");
  const Function& kernel = only_function(module);
  EXPECT_TRUE(kernel.is_entry);
  EXPECT_EQ(kernel.linkage, ".visible");
  EXPECT_EQ(module.text(kernel.attributes), ".maxntid 128, 1, 1");
  ASSERT_EQ(kernel.parameters.size(), 2u);
  EXPECT_TRUE(kernel.parameters[0].is_pointer);
  EXPECT_EQ(kernel.parameters[0].pointer_to, ".global");
  EXPECT_EQ(kernel.parameters[1].alignment, 64u);
  EXPECT_EQ(size_in_bytes(kernel.parameters[1]), 128u);
  const auto& registers = std::get<Declaration>(kernel.body->statements[0].node);
  EXPECT_EQ(registers.variables[0].range, 12u);
}

}  // namespace
}  // namespace attacca::ptx
