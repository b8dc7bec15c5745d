// A folder for one test, and a disk that fails or kills at the step a test names.
#pragma once

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <unistd.h>
#include <vector>

#include "gpu/cache/cache.hpp"

namespace attacca::gpu::testing {

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "attacca_cache_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string cache() const { return path + "/kernels"; }
  std::string path;
};

inline std::vector<char> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

// The problems of the damaged entries.
inline std::vector<std::string> problems(const Cache& cache) {
  const auto states = cache.check();
  if (!states) return {to_string(states.error())};
  std::vector<std::string> found;
  for (const Cache::FileState& state : *states)
    if (!state.problem.empty()) found.push_back(state.problem);
  return found;
}

// Counts the calls that may change the disk; `at_step` runs before each and may return an errno
// instead. A write that fails has written `written` of its bytes before.
class SteppedDisk : public Disk {
 public:
  explicit SteppedDisk(std::function<int(int step)> at_step) : at_step_(std::move(at_step)) {}
  int steps = 0;
  double written = 0.5;

  int make_folders(const std::string& path) override { return step() ?: Disk::make_folders(path); }
  int remove(const std::string& path) override { return step() ?: Disk::remove(path); }
  int create(const std::string& path, int& file) override {
    return step() ?: Disk::create(path, file);
  }
  int write(int file, std::span<const char> bytes) override {
    const auto part = static_cast<size_t>(written * static_cast<double>(bytes.size()));
    Disk::write(file, bytes.first(part));
    return step() ?: Disk::write(file, bytes.subspan(part));
  }
  int sync(int file) override { return step() ?: Disk::sync(file); }
  int close(int file) override {
    const int error = step();
    const int closed = Disk::close(file);
    return error ? error : closed;
  }
  int rename(const std::string& from, const std::string& to) override {
    return step() ?: Disk::rename(from, to);
  }
  int sync_folder(const std::string& folder) override {
    return step() ?: Disk::sync_folder(folder);
  }
  int list(const std::string& folder, std::vector<FileInfo>& files) override {
    return step() ?: Disk::list(folder, files);
  }
  int lock(const std::string& path, uint64_t place, std::chrono::milliseconds patience,
           int& file) override {
    return step() ?: Disk::lock(path, place, patience, file);
  }
  void unlock(int file) override {
    (void)step();
    Disk::unlock(file);
  }

 private:
  int step() { return at_step_(steps++); }
  std::function<int(int)> at_step_;
};

}  // namespace attacca::gpu::testing
