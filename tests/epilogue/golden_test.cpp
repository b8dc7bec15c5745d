// The emitted code of a dozen epilogues, to be read. UPDATE_GOLDEN=1 rewrites the files.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

#include "epilogue/hole.hpp"
#include "epilogue/text.hpp"

namespace attacca::epilogue {
namespace {

using ir::DType;
using ir::Mode;

struct Golden {
  const char* name;
  const char* text;
  Mode mode = Mode::Fp32;
  DType result = DType::BF16;
  DType accumulator = DType::F32;
  bool swapped = false;
  bool amax = false;  // of the accumulators, besides
};

const TextOptions options_of(const Golden& golden) {
  TextOptions options;
  options.accumulator = golden.accumulator;
  options.results = {golden.result};
  return options;
}

const Golden kGoldens[] = {
    {"identity", "acc"},
    {"bias_gelu", "gelu(acc + row(bias))"},
    {"bias_gelu_f32", "gelu(acc + row(bias))", Mode::Fp32, DType::F32},
    {"bias_silu_residual", "silu(acc + row(bias)) * full(res)"},
    {"bias_silu_residual_eager", "silu(acc + row(bias)) * full(res)", Mode::Eager},
    {"two_eager_f16", "a = elu(acc + row(bias)), tanh(acc) * full(res)", Mode::Eager, DType::F16},
    {"swapped", "silu(acc + row(bias)) * full(res)", Mode::Fp32, DType::F16, DType::F32, true},
    {"swiglu", "swiglu(acc0, acc1)"},
    {"clamped_swiglu_eager", "clamped_swiglu(acc0, acc1)", Mode::Eager},
    {"requantize", "cast(round(cast(acc, f32) * row(scale) * col(token)), s8, saturate=true)",
     Mode::Fp32, DType::S8, DType::S32},
    {"dequantize", "silu(cast(acc, f32) * row(scale) * col(token) + row(bias))", Mode::Fp32,
     DType::BF16, DType::S32},
    {"fp8", "cast(acc * scalar(scale: f32), f8e4m3)", Mode::Fp32, DType::F8E4M3},
    {"two_results", "pre = acc + row(bias), relu(acc + row(bias)) * full(mask: u8)"},
    {"pointwise", "tanh(full(x)) + full(y: f32) * 0.5", Mode::Fp32, DType::F16},
    {"double_eager", "cast(pow(cast(acc, f64), 3), f32)", Mode::Eager, DType::F32},
    {"amax", "cast(acc * scalar(scale: f32), f8e4m3, saturate=true)", Mode::Fp32, DType::F8E4M3,
     DType::F32, false, true},
};

std::string emitted(const Golden& golden) {
  auto parsed = parse_text(golden.text, options_of(golden));
  if (!parsed) return to_string(parsed.error());
  if (golden.amax) {
    Output amax;
    amax.kind = OutputKind::FullReduce;
    amax.reduction = ir::Op::AMax;
    amax.access.strides = {0, 0};
    parsed->epilogue.outputs.push_back(amax);
  }
  const HoleSignature signature = roomy_signature(parsed->epilogue, golden.swapped);
  const auto bound = bind(parsed->epilogue, signature);
  if (const auto* reason = std::get_if<std::string>(&bound)) return *reason;
  CudaOptions options;
  options.mode = golden.mode;
  options.names = parsed->names;
  return emit_cuda(parsed->epilogue, signature, std::get<Binding>(bound), options);
}

class EmitGolden : public testing::TestWithParam<Golden> {};

TEST_P(EmitGolden, IsAsReviewed) {
  const std::string path =
      std::string(ATTACCA_SOURCE_DIR "/tests/epilogue/golden/") + GetParam().name + ".cu";
  const std::string got = emitted(GetParam());
  if (std::getenv("UPDATE_GOLDEN")) std::ofstream(path, std::ios::binary) << got;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream want;
  want << file.rdbuf();
  EXPECT_EQ(got, want.str()) << "UPDATE_GOLDEN=1 rewrites " << path;
}

INSTANTIATE_TEST_SUITE_P(Emit, EmitGolden, testing::ValuesIn(kGoldens),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace attacca::epilogue
