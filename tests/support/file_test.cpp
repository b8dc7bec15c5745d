#include "support/files/file.hpp"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace attacca {
namespace {

// A file that goes with the test.
class Written {
 public:
  explicit Written(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  ~Written() { std::filesystem::remove(path_); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = ::testing::TempDir() + "attacca_file_test";
};

TEST(File, GivesItsBytes) {
  for (const std::string& bytes :
       {std::string(), std::string("a\r\n\0b", 5), std::string(3'000'000, 'x')})
    EXPECT_EQ(read_file(Written(bytes).path()).value(), bytes);
}

TEST(File, LongerThanItsLimitIsRefused) {
  const Written file("12345");
  EXPECT_TRUE(read_file(file.path(), {5, "cut it"}));
  EXPECT_EQ(read_file(file.path(), {4, "cut it"}).error().fix, "cut it");
  EXPECT_EQ(read_file("/dev/zero", {4, "cut it"}).error().what, "/dev/zero has more than 4 bytes");
}

TEST(File, ThatCannotBeReadIsNamed) {
  for (const std::string path : {"/no/such/file", "/", "/dev"})
    EXPECT_EQ(read_file(path).error().what, "cannot read " + path);
}

}  // namespace
}  // namespace attacca
