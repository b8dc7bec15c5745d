// Placement of operands, one line each: the epilogue's text, the kernel's slots, and where each
// operand goes or why it cannot.
#include "gtest/gtest.h"

#include "epilogue/hole.hpp"
#include "epilogue/text.hpp"
#include "fuse/fuse.hpp"
#include "ir/text/text.hpp"

namespace attacca::epilogue {
namespace {

using ir::DType;

struct Slots {
  int accumulators = 1;
  std::vector<int> fulls = {};
  int rows = 0, columns = 0;
  std::vector<int> results = {16};
  bool swapped = false;
};

struct Placing {
  const char* name;
  const char* text;
  Slots slots;
  const char* want;
  std::vector<DType> results = {DType::BF16};
  PlacementLimits limits = {};
};

HoleSignature signature_of(const Slots& slots) {
  return {slots.accumulators, DType::F32,    slots.fulls,  slots.rows,
          slots.columns,      slots.results, slots.swapped};
}

std::string placed(const Placing& placing) {
  TextOptions options;
  options.results = placing.results;
  const auto parsed = parse_text(placing.text, options);
  if (!parsed) return to_string(parsed.error());
  const auto bound = bind(parsed->epilogue, signature_of(placing.slots), placing.limits);
  if (const auto* reason = std::get_if<std::string>(&bound)) return *reason;
  return serialize(std::get<Binding>(bound));
}

const Placing kPlacings[] = {
    {"Identity", "acc", {}, "acc0 -> result0"},
    {"RowAndFull", "silu(acc + row(b)) * full(r)", {1, {16}, 1, 0}, "acc0 row0 full0 -> result0"},
    {"NoSlots", "acc * row(s) + full(r)", {}, "acc0 context0 context1 -> result0"},
    {"FirstComeFirst",
     "acc + row(a) + row(b) + row(c)",
     {1, {}, 2, 0},
     "acc0 row0 row1 context0 -> result0"},
    {"FullByWidth",
     "acc + full(a: f32) + full(b) + full(c)",
     {1, {16, 32}, 0, 0},
     "acc0 full1 full0 context0 -> result0"},
    {"BytesHaveNoFullSlot", "acc + full(a: u8)", {1, {16}, 0, 0}, "acc0 context0 -> result0"},
    {"BytesFitARowSlot", "acc + row(a: s8)", {1, {}, 1, 0}, "acc0 row0 -> result0"},
    {"WideValuesDoNot", "acc + row(a: s64)", {1, {}, 1, 0}, "acc0 context0 -> result0"},
    {"Swapped", "acc * col(t) + row(b)", {1, {}, 1, 1, {16}, true}, "acc0 row0 col0 -> result0"},
    {"SwappedLacksARow",
     "acc * col(t) + row(b)",
     {1, {}, 0, 1, {16}, true},
     "acc0 context0 col0 -> result0"},
    {"ScalarPrefersAColumn", "acc * scalar(a)", {1, {}, 1, 1}, "acc0 col0 -> result0"},
    {"ScalarTakesARow", "acc * scalar(a)", {1, {}, 1, 0}, "acc0 row0 -> result0"},
    {"ScalarWaitsForVectors",
     "acc * scalar(a) + col(c)",
     {1, {}, 0, 1},
     "acc0 context0 col0 -> result0"},
    {"Gate", "swiglu(acc0, acc1)", {2}, "acc0 acc1 -> result0"},
    {"TwoResults",
     "acc, relu(acc)",
     {1, {}, 0, 0, {32, 16}},
     "acc0 -> result1 result0",
     {DType::BF16, DType::F32}},
    {"SecondResultOutside", "acc, relu(acc)", {1, {}, 0, 0, {16}}, "acc0 -> result0 context0"},
    {"Limited",
     "acc + full(a) + full(b)",
     {1, {16, 16}, 0, 0},
     "acc0 context0 full0 -> result0",
     {DType::BF16},
     {{false, true, false}, {}}},
    {"LimitedOutput",
     "acc, acc * 2",
     {1, {}, 0, 0, {16}},
     "acc0 -> context0 result0",
     {DType::BF16},
     {{}, {true, false}}},
    {"Pointwise", "full(a) + full(b)", {0, {16, 16, 32, 32}, 0, 0}, "full0 full1 -> result0"},

    {"TooFewAccumulators",
     "acc0 + acc1",
     {1},
     "the epilogue reads 2 accumulators, the kernel hands over 1"},
    {"TooMany", "full(a)", {1, {16}}, "the epilogue reads 0 accumulators, the kernel hands over 1"},
    {"NoOutputForAResult",
     "acc",
     {1, {}, 0, 0, {32}},
     "the kernel stores result 0 of 32 bits, and the epilogue has no output for it"},
    {"TooMuchContext",
     "acc+row(a)+row(b)+row(c)+row(d)+row(e)+row(f)+row(g)+row(h)+row(i)+row(j)+row(k)+row(l)+row("
     "m)",
     {},
     "13 operands without a slot, and the context takes 12"},
};

class Bind : public testing::TestWithParam<Placing> {};

TEST_P(Bind, PlacesAsStated) {
  EXPECT_EQ(placed(GetParam()), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(Epilogue, Bind, testing::ValuesIn(kPlacings),
                         [](const auto& test) { return std::string(test.param.name); });

fuse::Region first_region(const std::string& text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error()));
  return fuse::partition(*std::move(graph)).regions.front();
}

TEST(BindRefuses, AccumulatorsOfAnotherType) {
  const auto parsed = parse_text("acc", {.accumulator = DType::S32, .results = {}});
  const auto bound = bind(parsed->epilogue, signature_of({1, {}, 0, 0, {32}}));
  EXPECT_EQ(std::get<std::string>(bound),
            "the epilogue reads s32 accumulators, the kernel has f32");
}

TEST(BindRefuses, Reductions) {
  const fuse::Region region = first_region(
      "graph g(x: bf16[M, 8], w: bf16[8, 16]) {\n y = x @ w\n return y, sum(y, axes=[1])\n}");
  const auto bound = bind(region.epilogue, signature_of({}));
  EXPECT_EQ(std::get<std::string>(bound), "the kernel stores elements, and an output is a sum");
}

constexpr const char* kAmax =
    "graph g(x: f8e4m3[M, 8], w: f8e4m3[8, 16], s: f32[]) {\n y = x @ w * s\n"
    " return cast(y, f8e4m3), amax(y)\n}";

TEST(Bind, AnAmaxOfAllIsTheKernelsMaximum) {
  const fuse::Region region = first_region(kAmax);
  HoleSignature signature = roomy_signature(region.epilogue);
  EXPECT_EQ(signature.maxima, 1);
  EXPECT_EQ(signature.result_bits, std::vector<int>{8});
  EXPECT_EQ(serialize(std::get<Binding>(bind(region.epilogue, signature))),
            "acc0 col0 -> maximum0 result0");
  signature.maxima = 0;
  EXPECT_EQ(std::get<std::string>(bind(region.epilogue, signature)),
            "the kernel stores elements, and an output is a amax");
}

TEST(BindRefuses, OtherMaxima) {
  HoleSignature signature = signature_of({1, {}, 0, 0, {32}});
  signature.maxima = 1;
  const auto refusal = [&](const char* results) {
    const fuse::Region region =
        first_region(std::string("graph g(x: f32[M, 8], w: f32[8, 16]) {\n y = x @ w\n return ") +
                     results + "\n}");
    return std::get<std::string>(bind(region.epilogue, signature));
  };
  EXPECT_EQ(refusal("y, amax(y, axes=[1])"), "the kernel stores elements, and an output is a amax");
  EXPECT_EQ(refusal("y, reduce_max(y)"),
            "the kernel stores elements, and an output is a reduce_max");
  EXPECT_EQ(refusal("y, amax(y), amax(y * 2)"), "the kernel keeps one maximum, and there are more");
}

TEST(BindRefuses, HalfAProduct) {
  Epilogue epilogue = parse_text("relu(acc)")->epilogue;
  epilogue.inputs[0].column_step = 2;
  const auto bound = bind(epilogue, signature_of({}));
  EXPECT_EQ(std::get<std::string>(bound),
            "the epilogue reads some of the product's columns, the kernel hands over all");
}

// "full bf16 [16 1] +8" of each input of the unfused epilogue.
std::string unfused_inputs(const std::string& text) {
  const fuse::Region region = first_region(text);
  std::vector<ir::Dim> columns;
  std::vector<ir::Value> nodes;
  for (const fuse::Gemm& gemm : region.gemms) {
    columns.push_back(gemm.n);
    nodes.push_back(gemm.node);
  }
  const Epilogue result = unfuse(region.epilogue, columns, nodes);
  EXPECT_TRUE(verify(result));
  std::string inputs;
  for (const Input& input : result.inputs) {
    inputs += std::string(inputs.empty() ? "" : "; ") + std::string(name(input.role)) + " " +
              std::string(ir::name(input.dtype)) + " " + to_string(ir::Shape(input.access.strides));
    if (!input.access.offset.is(0)) inputs += " +" + to_string(input.access.offset);
  }
  return inputs;
}

TEST(Unfuse, ReadsTheStoredProduct) {
  EXPECT_EQ(unfused_inputs("graph g(x: bf16[M, 8], w: bf16[8, 16], b: bf16[16]) {\n"
                           " return relu(x @ w + b)\n}"),
            "full bf16 [16, 1]; row bf16 [0, 1]");
}

TEST(Unfuse, ReadsThePackedGatesColumns) {
  EXPECT_EQ(unfused_inputs("graph g(x: f16[M, 8], w: f16[8, 16]) {\n"
                           " a, b = split(x @ w, 2, axis=1)\n return silu(a) * b\n}"),
            "full f16 [16, 1]; full f16 [16, 1] +8");
  EXPECT_EQ(unfused_inputs("graph g(x: f16[M, 8], w: f16[8, 16]) {\n"
                           " y = x @ w\n return silu(y[:, ::2]) * y[:, 1::2]\n}"),
            "full f16 [16, 2]; full f16 [16, 2] +1");
}

TEST(Unfuse, StepsThroughBatches) {
  EXPECT_EQ(unfused_inputs("graph g(x: bf16[B, M, 8], w: bf16[B, 8, 16]) {\n"
                           " return relu(x @ w)\n}"),
            "full bf16 [16*M, 16, 1]");
}

}  // namespace
}  // namespace attacca::epilogue
