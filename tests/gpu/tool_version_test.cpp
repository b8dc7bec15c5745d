// Versions of libraries that are told without opening them.
#include "gpu/compile/tool_version.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

#include "gpu/cache_testing.hpp"

namespace attacca::gpu {
namespace {

namespace fs = std::filesystem;
using testing::Folder;

// In one test: what is open stays open.
TEST(Locate, TellsWhatOpenLoads) {
  for (const LibrarySpec* spec : {&kNvrtcLibrary, &kNvJitLinkLibrary}) {
    const std::string located = Library::locate(*spec);
    const auto opened = Library::open(*spec);
    ASSERT_TRUE(opened) << to_string(opened.error());
    // Empty where several versions are installed.
    EXPECT_TRUE(located.empty() || located == opened->path()) << located << " " << opened->path();
    EXPECT_EQ(Library::locate(*spec), "") << spec->title;
  }
}

TEST(Locate, NothingToFind) {
  EXPECT_EQ(Library::locate({"Nothing", {"libattacca_nowhere.so.1"}, "ATTACCA_NOWHERE", ""}), "");
}

const LibrarySpec kTool = {"Tool", {"libattacca_tool.so.1"}, "ATTACCA_LIBNVRTC", "a package"};
int asked = 0;
std::string opened_path;

Result<ToolDescription> ask() {
  ++asked;
  if (opened_path.empty()) return fail("it does not open");
  return ToolDescription{"Tool " + std::to_string(asked), opened_path};
}

struct LibraryVersion : ::testing::Test {
  void SetUp() override {
    asked = 0;
    opened_path = file;
    std::ofstream(file) << "no library";
    setenv("ATTACCA_LIBNVRTC", file.c_str(), 1);
  }
  void TearDown() override { unsetenv("ATTACCA_LIBNVRTC"); }

  // As a process of its own would: no cache is asked twice.
  std::string version() const {
    Cache cache({.folder = folder.cache()});
    const auto described = describe_library(kTool, cache, ask);
    return described ? described->version : described.error().what;
  }

  Folder folder;
  const std::string file = folder.path + "/tool.so";
};

TEST_F(LibraryVersion, IsAskedOnceForAFile) {
  for (int process = 0; process < 3; ++process) EXPECT_EQ(version(), "Tool 1");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::milliseconds(1));
  EXPECT_EQ(version(), "Tool 2");
  EXPECT_EQ(version(), "Tool 2");
}

TEST_F(LibraryVersion, AFailureIsNotKept) {
  opened_path.clear();
  EXPECT_EQ(version(), "it does not open");
  opened_path = file;
  const int before = asked;
  EXPECT_EQ(version(), "Tool " + std::to_string(before + 1));
}

TEST_F(LibraryVersion, OfAnotherFileIsNotKept) {
  opened_path = folder.path + "/other.so";
  const std::string first = version();
  EXPECT_NE(version(), first);
}

}  // namespace
}  // namespace attacca::gpu
