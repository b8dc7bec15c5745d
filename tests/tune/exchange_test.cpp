// Choices in files: what is written reads back, damage and other machines are refused, an import is
// whole or absent; the choices that are shipped.
#include "tune/exchange.hpp"

#include <csignal>
#include <random>
#include <sys/wait.h>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "folder.hpp"
#include "fuzz/choices.hpp"
#include "launch/candidate.hpp"
#include "tune/shipped.hpp"

namespace attacca::tune {
namespace {

using testing::Folder;

constexpr const char* kTools =
    "attacca 0.2.0, templates 0123456789abcdef, cuBLASLt 130100, driver 13000";
constexpr const char* kPrint = "00000000000000aa";

// A machine whose templates are a, b and c.
Machine machine(const std::string& device = "GPU", const std::string& tools = kTools) {
  return {device, tools, [](const std::string& name) {
            return name == "a" || name == "b" || name == "c" ? kPrint : "";
          }};
}

StoredChoice row(const std::string& shape, const std::string& candidate, double seconds = 1e-5) {
  return {{"GPU", "fp32|acc\nsecond \"line\"", shape, kTools}, candidate, seconds, 3.25e-5, 1790};
}

StoredChoice of_a_quick_tuning(StoredChoice row) {
  row.quick = true;
  return row;
}

const std::vector<StoredChoice> kRows = {row("m<=16 n=8", "b swizzle=2"), row("m<=1 n=8", "a"),
                                         row("m<=4 n=8", "unfused algorithm=3", 1.0 / 3),
                                         of_a_quick_tuning(row("m<=2 n=8", "user_kernel"))};

std::string exported(const std::vector<StoredChoice>& rows) {
  return write_choices(export_choices(rows, machine()).file);
}

Database opened(const std::string& path) {
  auto database = Database::open(path);
  EXPECT_TRUE(database) << to_string(database.error());
  return *std::move(database);
}

Result<Imported> import_text(Database& database, const std::string& text,
                             const Machine& here = machine()) {
  ATTACCA_TRY(const ChoicesFile file, read_choices(text, "FILE"));
  return import_choices(database, file, here, "FILE");
}

TEST(Choices, MoveAsTheyAre) {
  const std::string text = exported(kRows);
  const Folder folder;
  Database database = opened(folder.path("db"));
  const auto first = import_text(database, text);
  ASSERT_TRUE(first) << to_string(first.error());
  EXPECT_EQ(first->added, 4u);
  for (const StoredChoice& each : kRows) {
    const auto found = database.find(each.key);
    ASSERT_TRUE(found && *found);
    EXPECT_EQ(to_string((*found)->candidate), each.candidate);
    EXPECT_EQ((*found)->seconds, each.seconds);
    EXPECT_EQ((*found)->unfused_seconds, each.unfused_seconds);
    EXPECT_EQ((*found)->quick, each.quick);
  }
  EXPECT_EQ(exported(*database.list()), text);
  const auto second = import_text(database, text);
  EXPECT_EQ(second->known, 4u);
  EXPECT_EQ(second->added + second->changed, 0u);
}

// Whatever each had measured, a rank's export after the import has the file's bytes for its keys.
TEST(Choices, AreSound) {
  for (const StoredChoice& each : kRows) EXPECT_TRUE(is_sound(each)) << each.candidate;
  for (const char* candidate : {"", "a b"})
    EXPECT_FALSE(is_sound(row("m<=1 n=8", candidate))) << candidate;
  EXPECT_FALSE(is_sound(row("m<=1 n=8", "a", 0)));
}

TEST(Choices, AreEqualBytesFromRankToRank) {
  const std::string text = exported(kRows);
  std::vector<std::string> exports;
  for (int rank = 0; rank < 3; ++rank) {
    const Folder folder;
    Database database = opened(folder.path("db"));
    ASSERT_TRUE(database.store_all({row("m<=1 n=8", "c", 2e-5 + rank * 1e-6),
                                    row("m<=16 n=8", "unfused", 1e-5 + rank * 1e-6)}));
    const auto done = import_text(database, text);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->changed, 2u);
    EXPECT_EQ(done->added, 2u);
    exports.push_back(exported(*database.list()));
  }
  EXPECT_EQ(exports, std::vector<std::string>(3, text));
}

TEST(Choices, OfQuickTuningsReplaceNoOthers) {
  const StoredChoice quick = of_a_quick_tuning(row("m<=1 n=8", "a", 3e-5));
  const StoredChoice thorough = row("m<=1 n=8", "b", 2e-5);
  const auto after = [](const StoredChoice& before, const StoredChoice& file, const char* counts) {
    const Folder folder;
    Database database = opened(folder.path("db"));
    EXPECT_TRUE(database.store_all({before}));
    const auto done = import_text(database, exported({file}));
    EXPECT_TRUE(done);
    EXPECT_EQ(fmt::format("{} {} {} {}", done->added, done->changed, done->known, done->kept),
              counts);
    return database.list()->at(0).candidate;
  };
  EXPECT_EQ(after(thorough, quick, "0 0 0 1"), "b");
  EXPECT_EQ(after(quick, thorough, "0 1 0 0"), "b");
  EXPECT_EQ(after(of_a_quick_tuning(thorough), quick, "0 1 0 0"), "a");
  EXPECT_EQ(after(thorough, row("m<=1 n=8", "c"), "0 1 0 0"), "c");
}

TEST(Choices, OfOtherDevicesAndToolsAreLeftOut) {
  std::vector<StoredChoice> rows = kRows;
  rows[0].key.device = "another";
  rows[1].key.tools = "attacca 0.1.0";
  rows[2].candidate = "unfused warp=9";  // another version's
  const Exported made = export_choices(rows, machine());
  EXPECT_EQ(made.file.choices.size(), 1u);
  EXPECT_EQ(made.left_out, 3u);
}

void expect_refused(const std::string& text, const Machine& here, const std::string& what) {
  const Folder folder;
  Database database = opened(folder.path("db"));
  ASSERT_TRUE(database.store_all({row("m<=1 n=8", "c")}));
  const auto before = exported(*database.list());
  const auto done = import_text(database, text, here);
  ASSERT_FALSE(done) << what;
  EXPECT_NE(done.error().what.find(what), std::string::npos) << done.error().what;
  EXPECT_EQ(done.error().where.substr(0, 4), "FILE");
  EXPECT_NE(done.error().fix, "");
  EXPECT_EQ(exported(*database.list()), before);
}

TEST(Choices, OfAnotherMachineAreRefused) {
  const std::string text = exported(kRows);
  expect_refused(text, machine("other GPU"), "measured on GPU, this is other GPU");
  const auto with = [](const std::string& tools) { return machine("GPU", tools); };
  expect_refused(text,
                 with("attacca 0.2.0, templates 0123456789abcdef, cuBLASLt 130100, driver 12080"),
                 "measured with driver 13000 (here 12080)");
  expect_refused(text,
                 with("attacca 0.3.0, templates 0123456789abcdef, cuBLASLt 120000, driver 13000"),
                 "measured with attacca 0.2.0 (here 0.3.0), cuBLASLt 130100 (here 120000)");
  expect_refused(text,
                 with("attacca 0.2.0, templates ffffffffffffffff, cuBLASLt 130100, driver 13000"),
                 "templates 0123456789abcdef (here ffffffffffffffff)");
  Machine other = machine();
  other.fingerprint_of = [](const std::string&) { return "00000000000000bb"; };
  expect_refused(text, other, "the template a is another one here");
}

// A template was added, another one changed, and there is a newer cuBLASLt.
TEST(Choices, ThatHoldAreTakenOutOfAFileOfOtherTools) {
  const std::string text = exported(kRows);
  Machine newer =
      machine("GPU", "attacca 0.2.1, templates fedcba9876543210, cuBLASLt 130200, driver 13010");
  newer.fingerprint_of = [](const std::string& name) {
    return name == "b" || name == "d" ? kPrint : "00000000000000bb";
  };
  const Folder folder;
  Database database = opened(folder.path("db"));
  const auto file = read_choices(text, "FILE");
  ASSERT_TRUE(file);
  const auto done = import_choices(database, *file, newer, "FILE", Importing::Holding);
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_EQ(done->added, 1u);
  EXPECT_EQ(done->left_out,
            (std::map<std::string, size_t>{{"their templates have changed", 1},
                                           {"measured with cuBLASLt 130100 (here 130200)", 2}}));
  const auto rows = database.list();
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->at(0).candidate, "b swizzle=2");
  EXPECT_EQ(rows->at(0).key.tools, newer.tools);
  const auto other =
      import_choices(database, *file, machine("other GPU"), "FILE", Importing::Holding);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().what.find("measured on GPU, this is other GPU"), std::string::npos);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

// The first line made to fit what was changed below it.
std::string with_hash(const std::string& text) {
  return fuzz::choices_file(kTools, text.substr(text.find('\n') + 1));
}

TEST(Choices, DamagedFilesAreRefused) {
  const std::string text = exported(kRows);
  ASSERT_EQ(with_hash(text), text);
  const Machine here = machine();
  expect_refused("", here, "not a file of tuned choices");
  expect_refused("{}", here, "not a file of tuned choices");
  expect_refused(std::string(100, '['), here, "not a file of tuned choices");
  expect_refused(replaced(text, "choices 1", "choices 2"), here, "attacca choices 2");
  expect_refused(replaced(text, "swizzle=2", "swizzle=4"), here, "hash");
  expect_refused(replaced(text, "\"choices\":4", "\"choices\":-4"), here, "-4 choices");
  expect_refused(text + "\n", here, "should have 4 choices and has 5");
  expect_refused(replaced(text, "\"device\"", "\"devise\""), here, "first line");
  // Lines that no export writes, under a hash that fits.
  for (const auto& [what, by] : {std::pair{"swizzle=2", "swizzle=02"},
                                 {"swizzle=2", "swizzle=2 warp=1"},
                                 {"1e-05", "1.0e-5"},
                                 {"1e-05", "-1e-05"},
                                 {"1e-05", "0.0"},
                                 {"1e-05", "\"1\""},
                                 {"1e-05", "1"},
                                 {":1790", ":-1"},
                                 {":1790", ":1.5"},
                                 {":1790", ":1790,\"more\":1"},
                                 {kPrint, ""},
                                 {kPrint, "00000000000000AA"},
                                 {"\"candidate\":\"a\"", "\"candidate\":\"\""},
                                 {"\"unfused algorithm=3\"", "\"b\""}})
    expect_refused(with_hash(replaced(text, what, by)), here, "not a tuned choice");
  // Twice, and out of order.
  const size_t second = text.find('\n') + 1, third = text.find('\n', second) + 1;
  const std::string line = text.substr(second, third - second);
  expect_refused(with_hash(text.substr(0, second) + line + text.substr(second)), here, "in order");
  expect_refused(with_hash(text.substr(0, second) + text.substr(third) + line), here, "in order");
}

// Any byte changed, any end cut off: an error, and never half of it.
TEST(Choices, EveryDamageIsNoticed) {
  const std::string text = exported(kRows);
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(read_choices(text.substr(0, length), "FILE")) << length;
  std::mt19937 random(1);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    // The first line has no hash: a device or tools of another name do not fit this machine.
    const auto read = read_choices(damaged, "FILE");
    EXPECT_TRUE(!read || read->device != "GPU" || read->tools != kTools) << at;
  }
}

// The fuzzer's corpus.
TEST(Choices, Corpus) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(ATTACCA_CORPUS)) {
    std::ostringstream text;
    text << std::ifstream(file.path(), std::ios::binary).rdbuf();
    fuzz::try_choices(text.str());
    ++count;
  }
  EXPECT_GT(count, 5);
}

std::vector<StoredChoice> many(const std::string& candidate) {
  std::vector<StoredChoice> rows;
  for (int i = 0; i < 400; ++i) rows.push_back(row("m<=" + std::to_string(i), candidate));
  return rows;
}

TEST(Choices, ProcessesImportAtOnce) {
  const Folder folder;
  const std::string path = folder.path("db"), text = exported(many("a"));
  std::vector<pid_t> children;
  for (int process = 0; process < 8; ++process) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    auto database = Database::open(path);
    _exit(database && import_text(*database, text) ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(exported(*opened(path).list()), text);
}

// Killed at any point: the old choices or the new ones, all of them.
TEST(Choices, AKilledImportIsWholeOrAbsent) {
  const Folder folder;
  const std::string path = folder.path("db"), before = exported(many("a")),
                    after = exported(many("b"));
  bool killed = false, done = false;
  for (int microseconds = 0; !(killed && done) && microseconds < 400000;
       microseconds += microseconds < 4000 ? 400 : 8000) {
    {
      Database database = opened(path);
      ASSERT_TRUE(import_text(database, before));
    }
    const pid_t child = fork();
    if (child == 0) {
      auto database = Database::open(path);
      _exit(database && import_text(*database, after) ? 0 : 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string now = exported(*opened(path).list());
    killed |= now == before;
    done |= now == after;
    ASSERT_TRUE(now == before || now == after) << microseconds;
  }
  EXPECT_TRUE(killed && done);
}

// What a folder of shipped files gives for a shape.
std::string shipped(const ShippedChoices& from, const std::string& shape,
                    const Machine& here = machine()) {
  const auto found =
      from.find({here.device, kRows[0].key.problem, shape, here.tools}, here.fingerprint_of);
  return found ? to_string(found->candidate) : "none";
}

TEST(Shipped, ChoicesHoldAsLongAsWhatTheyUse) {
  const Folder folder;
  folder.write("GPU.choices", exported(kRows));
  folder.write("other.txt", "not read");
  const ShippedChoices files = ShippedChoices::open(folder.path(""));
  EXPECT_EQ(shipped(files, "m<=16 n=8"), "b swizzle=2");
  EXPECT_EQ(shipped(files, "m<=4 n=8"), "unfused algorithm=3");
  EXPECT_EQ(shipped(files, "m<=3 n=8"), "none");
  EXPECT_EQ(files.fingerprint(), ShippedChoices::open(folder.path("")).fingerprint());
  EXPECT_NE(files.fingerprint(), ShippedChoices::open(folder.path("none")).fingerprint());
  EXPECT_EQ(shipped(files, "m<=16 n=8", machine("other GPU")), "none");
  const Machine newer =
      machine("GPU", "attacca 0.2.1, templates fedcba9876543210, cuBLASLt 130200, driver 13010");
  EXPECT_EQ(shipped(files, "m<=16 n=8", newer), "b swizzle=2");
  EXPECT_EQ(shipped(files, "m<=4 n=8", newer), "none");
  Machine changed = machine();
  changed.fingerprint_of = [](const std::string& name) {
    return name == "a" ? "" : "00000000000000bb";
  };
  EXPECT_EQ(shipped(files, "m<=16 n=8", changed), "none");
  EXPECT_EQ(shipped(files, "m<=4 n=8", changed), "unfused algorithm=3");
  changed.tools = newer.tools;
  const auto fits = files.fits(changed.tools, changed.fingerprint_of);
  ASSERT_EQ(fits.size(), 1u);
  EXPECT_EQ(fits[0].device, "GPU");
  EXPECT_EQ(fits[0].choices, 4);
  EXPECT_EQ(fits[0].fitting, 0);
  EXPECT_EQ(fits[0].others,
            (std::map<std::string, int64_t>{{"their templates are not built", 1},
                                            {"their templates have changed", 1},
                                            {"measured with cuBLASLt 130100 (here 130200)", 2}}));
}

TEST(Shipped, DamagedFilesAreLeftOut) {
  const Folder folder;
  folder.write("1.choices", replaced(exported({row("m<=1 n=8", "c")}), "1e-05", "2e-05"));
  folder.write("2.choices", exported({row("m<=1 n=8", "a")}));
  folder.write("3.choices", exported(kRows));
  EXPECT_EQ(shipped(ShippedChoices::open(folder.path("")), "m<=1 n=8"), "a");
  EXPECT_EQ(shipped(ShippedChoices::open(folder.path("none")), "m<=1 n=8"), "none");
}

// What the source tree ships is whole.
TEST(Shipped, TheFilesOfTheSourceAreWhole) {
  for (const auto& entry : std::filesystem::directory_iterator(ATTACCA_SOURCE_TUNED)) {
    if (entry.path().extension() != ".choices") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto file = read_choices(text.str(), entry.path().string());
    EXPECT_TRUE(file) << to_string(file.error());
  }
}

}  // namespace
}  // namespace attacca::tune
