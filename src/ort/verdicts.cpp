#include "ort/verdicts.hpp"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>

#include "attacca/attacca.hpp"

namespace attacca::ort {
namespace {

// A file: this line, a line of the four numbers, the key. Its name is a hash of the key.
constexpr char kHead[] = "attacca onnxruntime 2";
constexpr size_t kMostBytes = 1 << 20;

struct Kept {
  std::mutex mutex;
  std::unordered_map<std::string, Times> times;
};

// Never destroyed: sessions may end after the library's static objects.
Kept& kept() {
  static auto& all = *new Kept;
  return all;
}

std::string name_of(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  char name[17];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  return name;
}

// Empty where there is no folder for caches.
std::filesystem::path path_of(const std::string& key) {
  const auto folder = cache_directory();
  if (!folder || key.size() > kMostBytes) return {};
  return std::filesystem::path(*folder) / "onnxruntime" / name_of(key);
}

// True if only this user and root may write the file, as is required of the whole cache.
bool is_private(const std::filesystem::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0) &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// For this user only: other parts of Attacca refuse a folder that others may write.
void make_private_folders(const std::filesystem::path& folder) {
  if (folder.empty() || mkdir(folder.c_str(), 0700) == 0 || errno != ENOENT) return;
  if (folder.parent_path() != folder) make_private_folders(folder.parent_path());
  mkdir(folder.c_str(), 0700);
}

std::optional<Times> read(const std::string& key) {
  const std::filesystem::path path = path_of(key);
  if (path.empty() || !is_private(path.parent_path()) || !is_private(path)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string head, numbers;
  if (!std::getline(file, head) || head != kHead || !std::getline(file, numbers))
    return std::nullopt;
  Times times;
  if (!(std::istringstream(numbers) >> times.ours >> times.theirs >> times.speedup >> times.sure) ||
      !(std::isfinite(times.speedup) && times.speedup > 0))
    return std::nullopt;
  const std::string rest{std::istreambuf_iterator<char>(file), {}};
  return rest == key ? std::optional(times) : std::nullopt;
}

void write(const std::string& key, const Times& times) {
  const std::filesystem::path path = path_of(key);
  if (path.empty()) return;
  std::error_code error;
  make_private_folders(path.parent_path());
  const std::filesystem::path draft = path.string() + "." + std::to_string(getpid());
  {
    std::ofstream file(draft, std::ios::binary);
    file << kHead << '\n'
         << times.ours << ' ' << times.theirs << ' ' << times.speedup << ' ' << times.sure << '\n'
         << key;
    if (!file.flush()) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::permissions(draft, std::filesystem::perms(0600), error);
  if (!error) std::filesystem::rename(draft, path, error);
  if (error) std::filesystem::remove(draft, error);
}

}  // namespace

std::optional<Times> known_times(const std::string& key) {
  {
    const std::lock_guard lock(kept().mutex);
    if (const auto found = kept().times.find(key); found != kept().times.end())
      return found->second;
  }
  const auto times = read(key);
  if (!times) return std::nullopt;
  const std::lock_guard lock(kept().mutex);
  kept().times.emplace(key, *times);
  return times;
}

void keep_times(const std::string& key, const Times& times) {
  {
    const std::lock_guard lock(kept().mutex);
    kept().times.insert_or_assign(key, times);
  }
  write(key, times);
}

}  // namespace attacca::ort
