// Folders whose files this process trusts: it runs the kernels and uses the measurements that it
// finds there. A file or folder is private if its owner is this user or root and neither its group
// nor others may write it. So a team can share a folder that root fills.
#pragma once

#include <string>
#include <sys/stat.h>

namespace attacca {

// The error for a file or folder that is not private; all other errors are errnos.
inline constexpr int kNotPrivate = -1;
// The text of kNotPrivate or of an errno.
std::string error_text(int error);

bool is_private(const struct stat& info);

// A private folder, held open: renaming it does not change which files these calls access.
class PrivateFolder {
 public:
  PrivateFolder() = default;
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  // Links in the path are followed, and the folder that they lead to is checked. Returns 0,
  // kNotPrivate or an errno.
  int open(const std::string& path);
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Makes the missing folders of the path, for this user only. Returns 0 or an errno.
int make_private_folders(const std::string& path);

}  // namespace attacca
