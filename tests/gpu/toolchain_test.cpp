// NVRTC, nvJitLink and ptxas as tools/setup.sh installs them; no GPU.
#include <cstdlib>

#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/compile/compile.hpp"
#include "ptx/splice/splice.hpp"

namespace attacca::gpu {
namespace {

constexpr const char* kKernel = R"(
extern "C" __device__ float hole(float acc, float bias);
extern "C" __global__ void kernel(float* a, const float* bias) {
  a[threadIdx.x] = hole(a[threadIdx.x], bias[threadIdx.x]);
}
)";
constexpr const char* kEpilogue = R"(
extern "C" __device__ float hole(float acc, float bias) { return acc * bias + 1.0f; }
)";

std::string compiled(const std::string& source, const CompileOptions& options = {"sm_90a"}) {
  auto ptx = compile(source, options);
  if (!ptx) ADD_FAILURE() << to_string(ptx.error());
  return ptx.value_or("");
}

std::string spliced() {
  const auto kernel = ptx::parse(compiled(kKernel));
  const auto epilogue = ptx::parse(compiled(kEpilogue));
  auto result = ptx::splice(*kernel, *epilogue, "hole");
  if (!result) ADD_FAILURE() << to_string(result.error());
  return std::move(result->ptx);
}

bool is_elf(const std::vector<char>& image) {
  return std::string_view(image.data(), image.size())
      .starts_with(
          "\x7f"
          "ELF");
}

TEST(Compile, GivesPtxForTheArch) {
  const std::string ptx = compiled(kEpilogue);
  EXPECT_NE(ptx.find(".target sm_90a"), std::string::npos);
  EXPECT_NE(ptx.find("hole"), std::string::npos);
  EXPECT_NE(compiled(kEpilogue, {"sm_80"}).find(".target sm_80"), std::string::npos);
}

TEST(Compile, ContractsOnlyWhereAllowed) {
  EXPECT_NE(compiled(kEpilogue).find("fma.rn.f32"), std::string::npos);
  const std::string exact = compiled(kEpilogue, {"sm_90a", false});
  EXPECT_EQ(exact.find("fma.rn.f32"), std::string::npos);
  EXPECT_NE(exact.find("mul.rn.f32"), std::string::npos);
}

TEST(Compile, LogIsInTheError) {
  const auto ptx = compile("__device__ int f() { return nonsense; }", {"sm_90a"});
  ASSERT_FALSE(ptx);
  EXPECT_NE(ptx.error().where.find("epilogue.cu(1)"), std::string::npos) << ptx.error().where;
  EXPECT_NE(ptx.error().where.find("nonsense"), std::string::npos);
}

TEST(Compile, UnknownArchIsAnError) {
  EXPECT_FALSE(compile(kEpilogue, {"sm_1"}));
}

struct AssembleWith : testing::TestWithParam<const char*> {
  void SetUp() override { setenv("ATTACCA_ASSEMBLER", GetParam(), 1); }
  void TearDown() override { unsetenv("ATTACCA_ASSEMBLER"); }
};
INSTANTIATE_TEST_SUITE_P(Tools, AssembleWith, testing::Values("nvjitlink", "ptxas"));

// Of a process that is killed nothing is left.
TEST(Assemble, WithPtxasNeedsNoFolder) {
  const char* const before = getenv("TMPDIR");
  const std::string folder = before == nullptr ? "" : before;
  setenv("TMPDIR", "/nowhere", 1);
  setenv("ATTACCA_ASSEMBLER", "ptxas", 1);
  const auto image = assemble(spliced(), "sm_90a");
  ASSERT_TRUE(image) << to_string(image.error());
  EXPECT_TRUE(is_elf(*image));
  const auto refused = assemble("no PTX", "sm_90a");
  unsetenv("ATTACCA_ASSEMBLER");
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", folder.c_str(), 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().where.find("fatal"), std::string::npos) << refused.error().where;
}

TEST_P(AssembleWith, GivesACubin) {
  const auto image = assemble(spliced(), "sm_90a");
  ASSERT_TRUE(image) << to_string(image.error());
  EXPECT_TRUE(is_elf(*image));
  const auto tool = describe_assembler();
  ASSERT_TRUE(tool);
  EXPECT_NE(tool->tool.version.find('.'), std::string::npos);
}

TEST_P(AssembleWith, LogIsInTheError) {
  std::string ptx = spliced();
  ptx.replace(ptx.find("ld.global"), 9, "ld.glubal");
  const auto image = assemble(ptx, "sm_90a");
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().where.find("glubal"), std::string::npos) << image.error().where;
}

TEST(Assemble, DriverTakesThePtxAsItIs) {
  setenv("ATTACCA_ASSEMBLER", "driver", 1);
  EXPECT_EQ(*assemble("ptx", "sm_90a"), std::vector<char>({'p', 't', 'x'}));
  setenv("ATTACCA_ASSEMBLER", "gcc", 1);
  EXPECT_EQ(assemble("ptx", "sm_90a").error().what, "unknown assembler gcc");
  unsetenv("ATTACCA_ASSEMBLER");
}

}  // namespace
}  // namespace attacca::gpu
