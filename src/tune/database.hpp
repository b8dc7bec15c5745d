// What was found best, kept in an SQLite file: one row a device, problem class and shape bucket.
//
//   choices(device, problem, shape, tools, candidate, seconds, unfused_seconds, made, quick)
//
// A table `measured` of earlier versions may be beside it, and is theirs alone.
//
// Many processes may read and write it at once. A file that is no database of ours is set aside
// (NAME.broken) and begun anew, by one process at a time (NAME.lock). The file and its folder must
// be private (support/files/private_folder.hpp). A lock of another process is waited for at most
// once a process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/driver/device.hpp"
#include "problem/problem.hpp"
#include "support/error.hpp"
#include "tune/choice.hpp"

namespace attacca::tune {

ChoiceKey choice_key(const problem::Problem& problem, const gpu::DeviceInfo& device,
                     const std::string& tools);

// A row; the candidate's text as it is, for it may be another version's.
struct StoredChoice {
  ChoiceKey key;
  std::string candidate;
  double seconds = 0, unfused_seconds = 0;
  int64_t made = 0;    // seconds since 1970
  bool quick = false;  // as Choice's
};

class Database {
 public:
  // In the cache directory unless told otherwise. Errors: a file or folder that is not private or
  // cannot be made, one that another process keeps locked.
  static Result<Database> open(const std::string& path = default_path());
  static std::string default_path();
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  Result<std::optional<Choice>> find(const ChoiceKey& key);
  Status store(const ChoiceKey& key, const Choice& choice);
  // All of them or none, whatever ends the process. A row replaces that of its key.
  Status store_all(const std::vector<StoredChoice>& rows);
  Result<int64_t> size();
  // All of it, by device, problem and shape.
  Result<std::vector<StoredChoice>> list();
  // Returns how many choices were forgotten.
  Result<int64_t> clear();

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca::tune
