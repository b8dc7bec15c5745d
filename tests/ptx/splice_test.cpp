#include "ptx/splice/splice.hpp"

#include <cstdlib>

#include "ptx_testing.hpp"

namespace attacca::ptx {
namespace {

using testing::parsed;

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, IsAsReviewed) {
  const auto spliced = splice(parsed(testing::kernel_text(GetParam())),
                              parsed(testing::epilogue_text(GetParam())), "hole");
  ASSERT_TRUE(spliced) << to_string(spliced.error());
  const auto path = testing::kFolder / "golden" / (GetParam() + ".ptx");
  if (std::getenv("UPDATE_GOLDEN")) std::ofstream(path, std::ios::binary) << spliced->ptx;
  EXPECT_EQ(spliced->ptx, testing::read_file(path)) << "UPDATE_GOLDEN=1 rewrites " << path;
}

INSTANTIATE_TEST_SUITE_P(Samples, Golden, ::testing::ValuesIn(testing::sample_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attacca::ptx
