// The table's decisions: an eligible kernel has no reason against it, a refused one has the row's,
// on the row's line of its source.
#include <algorithm>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "kernels/catalog.hpp"
#include "ptx/analysis/kernel_analysis.hpp"

namespace attacca::kernels {
namespace {

// The line of a reason's "PATH/FILE.cu:12", or empty.
std::string line_named_by(const Kernel& kernel, const ptx::Reason& reason) {
  const std::string name = fmt::format("{}.cu:", kernel.file);
  const size_t at = reason.where.rfind(name);
  if (at == std::string::npos) return {};
  return source_line(kernel.file, std::atoi(reason.where.c_str() + at + name.size()));
}

std::string list_of(const Kernel& kernel, const std::vector<ptx::Reason>& reasons) {
  std::string text;
  for (const ptx::Reason& reason : reasons)
    text += fmt::format("\n  {}: {} [{}]\n    {}", reason.where, reason.what, reason.rule,
                        line_named_by(kernel, reason));
  return text;
}

struct Decision : testing::TestWithParam<Kernel> {};

TEST_P(Decision, IsTheTables) {
  const Kernel& kernel = GetParam();
  const auto module = module_of(kernel.file);
  const auto output = ptx::parse_output(kernel.output);
  ASSERT_TRUE(output) << to_string(output.error());
  const auto analysis = ptx::analyse_output(*module, kernel.entry, *output,
                                            static_cast<uint32_t>(ir::size_of(kernel.dtype)));
  ASSERT_TRUE(analysis) << to_string(analysis.error());
  EXPECT_EQ(analysis->eligible(), kernel.eligible) << list_of(kernel, analysis->reasons);
  if (kernel.eligible) {
    EXPECT_FALSE(analysis->stores.empty());
    return;
  }
  const bool is_named = std::ranges::any_of(analysis->reasons, [&](const ptx::Reason& reason) {
    return reason.rule == kernel.rule &&
           line_named_by(kernel, reason).find(kernel.line) != std::string::npos;
  });
  EXPECT_TRUE(is_named) << "wanted [" << kernel.rule << "] at " << kernel.line << ", got"
                        << list_of(kernel, analysis->reasons);
}

INSTANTIATE_TEST_SUITE_P(Table, Decision, testing::ValuesIn(all_kernels()), [](const auto& info) {
  return fmt::format("{}_{}", test_name(info.param), info.index);
});

}  // namespace
}  // namespace attacca::kernels
