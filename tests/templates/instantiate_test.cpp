// One kernel's PTX for other types of the same width.
#include <cstdlib>
#include <fstream>

#include "gpu/compile/assemble.hpp"
#include "gpu/compile/ptxas.hpp"
#include "templates_testing.hpp"

namespace attacca::templates {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(ATTACCA_SOURCE_DIR) / "tests" / "templates";

Template sample() {
  Template kernel;
  kernel.name = "sample";
  kernel.input_types = {ir::DType::BF16, ir::DType::F16};
  kernel.path = kFolder / "samples" / "matrix.ptx";
  return kernel;
}

TEST(Instantiate, RetypesWhatMultipliesOrWidensFactorsAlone) {
  const auto text = instantiate(sample(), ir::DType::F16, ir::DType::F16);
  ASSERT_TRUE(text) << to_string(text.error());
  const auto path = kFolder / "golden" / "matrix_f16.ptx";
  if (std::getenv("UPDATE_GOLDEN")) std::ofstream(path, std::ios::binary) << *text;
  EXPECT_EQ(*text, testing::read(path)) << "UPDATE_GOLDEN=1 rewrites " << path;
}

TEST(Instantiate, LeavesItsOwnTypeAsItIs) {
  EXPECT_EQ(*instantiate(sample(), ir::DType::BF16, ir::DType::BF16), testing::read(sample().path));
}

TEST(Instantiate, GivesWhatAssembles) {
  // nvJitLink 13.0 crashes on the sample's lone wgmma, which ptxas takes.
  auto ptxas = gpu::describe_ptxas();
  ASSERT_TRUE(ptxas) << to_string(ptxas.error());
  const gpu::AssemblerDescription assembler{gpu::Assembler::Ptxas, *std::move(ptxas)};
  for (ir::DType type : {ir::DType::BF16, ir::DType::F16}) {
    const auto image = gpu::assemble(*instantiate(sample(), type, type), "sm_90a", assembler);
    EXPECT_TRUE(image) << ir::name(type) << ": " << to_string(image.error());
  }
}

// The product of a kernel of bytes, whose factors may differ.
std::string opcode_for(ir::DType a, ir::DType b, bool b_first) {
  Template kernel = sample();
  kernel.input_types = {ir::DType::F8E4M3, ir::DType::F8E5M2};
  kernel.mixed_inputs = true;
  kernel.b_first = b_first;
  kernel.path = (kFolder / "samples" / "bytes.ptx").string();
  const auto text = instantiate(kernel, a, b);
  if (!text) return to_string(text.error());
  const size_t at = text->find("wgmma.mma_async");
  return text->substr(at, text->find(' ', at) - at);
}

TEST(Instantiate, TellsTheFactorsApart) {
  constexpr auto kE4M3 = ir::DType::F8E4M3, kE5M2 = ir::DType::F8E5M2;
  const std::string before = "wgmma.mma_async.sync.aligned.m64n8k32.f32";
  EXPECT_EQ(opcode_for(kE4M3, kE4M3, false), before + ".e4m3.e4m3");
  EXPECT_EQ(opcode_for(kE5M2, kE5M2, false), before + ".e5m2.e5m2");
  EXPECT_EQ(opcode_for(kE4M3, kE5M2, false), before + ".e4m3.e5m2");
  EXPECT_EQ(opcode_for(kE4M3, kE5M2, true), before + ".e5m2.e4m3");
  EXPECT_EQ(opcode_for(kE5M2, kE4M3, true), before + ".e4m3.e5m2");
}

TEST(Instantiate, MixesOnlyWhereTheKernelDoes) {
  const auto mixed = instantiate(sample(), ir::DType::BF16, ir::DType::F16);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().what, "template sample takes no bf16 by f16 operands");
}

TEST(Instantiate, SaysWhatIsMissing) {
  Template gone = sample();
  gone.path = "/nowhere/matrix.ptx";
  EXPECT_FALSE(instantiate(gone, ir::DType::BF16, ir::DType::BF16));
}

}  // namespace
}  // namespace attacca::templates
