// A file that is complete or absent, even if the process is killed. Bytes are written to a draft in
// the same folder. When all of them are on the disk, the draft takes the file's name and replaces a
// file of that name. Where the file system allows it, a draft has no name, so that none is left
// behind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/error.hpp"

namespace attacca {

class DraftFile {
 public:
  // Symbolic links are followed. A device, a pipe, and what /proc has of an open file, as
  // /dev/stdout, are written to directly, without a draft.
  // Errors: the path is a folder, or a file that may not be written; no file can be made there.
  static Result<DraftFile> create(const std::string& path);

  DraftFile(DraftFile&& other) noexcept { *this = std::move(other); }
  DraftFile& operator=(DraftFile&& other) noexcept;
  ~DraftFile();  // removes an uncommitted draft

  // The path of the draft until commit(), for other programs that write it.
  const std::string& draft() const { return draft_; }

  Status write(const void* bytes, uint64_t count);
  Status write(std::string_view bytes) { return write(bytes.data(), bytes.size()); }
  // Publishes the file; nothing may be called after it.
  Status commit();

 private:
  DraftFile() = default;
  Status failed(int error) const;
  void give_up();
  bool has_draft() const { return draft_ != path_; }
  int give_name();  // to the nameless draft, the file's own if it is free; an errno

  std::string name_;          // the path that the caller gave
  std::string path_, draft_;  // equal: written directly, or already named
  bool nameless_ = false;
  int file_ = -1;
};

// Writes these bytes as a file, by a draft.
Status write_file(const std::string& path, std::string_view bytes);

}  // namespace attacca
