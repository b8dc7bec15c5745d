// The best candidates, in an SQLite file: one row for each device, problem class and shape bucket.
//
//   choices(device, problem, shape, tools, candidate, seconds, unfused_seconds, made, quick)
//
// A table `measured` of earlier versions may be beside it, and is theirs alone.
//
// Many processes may read and write it at once. A file that is damaged or no database is renamed to
// NAME.broken and replaced, by one process at a time (NAME.lock). A database whose `choices` lacks
// these columns is another version's: it stays as it is and is not used. More columns do no harm.
// The file and its folder must be private (support/files/private_folder.hpp). A process that
// waited in vain for a lock of another one does not wait again for a minute.
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

// A row. The candidate is not parsed, as another version may have written it.
struct StoredChoice {
  ChoiceKey key;
  std::string candidate;
  double seconds = 0, unfused_seconds = 0;
  int64_t made = 0;    // seconds since 1970
  bool quick = false;  // as Choice's
};

class Database {
 public:
  // By default in the cache directory. Errors: a file or folder that is not private or cannot be
  // made, a file that another process keeps locked, a database of another version.
  static Result<Database> open(const std::string& path = default_path());
  static std::string default_path();
  // Whether there is no file at the default path, so that open() would make one.
  static bool is_missing();
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  Result<std::optional<Choice>> find(const ChoiceKey& key);
  // A choice replaces the one with its key, unless it is of a quick tuning and the other is not.
  Status store(const ChoiceKey& key, const Choice& choice);
  // The same. Stores all or none, even if the process is killed.
  Status store_all(const std::vector<StoredChoice>& rows);
  Result<int64_t> size();
  // All rows, by device, problem and shape.
  Result<std::vector<StoredChoice>> list();
  // Returns how many choices were forgotten.
  Result<int64_t> clear();

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca::tune
