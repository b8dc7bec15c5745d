// The cache of compiled kernels. A key, which names everything that the bytes depend on, gives the
// bytes: from memory, else from a folder that any number of processes share. Failures of the disk
// are no errors of a request: the kernel is compiled again, and the reason is kept in warning() and
// in support/warnings.hpp.
//
// The folder, the one above it and each file must be private (support/files/private_folder.hpp): a
// kernel that another user may have written is not run.
//
// The folder holds
//   HASH.entry         an entry; HASH: 16 digits, XXH3 of the key
//   HASH.PID.N.tmp     an entry that is being written; one left by a killed process is removed
//                      after ten minutes
//   lock               locked at byte HASH while a process compiles that key
//
// An entry, integers little-endian:
//   0   8 bytes        "attacca1"
//   8   u64            XXH3 of all that follows
//   16  u64            bytes of the key
//   24  u64            bytes of the value
//   32                 the key, the value, the end
// Any other file is unreadable: a miss. The entry that is compiled then replaces it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpu/cache/disk.hpp"
#include "support/error.hpp"

namespace attacca::gpu {

using Bytes = std::shared_ptr<const std::vector<char>>;

struct CacheOptions {
  std::string folder = default_folder();
  uint64_t limit_bytes = limit_from_environment().value_or(uint64_t{1} << 30);
  uint64_t memory_limit_bytes = uint64_t{256} << 20;
  // How long to wait for another process that compiles the same key, before compiling it too.
  std::chrono::milliseconds patience = std::chrono::seconds(20);
  std::shared_ptr<Disk> disk = std::make_shared<Disk>();

  static std::string default_folder();  // "kernels" in support/files/paths.hpp's cache_directory()
  // $ATTACCA_CACHE_LIMIT bytes (K, M, G), else 1 GiB. Errors: a text that is no number.
  static Result<uint64_t> limit_from_environment();
};

// An entry as the bytes of its file, and back. nullopt: the bytes are no entry.
std::vector<char> encode_entry(std::string_view key, std::span<const char> value);
struct DecodedEntry {
  std::string_view key;
  std::span<const char> value;
};
std::optional<DecodedEntry> decode_entry(std::span<const char> file);

class Cache {
 public:
  explicit Cache(CacheOptions options = {});

  // The process's own, of the default folder.
  static Cache& shared();

  enum class Origin { Memory, Disk, Made };
  struct Entry {
    Bytes bytes;
    Origin origin = Origin::Made;
  };
  using Make = std::function<Result<std::vector<char>>()>;
  // The key's bytes. If there are none, `make` makes them, once for all threads and processes that
  // request them at the same time. Errors: those of `make`.
  Result<Entry> get(const std::string& key, const Make& make);

  // The first failure of the disk, if there was one.
  std::optional<Error> warning() const;

  // ---- The folder as a whole: what `attacca cache` does.

  struct FileState {
    FileInfo file;
    std::string key;      // empty: unreadable
    std::string problem;  // empty: none
  };
  // Every entry, the last used first; its bytes are read and checked.
  Result<std::vector<FileState>> check() const;
  // Removes every entry and every temporary file. Returns how many bytes they had.
  Result<uint64_t> clear();
  const std::string& folder() const { return options_.folder; }
  uint64_t limit_bytes() const { return options_.limit_bytes; }

 private:
  struct Slot {  // of one key, in memory
    std::mutex mutex;
    Bytes bytes;
    uint64_t last_use = 0;
  };

  std::shared_ptr<Slot> slot(const std::string& key);
  void remember(Slot& slot, const Bytes& bytes);
  Bytes read(const std::string& key);
  void publish(const std::string& key, const std::vector<char>& value);
  int write_file(const std::string& path, const std::vector<char>& bytes);
  void evict(const std::string& newest);
  void note(int error, std::string what, const std::string& path);
  std::string path_of(std::string_view name) const;

  CacheOptions options_;
  mutable std::mutex mutex_;  // of what follows
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots_;
  uint64_t memory_bytes_ = 0, uses_ = 0;
  std::optional<Error> warning_;
};

}  // namespace attacca::gpu
