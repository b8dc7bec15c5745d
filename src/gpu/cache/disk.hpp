// The file system as the cache uses it; tests replace it. Every call returns an errno, 0 if it
// succeeded, and kNotPrivate for folders and files that are not private
// (support/files/private_folder.hpp). Links are not followed.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attacca::gpu {

struct FileInfo {
  std::string name;  // without its folder
  uint64_t bytes = 0;
  int64_t last_use = 0;  // nanoseconds since 1970: of the last touch() or write
};

class Disk {
 public:
  virtual ~Disk() = default;

  virtual int make_folders(const std::string& path);
  virtual int list(const std::string& folder, std::vector<FileInfo>& files);  // regular files
  virtual int read(const std::string& path, std::vector<char>& bytes);
  virtual int touch(const std::string& path);
  virtual int remove(const std::string& path);

  // Makes a file. Fails if it exists.
  virtual int create(const std::string& path, int& file);
  virtual int write(int file, std::span<const char> bytes);  // all of them
  virtual int sync(int file);
  virtual int close(int file);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int sync_folder(const std::string& folder);

  // Locks byte number `place` of the file, which is made if it does not exist, against other
  // threads and processes. The kernel releases it when the holder dies. EAGAIN: another holder kept
  // it all the time.
  virtual int lock(const std::string& path, uint64_t place, std::chrono::milliseconds patience,
                   int& file);
  virtual void unlock(int file);
};

}  // namespace attacca::gpu
