#include "tune/database.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>

#include "fmt/format.h"

#include "sqlite3.h"
#include "support/paths.hpp"

namespace attacca::tune {
namespace {

constexpr int kBusyMilliseconds = 5000;
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS choices("
    "device TEXT, problem TEXT, shape TEXT, candidate TEXT NOT NULL, seconds REAL NOT NULL,"
    "unfused_seconds REAL NOT NULL, made INTEGER NOT NULL, PRIMARY KEY(device, problem, shape))";
constexpr const char* kFind =
    "SELECT candidate, seconds, unfused_seconds FROM choices WHERE device=? AND problem=? AND "
    "shape=?";
constexpr const char* kStore = "INSERT OR REPLACE INTO choices VALUES(?, ?, ?, ?, ?, ?, ?)";

constexpr const char* kList =
    "SELECT device, problem, shape, candidate, seconds, unfused_seconds, made FROM choices "
    "ORDER BY device, problem, shape";

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Connection = std::unique_ptr<sqlite3, Close>;
using Statement = std::unique_ptr<sqlite3_stmt, Close>;

tl::unexpected<Error> failure(sqlite3* database, const std::string& path) {
  return fail(fmt::format("the tuning database failed: {}",
                          database != nullptr ? sqlite3_errmsg(database) : "out of memory"),
              path, "check the file, or remove it: it is only a cache");
}

// SQLITE_ERROR of the statements below: a database, but not ours.
bool is_broken(int code) {
  return code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR;
}

int open_connection(const std::string& path, Connection& connection) {
  sqlite3* raw = nullptr;
  int code =
      sqlite3_open_v2(path.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  connection.reset(raw);
  if (code != SQLITE_OK) return code;
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  code = sqlite3_exec(raw, kSchema, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return code;
  for (const char* sql : {kFind, kStore}) {
    sqlite3_stmt* statement = nullptr;
    code = sqlite3_prepare_v2(raw, sql, -1, &statement, nullptr);
    sqlite3_finalize(statement);
    if (code != SQLITE_OK) return code;
  }
  return code;
}

// Its journal would otherwise be played into the new file.
void set_aside(const std::string& path) {
  std::error_code ignored;
  std::filesystem::rename(path, path + ".broken", ignored);
  std::filesystem::remove(path + "-journal", ignored);
}

}  // namespace

struct Database::Impl {
  std::string path;
  Connection connection;
  std::mutex mutex;  // one statement at a time

  Result<Statement> prepare(const char* sql, const ChoiceKey& key) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(connection.get(), sql, -1, &raw, nullptr) != SQLITE_OK)
      return failure(connection.get(), path);
    Statement statement(raw);
    int at = 1;
    for (const std::string* text : {&key.device, &key.problem, &key.shape})
      sqlite3_bind_text(raw, at++, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
    return statement;
  }
};

ChoiceKey choice_key(const Problem& problem, const jit::DeviceInfo& device) {
  return {device.name, problem_class(problem), shape_bucket(problem)};
}

std::string Database::default_path() {
  return cache_directory() + "/tuned.sqlite";
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::string& path) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  int code = open_connection(path, impl->connection);
  if (is_broken(code)) {
    impl->connection.reset();
    set_aside(path);
    code = open_connection(path, impl->connection);
  }
  if (code == SQLITE_READONLY || code == SQLITE_CANTOPEN) {
    // A home that cannot be written: what is known can still be read, or nothing is.
    sqlite3* raw = nullptr;
    code =
        sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX, nullptr);
    impl->connection.reset(raw);
  }
  if (code != SQLITE_OK) return failure(impl->connection.get(), path);
  return Database(std::move(impl));
}

Result<std::optional<Choice>> Database::find(const ChoiceKey& key) {
  const std::lock_guard lock(impl_->mutex);
  ATTACCA_TRY(const Statement statement, impl_->prepare(kFind, key));
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return std::nullopt;
  if (code != SQLITE_ROW) return failure(impl_->connection.get(), impl_->path);
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
  const auto candidate = parse_candidate(text != nullptr ? text : "");
  if (!candidate) return std::nullopt;  // written by another version: as if it were not there
  return Choice{*candidate, sqlite3_column_double(statement.get(), 1),
                sqlite3_column_double(statement.get(), 2)};
}

Status Database::store(const ChoiceKey& key, const Choice& choice) {
  const std::lock_guard lock(impl_->mutex);
  ATTACCA_TRY(const Statement statement, impl_->prepare(kStore, key));
  const std::string candidate = to_string(choice.candidate);
  sqlite3_bind_text(statement.get(), 4, candidate.c_str(), -1, SQLITE_TRANSIENT);
  sqlite3_bind_double(statement.get(), 5, choice.seconds);
  sqlite3_bind_double(statement.get(), 6, choice.unfused_seconds);
  sqlite3_bind_int64(statement.get(), 7, static_cast<sqlite3_int64>(std::time(nullptr)));
  if (sqlite3_step(statement.get()) != SQLITE_DONE)
    return failure(impl_->connection.get(), impl_->path);
  return {};
}

Result<int64_t> Database::size() {
  const std::lock_guard lock(impl_->mutex);
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(impl_->connection.get(), "SELECT COUNT(*) FROM choices", -1, &raw,
                         nullptr) != SQLITE_OK)
    return failure(impl_->connection.get(), impl_->path);
  const Statement statement(raw);
  if (sqlite3_step(raw) != SQLITE_ROW) return failure(impl_->connection.get(), impl_->path);
  return sqlite3_column_int64(raw, 0);
}

Result<std::vector<StoredChoice>> Database::list() {
  const std::lock_guard lock(impl_->mutex);
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(impl_->connection.get(), kList, -1, &raw, nullptr) != SQLITE_OK)
    return failure(impl_->connection.get(), impl_->path);
  const Statement statement(raw);
  const auto text = [raw](int column) -> std::string {
    const auto* found = reinterpret_cast<const char*>(sqlite3_column_text(raw, column));
    return found != nullptr ? found : "";
  };
  std::vector<StoredChoice> rows;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(raw)) == SQLITE_ROW)
    rows.push_back({{text(0), text(1), text(2)},
                    text(3),
                    sqlite3_column_double(raw, 4),
                    sqlite3_column_double(raw, 5),
                    sqlite3_column_int64(raw, 6)});
  if (code != SQLITE_DONE) return failure(impl_->connection.get(), impl_->path);
  return rows;
}

Result<int64_t> Database::clear() {
  const std::lock_guard lock(impl_->mutex);
  sqlite3* connection = impl_->connection.get();
  if (sqlite3_exec(connection, "DELETE FROM choices", nullptr, nullptr, nullptr) != SQLITE_OK)
    return failure(connection, impl_->path);
  return sqlite3_changes(connection);
}

}  // namespace attacca::tune
