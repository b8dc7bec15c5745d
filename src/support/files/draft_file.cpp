#include "support/files/draft_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca {
namespace {

// What stands there for an open file, such as /proc/self/fd/1, reads as a link, but the text need
// not be a path: "pipe:[7]", "/tmp/x (deleted)".
bool is_in_proc(const std::filesystem::path& folder) {
  struct statfs info {};
  return statfs(folder.c_str(), &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

// The file that symbolic links lead to, which need not be there; the path itself if it is not a
// link. Links in /proc are not followed. Empty: the links lead nowhere.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code none;
  for (int link = 0; link < kMostLinks; ++link) {
    const std::filesystem::path next = std::filesystem::read_symlink(path, none);
    if (none || is_in_proc(path.parent_path())) return path;
    path = path.parent_path() / next;
  }
  return {};
}

// The file of a link in /proc: this process's own with its place and flags, so that what is written
// to `/dev/stdout` stands after what was printed before.
int open_in_proc(const std::filesystem::path& path) {
  std::error_code none;
  const auto folder = std::filesystem::canonical(path.parent_path(), none);
  const std::string name = path.filename().string();
  int own = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), own);
  const bool number = error == std::errc() && end == name.data() + name.size();
  if (number && folder == fmt::format("/proc/{}/fd", getpid()))
    return fcntl(own, F_DUPFD_CLOEXEC, 0);
  return open(path.c_str(), O_WRONLY | O_CLOEXEC);
}

// In the file's folder. Its own name may already be as long as names can be.
std::string fresh_name(const std::string& path) {
  static std::atomic<unsigned> drafts = 0;
  const std::string name = fmt::format(".{}.{}.draft", getpid(), drafts++);
  return (std::filesystem::path(path).parent_path() / name).string();
}

// A file without a name in the folder, deleted when it is closed. -1 if the file system has none.
int open_nameless(const std::string& path, std::string& draft) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int file =
      open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0) return -1;
  draft = fmt::format("/proc/{}/fd/{}", getpid(), file);
  if (access(draft.c_str(), W_OK) == 0) return file;
  close(file);
  return -1;
}

// A new file with a unique name.
int open_named(const std::string& path, std::string& draft) {
  int file = -1;
  do {
    draft = fresh_name(path);
    file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file < 0 && errno == EEXIST);
  return file;
}

}  // namespace

Result<DraftFile> DraftFile::create(const std::string& path) {
  DraftFile result;
  result.name_ = path;
  const std::filesystem::path target = behind_links(path);
  result.path_ = target.string();
  if (result.path_.empty() && !path.empty())
    return tl::make_unexpected(result.failed(ELOOP).error());
  struct stat there;
  const bool exists = stat(result.path_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) return tl::make_unexpected(result.failed(EISDIR).error());
  if (is_in_proc(target.parent_path())) {
    result.draft_ = result.path_;
    result.file_ = open_in_proc(target);
  } else if (exists && !S_ISREG(there.st_mode)) {
    result.draft_ = result.path_;
    result.file_ = open(result.path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else if (exists && faccessat(AT_FDCWD, result.path_.c_str(), W_OK, AT_EACCESS) != 0) {
    return tl::make_unexpected(result.failed(errno).error());  // a rename would replace it
  } else {
    result.file_ = open_nameless(result.path_, result.draft_);
    result.nameless_ = result.file_ >= 0;
    if (!result.nameless_) result.file_ = open_named(result.path_, result.draft_);
    // Gives the draft the rights of the file that it replaces.
    if (exists && result.file_ >= 0) (void)fchmod(result.file_, there.st_mode & 07777);
  }
  if (result.file_ < 0) return tl::make_unexpected(result.failed(errno).error());
  return result;
}

DraftFile& DraftFile::operator=(DraftFile&& other) noexcept {
  if (this == &other) return *this;
  give_up();
  name_ = std::move(other.name_);
  path_ = std::move(other.path_);
  draft_ = std::move(other.draft_);
  nameless_ = other.nameless_;
  file_ = std::exchange(other.file_, -1);
  return *this;
}

DraftFile::~DraftFile() {
  give_up();
}

void DraftFile::give_up() {
  if (file_ < 0) return;
  close(std::exchange(file_, -1));
  if (has_draft() && !nameless_) unlink(draft_.c_str());
}

int DraftFile::give_name() {
  const auto link = [this](const std::string& name) {
    return linkat(AT_FDCWD, draft_.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  // Where no file has the name, one step gives it, and a kill leaves nothing else behind.
  std::string name = path_;
  while (!link(name)) {
    if (errno != EEXIST) return errno;
    name = fresh_name(path_);
  }
  draft_ = name;
  nameless_ = false;
  return 0;
}

Status DraftFile::failed(int error) const {
  return fail(fmt::format("cannot write {}: {}", name_, std::strerror(error)), name_,
              "give a path that can be written, on a disk with free space");
}

Status DraftFile::write(const void* bytes, uint64_t count) {
  ATTACCA_CHECK(file_ >= 0, "written after commit()");
  constexpr uint64_t kMost = uint64_t{1} << 30;  // of one call
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = ::write(file_, at, std::min(count, kMost));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(errno);
    at += done;
    count -= static_cast<uint64_t>(done);
  }
  return {};
}

Status DraftFile::commit() {
  ATTACCA_CHECK(file_ >= 0, "committed twice");
  // The replaced file may be the only copy, so the bytes are on the disk before the name changes.
  int error = has_draft() && fdatasync(file_) != 0 ? errno : 0;
  if (error == 0 && nameless_) error = give_name();
  if (close(std::exchange(file_, -1)) != 0 && error == 0) error = errno;
  if (error == 0 && has_draft() && std::rename(draft_.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) return {};
  if (has_draft() && !nameless_) unlink(draft_.c_str());
  return failed(error);
}

Status write_file(const std::string& path, std::string_view bytes) {
  ATTACCA_TRY(DraftFile file, DraftFile::create(path));
  ATTACCA_TRY_VOID(file.write(bytes));
  return file.commit();
}

}  // namespace attacca
