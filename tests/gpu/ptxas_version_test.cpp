// The cached version of ptxas, by programs that count how often they are asked.
#include <csignal>
#include <fstream>

#include "gtest/gtest.h"

#include "gpu/cache_testing.hpp"
#include "gpu/compile/ptxas.hpp"

namespace attacca::gpu {
namespace {

namespace fs = std::filesystem;
using testing::Folder;

struct PtxasVersion : ::testing::Test {
  Folder folder;
  const std::string program = folder.path + "/ptxas", log = folder.path + "/asked";

  void install(const std::string& answer) const {
    std::ofstream(program) << "#!/bin/sh\necho asked >> " << log << "\necho '" << answer << "'\n";
    fs::permissions(program, fs::perms::owner_all);
  }

  // As a process of its own would: no cache is asked twice.
  Result<std::string> version() const {
    Cache cache({.folder = folder.cache()});
    return ptxas_version(program, cache);
  }

  int times_asked() const {
    std::ifstream file(log);
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
};

TEST_F(PtxasVersion, IsAskedOnceForAllProcesses) {
  install("release 13.0, V13.0.88");
  for (int process = 0; process < 3; ++process) EXPECT_EQ(version().value_or("none"), "13.0.88");
  EXPECT_EQ(times_asked(), 1);
}

// A program that embeds the library may leave its children to the system, or wait for all of them.
TEST_F(PtxasVersion, ChildrenMayBeReapedByOthers) {
  install("release 13.0, V13.0.88");
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(version().value_or("none"), "13.0.88");
  std::ofstream(program) << "#!/bin/sh\nprintf '\\177ELF and more' > \"$5\"\n";
  const auto cubin = assemble_with_ptxas(".version 8.0", "sm_90", program);
  ASSERT_TRUE(cubin) << cubin.error().what;
  EXPECT_EQ(std::string(cubin->begin(), cubin->end()), "\177ELF and more");
  std::ofstream(program) << "#!/bin/sh\nprintf 'no cubin' > \"$5\"\nexit 1\n";
  EXPECT_EQ(assemble_with_ptxas(".version 8.0", "sm_90", program).error().what,
            "ptxas wrote no cubin");
  std::signal(SIGCHLD, before);
}

TEST_F(PtxasVersion, ProgramOfAnotherSizeIsAskedAgain) {
  install("release 13.0, V13.0.88");
  EXPECT_EQ(version().value_or("none"), "13.0.88");
  const auto written = fs::last_write_time(program);
  install("release 13.1, V13.1.100");
  fs::last_write_time(program, written);
  EXPECT_EQ(version().value_or("none"), "13.1.100");
}

TEST_F(PtxasVersion, ProgramWrittenAtAnotherTimeIsAskedAgain) {
  install("release 13.0, V13.0.88");
  const auto written = fs::last_write_time(program);
  EXPECT_EQ(version().value_or("none"), "13.0.88");
  install("release 13.1, V13.1.80");
  fs::last_write_time(program, written + std::chrono::milliseconds(1));
  EXPECT_EQ(version().value_or("none"), "13.1.80");
}

TEST_F(PtxasVersion, ProgramThatHangsIsKilled) {
  std::ofstream(program) << "#!/bin/sh\nexec sleep 1000\n";
  fs::permissions(program, fs::perms::owner_all);
  Cache cache({.folder = folder.cache()});
  const auto version = ptxas_version(program, cache, std::chrono::milliseconds(100));
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().what, "ptxas did not end within 100 ms");
}

TEST_F(PtxasVersion, DamagedRecordIsAMiss) {
  install("release 13.0, V13.0.88");
  EXPECT_EQ(version().value_or("none"), "13.0.88");
  int damaged = 0;
  for (const auto& entry : fs::directory_iterator(folder.cache())) {
    if (entry.path().extension() != ".entry") continue;
    fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
    ++damaged;
  }
  EXPECT_EQ(damaged, 1);
  EXPECT_EQ(version().value_or("none"), "13.0.88");
  EXPECT_EQ(times_asked(), 2);
  EXPECT_EQ(version().value_or("none"), "13.0.88");
  EXPECT_EQ(times_asked(), 2);
}

TEST_F(PtxasVersion, FolderThatCannotBeMadeCostsTheQuestionAlone) {
  install("release 13.0, V13.0.88");
  std::ofstream(folder.cache()) << "a file";
  for (int process = 0; process < 2; ++process) EXPECT_EQ(version().value_or("none"), "13.0.88");
  EXPECT_EQ(times_asked(), 2);
}

TEST_F(PtxasVersion, FailureIsNotKept) {
  install("no version");
  const auto failed = version();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().what, "ptxas does not tell its version");
  EXPECT_FALSE(version());
  EXPECT_EQ(times_asked(), 2);
}

}  // namespace
}  // namespace attacca::gpu
