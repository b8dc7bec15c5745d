// What the cache asks of a file system. Every call may fail and gives an errno, 0 where it worked;
// tests put another one in its place. Folders and files that are not private
// (support/files/private_folder.hpp) give kNotPrivate, and links are not followed.
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

  // A new file: fails where there is one.
  virtual int create(const std::string& path, int& file);
  virtual int write(int file, std::span<const char> bytes);  // all of them
  virtual int sync(int file);
  virtual int close(int file);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int sync_folder(const std::string& folder);

  // Locks byte number `place` of the file, which is made where needed, against every other holder,
  // in this process or another. The kernel releases it when the holder dies. EAGAIN: somebody else
  // held it all the time.
  virtual int lock(const std::string& path, uint64_t place, std::chrono::milliseconds patience,
                   int& file);
  virtual void unlock(int file);
};

}  // namespace attacca::gpu
