#include "jit/disk.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace attacca::jit {
namespace {

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int open_file(const std::string& path, int flags) {
  int file = -1;
  do file = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  while (file < 0 && errno == EINTR);
  return file;
}

}  // namespace

int Disk::make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error.value();
}

int Disk::list(const std::string& folder, std::vector<FileInfo>& files) {
  DIR* stream = opendir(folder.c_str());
  if (!stream) return errno;
  while (const dirent* entry = readdir(stream)) {
    struct stat info {};
    if (fstatat(dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;
    files.push_back({entry->d_name, static_cast<uint64_t>(info.st_size),
                     std::max(nanoseconds(info.st_mtim), nanoseconds(info.st_atim))});
  }
  closedir(stream);
  return 0;
}

int Disk::read(const std::string& path, std::vector<char>& bytes) {
  const int file = open_file(path, O_RDONLY);
  if (file < 0) return errno;
  struct stat info {};
  int error = fstat(file, &info) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(info.st_mode)) error = EINVAL;
  size_t filled = 0;
  if (error == 0) bytes.resize(static_cast<size_t>(info.st_size));
  while (error == 0 && filled < bytes.size()) {
    const ssize_t got = ::read(file, bytes.data() + filled, bytes.size() - filled);
    if (got == 0) break;
    if (got > 0)
      filled += static_cast<size_t>(got);
    else if (errno != EINTR)
      error = errno;
  }
  bytes.resize(filled);
  ::close(file);
  return error;
}

int Disk::touch(const std::string& path) {
  return utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0 ? 0 : errno;
}

int Disk::remove(const std::string& path) {
  return ::unlink(path.c_str()) == 0 ? 0 : errno;
}

int Disk::create(const std::string& path, int& file) {
  file = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
  return file < 0 ? errno : 0;
}

int Disk::write(int file, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written >= 0)
      bytes = bytes.subspan(static_cast<size_t>(written));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

int Disk::sync(int file) {
  return fsync(file) == 0 ? 0 : errno;
}

int Disk::close(int file) {
  return ::close(file) == 0 ? 0 : errno;
}

int Disk::rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int Disk::sync_folder(const std::string& folder) {
  const int file = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (file < 0) return errno;
  const int error = sync(file);
  ::close(file);
  return error;
}

// A lock of an open file (F_OFD) and not of a process: threads exclude each other too.
int Disk::lock(const std::string& path, uint64_t place, std::chrono::milliseconds patience,
               int& file) {
  using Clock = std::chrono::steady_clock;
  file = open_file(path, O_RDWR | O_CREAT);
  if (file < 0) return errno;
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(place >> 2);  // what is left is a valid offset
  range.l_len = 1;
  const auto deadline = Clock::now() + patience;
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    if (fcntl(file, F_OFD_SETLK, &range) == 0) return 0;
    const int error = errno;
    const bool is_held = error == EAGAIN || error == EACCES || error == EINTR;
    if (!is_held || Clock::now() >= deadline) {
      ::close(file);
      file = -1;
      return is_held ? EAGAIN : error;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

// Closing alone would leave the lock with a child process that inherited the file.
void Disk::unlock(int file) {
  struct flock range {};
  range.l_type = F_UNLCK;
  range.l_whence = SEEK_SET;
  fcntl(file, F_OFD_SETLK, &range);
  ::close(file);
}

}  // namespace attacca::jit
