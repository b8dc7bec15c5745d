// Folders whose files this process believes: it runs the kernels and acts on the measurements that
// it finds there. Private is what belongs to this user or to root and nobody else may write:
// neither its group nor others. So a team can share a folder that root fills.
#pragma once

#include <string>
#include <sys/stat.h>

namespace attacca {

// What calls here give where errno would say too little.
inline constexpr int kNotPrivate = -1;
// Also of plain errnos.
std::string error_text(int error);

bool is_private(const struct stat& info);

// A private folder, held open: whatever takes its name later, files are those of this one.
class PrivateFolder {
 public:
  PrivateFolder() = default;
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  // Links on the way are followed: what counts is the folder that they lead to. 0, kNotPrivate or
  // an errno.
  int open(const std::string& path);
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Makes what is missing of the path, for this user alone. 0 or an errno.
int make_private_folders(const std::string& path);

}  // namespace attacca
