#include "support/files/private_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "gtest/gtest.h"

#include "support/files/paths.hpp"
#include "support/text/escaped.hpp"

namespace attacca {
namespace {

TEST(IsPrivate, OfThisUserOrRootAndOthersMayNotWrite) {
  struct stat info {};
  for (const uid_t owner : {geteuid(), uid_t{0}}) {
    info.st_uid = owner;
    for (const mode_t mode : {0700, 0755, 0555, 0400}) {
      info.st_mode = S_IFDIR | mode;
      EXPECT_TRUE(is_private(info)) << std::oct << mode;
    }
    for (const mode_t mode : {0770, 0720, 0702, 0777, 01777, 0666}) {
      info.st_mode = S_IFDIR | mode;
      EXPECT_FALSE(is_private(info)) << std::oct << mode;
    }
  }
  info.st_mode = S_IFDIR | 0700;
  info.st_uid = geteuid() + 12345;
  EXPECT_FALSE(is_private(info));
}

// With these variables alone of those that name the cache.
std::string cache_with(const char* own, const char* xdg, const char* home) {
  const std::pair<const char*, const char*> values[] = {
      {"ATTACCA_CACHE_DIR", own}, {"XDG_CACHE_HOME", xdg}, {"HOME", home}};
  std::vector<std::optional<std::string>> before;
  for (const auto& [name, value] : values) {
    const char* old = std::getenv(name);
    before.push_back(old ? std::optional<std::string>(old) : std::nullopt);
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  const std::string found = cache_directory();
  for (size_t i = 0; i < 3; ++i)
    before[i] ? setenv(values[i].first, before[i]->c_str(), 1) : unsetenv(values[i].first);
  return found;
}

TEST(CacheDirectory, IsOfTheUserAlone) {
  EXPECT_EQ(cache_with("/own", "/xdg", "/home"), "/own");
  EXPECT_EQ(cache_with("", "/xdg", "/home"), "/xdg/attacca");
  EXPECT_EQ(cache_with(nullptr, "relative", "/home"), "/home/.cache/attacca");
  const std::string own = "attacca-" + std::to_string(geteuid());
  EXPECT_EQ(std::filesystem::path(cache_with(nullptr, nullptr, nullptr)).filename(), own);
  EXPECT_EQ(std::filesystem::path(cache_with("", "", "")).filename(), own);
}

TEST(Escaped, LeavesTextAndNothingThatATerminalObeys) {
  EXPECT_EQ(escaped("m<=16 n=8 é 東 🎵 \\"), "m<=16 n=8 é 東 🎵 \\");
  EXPECT_EQ(escaped("a\nb\tc\r\x7f"), "a\\x0ab\\x09c\\x0d\\x7f");
  EXPECT_EQ(escaped("\x1b]0;title\x07\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "2J"),
            "\\xc2\\x9b2J");  // CSI of one character
  EXPECT_EQ(escaped(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(escaped("\xff\xc3"), "\\xff\\xc3");                               // no UTF-8
  EXPECT_EQ(escaped("\xc0\x8a|\xe0\x80\x8a"), "\\xc0\\x8a|\\xe0\\x80\\x8a");  // overlong
}

}  // namespace
}  // namespace attacca
