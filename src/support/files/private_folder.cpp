#include "support/files/private_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace attacca {

std::string error_text(int error) {
  return error == kNotPrivate ? "another user may have written it" : std::strerror(error);
}

bool is_private(const struct stat& info) {
  return (info.st_uid == geteuid() || info.st_uid == 0) &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

PrivateFolder::~PrivateFolder() {
  if (descriptor_ >= 0) close(descriptor_);
}

int PrivateFolder::open(const std::string& path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) return errno;
  struct stat info {};
  if (fstat(descriptor_, &info) != 0) return errno;
  return is_private(info) ? 0 : kNotPrivate;
}

int make_private_folders(const std::string& path) {
  const auto make = [&] { return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno; };
  if (const int error = make(); error != ENOENT) return error;
  const std::string above = std::filesystem::path(path).parent_path().string();
  if (above.empty() || above == path) return ENOENT;
  if (const int error = make_private_folders(above); error != 0) return error;
  return make();
}

}  // namespace attacca
