#include "gpu/cache/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <unistd.h>

#include "fmt/format.h"

#include "support/environment.hpp"
#include "support/files/paths.hpp"
#include "support/files/private_folder.hpp"
#include "support/hash.hpp"
#include "support/text/escaped.hpp"
#include "support/warnings.hpp"

namespace attacca::gpu {
namespace {

constexpr std::string_view kEntryEnding = ".entry", kTemporaryEnding = ".tmp";
constexpr int64_t kStaleAfter = int64_t{600} * 1'000'000'000;

std::string hash_name(std::string_view key) {
  return fmt::format("{:016x}", hash64(key));
}

int64_t now() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The lock of a key, or no lock.
class Lock {
 public:
  Lock(Disk& disk, const std::string& path, uint64_t place, std::chrono::milliseconds patience)
      : disk_(disk), error_(disk.lock(path, place, patience, file_)) {}
  ~Lock() {
    if (error_ == 0) disk_.unlock(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  int error() const { return error_; }

 private:
  Disk& disk_;
  int file_ = -1;
  int error_;
};

}  // namespace

std::string CacheOptions::default_folder() {
  return cache_directory() + "/kernels";
}

Result<uint64_t> CacheOptions::limit_from_environment() {
  constexpr const char* kVariable = "ATTACCA_CACHE_LIMIT";
  constexpr uint64_t kDefault = uint64_t{1} << 30;
  const std::string text = environment(kVariable);
  if (text.empty()) return kDefault;
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  constexpr std::string_view kUnits = "KMG";
  const size_t unit = rest == end ? 0 : kUnits.find(*rest) + 1;
  const bool is_number = error == std::errc() && end - rest <= 1 && (rest == end || unit > 0);
  if (!is_number || value > (std::numeric_limits<uint64_t>::max() >> (10 * unit)))
    return fail(fmt::format("the cache's limit '{}' is no number of bytes", escaped(text)),
                kVariable, "give bytes, or a number with K, M or G such as 2G, or unset it");
  return value << (10 * unit);
}

// ---- Entries

Cache::Cache(CacheOptions options) : options_(std::move(options)) {}

Cache& Cache::shared() {
  static Cache& cache = *new Cache;  // other threads use it until the process ends
  return cache;
}

std::string Cache::path_of(std::string_view name) const {
  return fmt::format("{}/{}", options_.folder, name);
}

Result<Cache::Entry> Cache::get(const std::string& key, const Make& make) {
  const std::shared_ptr<Slot> own = slot(key);
  const std::lock_guard of_key(own->mutex);
  if (own->bytes) return Entry{own->bytes, Origin::Memory};
  if (Bytes bytes = read(key)) {
    remember(*own, bytes);
    return Entry{bytes, Origin::Disk};
  }
  int error = options_.disk->make_folders(options_.folder);
  if (error != 0) note(error, "make the cache's folder", options_.folder);
  const Lock lock(*options_.disk, path_of("lock"), hash64(key), options_.patience);
  if (error == 0 && lock.error() != 0 && lock.error() != EAGAIN)
    note(lock.error(), "lock the cache", path_of("lock"));
  // The last holder of the lock may have published the entry.
  if (Bytes bytes = lock.error() == 0 ? read(key) : nullptr) {
    remember(*own, bytes);
    return Entry{bytes, Origin::Disk};
  }
  ATTACCA_TRY(std::vector<char> value, make());
  if (error == 0) publish(key, value);
  auto bytes = std::make_shared<const std::vector<char>>(std::move(value));
  remember(*own, bytes);
  return Entry{std::move(bytes), Origin::Made};
}

// Null: a miss.
Bytes Cache::read(const std::string& key) {
  const std::string path = path_of(hash_name(key) + std::string(kEntryEnding));
  std::vector<char> file;
  if (const int error = options_.disk->read(path, file); error != 0) {
    if (error != ENOENT && error != ENOTDIR) note(error, "read the cache", path);
    return nullptr;
  }
  const auto entry = decode_entry(file);
  if (!entry || entry->key != key) return nullptr;
  (void)options_.disk->touch(path);  // a failure affects only the order of eviction
  return std::make_shared<const std::vector<char>>(entry->value.begin(), entry->value.end());
}

void Cache::publish(const std::string& key, const std::vector<char>& value) {
  static std::atomic<uint64_t> next_number = 0;
  const std::vector<char> file = encode_entry(key, value);
  if (file.size() > options_.limit_bytes) return;
  const std::string name = hash_name(key);
  const std::string temporary =
      path_of(fmt::format("{}.{}.{}{}", name, getpid(), next_number++, kTemporaryEnding));
  const std::string path = path_of(name + std::string(kEntryEnding));
  int error = write_file(temporary, file);
  if (error == 0) error = options_.disk->rename(temporary, path);
  if (error != 0) {
    note(error, "write the cache", path);
    if (error != EEXIST) (void)options_.disk->remove(temporary);
    return;
  }
  if (error = options_.disk->sync_folder(options_.folder); error != 0)
    note(error, "write the cache", options_.folder);
  evict(name + std::string(kEntryEnding));
}

int Cache::write_file(const std::string& path, const std::vector<char>& bytes) {
  int file = -1;
  int error = options_.disk->create(path, file);
  if (error != 0) return error;
  error = options_.disk->write(file, bytes);
  if (error == 0) error = options_.disk->sync(file);
  const int closed = options_.disk->close(file);
  return error != 0 ? error : closed;
}

// Removes entries until the rest fits, the least recently used first, but never the newest.
void Cache::evict(const std::string& newest) {
  std::vector<FileInfo> files;
  if (const int error = options_.disk->list(options_.folder, files); error != 0)
    return note(error, "list the cache", options_.folder);
  uint64_t total = 0;
  std::vector<FileInfo> entries;
  for (FileInfo& file : files) {
    const bool is_stale =
        file.name.ends_with(kTemporaryEnding) && file.last_use < now() - kStaleAfter;
    if (is_stale && options_.disk->remove(path_of(file.name)) == 0) continue;
    total += file.bytes;
    if (file.name.ends_with(kEntryEnding) && file.name != newest)
      entries.push_back(std::move(file));
  }
  std::sort(entries.begin(), entries.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.last_use < b.last_use; });
  for (const FileInfo& entry : entries) {
    if (total <= options_.limit_bytes) return;
    const int error = options_.disk->remove(path_of(entry.name));
    if (error != 0 && error != ENOENT) return note(error, "shrink the cache", path_of(entry.name));
    total -= entry.bytes;
  }
}

// ---- Memory

std::shared_ptr<Cache::Slot> Cache::slot(const std::string& key) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Slot>& slot = slots_[key];
  if (!slot) slot = std::make_shared<Slot>();
  slot->last_use = ++uses_;
  return slot;
}

void Cache::remember(Slot& slot, const Bytes& bytes) {
  slot.bytes = bytes;
  const std::lock_guard lock(mutex_);
  memory_bytes_ += bytes->size();
  while (memory_bytes_ > options_.memory_limit_bytes) {
    // Slots in use are kept.
    auto oldest = slots_.end();
    for (auto at = slots_.begin(); at != slots_.end(); ++at)
      if (at->second.use_count() == 1 && at->second->bytes &&
          (oldest == slots_.end() || at->second->last_use < oldest->second->last_use))
        oldest = at;
    if (oldest == slots_.end()) return;
    memory_bytes_ -= oldest->second->bytes->size();
    slots_.erase(oldest);
  }
}

void Cache::note(int error, std::string what, const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (warning_) return;
  warning_ = Error{
      fmt::format("cannot {}: {}; kernels are compiled again in every process", what,
                  error_text(error)),
      path,
      error == kNotPrivate
          ? fmt::format("take others' right to write away (chmod go-w '{0}' '{0}/..'; both must be "
                        "yours or root's), or set ATTACCA_CACHE_DIR to another folder",
                        options_.folder)
          : "set ATTACCA_CACHE_DIR to a folder that can be written and has room"};
  warn(*warning_);
}

std::optional<Error> Cache::warning() const {
  const std::lock_guard lock(mutex_);
  return warning_;
}

// ---- The folder

Result<std::vector<Cache::FileState>> Cache::check() const {
  std::vector<FileInfo> files;
  const int error = options_.disk->list(options_.folder, files);
  if (error != 0 && error != ENOENT)
    return fail(fmt::format("cannot list the cache: {}", error_text(error)), options_.folder,
                "chmod go-w its folder, or set ATTACCA_CACHE_DIR to another one");
  std::sort(files.begin(), files.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.last_use > b.last_use; });
  std::vector<FileState> states;
  for (FileInfo& file : files) {
    if (!file.name.ends_with(kEntryEnding)) continue;
    FileState state{std::move(file), {}, {}};
    std::vector<char> bytes;
    if (const int failed = options_.disk->read(path_of(state.file.name), bytes); failed != 0) {
      if (failed == ENOENT) continue;  // evicted meanwhile
      state.problem = error_text(failed);
    } else if (const auto entry = decode_entry(bytes); !entry) {
      state.problem = "damaged";
    } else if (hash_name(entry->key) + std::string(kEntryEnding) != state.file.name) {
      state.problem = "another key's";
    } else {
      state.key = entry->key;
    }
    states.push_back(std::move(state));
  }
  return states;
}

Result<uint64_t> Cache::clear() {
  std::vector<FileInfo> files;
  const int error = options_.disk->list(options_.folder, files);
  if (error != 0 && error != ENOENT)
    return fail(fmt::format("cannot list the cache: {}", error_text(error)), options_.folder,
                "chmod go-w its folder, or set ATTACCA_CACHE_DIR to another one");
  uint64_t bytes = 0;
  for (const FileInfo& file : files) {
    if (!file.name.ends_with(kEntryEnding) && !file.name.ends_with(kTemporaryEnding)) continue;
    const int failed = options_.disk->remove(path_of(file.name));
    if (failed != 0 && failed != ENOENT)
      return fail(fmt::format("cannot remove it: {}", error_text(failed)), path_of(file.name));
    bytes += file.bytes;
  }
  const std::lock_guard lock(mutex_);
  slots_.clear();
  memory_bytes_ = 0;
  return bytes;
}

}  // namespace attacca::gpu
