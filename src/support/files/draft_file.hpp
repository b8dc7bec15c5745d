// A file that appears whole or not at all, whoever is killed when: what is written goes to a draft
// in its folder, which takes its name, and with it the place of what had that name, once all of it
// is on the disk. Where the file system allows it a draft has no name, so that none is left behind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/error.hpp"

namespace attacca {

class DraftFile {
 public:
  // Symbolic links are followed. A device or a pipe is written to as it is: it has no draft.
  // Errors: a folder; a place where no file can be made.
  static Result<DraftFile> create(const std::string& path);

  DraftFile(DraftFile&& other) noexcept { *this = std::move(other); }
  DraftFile& operator=(DraftFile&& other) noexcept;
  ~DraftFile();  // removes a draft that was not committed

  // Where the bytes go until commit(), for programs that write it themselves.
  const std::string& draft() const { return draft_; }

  Status write(const void* bytes, uint64_t count);
  Status write(std::string_view bytes) { return write(bytes.data(), bytes.size()); }
  // The last call.
  Status commit();

 private:
  DraftFile() = default;
  Status failed(int error) const;
  void give_up();
  int give_name();  // to the nameless draft; an errno

  std::string name_;          // as the caller calls it
  std::string path_, draft_;  // equal: there is no draft
  bool nameless_ = false;
  int file_ = -1;
};

// A file of these bytes, as a draft makes it.
Status write_file(const std::string& path, std::string_view bytes);

}  // namespace attacca
