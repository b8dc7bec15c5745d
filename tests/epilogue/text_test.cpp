// The text form of epilogues: text in, the epilogue printed, or the error with its place and fix.
#include "epilogue/text.hpp"

#include "gtest/gtest.h"

namespace attacca::epilogue {
namespace {

using ir::DType;

std::string read(const std::string& text, const TextOptions& options = {}) {
  const auto parsed = parse_text(text, options);
  if (!parsed) return to_string(parsed.error());
  EXPECT_TRUE(verify(parsed->epilogue)) << text;
  std::string result;
  for (const Output& output : parsed->epilogue.outputs)
    result +=
        std::string(result.empty() ? "" : ", ") + print(parsed->epilogue, parsed->graph, output);
  return result;
}

std::string input_dtypes(const std::string& text, const TextOptions& options = {}) {
  const auto parsed = parse_text(text, options);
  if (!parsed) return to_string(parsed.error());
  std::string result;
  for (const Input& input : parsed->epilogue.inputs) {
    result += std::string(result.empty() ? "" : " ") + std::string(ir::name(input.dtype));
    if (input.role == Role::Accumulator) result += ">" + std::string(ir::name(input.rounded));
  }
  return result;
}

TEST(EpilogueText, PrintsAsItReads) {
  for (const char* text :
       {"acc", "silu(acc + row(bias)) * full(res)", "swiglu(acc0, acc1)", "acc, relu(acc)",
        "clamp(acc * scalar(a), min=-1, max=6)", "where(acc > 0, acc, acc * col(slope))",
        "acc1 - acc0", "full(x) + full(y)"})
    EXPECT_EQ(read(text), text);
}

TEST(EpilogueText, NamesAnOperandAgain) {
  EXPECT_EQ(read("acc * row(s) + s"), "acc * row(s) + row(s)");
  EXPECT_EQ(read("acc * row(s) + row(s)"), "acc * row(s) + row(s)");
}

TEST(EpilogueText, CastsFloatsToTheResultsDtype) {
  EXPECT_EQ(read("acc * row(s: f32)"), "cast(acc * row(s), bf16)");
  EXPECT_EQ(read("acc", {.results = {DType::F16}}), "acc");
  EXPECT_EQ(read("acc, acc", {.results = {DType::BF16, DType::F32}}), "acc, cast(acc, f32)");
}

TEST(EpilogueText, GivesOperandsTheirDtypes) {
  EXPECT_EQ(input_dtypes("acc + row(b)"), "f32>bf16 bf16");
  EXPECT_EQ(input_dtypes("acc + row(b: f32)"), "f32>bf16 f32");
  EXPECT_EQ(input_dtypes("acc + row(b)", {.results = {DType::F16}}), "f32>f16 f16");
  EXPECT_EQ(input_dtypes("acc + row(b)", {.product = DType::F32}), "f32>f32 f32");
  EXPECT_EQ(
      input_dtypes("cast(acc, f32) * row(s)", {.accumulator = DType::S32, .results = {DType::F16}}),
      "s32>s32 f32");
}

TEST(EpilogueText, ErrorsNameThePlaceAndTheMend) {
  const auto expect = [](const std::string& text, const std::string& what,
                         const TextOptions& options = {}) {
    EXPECT_EQ(read(text, options), what + "\n") << text;
  };
  expect("slu(acc)", "error: unknown op 'slu'\n  at: <epilogue>:1:1\n  fix: did you mean silu?");
  expect("acc + bais + row(bias)",
         "error: 'bais' is not defined\n  at: <epilogue>:1:7\n  fix: did you mean bias?");
  expect("acc + sum(acc)",
         "error: sum is no elementwise op\n  at: <epilogue>:1:7\n"
         "  fix: an epilogue sees one element at a time");
  expect("acc + row(3)",
         "error: expected an operand's name, got '3'\n  at: <epilogue>:1:11\n"
         "  fix: write row(x), or row(x: f32)");
  expect("acc + row(b: half)",
         "error: 'half' is no dtype\n  at: <epilogue>:1:14\n  fix: one of f64, f32, f16, bf16, "
         "f8e4m3, f8e5m2, s8, u8, s32, s64, bool");
  expect("acc + row(b) + col(b)",
         "error: b is col here and row at 1:11\n  at: <epilogue>:1:20\n"
         "  fix: use another name for another operand");
  expect("acc + row(inf)",
         "error: inf is reserved\n  at: <epilogue>:1:11\n"
         "  fix: use another name, or quote it: \"inf\"");
  expect("row(exp)(acc)",
         "error: '(' after an operand\n  at: <epilogue>:1:9\n"
         "  fix: write an operator between them");
  expect("acc + row(constant)(2, f32)",
         "error: '(' after an operand\n  at: <epilogue>:1:20\n"
         "  fix: write an operator between them");
  expect("row(b) = acc",
         "error: '=' after an operand\n  at: <epilogue>:1:8\n"
         "  fix: write an operator between them");
  expect("acc + exp row(b)",
         "error: 'exp' before an operand\n  at: <epilogue>:1:11\n"
         "  fix: write an operator between them, or brackets");
  expect("acc + acc1",
         "error: acc beside acc0 or acc1\n  at: <epilogue>:1:1\n"
         "  fix: write acc for one product, acc0 and acc1 for two");
  expect("row(b) * 2",
         "error: result 1 has one value a row or column, not an element\n  at: <epilogue>\n"
         "  fix: combine it with acc or a full(...) operand");
  expect("acc > 0",
         "error: result 1 is bool, wanted bf16\n  at: <epilogue>\n"
         "  fix: say how: cast(x, bf16) or cast(x, bf16, saturate=true)");
  expect("", "error: expected an expression, got the end of the text\n  at: <epilogue>:1:1");
  expect("acc[:, 1:2]",
         "error: slice is no elementwise op\n  at: <epilogue>\n"
         "  fix: an epilogue sees one element at a time");
}

TEST(EpilogueText, CallsTheUsersFunctions) {
  TextOptions options;
  options.functions = device_functions(
      "// not me: float host(float x)\n"
      "__device__ float my_act(float x) { return x; }\n"
      "__device__ __forceinline__ float blend(const float a, float b);\n"
      "__device__ int other(float x);\n__device__ float pick(int x);\n");
  ASSERT_EQ(options.functions.size(), 2u);
  EXPECT_EQ(read("my_act(acc + row(b)) * full(r)", options),
            "cast(my_act(acc + row(b)) * full(r), bf16)");
  EXPECT_EQ(read("cast(blend(acc, 0.5), bf16)", options), "cast(blend(acc, 0.5), bf16)");
  EXPECT_EQ(read("blend(acc)", options),
            "error: blend takes 2 operands, got 1\n  at: <epilogue>:1:1\n");
  EXPECT_EQ(read("pick(acc)", options).substr(0, 24), "error: unknown op 'pick'");
  const auto parsed = parse_text("my_act(acc)", options);
  EXPECT_NE(serialize(parsed->epilogue),
            serialize(parse_text("cast(acc, f32)", options)->epilogue));
}

TEST(EpilogueText, CallsAStoredValueByItsOwnName) {
  TextOptions options;
  options.accumulator = DType::F16;
  options.product = DType::F16;
  options.results = {DType::F16};
  options.value = "out";
  EXPECT_EQ(input_dtypes("silu(out + row(bias)) * full(res: f32)", options), "f16>f16 f16 f32");
  EXPECT_EQ(read("acc + out", options).substr(0, 27), "error: 'acc' is not defined");
  EXPECT_EQ(read("out + full(acc0)", options), "acc + full(acc0)");
}

// A truncated text is refused or read; nothing else happens.
TEST(EpilogueText, TakesAnyPrefix) {
  const std::string text =
      "y = silu(acc + row(\"b\": f32)) * full(r: f8e4m3), cast(acc, s8, saturate=true)";
  for (size_t size = 0; size <= text.size(); ++size) read(text.substr(0, size));
}

}  // namespace
}  // namespace attacca::epilogue
