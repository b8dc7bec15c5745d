// Tuning by many processes, as far as no GPU is needed: what is listed for a GPU that is not here,
// and rows that enter a database and leave it.
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include "gtest/gtest.h"

#include "attacca/attacca.hpp"

namespace {

using attacca::Mode;

constexpr const char* kGraph =
    "graph g(x: bf16[M, 64], w: bf16[128, 64], s: bf16[M, 128]) {\n"
    "  y = silu(matmul(x, transpose(w)))\n"
    "  return y, z = s * 2 + 1\n"
    "}\n";

// A folder for the database, for as long as this lives.
class OwnCache {
 public:
  OwnCache() : path_(::testing::TempDir() + "attacca_tuning_" + std::to_string(getpid())) {
    setenv("ATTACCA_CACHE_DIR", path_.c_str(), 1);
  }
  ~OwnCache() {
    unsetenv("ATTACCA_CACHE_DIR");
    std::filesystem::remove_all(path_);
  }

 private:
  std::string path_;
};

std::string listed(const std::string& device, int64_t m, Mode mode = Mode::Fp32) {
  const auto graph = attacca::Graph::parse(kGraph);
  const auto found = attacca::graph_problems(*graph, device, mode, {{"M", m}});
  EXPECT_TRUE(found.ok()) << found.status().text();
  return found.ok() ? *found : "";
}

void expect_failure(const attacca::Status& status, const std::string& text) {
  ASSERT_FALSE(status.ok()) << text;
  EXPECT_NE(status.text().find(text), std::string::npos) << status.text();
}

std::string row(const std::string& shape, const std::string& seconds, const char* quick = "false",
                const std::string& candidate = "unfused algorithm=3") {
  return R"({"device":"GPU","tools":"attacca 0.2.0","problem":"fp32|acc","shape":")" + shape +
         R"(","candidate":")" + candidate + R"(","seconds":)" + seconds +
         R"(,"unfused_seconds":0.75,"made":1790,"quick":)" + quick + "}";
}

TEST(Tuning, ListsTheProblemsOfAGpuThatIsNotHere) {
  EXPECT_EQ(*attacca::graph_symbols(*attacca::Graph::parse(kGraph)), "[\"M\"]");
  const std::string found = listed("h200", 100);
  EXPECT_NE(found.find(R"("shape":"m<=128 n=128 batch=1 k=64")"), std::string::npos) << found;
  // The second region has no product: there is one way.
  EXPECT_NE(found.find(R"({"region":2,"problem":"","shape":""})"), std::string::npos) << found;
  EXPECT_EQ(found, listed("sm_90", 100));
  EXPECT_NE(found, listed("sm_90", 100, Mode::Eager));
  EXPECT_NE(found, listed("sm_90", 200));
}

TEST(Tuning, BatchInvariantProblemsAreOthers) {
  const auto graph = *attacca::Graph::parse(kGraph);
  const auto found = *attacca::graph_problems(graph, "h200", Mode::Eager, {{"M", 100}}, true);
  EXPECT_NE(found.find(R"("problem":"eager batch_invariant|)"), std::string::npos) << found;
  EXPECT_NE(found.find(R"("mode":"eager+batch_invariant")"), std::string::npos) << found;
  EXPECT_EQ(listed("h200", 100).find("batch_invariant"), std::string::npos);
  attacca_bytes* bytes = nullptr;
  const attacca_size size = {"M", 1};
  const attacca::Status status{
      attacca_graph_problems(graph.handle(), "h200", "fp32+batch", &size, 1, &bytes)};
  expect_failure(status, "unknown mode fp32+batch");
}

TEST(Tuning, SaysWhatItCannotList) {
  const auto graph = *attacca::Graph::parse(kGraph);
  const auto problems = [&](const std::string& device,
                            const std::vector<std::pair<std::string, int64_t>>& sizes) {
    return attacca::graph_problems(graph, device, Mode::Fp32, sizes).status();
  };
  for (const char* device : {"cpu", "tpu", "sm_", "sm_9x", "sm_1", "h300"})
    expect_failure(problems(device, {{"M", 1}}), std::string(device) + " is no GPU");
  expect_failure(problems("h200", {}), "size M has no value");
  expect_failure(problems("h200", {{"M", 1}, {"N", 1}}), "the graph has no size N");
  expect_failure(problems("h200", {{"M", 1}, {"M", 1}}), "size M comes twice");
  expect_failure(problems("h200", {{"M", -1}}), "size M is -1");
  expect_failure(attacca::machine_json("cpu").status(), "only GPUs are tuned");
  expect_failure(attacca::tune_problem("{}", "cuda").status(), "not a problem");
  expect_failure(attacca::tune_problem("{", "cuda").status(), "JSON");
  const std::string text =
      R"({"graph":"graph g(x: f32[4]) { return exp(x) }","symbols":{},"mode":"fp32",)"
      R"("alignments":{}})";
  expect_failure(attacca::tune_problem(text, "cpu").status(), "only GPUs are tuned");
}

TEST(Tuning, RowsEnterTheDatabaseAndLeaveItAsTheyWere) {
  const OwnCache cache;
  EXPECT_EQ(*attacca::list_choices(), "[]");
  const std::string rows = "[" + row("m<=1", "0.5") + "," + row("m<=2", "0.25", "true") + "]";
  EXPECT_EQ(*attacca::store_choices(rows), 2);
  EXPECT_EQ(*attacca::list_choices(), rows);
  // Thorough choices replace quick ones, and not the other way round.
  EXPECT_EQ(*attacca::store_choices("[" + row("m<=1", "0.125", "true") + "," +
                                    row("m<=2", "0.125") + "]"),
            2);
  EXPECT_EQ(*attacca::list_choices(), "[" + row("m<=1", "0.5") + "," + row("m<=2", "0.125") + "]");
}

TEST(Tuning, RowsThatNoTuningMadeAreRefusedAllOfThem) {
  const OwnCache cache;
  const std::string good = row("m<=1", "0.5");
  for (const std::string& bad :
       {row("", "0.5"), row("m<=2", "0"), row("m<=2", "-1"), row("m<=2", "\"1\""),
        row("m<=2", "1", "0"), row("m<=2", "1", "false", "unfused warp=9"), std::string("{}"),
        std::string("3")})
    expect_failure(attacca::store_choices("[" + good + "," + bad + "]").status(),
                   "row 1 is not one of a tuning database");
  expect_failure(attacca::store_choices(good).status(), "not a list of rows");
  EXPECT_EQ(*attacca::list_choices(), "[]");
  expect_failure(attacca::write_choices("GPU", "attacca 0.2.0", "/nowhere/file").status(), "");
}

}  // namespace
