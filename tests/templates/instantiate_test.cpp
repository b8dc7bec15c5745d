// One kernel's PTX for the other 16-bit float.
#include <cstdlib>
#include <fstream>

#include "jit/assemble.hpp"
#include "jit/ptxas.hpp"
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

TEST(Instantiate, RetypesMatrixInstructionsAlone) {
  const auto text = instantiate(sample(), ir::DType::F16);
  ASSERT_TRUE(text) << to_string(text.error());
  const auto path = kFolder / "golden" / "matrix_f16.ptx";
  if (std::getenv("UPDATE_GOLDEN")) std::ofstream(path, std::ios::binary) << *text;
  EXPECT_EQ(*text, testing::read(path)) << "UPDATE_GOLDEN=1 rewrites " << path;
}

TEST(Instantiate, LeavesItsOwnTypeAsItIs) {
  EXPECT_EQ(*instantiate(sample(), ir::DType::BF16), testing::read(sample().path));
}

TEST(Instantiate, GivesWhatAssembles) {
  // nvJitLink 13.0 crashes on the sample's lone wgmma, which ptxas takes.
  auto ptxas = jit::describe_ptxas();
  ASSERT_TRUE(ptxas) << to_string(ptxas.error());
  const jit::AssemblerDescription assembler{jit::Assembler::Ptxas, *std::move(ptxas)};
  for (ir::DType type : {ir::DType::BF16, ir::DType::F16}) {
    const auto image = jit::assemble(*instantiate(sample(), type), "sm_90a", assembler);
    EXPECT_TRUE(image) << ir::name(type) << ": " << to_string(image.error());
  }
}

TEST(Instantiate, SaysWhatIsMissing) {
  Template gone = sample();
  gone.path = "/nowhere/matrix.ptx";
  EXPECT_FALSE(instantiate(gone, ir::DType::BF16));
}

}  // namespace
}  // namespace attacca::templates
