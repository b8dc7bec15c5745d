#include "gpu/cache/disk.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "support/files/private_folder.hpp"

namespace attacca::gpu {
namespace {

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// A path as an open private folder, which other users cannot rename either, and a name in it.
class Place {
 public:
  explicit Place(const std::string& path) : Place(std::filesystem::path(path)) {}
  explicit Place(const std::filesystem::path& path)
      : name_(path.filename().string()), error_(enter(path.parent_path().string())) {}

  int error() const { return error_; }
  int folder() const { return folder_.descriptor(); }
  const char* name() const { return name_.c_str(); }

  // Opens a private file that is neither a link nor a pipe. Returns its descriptor, or -1 and
  // `error`.
  int open(int flags, int& error) const {
    error = error_;
    if (error != 0) return -1;
    int file = -1;
    do file = openat(folder(), name(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    while (file < 0 && errno == EINTR);
    if (file < 0) {
      error = errno == ELOOP ? kNotPrivate : errno;
      return -1;
    }
    struct stat info {};
    if (fstat(file, &info) != 0)
      error = errno;
    else if (!S_ISREG(info.st_mode))
      error = EINVAL;
    else if (!is_private(info))
      error = kNotPrivate;
    if (error == 0) return file;
    ::close(file);
    return -1;
  }

  int enter(const std::string& folder) {
    if (const int error = folder_.open(folder); error != 0) return error;
    struct stat above {};
    if (fstatat(folder_.descriptor(), "..", &above, 0) != 0) return errno;
    const bool sticky = (above.st_mode & S_ISVTX) != 0;
    if (sticky) above.st_mode &= ~static_cast<mode_t>(S_IWGRP | S_IWOTH);
    return is_private(above) ? 0 : kNotPrivate;
  }

 private:
  std::string name_;
  PrivateFolder folder_;
  int error_;
};

}  // namespace

int Disk::make_folders(const std::string& path) {
  return make_private_folders(path);
}

int Disk::list(const std::string& folder, std::vector<FileInfo>& files) {
  const Place place(folder + "/.");
  if (place.error() != 0) return place.error();
  DIR* stream = fdopendir(openat(place.folder(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
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

// Far beyond any kernel: before memory is taken for a file that another program wrote.
constexpr off_t kLongestFile = off_t{1} << 30;

int Disk::read(const std::string& path, std::vector<char>& bytes) {
  int error = 0;
  const int file = Place(path).open(O_RDONLY, error);
  if (file < 0) return error;
  struct stat info {};
  error = fstat(file, &info) == 0 ? 0 : errno;
  if (error == 0 && info.st_size > kLongestFile) error = EFBIG;
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
  const Place place(path);
  if (place.error() != 0) return place.error();
  return utimensat(place.folder(), place.name(), nullptr, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

int Disk::remove(const std::string& path) {
  const Place place(path);
  if (place.error() != 0) return place.error();
  return unlinkat(place.folder(), place.name(), 0) == 0 ? 0 : errno;
}

int Disk::create(const std::string& path, int& file) {
  int error = 0;
  file = Place(path).open(O_WRONLY | O_CREAT | O_EXCL, error);
  return error;
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
  const Place old_place(from), new_place(to);
  for (const Place* place : {&old_place, &new_place})
    if (place->error() != 0) return place->error();
  return renameat(old_place.folder(), old_place.name(), new_place.folder(), new_place.name()) == 0
             ? 0
             : errno;
}

int Disk::sync_folder(const std::string& folder) {
  const Place place(folder + "/.");
  return place.error() != 0 ? place.error() : sync(place.folder());
}

// A lock of an open file (F_OFD), not of a process, so that threads exclude each other too.
int Disk::lock(const std::string& path, uint64_t place, std::chrono::milliseconds patience,
               int& file) {
  using Clock = std::chrono::steady_clock;
  int failed = 0;
  file = Place(path).open(O_RDWR | O_CREAT, failed);
  if (file < 0) return failed;
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(place >> 2);  // the rest is a valid offset
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

// Closing is not enough: a child process that inherited the file would keep the lock.
void Disk::unlock(int file) {
  struct flock range {};
  range.l_type = F_UNLCK;
  range.l_whence = SEEK_SET;
  fcntl(file, F_OFD_SETLK, &range);
  ::close(file);
}

}  // namespace attacca::gpu
