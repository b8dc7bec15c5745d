#include "tune/database.hpp"

#include <atomic>
#include <chrono>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "fmt/format.h"

#include "sqlite3.h"
#include "support/files/paths.hpp"
#include "support/files/private_folder.hpp"
#include "support/warnings.hpp"

namespace attacca::tune {
namespace {

constexpr const char* kSchema =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS choices("
    "device TEXT, problem TEXT, shape TEXT, tools TEXT, candidate TEXT NOT NULL, seconds REAL NOT "
    "NULL, unfused_seconds REAL NOT NULL, made INTEGER NOT NULL, quick INTEGER NOT NULL, "
    "PRIMARY KEY(device, problem, shape, tools));"
    "COMMIT";
constexpr const char* kFind =
    "SELECT candidate, seconds, unfused_seconds, quick FROM choices WHERE device=? AND problem=? "
    "AND "
    "shape=? AND tools=?";
// The columns are named, as another version's table may have more. A thorough choice stays where a
// quick one comes.
constexpr const char* kStore =
    "INSERT INTO choices(device, problem, shape, tools, candidate, seconds, "
    "unfused_seconds, made, quick) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "candidate = excluded.candidate, seconds = excluded.seconds, "
    "unfused_seconds = excluded.unfused_seconds, made = excluded.made, quick = excluded.quick "
    "WHERE excluded.quick <= choices.quick";

constexpr const char* kList =
    "SELECT device, problem, shape, tools, candidate, seconds, unfused_seconds, made, quick FROM "
    "choices "
    "ORDER BY device, problem, shape, made";

using Clock = std::chrono::steady_clock;

// How long a process waits for a lock. The steps are short, as many processes may wait.
constexpr int kPatienceMilliseconds = 3000, kStepMilliseconds = 5;
// A process that has waited in vain does not wait again before this time.
constexpr std::chrono::seconds kImpatience{60};
std::atomic<Clock::time_point> impatient_until = Clock::time_point::min();

int wait_for_lock(void*, int tries) {
  if (tries * kStepMilliseconds >= kPatienceMilliseconds || Clock::now() < impatient_until.load())
    return 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(kStepMilliseconds));
  return 1;
}

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Connection = std::unique_ptr<sqlite3, Close>;
using Statement = std::unique_ptr<sqlite3_stmt, Close>;

const char* fix_of(int code) {
  switch (code) {
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      return "set ATTACCA_CACHE_DIR to a folder that can be written";
    case SQLITE_FULL:
      return "make room on that disk, or set ATTACCA_CACHE_DIR to another folder";
    case SQLITE_NOMEM:
      return "free memory";
    case SQLITE_IOERR:
      return "check that disk and its free space, or set ATTACCA_CACHE_DIR to another folder";
    default:
      return "check the file, or remove it: it is only a cache";
  }
}

tl::unexpected<Error> failure(sqlite3* database, const std::string& path) {
  if (database != nullptr && (sqlite3_errcode(database) & 0xff) == SQLITE_BUSY) {
    const auto now = Clock::now();
    if (now >= impatient_until.load()) impatient_until = now + kImpatience;  // it waited
    return fail(
        "another process keeps the tuning database locked: what was measured is not known, "
        "and what is measured is not kept",
        path, "let that process end, or set ATTACCA_CACHE_DIR to another folder");
  }
  const int code = database != nullptr ? sqlite3_errcode(database) & 0xff : SQLITE_NOMEM;
  return fail(fmt::format("the tuning database failed: {}",
                          database != nullptr ? sqlite3_errmsg(database) : "out of memory"),
              path, fix_of(code));
}

// The statements above fail with SQLITE_ERROR where the table lacks their columns.
tl::unexpected<Error> of_others(sqlite3* database, const std::string& path) {
  return fail(
      fmt::format("the tuning database is not used: another version or program made it ({})",
                  sqlite3_errmsg(database)),
      path, "move it away, or set ATTACCA_CACHE_DIR to another folder");
}

bool is_broken(int code) {
  return code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
}

int prepare_all(sqlite3* database) {
  for (const char* sql : {kFind, kStore}) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
    sqlite3_finalize(statement);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

int open_connection(const std::string& path, Connection& connection) {
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  connection.reset(raw);
  if (code != SQLITE_OK) return code;
  sqlite3_busy_handler(raw, wait_for_lock, nullptr);
  if (const int known = prepare_all(raw); known != SQLITE_ERROR) return known;
  // No such table: the database is new, or of another program.
  const int made = sqlite3_exec(raw, kSchema, nullptr, nullptr, nullptr);
  return made == SQLITE_OK ? prepare_all(raw) : made;
}

// Reads all pages: opening reads the first ones alone.
int check_pages(sqlite3* database) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(database, "PRAGMA quick_check(1)", -1, &raw, nullptr);
  const Statement statement(raw);
  if (code != SQLITE_OK) return code;
  if (const int found = sqlite3_step(raw); found != SQLITE_ROW) return found;
  const auto* said = reinterpret_cast<const char*>(sqlite3_column_text(raw, 0));
  return said != nullptr && std::string_view(said) == "ok" ? SQLITE_OK : SQLITE_CORRUPT;
}

// The journal goes too, or SQLite would apply it to the new file. It goes first, as the new file
// may soon have a journal of its own.
void set_aside(const std::string& path) {
  std::error_code error;
  std::filesystem::remove(path + "-journal", error);
  const std::string aside = fmt::format("{}.broken", path);
  std::filesystem::rename(path, aside, error);
  if (!error)
    warn(
        {"the tuning database was damaged: it was set aside, with all that was measured, and a "
         "new one begun",
         aside, "import choices that were exported (attacca tune --import FILE), or tune again"});
}

// Held while one process sets a broken file aside. A second process that found it broken then
// finds a valid one. The kernel releases the lock when the process dies.
class HealingLock {
 public:
  HealingLock(int folder, const std::string& name)
      : file_(openat(folder, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) {
    for (int tries = 0; file_ >= 0 && !held_ && tries < 200; ++tries) {
      held_ = flock(file_, LOCK_EX | LOCK_NB) == 0;
      if (!held_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~HealingLock() {
    if (held_) flock(file_, LOCK_UN);
    if (file_ >= 0) close(file_);
  }
  HealingLock(const HealingLock&) = delete;
  HealingLock& operator=(const HealingLock&) = delete;
  bool held() const { return held_; }

 private:
  int file_;
  bool held_ = false;
};

tl::unexpected<Error> not_private(const std::string& path, const std::string& folder) {
  return fail(fmt::format("the tuning database is not used: {}", error_text(kNotPrivate)), path,
              fmt::format("take others' right to write away (chmod go-w '{}'; it must be yours or "
                          "root's), or set ATTACCA_CACHE_DIR to another folder",
                          folder));
}

// The database and its journal, where there are any. They are not opened for it: closing any
// descriptor of a file gives up SQLite's locks.
Status check_files(int folder, const std::string& path, const std::filesystem::path& file) {
  for (const char* ending : {"", "-journal", "-wal"}) {
    struct stat info {};
    if (fstatat(folder, (file.filename().string() + ending).c_str(), &info, AT_SYMLINK_NOFOLLOW))
      continue;
    if (!S_ISREG(info.st_mode))
      return fail("the tuning database is not used: it is no regular file", path + ending,
                  "move it away (links are not followed), or set ATTACCA_CACHE_DIR to another "
                  "folder");
    if (!is_private(info)) return not_private(path + ending, path + ending);
  }
  return {};
}

// SQLite would give others the right to read it.
void make_file(int folder, const std::string& name) {
  const int file = openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
}

// Opens the database. A broken one is set aside and a new one begun. `distrusted`: a page that
// opening does not read was found to be broken.
Status connect(const std::string& path, Connection& connection, bool distrusted) {
  static std::mutex opening;  // make_file() closes the file, which no other thread may have open
  const std::lock_guard lock(opening);
  const std::filesystem::path file(path);
  const std::string above = file.parent_path().string(), name = file.filename().string();
  PrivateFolder folder;
  (void)make_private_folders(above.empty() ? "." : above);
  const int error = folder.open(above.empty() ? "." : above);
  if (error == kNotPrivate) return not_private(path, above);
  if (error != 0)
    return fail(fmt::format("the tuning database failed: {}", error_text(error)), path,
                "set ATTACCA_CACHE_DIR to a folder that can be written");
  ATTACCA_TRY_VOID(check_files(folder.descriptor(), path, file));
  make_file(folder.descriptor(), name);
  int code = distrusted ? SQLITE_CORRUPT : open_connection(path, connection);
  if (is_broken(code)) {
    connection.reset();
    const HealingLock healing(folder.descriptor(), name + ".lock");
    code = open_connection(path, connection);
    if (code == SQLITE_OK && distrusted) code = check_pages(connection.get());
    if (is_broken(code) && healing.held()) {
      connection.reset();
      set_aside(path);
      make_file(folder.descriptor(), name);
      code = open_connection(path, connection);
    }
  }
  if (code == SQLITE_READONLY || code == SQLITE_CANTOPEN) {
    // The folder cannot be written: choices can still be read, if there are any.
    sqlite3* raw = nullptr;
    code =
        sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX, nullptr);
    connection.reset(raw);
  }
  if (code == SQLITE_ERROR) return of_others(connection.get(), path);
  if (code != SQLITE_OK) return failure(connection.get(), path);
  return {};
}

}  // namespace

struct Database::Impl {
  std::string path;
  Connection connection;
  std::mutex mutex;  // one statement at a time

  bool met_broken = false;  // a broken page

  // What `work` returns. If it meets a broken page, once more with a new file.
  template <class Work>
  auto run(const Work& work) -> decltype(work()) {
    const std::lock_guard lock(mutex);
    met_broken = false;
    if (connection) {
      auto done = work();
      if (done || !met_broken) return done;
    }
    ATTACCA_TRY_VOID(connect(path, connection, true));
    return work();
  }

  tl::unexpected<Error> failed() {
    met_broken |= is_broken(sqlite3_errcode(connection.get()) & 0xff);
    return failure(connection.get(), path);
  }

  Status execute(const char* sql) {
    if (sqlite3_exec(connection.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
      return failed();
    return {};
  }

  Status store(const StoredChoice& row) {
    ATTACCA_TRY(const Statement statement, prepare(kStore, row.key));
    sqlite3_bind_text(statement.get(), 5, row.candidate.data(),
                      static_cast<int>(row.candidate.size()), SQLITE_TRANSIENT);
    sqlite3_bind_double(statement.get(), 6, row.seconds);
    sqlite3_bind_double(statement.get(), 7, row.unfused_seconds);
    sqlite3_bind_int64(statement.get(), 8, row.made);
    sqlite3_bind_int64(statement.get(), 9, row.quick);
    if (sqlite3_step(statement.get()) != SQLITE_DONE) return failed();
    return {};
  }

  Result<Statement> prepare(const char* sql, const ChoiceKey& key) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(connection.get(), sql, -1, &raw, nullptr) != SQLITE_OK) return failed();
    Statement statement(raw);
    int at = 1;
    for (const std::string* text : {&key.device, &key.problem, &key.shape, &key.tools})
      sqlite3_bind_text(raw, at++, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
    return statement;
  }
};

ChoiceKey choice_key(const problem::Problem& problem, const gpu::DeviceInfo& device,
                     const std::string& tools) {
  return {device.name, problem::problem_class(problem), problem::shape_bucket(problem), tools};
}

std::string Database::default_path() {
  return cache_directory() + "/tuned.sqlite";
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

bool Database::is_missing() {
  struct stat info {};
  return lstat(default_path().c_str(), &info) != 0 && errno == ENOENT;
}

Result<Database> Database::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  ATTACCA_TRY_VOID(connect(path, impl->connection, false));
  return Database(std::move(impl));
}

Result<std::optional<Choice>> Database::find(const ChoiceKey& key) {
  return impl_->run([&]() -> Result<std::optional<Choice>> {
    ATTACCA_TRY(const Statement statement, impl_->prepare(kFind, key));
    const int code = sqlite3_step(statement.get());
    if (code == SQLITE_DONE) return std::nullopt;
    if (code != SQLITE_ROW) return impl_->failed();
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
    const auto candidate = launch::parse_candidate(text != nullptr ? text : "");
    if (!candidate) return std::nullopt;  // written by another version: ignored
    const Choice choice{*candidate, sqlite3_column_double(statement.get(), 1),
                        sqlite3_column_double(statement.get(), 2),
                        sqlite3_column_int64(statement.get(), 3) != 0};
    if (!are_times(choice.seconds, choice.unfused_seconds)) return std::nullopt;  // damaged
    return choice;
  });
}

Status Database::store(const ChoiceKey& key, const Choice& choice) {
  return impl_->run([&] {
    return impl_->store({key, to_string(choice.candidate), choice.seconds, choice.unfused_seconds,
                         static_cast<int64_t>(std::time(nullptr)), choice.quick});
  });
}

Status Database::store_all(const std::vector<StoredChoice>& rows) {
  return impl_->run([&]() -> Status {
    ATTACCA_TRY_VOID(impl_->execute("BEGIN IMMEDIATE"));
    const Status stored = [&]() -> Status {
      for (const StoredChoice& row : rows) ATTACCA_TRY_VOID(impl_->store(row));
      return impl_->execute("COMMIT");
    }();
    // Fails if SQLite has already ended the transaction.
    if (!stored) (void)impl_->execute("ROLLBACK");
    return stored;
  });
}

Result<int64_t> Database::size() {
  return impl_->run([&]() -> Result<int64_t> {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(impl_->connection.get(), "SELECT COUNT(*) FROM choices", -1, &raw,
                           nullptr) != SQLITE_OK)
      return impl_->failed();
    const Statement statement(raw);
    if (sqlite3_step(raw) != SQLITE_ROW) return impl_->failed();
    return sqlite3_column_int64(raw, 0);
  });
}

Result<std::vector<StoredChoice>> Database::list() {
  return impl_->run([&]() -> Result<std::vector<StoredChoice>> {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(impl_->connection.get(), kList, -1, &raw, nullptr) != SQLITE_OK)
      return impl_->failed();
    const Statement statement(raw);
    const auto text = [raw](int column) -> std::string {
      const auto* found = reinterpret_cast<const char*>(sqlite3_column_text(raw, column));
      return found != nullptr ? found : "";
    };
    std::vector<StoredChoice> rows;
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(raw)) == SQLITE_ROW)
      rows.push_back({{text(0), text(1), text(2), text(3)},
                      text(4),
                      sqlite3_column_double(raw, 5),
                      sqlite3_column_double(raw, 6),
                      sqlite3_column_int64(raw, 7),
                      sqlite3_column_int64(raw, 8) != 0});
    if (code != SQLITE_DONE) return impl_->failed();
    return rows;
  });
}

Result<int64_t> Database::clear() {
  return impl_->run([&]() -> Result<int64_t> {
    ATTACCA_TRY_VOID(impl_->execute("DELETE FROM choices"));
    return sqlite3_changes(impl_->connection.get());
  });
}

}  // namespace attacca::tune
