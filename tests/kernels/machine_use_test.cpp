// What cubins of ptxas say of their kernels, against what the kernels must need.
#include "gpu/compile/machine_use.hpp"

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"

namespace attacca::gpu {
namespace {

// Keeps `live` values at once: they are loaded in order and stored in reverse.
std::string kernel_text(std::string_view name, int live, std::string_view attributes) {
  std::string text = fmt::format(
      ".visible .entry {}(.param .u64 p)\n{}\n{{\n.reg .b64 %rd;\n.reg .b32 %r<{}>;\n"
      "ld.param.u64 %rd, [p];\n",
      name, attributes, live);
  for (int i = 0; i < live; ++i)
    text += fmt::format("ld.volatile.global.u32 %r{}, [%rd+{}];\n", i, 4 * i);
  for (int i = live; i-- > 0;)
    text += fmt::format("st.volatile.global.u32 [%rd+{}], %r{};\n", 4 * i, i);
  return text + "ret;\n}\n";
}

std::vector<char> image_of(const std::string& kernels) {
  const auto image =
      assemble(".version 8.0\n.target sm_90a\n.address_size 64\n" + kernels, "sm_90a");
  EXPECT_TRUE(image) << to_string(image.error());
  return image ? *image : std::vector<char>();
}

TEST(MachineUse, IsEachKernelsOwn) {
  const std::vector<char> image = image_of(kernel_text("few", 2, "") + kernel_text("many", 60, "") +
                                           kernel_text("spilled", 60, ".maxntid 1024, 1, 1"));
  const auto few = machine_use(image, "few"), many = machine_use(image, "many"),
             spilled = machine_use(image, "spilled");
  ASSERT_TRUE(few && many && spilled);
  EXPECT_LT(few->registers, 32);
  EXPECT_EQ(few->local_bytes, 0);
  EXPECT_GE(many->registers, 60);
  EXPECT_EQ(many->local_bytes, 0);
  EXPECT_LE(spilled->registers, 64);  // 65536 / 1024
  const auto crowded = image_of(kernel_text("k", 60, ".maxntid 1024, 1, 1\n.minnctapersm 2"));
  const auto use = machine_use(crowded, "k");
  ASSERT_TRUE(use);
  EXPECT_LE(use->registers, 32);
  EXPECT_GE(use->local_bytes, (60 - 32) * 4);
}

TEST(MachineUse, IsUnknownWhereTheImageDoesNotSay) {
  const std::vector<char> image = image_of(kernel_text("k", 4, ""));
  EXPECT_FALSE(machine_use(image, "another"));
  EXPECT_FALSE(machine_use({}, "k"));
  const std::string ptx = ".version 8.0";
  EXPECT_FALSE(machine_use({ptx.begin(), ptx.end()}, "k"));
  // Cut short anywhere: no access beyond the end.
  for (size_t bytes = 0; bytes < image.size(); bytes += 7)
    machine_use({image.begin(), image.begin() + static_cast<ptrdiff_t>(bytes)}, "k");
}

TEST(MachineUse, BlocksShareTheRegisters) {
  EXPECT_EQ(blocks_in_registers(256, 64), 4);
  EXPECT_EQ(blocks_in_registers(256, 63), 4);  // allocated in steps of 8
  EXPECT_EQ(blocks_in_registers(256, 65), 3);
  EXPECT_EQ(blocks_in_registers(1024, 64), 1);
  EXPECT_EQ(blocks_in_registers(33, 32), 32);  // two warps
}

}  // namespace
}  // namespace attacca::gpu
