#include "support/files/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"

namespace attacca {
namespace {

constexpr size_t kFirstPiece = 4096;

// Of what is no regular file, whose end may never come.
constexpr uint64_t kMostOfAPipe = uint64_t{1} << 30;

Status check_length(uint64_t bytes, uint64_t told, const std::string& path,
                    const FileLimit& limit) {
  if (bytes > told && bytes > kMostOfAPipe && kMostOfAPipe < limit.bytes)
    return fail(fmt::format("{} has more than {} bytes and is no regular file", path, kMostOfAPipe),
                {}, "write it to a file first");
  if (bytes <= limit.bytes) return {};
  return fail(fmt::format("{} has more than {} bytes", path, limit.bytes), {}, limit.fix);
}

// Descriptors rather than streams: their buffers cost more than a small file.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Of a regular file; 0 for a pipe, whose length is known only after reading it.
  uint64_t size() const {
    struct stat info {};
    return fstat(file_, &info) == 0 && S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size)
                                                             : 0;
  }
  // 0 at the end, < 0 for an error.
  ssize_t read(char* to, size_t bytes) const {
    ssize_t got = 0;
    do got = ::read(file_, to, bytes);
    while (got < 0 && errno == EINTR);
    return got;
  }

 private:
  int file_;
};

}  // namespace

Result<std::string> read_file(const std::string& path, const FileLimit& limit) {
  const OpenFile file(path);
  const uint64_t size = file.size();
  ATTACCA_TRY_VOID(check_length(size, size, path, limit));
  std::string bytes;
  bytes.reserve(size + kFirstPiece);
  // What follows the size that was told, nothing but for pipes, is read in growing pieces.
  for (size_t piece = size, next = kFirstPiece;; piece = std::exchange(next, next * 2)) {
    const size_t before = bytes.size();
    bytes.resize(before + piece);
    const ssize_t got = file.read(bytes.data() + before, piece);
    if (got < 0)
      return fail(fmt::format("cannot read {}", path.empty() ? "an empty path" : path), {},
                  "check the path");
    bytes.resize(before + static_cast<size_t>(got));
    if (got == 0 && piece > 0) return bytes;
    ATTACCA_TRY_VOID(check_length(bytes.size(), size, path, limit));
  }
}

}  // namespace attacca
