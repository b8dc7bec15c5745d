// Files are complete or absent. A path that is not a regular file is written to, not replaced.
#include "support/files/draft_file.hpp"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "support/files/file.hpp"

namespace attacca {
namespace {

namespace fs = std::filesystem;

class Draft : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("draft_file_{}_{}", getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  auto files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_;
};

TEST_F(Draft, TakesItsNameAtTheEnd) {
  ASSERT_TRUE(write_file(path("a"), "old"));
  ASSERT_EQ(chmod(path("a").c_str(), 0640), 0);
  {
    auto file = DraftFile::create(path("a"));
    ASSERT_TRUE(file && file->write("ne"));
    EXPECT_EQ(*read_file(path("a")), "old");
    ASSERT_TRUE(file->write("w"));
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(*read_file(path("a")), "new");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms(0640));
  EXPECT_EQ(files(), 1);
}

TEST_F(Draft, GivenUpItLeavesNothing) {
  ASSERT_TRUE(write_file(path("a"), "old"));
  {
    auto file = DraftFile::create(path("a"));
    ASSERT_TRUE(file && file->write("new"));
    DraftFile moved = *std::move(file);
  }
  EXPECT_EQ(*read_file(path("a")), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(Draft, AKillLeavesWhatWasThere) {
  ASSERT_TRUE(write_file(path("a"), "old"));
  const pid_t child = fork();
  if (child == 0) {
    auto file = DraftFile::create(path("a"));
    if (file && file->write("new")) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(*read_file(path("a")), "old");
  // Where a draft needs no name, no draft file is left.
  const int nameless = open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600);
  EXPECT_EQ(files(), nameless >= 0 ? 1 : 2);
  if (nameless >= 0) close(nameless);
}

TEST_F(Draft, AKillLeavesNoDraftOfANewFile) {
  const int nameless = open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless >= 0) close(nameless);
  for (int microseconds = 0; microseconds < 1500; microseconds += 5) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        (void)write_file(path("a"), std::string(10'000, 'a'));
        unlink(path("a").c_str());
      }
    }
    usleep(static_cast<useconds_t>(microseconds));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    for (const fs::path& left : fs::directory_iterator(folder_)) {
      if (left.filename() == "a") {
        EXPECT_EQ(fs::file_size(left), 10'000u);
      } else {
        EXPECT_TRUE(nameless < 0 && left.extension() == ".draft") << left;
      }
      fs::remove(left);
    }
  }
}

TEST_F(Draft, LinksAreFollowed) {
  ASSERT_TRUE(write_file(path("a"), "old"));
  fs::create_symlink("a", path("link"));
  fs::create_symlink("nowhere", path("dangling"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  ASSERT_TRUE(write_file(path("dangling"), "here"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(*read_file(path("a")), "new");
  EXPECT_EQ(*read_file(path("dangling")), "here");
  EXPECT_TRUE(fs::is_symlink(path("dangling")));
  EXPECT_EQ(*read_file(path("nowhere")), "here");
  fs::create_symlink("circle", path("circle"));
  EXPECT_FALSE(write_file(path("circle"), "here"));
  EXPECT_TRUE(fs::is_symlink(path("circle")));
}

std::string of_descriptor(int file) {
  return fmt::format("/proc/self/fd/{}", file);
}

// As where a shell says `>> log` and a program is told to write to /dev/stdout.
TEST_F(Draft, AnOpenFileIsWrittenToAtItsPlace) {
  ASSERT_TRUE(write_file(path("log"), "before\n"));
  const int log = open(path("log").c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(log, 0);
  fs::create_symlink(of_descriptor(log), path("link"));
  EXPECT_TRUE(write_file(of_descriptor(log), "one\n"));
  EXPECT_TRUE(write_file(fmt::format("/dev/fd/{}", log), "two\n"));
  EXPECT_TRUE(write_file(path("link"), "three\n"));
  EXPECT_TRUE(write_file(fmt::format("/proc/{}/fd/{}", getpid(), log), "four\n"));
  ASSERT_EQ(write(log, "after\n", 6), 6);
  close(log);
  EXPECT_EQ(*read_file(path("log")), "before\none\ntwo\nthree\nfour\nafter\n");
  EXPECT_EQ(files(), 2);
}

TEST_F(Draft, AnOpenFileWithoutANameIsWrittenTo) {
  ASSERT_TRUE(write_file(path("gone"), ""));
  const int gone = open(path("gone").c_str(), O_RDWR);
  ASSERT_EQ(unlink(path("gone").c_str()), 0);
  EXPECT_TRUE(write_file(of_descriptor(gone), "text"));
  char got[8] = {};
  EXPECT_EQ(pread(gone, got, sizeof got, 0), 4);
  EXPECT_STREQ(got, "text");
  close(gone);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(write_file(of_descriptor(ends[1]), "pipe"));
  EXPECT_EQ(read(ends[0], got, sizeof got), 4);
  EXPECT_STREQ(got, "pipe");
  close(ends[1]);
  EXPECT_FALSE(write_file(of_descriptor(ends[0]), "a pipe's other end"));
  close(ends[0]);
  EXPECT_FALSE(write_file("/proc/self/fd/987654", "nothing"));
  EXPECT_EQ(files(), 0);
}

TEST_F(Draft, AFileThatMayNotBeWrittenStays) {
  ASSERT_TRUE(write_file(path("a"), "old"));
  constexpr uid_t kNobody = 65534;
  const bool root = geteuid() == 0;  // who may write any file
  const uid_t user = root ? kNobody : geteuid();
  ASSERT_EQ(chown(path("a").c_str(), user, static_cast<gid_t>(-1)), 0);
  ASSERT_EQ(chown(folder_.c_str(), user, static_cast<gid_t>(-1)), 0);
  ASSERT_EQ(chmod(path("a").c_str(), 0444), 0);
  ASSERT_EQ(seteuid(user), 0);
  const Status written = write_file(path("a"), "new");
  ASSERT_EQ(seteuid(root ? 0 : user), 0);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().what, "cannot write " + path("a") + ": Permission denied");
  EXPECT_EQ(*read_file(path("a")), "old");
}

TEST_F(Draft, APipeIsWrittenTo) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = *read_file(path("pipe")); });
  EXPECT_TRUE(write_file(path("pipe"), "text"));
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(files(), 1);
}

TEST_F(Draft, WhatCannotBeWrittenIsNamed) {
  fs::create_directory(path("folder"));
  for (const std::string& bad : {path("folder"), path("none/a"), std::string()}) {
    const Status status = write_file(bad, "text");
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().what.rfind("cannot write " + bad + ": ", 0), 0u);
    EXPECT_EQ(status.error().where, bad);
    EXPECT_FALSE(status.error().fix.empty());
  }
  EXPECT_FALSE(write_file("/dev/full", "text"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Draft, ManyWritersOfOneFile) {
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'i'; ++c)
    writers.emplace_back([this, c] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(write_file(path("a"), std::string(10'000, c)));
    });
  for (std::thread& writer : writers) writer.join();
  const std::string text = *read_file(path("a"));
  EXPECT_EQ(text, std::string(10'000, text[0]));
  EXPECT_EQ(files(), 1);
}

}  // namespace
}  // namespace attacca
