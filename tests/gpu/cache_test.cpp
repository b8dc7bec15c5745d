#include "gpu/cache/cache.hpp"

#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <thread>

#include "gtest/gtest.h"

#include "gpu/cache_testing.hpp"

namespace attacca::gpu {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of;
using testing::Folder;
using testing::SteppedDisk;
using Origin = Cache::Origin;

// Asks for the key; a compile gives "value of KEY" and is counted.
struct Asker {
  explicit Asker(CacheOptions options) : cache(std::move(options)) {}

  Origin ask(const std::string& key) {
    const auto entry = cache.get(key, [&]() -> Result<std::vector<char>> {
      ++compiles;
      return bytes_of("value of " + key);
    });
    EXPECT_TRUE(entry);
    EXPECT_EQ(*entry->bytes, bytes_of("value of " + key));
    return entry->origin;
  }

  Cache cache;
  int compiles = 0;
};

std::vector<fs::path> files_of(const std::string& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  return files;
}

// ---- The format

TEST(Entry, ComesBack) {
  const auto file = encode_entry("key", bytes_of("value"));
  EXPECT_EQ(file.size(), 32u + 3 + 5);
  const auto entry = decode_entry(file);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->key, "key");
  EXPECT_EQ(std::string(entry->value.begin(), entry->value.end()), "value");
  EXPECT_TRUE(decode_entry(encode_entry("", {})));
}

TEST(Entry, NoBitMayFlip) {
  const auto whole = encode_entry("key", bytes_of("value"));
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    auto file = whole;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decode_entry(file)) << bit;
  }
}

TEST(Entry, NoByteMayBeMissingOrExtra) {
  auto file = encode_entry("key", bytes_of("value"));
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_FALSE(decode_entry(std::span(file).first(length))) << length;
  file.push_back(0);
  EXPECT_FALSE(decode_entry(file));
}

// ---- Hits and misses

TEST(Cache, MadeThenMemoryThenDisk) {
  const Folder folder;
  Asker first({.folder = folder.cache()});
  EXPECT_EQ(first.ask("a"), Origin::Made);
  EXPECT_EQ(first.ask("a"), Origin::Memory);
  Asker second({.folder = folder.cache()});
  EXPECT_EQ(second.ask("a"), Origin::Disk);
  EXPECT_EQ(second.ask("a"), Origin::Memory);
  EXPECT_EQ(second.ask("b"), Origin::Made);
  EXPECT_FALSE(second.cache.warning());
  EXPECT_TRUE(files_of(folder.cache(), ".tmp").empty());
}

TEST(Cache, FailedCompileIsReturnedAndNotKept) {
  const Folder folder;
  Asker asker({.folder = folder.cache()});
  const auto failed = asker.cache.get("a", [] { return Result<std::vector<char>>(fail("no")); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().what, "no");
  EXPECT_EQ(asker.ask("a"), Origin::Made);
}

TEST(Cache, OtherKeyInTheFileIsAMiss) {
  const Folder folder;
  Asker(CacheOptions{.folder = folder.cache()}).ask("a");
  const auto file = files_of(folder.cache(), ".entry").at(0);
  const auto foreign = encode_entry("b", bytes_of("value of b"));
  std::ofstream(file, std::ios::binary).write(foreign.data(), std::streamsize(foreign.size()));
  Asker asker({.folder = folder.cache()});
  EXPECT_EQ(testing::problems(asker.cache), std::vector<std::string>{"another key's"});
  EXPECT_EQ(asker.ask("a"), Origin::Made);
  EXPECT_EQ(testing::problems(asker.cache), std::vector<std::string>());
}

TEST(Cache, DamagedEntryHeals) {
  const Folder folder;
  Asker(CacheOptions{.folder = folder.cache()}).ask("a");
  const auto path = files_of(folder.cache(), ".entry").at(0);
  const auto size = fs::file_size(path);
  for (const bool truncate : {false, true})
    for (uint64_t at = 0; at < size; at += 7) {
      if (truncate) {
        fs::resize_file(path, at);
      } else {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(std::streamoff(at));
        const char byte = static_cast<char>(file.get() ^ 0x10);
        file.seekp(std::streamoff(at));
        file.put(byte);
      }
      Asker asker({.folder = folder.cache()});
      EXPECT_EQ(testing::problems(asker.cache), std::vector<std::string>{"damaged"});
      EXPECT_EQ(asker.ask("a"), Origin::Made) << at;
      EXPECT_EQ(Asker(CacheOptions{.folder = folder.cache()}).ask("a"), Origin::Disk);
    }
}

TEST(Cache, AnEntryOfAbsurdSizeHeals) {
  const Folder folder;
  Asker(CacheOptions{.folder = folder.cache()}).ask("a");
  fs::resize_file(files_of(folder.cache(), ".entry").at(0), uint64_t{1} << 42);
  Asker asker({.folder = folder.cache()});
  EXPECT_EQ(testing::problems(asker.cache), std::vector<std::string>{"File too large"});
  EXPECT_EQ(asker.ask("a"), Origin::Made);
  EXPECT_EQ(Asker(CacheOptions{.folder = folder.cache()}).ask("a"), Origin::Disk);
}

TEST(Cache, ThreadsThatAskForOneKeyCompileOnce) {
  const Folder folder;
  Cache cache({.folder = folder.cache()});
  std::atomic<int> compiles = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] {
      const auto entry = cache.get("a", [&]() -> Result<std::vector<char>> {
        ++compiles;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return bytes_of("value");
      });
      EXPECT_EQ(*entry->bytes, bytes_of("value"));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiles, 1);
}

TEST(Cache, WaitsNoLongerThanItsPatience) {
  const Folder folder;
  fs::create_directories(folder.cache());
  Disk disk;
  int held = -1;
  // Where get() locks: by the entry's name.
  Asker(CacheOptions{.folder = folder.cache()}).ask("a");
  const fs::path entry = files_of(folder.cache(), ".entry").at(0);
  const uint64_t place = std::stoull(entry.stem().string(), nullptr, 16);
  fs::remove(entry);
  ASSERT_EQ(disk.lock(folder.cache() + "/lock", place, std::chrono::seconds(1), held), 0);
  Asker asker({.folder = folder.cache(), .patience = std::chrono::milliseconds(30)});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(asker.ask("a"), Origin::Made);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
  EXPECT_FALSE(asker.cache.warning());
  disk.unlock(held);
}

// ---- Bounds

TEST(Cache, LeastRecentlyUsedGoesOut) {
  const Folder folder;
  const uint64_t entry = encode_entry("a", bytes_of("value of a")).size();
  const CacheOptions options{.folder = folder.cache(), .limit_bytes = 3 * entry};
  const auto ask = [&](const std::string& key) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // a later time on the disk
    return Asker(options).ask(key);
  };
  for (const char* key : {"a", "b", "c"}) EXPECT_EQ(ask(key), Origin::Made);
  EXPECT_EQ(ask("a"), Origin::Disk);
  EXPECT_EQ(ask("d"), Origin::Made);  // b goes
  EXPECT_EQ(ask("a"), Origin::Disk);
  EXPECT_EQ(ask("c"), Origin::Disk);
  EXPECT_EQ(ask("d"), Origin::Disk);
  EXPECT_EQ(ask("b"), Origin::Made);  // a goes
  EXPECT_EQ(Cache(options).check()->size(), 3u);
}

TEST(Cache, EntryLargerThanTheLimitIsNotKept) {
  const Folder folder;
  const CacheOptions options{.folder = folder.cache(), .limit_bytes = 10};
  EXPECT_EQ(Asker(options).ask("a"), Origin::Made);
  EXPECT_EQ(Asker(options).ask("a"), Origin::Made);
}

TEST(Cache, MemoryIsBounded) {
  const Folder folder;
  Asker asker({.folder = folder.cache(), .memory_limit_bytes = 25});  // two values of ten bytes
  asker.ask("a");
  asker.ask("b");
  EXPECT_EQ(asker.ask("a"), Origin::Memory);
  asker.ask("c");
  EXPECT_EQ(asker.ask("a"), Origin::Memory);
  EXPECT_EQ(asker.ask("b"), Origin::Disk);
}

TEST(Cache, LimitIsReadFromTheEnvironment) {
  const auto limit = [](const char* text) {
    setenv("ATTACCA_CACHE_LIMIT", text, 1);
    const auto bytes = CacheOptions::limit_from_environment();
    unsetenv("ATTACCA_CACHE_LIMIT");
    return bytes;
  };
  EXPECT_EQ(limit("1000"), 1000u);
  EXPECT_EQ(limit("3K"), 3072u);
  EXPECT_EQ(limit("2G"), uint64_t{2} << 30);
  EXPECT_EQ(limit("17179869183G"), uint64_t{17179869183} << 30);
  EXPECT_EQ(limit(""), uint64_t{1} << 30);
  for (const char* bad : {"x", "1T", "-1", "1 G", "1GB", "0x10", "1.5G", " 1", "17179869184G",
                          "99999999999999999999", "1\x1b[2J"}) {
    const auto bytes = limit(bad);
    ASSERT_FALSE(bytes) << bad;
    EXPECT_EQ(bytes.error().where, "ATTACCA_CACHE_LIMIT");
    EXPECT_NE(bytes.error().fix.find("2G"), std::string::npos);
    EXPECT_EQ(bytes.error().what.find('\x1b'), std::string::npos);
  }
}

TEST(Cache, OldTemporaryFilesGo) {
  const Folder folder;
  Asker asker({.folder = folder.cache()});
  asker.ask("a");
  const fs::path old_file = folder.cache() + "/0123.4.5.tmp",
                 new_file = folder.cache() + "/0123.4.6.tmp";
  std::ofstream(old_file) << "half";
  std::ofstream(new_file) << "half";
  timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, old_file.c_str(), long_ago, 0), 0);
  asker.ask("b");
  EXPECT_FALSE(fs::exists(old_file));
  EXPECT_TRUE(fs::exists(new_file));
  EXPECT_TRUE(asker.cache.clear());
  EXPECT_FALSE(fs::exists(new_file));
  EXPECT_TRUE(asker.cache.check()->empty());
  EXPECT_EQ(asker.ask("a"), Origin::Made);
}

// ---- Disks that fail

// Whatever step fails, the value is right, nothing damaged is left, and the cache works as soon as
// the disk does.
TEST(Cache, EveryStepMayFail) {
  for (const int error : {ENOSPC, EROFS, EACCES, EIO})
    for (const double written : {0.0, 0.5, 1.0})
      for (int failing = 0;; ++failing) {
        const Folder folder;
        auto disk =
            std::make_shared<SteppedDisk>([&](int step) { return step == failing ? error : 0; });
        disk->written = written;
        Asker asker({.folder = folder.cache(), .disk = disk});
        EXPECT_EQ(asker.ask("a"), Origin::Made);
        EXPECT_EQ(asker.ask("a"), Origin::Memory);
        Asker later({.folder = folder.cache()});
        EXPECT_EQ(testing::problems(later.cache), std::vector<std::string>());
        later.ask("a");
        EXPECT_FALSE(later.cache.warning());
        EXPECT_EQ(Asker(CacheOptions{.folder = folder.cache()}).ask("a"), Origin::Disk);
        EXPECT_TRUE(files_of(folder.cache(), ".tmp").empty()) << failing;
        const int last = disk->steps - 1;  // unlock(), which cannot fail
        if (failing >= last) break;
        ASSERT_TRUE(asker.cache.warning()) << failing;
      }
}

TEST(Cache, WorksWhereNothingCanBeWritten) {
  for (const char* folder : {"/dev/null/cache", "/proc/attacca"}) {
    Asker asker({.folder = folder});
    EXPECT_EQ(asker.ask("a"), Origin::Made);
    EXPECT_EQ(asker.ask("a"), Origin::Memory);
    ASSERT_TRUE(asker.cache.warning());
    EXPECT_NE(asker.cache.warning()->fix.find("ATTACCA_CACHE_DIR"), std::string::npos);
  }
}

TEST(Cache, ReadsWhatItMayNotWrite) {
  const Folder folder;
  Asker(CacheOptions{.folder = folder.cache()}).ask("a");
  const auto disk = std::make_shared<SteppedDisk>([](int) { return EROFS; });
  Asker asker({.folder = folder.cache(), .disk = disk});
  EXPECT_EQ(asker.ask("a"), Origin::Disk);
  EXPECT_FALSE(asker.cache.warning());
  EXPECT_EQ(asker.ask("b"), Origin::Made);
  EXPECT_TRUE(asker.cache.warning());
}

TEST(Cache, FolderInPlaceOfAnEntryIsAMiss) {
  const Folder folder;
  Asker(CacheOptions{.folder = folder.cache()}).ask("a");
  const auto path = files_of(folder.cache(), ".entry").at(0);
  fs::remove(path);
  fs::create_directory(path);
  Asker asker({.folder = folder.cache()});
  EXPECT_EQ(asker.ask("a"), Origin::Made);
  EXPECT_TRUE(asker.cache.warning());
}

}  // namespace
}  // namespace attacca::gpu
