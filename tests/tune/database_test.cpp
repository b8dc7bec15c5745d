// The file of choices: what it stores, sharing it between processes, and damage.
#include "tune/database.hpp"

#include <algorithm>
#include <csignal>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "folder.hpp"
#include "launch/candidate.hpp"
#include "sqlite3.h"
#include "support/warnings.hpp"

namespace attacca::tune {
namespace {

using testing::Folder;

const ChoiceKey kKey = {"NVIDIA H200", "fp32|acc", "m<=16 n=8 batch=1 k=4", "tools"};

Choice choice(int algorithm, double seconds = 1e-4) {
  Choice made{{}, seconds, 2e-4};
  made.candidate.algorithm = algorithm;
  return made;
}

Database opened(const std::string& path) {
  auto database = Database::open(path);
  EXPECT_TRUE(database) << to_string(database.error());
  return *std::move(database);
}

void execute(const std::string& path, const char* sql) {
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(raw);
  sqlite3_close(raw);
}

TEST(Database, KeepsWhatWasStored) {
  const Folder folder;
  const std::string path = folder.path("deep/er/tuned.sqlite");
  const Choice fused = {
      {.kind = launch::CandidateKind::Fused, .kernel = "t", .swizzle = 2, .splits = 4},
      1.25e-5,
      3e-5};
  {
    Database database = opened(path);
    EXPECT_FALSE(*database.find(kKey));
    ASSERT_TRUE(database.store(kKey, choice(1)));
    ASSERT_TRUE(database.store(kKey, fused));
  }
  Database database = opened(path);
  const auto found = database.find(kKey);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->candidate, fused.candidate);
  EXPECT_EQ((*found)->seconds, 1.25e-5);
  EXPECT_EQ((*found)->unfused_seconds, 3e-5);
  EXPECT_FALSE((*found)->quick);
  EXPECT_EQ(*database.size(), 1);
}

TEST(Database, KnowsWhatAQuickTuningChose) {
  const Folder folder;
  Database database = opened(folder.path("db"));
  Choice quick = choice(1);
  quick.quick = true;
  ASSERT_TRUE(database.store(kKey, quick));
  EXPECT_TRUE((*database.find(kKey))->quick);
  EXPECT_TRUE(database.list()->at(0).quick);
  ASSERT_TRUE(database.store(kKey, choice(1)));
  EXPECT_FALSE((*database.find(kKey))->quick);
  quick.candidate.algorithm = 2;
  ASSERT_TRUE(database.store(kKey, quick));
  EXPECT_EQ((*database.find(kKey))->candidate.algorithm, 1) << "a thorough choice stays";
}

TEST(Database, TimesThatNoTuningGivesAreNotThere) {
  const Folder folder;
  Database database = opened(folder.path("db"));
  for (const double seconds : {0.0, -1.0, double(INFINITY)}) {
    ASSERT_TRUE(database.store(kKey, choice(1, seconds)));
    EXPECT_FALSE(*database.find(kKey)) << seconds;
  }
}

TEST(Database, LeavesTheTableOfEarlierVersionsAlone) {
  const Folder folder;
  execute(folder.path("db"),
          "CREATE TABLE measured(device TEXT, problem TEXT, shape TEXT, tools TEXT, candidate TEXT "
          "NOT NULL, seconds REAL NOT NULL, unfused_seconds REAL NOT NULL, made INTEGER NOT NULL, "
          "PRIMARY KEY(device, problem, shape, tools));"
          "INSERT INTO measured VALUES('d', 'p', 's', 't', 'unfused', 1, 2, 3)");
  {
    Database database = opened(folder.path("db"));
    EXPECT_EQ(*database.size(), 0);
    ASSERT_TRUE(database.store(kKey, choice(1)));
    EXPECT_EQ(*database.clear(), 1);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("db.broken")));
  execute(folder.path("db"), "DELETE FROM measured WHERE made=3");
}

TEST(Database, TellsKeysApart) {
  const Folder folder;
  Database database = opened(folder.path("db"));
  const ChoiceKey others[] = {
      {"other", kKey.problem, kKey.shape, kKey.tools},
      {kKey.device, "other", kKey.shape, kKey.tools},
      {kKey.device, kKey.problem, "other", kKey.tools},
      {kKey.device, kKey.problem, kKey.shape, "another version"},
      {kKey.device, "it's \"quoted\"; DROP TABLE choices", kKey.shape, kKey.tools}};
  int number = 0;
  for (const ChoiceKey& key : others) ASSERT_TRUE(database.store(key, choice(++number)));
  EXPECT_FALSE(*database.find(kKey));
  number = 0;
  for (const ChoiceKey& key : others)
    EXPECT_EQ((*database.find(key))->candidate.algorithm, ++number);
}

TEST(Database, UnknownCandidatesAreNotThere) {
  const Folder folder;
  Database database = opened(folder.path("db"));
  ASSERT_TRUE(database.store(kKey, choice(1)));
  execute(folder.path("db"), "UPDATE choices SET candidate='unfused warp=9'");
  const auto found = database.find(kKey);
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
  execute(folder.path("db"), "UPDATE choices SET candidate=''");
  EXPECT_FALSE(*database.find(kKey));
  ASSERT_TRUE(database.store(kKey, choice(2)));
  EXPECT_EQ((*database.find(kKey))->candidate.algorithm, 2);
}

void expect_set_aside(const Folder& folder, const std::string& damaged) {
  Database database = opened(folder.path("db"));
  EXPECT_FALSE(*database.find(kKey));
  const std::vector<Error> warned = warnings();  // each once
  EXPECT_TRUE(std::any_of(warned.begin(), warned.end(), [](const Error& warning) {
    return warning.what.starts_with("the tuning database was damaged: it was set aside");
  }));
  ASSERT_TRUE(database.store(kKey, choice(3)));
  EXPECT_EQ((*database.find(kKey))->candidate.algorithm, 3);
  EXPECT_EQ(folder.read("db.broken"), damaged);
}

TEST(Database, FilesThatAreNoneAreSetAside) {
  const Folder folder;
  const std::string noise(5000, 'n');
  folder.write("db", noise);
  expect_set_aside(folder, noise);
}

TEST(Database, DamagedFilesAreSetAside) {
  const Folder folder;
  ASSERT_TRUE(opened(folder.path("db")).store(kKey, choice(1)));
  std::string bytes = folder.read("db");
  for (size_t i = 100; i < 4096; ++i) bytes[i] = static_cast<char>(0xa5);  // the page of the schema
  folder.write("db", bytes);
  expect_set_aside(folder, bytes);
}

// Opening reads the schema alone, which is whole.
TEST(Database, FilesWithADamagedPageAreSetAside) {
  const Folder folder;
  {
    Database database = opened(folder.path("db"));
    for (int i = 0; i < 200; ++i) {
      ChoiceKey key = kKey;
      key.shape += std::to_string(i);
      ASSERT_TRUE(database.store(key, choice(1)));
    }
  }
  std::string bytes = folder.read("db");
  ASSERT_GT(bytes.size(), 5 * 4096u);
  for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = static_cast<char>(0xa5);
  folder.write("db", bytes);
  EXPECT_TRUE(opened(folder.path("db")).list()->empty());
  EXPECT_EQ(folder.read("db.broken"), bytes);
  folder.write("db", bytes);
  expect_set_aside(folder, bytes);
  folder.write("db", bytes);
  EXPECT_EQ(*opened(folder.path("db")).clear(), 0);
  folder.write("db", bytes);
  EXPECT_TRUE(opened(folder.path("db")).store_all({{kKey, "unfused", 1e-5, 1e-5, 1}}));
}

constexpr const char* kColumns =
    "device TEXT, problem TEXT, shape TEXT, tools TEXT, candidate TEXT NOT NULL, "
    "seconds REAL NOT NULL, unfused_seconds REAL NOT NULL, made INTEGER NOT NULL";

TEST(Database, DatabasesOfOthersStayAsTheyAre) {
  for (const char* columns : {"dish TEXT, price REAL", kColumns}) {
    const Folder folder;
    execute(folder.path("db"), fmt::format("CREATE TABLE choices({})", columns).c_str());
    const std::string before = folder.read("db");
    const auto database = Database::open(folder.path("db"));
    ASSERT_FALSE(database);
    EXPECT_EQ(database.error().what.find("the tuning database is not used: another version or "
                                         "program made it ("),
              0u)
        << database.error().what;
    EXPECT_EQ(folder.read("db"), before);
    EXPECT_FALSE(std::filesystem::exists(folder.path("db.broken")));
  }
}

TEST(Database, TablesMayHaveMoreColumns) {
  const Folder folder;
  execute(folder.path("db"),
          fmt::format("CREATE TABLE choices(host TEXT, {}, quick INTEGER NOT NULL, watts REAL NOT "
                      "NULL DEFAULT 0, PRIMARY KEY(device, problem, shape, tools))",
                      kColumns)
              .c_str());
  Database database = opened(folder.path("db"));
  ASSERT_TRUE(database.store(kKey, choice(1)));
  ASSERT_TRUE(database.store_all({{kKey, to_string(choice(2).candidate), 1, 2, 3}}));
  EXPECT_EQ((*database.find(kKey))->candidate.algorithm, 2);
  EXPECT_EQ(*database.size(), 1);
}

TEST(Database, AnEmptyFileIsANewDatabase) {
  const Folder folder;
  folder.write("db", "");
  ASSERT_TRUE(opened(folder.path("db")).store(kKey, choice(1)));
  EXPECT_FALSE(std::filesystem::exists(folder.path("db.broken")));
}

// Runs in a child that cannot write other users' files, even if root runs the tests.
int in_unprivileged_child(const std::function<bool()>& works) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setegid(65534) != 0 || seteuid(65534) != 0)) _exit(9);
    _exit(works() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Database, ReadOnlyFoldersCanBeReadAndNotWritten) {
  const Folder folder;
  ASSERT_TRUE(opened(folder.path("home/db")).store(kKey, choice(5)));
  chmod(folder.path("home/db").c_str(), 0444);
  chmod(folder.path("home").c_str(), 0555);
  EXPECT_EQ(in_unprivileged_child([&] {
              auto database = Database::open(folder.path("home/db"));
              if (!database) return false;
              const auto found = database->find(kKey);
              return found && *found && (*found)->candidate.algorithm == 5 &&
                     !database->store(kKey, choice(6)) && (*database->find(kKey)).has_value();
            }),
            0);
  EXPECT_EQ(in_unprivileged_child([&] {
              const auto none = Database::open(folder.path("home/none"));
              return !none && none.error().where == folder.path("home/none");
            }),
            0);
  chmod(folder.path("home").c_str(), 0755);
}

TEST(Database, APathThatCannotBeIsAnError) {
  const Folder folder;
  folder.write("file", "x");
  const auto database = Database::open(folder.path("file/db"));
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().what.find("the tuning database failed: "), 0u);
}

constexpr int kRows = 12;

ChoiceKey row_key(int process, int row) {
  return {"device", std::to_string(process), std::to_string(row), "tools"};
}

// Stores rows of its own and one that all write.
bool fill(const std::string& path, int process) {
  auto database = Database::open(path);
  if (!database) return false;
  for (int row = 0; row < kRows; ++row)
    if (!database->store(row_key(process, row), choice(row)) ||
        !database->store(kKey, choice(process)))
      return false;
  return true;
}

TEST(Database, ProcessesShareIt) {
  const Folder folder;
  const std::string path = folder.path("db");
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    children.push_back(fork());
    if (children.back() == 0) _exit(fill(path, process) ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Database database = opened(path);
  EXPECT_EQ(*database.size(), 4 * kRows + 1);
  for (int process = 0; process < 4; ++process)
    for (int row = 0; row < kRows; ++row)
      EXPECT_EQ((*database.find(row_key(process, row)))->candidate.algorithm, row);
}

TEST(Database, ThreadsShareOne) {
  const Folder folder;
  Database database = opened(folder.path("db"));
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int row = 0; row < 10; ++row) {
        EXPECT_TRUE(database.store(row_key(thread, row), choice(row)));
        EXPECT_TRUE(*database.find(row_key(thread, row)));
      }
    });
  threads.clear();
  EXPECT_EQ(*database.size(), 40);
}

// Many processes create it at once; half of them are killed at random points.
TEST(Database, ProcessesMayBeKilled) {
  const Folder folder;
  const std::string path = folder.path("db");
  constexpr int kProcesses = 64;
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    char byte;
    close(gate[1]);
    (void)!read(gate[0], &byte, 1);  // until all are there
    auto database = Database::open(path);
    if (!database || !database->store(row_key(process, 0), choice(process))) _exit(1);
    if (process % 4 == 3) pause();
    _exit(0);
  }
  close(gate[0]);
  close(gate[1]);
  for (int process = 1; process < kProcesses; process += 4) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(children[process], SIGKILL);
  }
  for (int process = 0; process < kProcesses; process += 2) {
    int status = 0;
    waitpid(children[process], &status, 0);
    EXPECT_EQ(status, 0) << process;
  }
  Database database = opened(path);
  const auto stored = [&](int process) {
    const auto found = database.find(row_key(process, 0));
    return found && *found && (*found)->candidate.algorithm == process;
  };
  for (int process = 0; process < kProcesses; process += 2) EXPECT_TRUE(stored(process)) << process;
  for (int process = 1; process < kProcesses; process += 2) {
    kill(children[process], SIGKILL);
    waitpid(children[process], nullptr, 0);
  }
  EXPECT_TRUE(database.store(kKey, choice(1)));
  EXPECT_FALSE(std::filesystem::exists(folder.path("db.broken")));
}

// Several processes find it damaged at the same time and set it aside; the new file has each one's
// row.
TEST(Database, ProcessesHealItTogether) {
  for (int round = 0; round < 4; ++round) {
    const Folder folder;
    const std::string path = folder.path("db"), noise(5000, 'n');
    folder.write("db", noise);
    std::vector<pid_t> children;
    for (int process = 0; process < 8; ++process) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      auto database = Database::open(path);
      _exit(database && database->store(row_key(process, 0), choice(process)) ? 0 : 1);
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    ASSERT_EQ(*opened(path).size(), 8) << round;
    EXPECT_EQ(folder.read("db.broken"), noise);
  }
}

// Locked by a process that never ends: one short wait in total, and a warning.
TEST(Database, ALockIsWaitedForOnce) {
  const Folder folder;
  const std::string path = folder.path("db");
  ASSERT_TRUE(opened(path).store(kKey, choice(1)));
  for (const char* begin : {"BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"}) {
    const pid_t child = fork();
    if (child == 0) {
      sqlite3* raw = nullptr;
      if (sqlite3_open(path.c_str(), &raw) != SQLITE_OK ||
          sqlite3_exec(raw, begin, nullptr, nullptr, nullptr) != SQLITE_OK)
        _exit(9);
      const pid_t user = fork();
      if (user == 0) {
        const auto start = std::chrono::steady_clock::now();
        std::string said;
        for (int region = 0; region < 6; ++region) {
          auto database = Database::open(path);
          const Status stored = database ? database->store(kKey, choice(2))
                                         : Status(tl::make_unexpected(database.error()));
          if (stored) _exit(2);
          said = stored.error().what;
        }
        const auto took = std::chrono::steady_clock::now() - start;
        _exit(took > std::chrono::seconds(15) ? 3 : said.find("locked") == said.npos ? 4 : 0);
      }
      int status = 0;
      waitpid(user, &status, 0);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << begin;
  }
}

// Neither a file nor a folder that another user could have written.
TEST(Database, MustBePrivate) {
  const auto refused = [](const std::string& path) {
    const auto database = Database::open(path);
    return !database && database.error().what.find("another user") != std::string::npos &&
           database.error().fix.find("chmod go-w") != std::string::npos;
  };
  const Folder folder;
  ASSERT_TRUE(opened(folder.path("home/db")).store(kKey, choice(1)));
  const std::string home = folder.path("home"), path = folder.path("home/db");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(home.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  for (const std::string& each : {home, path})
    for (const mode_t more : {S_IWGRP, S_IWOTH}) {
      ASSERT_EQ(stat(each.c_str(), &info), 0);
      chmod(each.c_str(), (info.st_mode & 07777) | more);
      EXPECT_TRUE(refused(path)) << each;
      chmod(each.c_str(), info.st_mode & 07777);
    }
  if (geteuid() == 0)
    for (const std::string& each : {home, path}) {
      ASSERT_EQ(chown(each.c_str(), 65534, 65534), 0);
      EXPECT_TRUE(refused(path)) << each;
      ASSERT_EQ(chown(each.c_str(), 0, 0), 0);
    }
}

TEST(Database, MustBeARegularFile) {
  const Folder folder;
  const std::string path = folder.path("db");
  const auto refused = [](const std::string& opened, const std::string& where) {
    const auto database = Database::open(opened);
    return !database && database.error().where == where &&
           database.error().what == "the tuning database is not used: it is no regular file";
  };
  ASSERT_TRUE(opened(folder.path("elsewhere")).store(kKey, choice(1)));
  std::filesystem::create_symlink(folder.path("elsewhere"), path);
  EXPECT_TRUE(refused(path, path));
  std::filesystem::remove(path);
  for (const char* ending : {"-journal", ""}) {
    std::filesystem::create_directory(path + ending);
    EXPECT_TRUE(refused(path, path + ending));
    std::filesystem::remove(path + ending);
  }
  EXPECT_FALSE(*opened(path).find(kKey));
}

std::string bucket(int64_t m) {
  problem::Problem problem;
  problem.m = m;
  problem.n = 64;
  problem.batch = 2;
  problem.products.push_back({.n = 64, .k = 96});
  problem.views.products.resize(1);
  return problem::shape_bucket(problem);
}

TEST(ShapeBucket, RoundsRowsUp) {
  const std::pair<int64_t, int64_t> kEdges[] = {
      {0, 1},       {1, 1},       {2, 2},       {3, 4},
      {4, 4},       {5, 8},       {16, 16},     {17, 32},
      {64, 64},     {65, 128},    {128, 128},   {129, 192},
      {192, 192},   {193, 256},   {257, 384},   {385, 512},
      {513, 768},   {769, 1024},  {1024, 1024}, {1025, 1536},
      {1536, 1536}, {1537, 2048}, {2048, 2048}, {2049, 3072},
      {3073, 4096}, {4097, 6144}, {8192, 8192}, {2147483647, 2147483648}};
  for (const auto& [m, edge] : kEdges)
    EXPECT_EQ(bucket(m), "m<=" + std::to_string(edge) + " n=64 batch=2 k=96") << m;
}

TEST(ChoiceKey, LeavesShapesOutOfTheClass) {
  problem::Problem a;
  a.m = 3;
  a.n = 64;
  a.products.push_back({.n = 64, .k = 96});
  a.views.products.push_back({.a = {ir::DType::BF16, 0, 96, 1, 0}});
  problem::Problem b = a;
  b.m = 4;
  b.views.products[0].a.row_stride = 128;
  const gpu::DeviceInfo device{.name = "D"};
  EXPECT_EQ(choice_key(a, device, "tools").problem, choice_key(b, device, "tools").problem);
  EXPECT_EQ(choice_key(a, device, "tools").shape, choice_key(b, device, "tools").shape);
  EXPECT_EQ(choice_key(a, device, "tools").device, "D");
  EXPECT_EQ(choice_key(a, device, "tools").tools, "tools");
  b.views.products[0].a.alignment = 2;
  EXPECT_NE(choice_key(a, device, "tools").problem, choice_key(b, device, "tools").problem);
  b = a;
  b.views.products[0].a.row_stride = 97;  // the second row lies at an odd element
  EXPECT_NE(choice_key(a, device, "tools").problem, choice_key(b, device, "tools").problem);
  b = a;
  b.mode = ir::Mode::Eager;
  EXPECT_NE(choice_key(a, device, "tools").problem, choice_key(b, device, "tools").problem);
  b = a;
  b.views.products[0].a.row_stride = 1;
  b.views.products[0].a.column_stride = 3;
  EXPECT_NE(choice_key(a, device, "tools").problem, choice_key(b, device, "tools").problem);
}

// One bucket has both 15 and 16 rows.
TEST(ChoiceKey, TellsHowDenseColumnsOfTheRowsAreAligned) {
  const auto of_rows = [](int64_t m) {
    problem::Problem made;
    made.m = m;
    made.n = 64;
    made.products.push_back({.n = 64, .k = 96});
    made.views.products.push_back({.a = {ir::DType::BF16, 0, 1, m, 0, 16}});
    return choice_key(made, {.name = "D"}, "tools");
  };
  EXPECT_EQ(of_rows(15).shape, of_rows(16).shape);
  EXPECT_NE(of_rows(15).problem, of_rows(16).problem);
}

}  // namespace
}  // namespace attacca::tune
