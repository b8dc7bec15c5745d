// Whose folders and files the cache uses. Where the tests run as root, files of another user are
// planted; elsewhere files that the group may write.
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>

#include "gtest/gtest.h"

#include "gpu/cache_testing.hpp"
#include "support/warnings.hpp"

namespace attacca::gpu {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of;
using testing::Folder;
using Origin = Cache::Origin;

constexpr uid_t kAnother = 65534;

Origin ask(Cache& cache) {
  const auto entry = cache.get("key", [] { return Result<std::vector<char>>(bytes_of("made")); });
  EXPECT_TRUE(entry);
  EXPECT_EQ(*entry->bytes, bytes_of("made")) << "what another user planted was believed";
  return entry->origin;
}

Origin ask(const std::string& folder) {
  Cache cache({.folder = folder});
  return ask(cache);
}

// The path of the key's entry, which says that the kernel is "planted": checksum and key are right.
fs::path plant(const std::string& folder) {
  ask(folder);
  for (const auto& each : fs::directory_iterator(folder)) {
    if (each.path().extension() != ".entry") continue;
    const auto bytes = encode_entry("key", bytes_of("planted"));
    std::ofstream(each.path(), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return each.path();
  }
  ADD_FAILURE() << "no entry";
  return {};
}

// Files as another user could have made them, in each way that this user can imitate.
std::vector<std::function<void(const fs::path&)>> ways_to_give_away() {
  const auto mode = [](mode_t more) {
    return [more](const fs::path& path) {
      struct stat info {};
      EXPECT_EQ(stat(path.c_str(), &info), 0);
      EXPECT_EQ(chmod(path.c_str(), (info.st_mode & 07777) | more), 0);
    };
  };
  std::vector<std::function<void(const fs::path&)>> ways = {mode(S_IWGRP), mode(S_IWOTH)};
  if (geteuid() == 0)
    ways.emplace_back(
        [](const fs::path& path) { EXPECT_EQ(chown(path.c_str(), kAnother, kAnother), 0); });
  return ways;
}

void expect_distrust(const std::string& folder, const std::string& what) {
  Cache cache({.folder = folder});
  EXPECT_EQ(ask(cache), Origin::Made) << what;
  ASSERT_TRUE(cache.warning()) << what;
  EXPECT_NE(cache.warning()->what.find("another user"), std::string::npos) << what;
  EXPECT_NE(cache.warning()->fix.find("chmod go-w"), std::string::npos) << what;
  const auto all = warnings();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Error& each) {
    return each.what == cache.warning()->what;
  })) << what;
}

TEST(Trust, FoldersOfOthersAreNotBelieved) {
  for (const auto& give_away : ways_to_give_away()) {
    const Folder folder;
    plant(folder.cache());
    give_away(folder.cache());
    expect_distrust(folder.cache(), "the folder");
    EXPECT_FALSE(Cache({.folder = folder.cache()}).check());
  }
}

TEST(Trust, FoldersInFoldersOfOthersAreNotBelieved) {
  for (const auto& give_away : ways_to_give_away()) {
    const Folder folder;
    plant(folder.cache());
    give_away(folder.path);
    expect_distrust(folder.cache(), "the folder above");
  }
}

TEST(Trust, EntriesOfOthersAreMadeAgain) {
  for (const auto& give_away : ways_to_give_away()) {
    const Folder folder;
    give_away(plant(folder.cache()));
    expect_distrust(folder.cache(), "the entry");
    EXPECT_EQ(ask(folder.cache()), Origin::Disk);  // the one made has its place
  }
}

TEST(Trust, LinksAndPipesAreNotFollowed) {
  const Folder folder;
  const fs::path entry = plant(folder.cache()), elsewhere = folder.path + "/elsewhere";
  fs::rename(entry, elsewhere);
  fs::create_symlink(elsewhere, entry);
  expect_distrust(folder.cache(), "a link");
  fs::remove(entry);
  ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0);
  Cache cache({.folder = folder.cache()});
  EXPECT_EQ(ask(cache), Origin::Made);  // and does not wait for a writer
  EXPECT_TRUE(cache.warning());
}

TEST(Trust, ALockOfOthersIsNotTaken) {
  const Folder folder;
  fs::create_directory(folder.cache());
  const fs::path elsewhere = folder.path + "/elsewhere";
  fs::create_symlink(elsewhere, folder.cache() + "/lock");
  EXPECT_EQ(ask(folder.cache()), Origin::Made);
  EXPECT_FALSE(fs::exists(elsewhere));
}

TEST(Trust, WhatIsMadeIsForThisUserAlone) {
  const Folder folder;
  const mode_t before = umask(0);
  const std::string deep = folder.path + "/of/a/cache";
  EXPECT_EQ(ask(deep), Origin::Made);
  umask(before);
  for (const char* made : {"/of", "/of/a", "/of/a/cache"})
    EXPECT_EQ(static_cast<int>(fs::status(folder.path + made).permissions()), 0700) << made;
  for (const auto& each : fs::directory_iterator(deep))
    EXPECT_EQ(static_cast<int>(each.status().permissions()), 0600) << each.path();
  EXPECT_EQ(ask(deep), Origin::Disk);
}

// A team's cache: root fills it, all others read.
TEST(Trust, FoldersOfRootAreBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make one";
  const Folder folder;
  ask(folder.cache());
  chmod(folder.path.c_str(), 0755);
  chmod(folder.cache().c_str(), 0755);
  for (const auto& each : fs::directory_iterator(folder.cache())) chmod(each.path().c_str(), 0644);
  ASSERT_EQ(seteuid(kAnother), 0);
  const Origin origin = ask(folder.cache());
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(origin, Origin::Disk);
}

}  // namespace
}  // namespace attacca::gpu
