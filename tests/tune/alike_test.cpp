// Whether processes that tune the same problem choose alike, by recorded times and the noise that
// was seen beside them.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "gtest/gtest.h"

#include "launch/candidate.hpp"
#include "tune/rounds.hpp"

namespace attacca::tune {
namespace {

struct Recorded {
  int problem;
  const char* candidate;
  double rested_us, sustained_us;
};
constexpr Recorded kRecorded[] = {
#include "recorded_tunings.inc"
};
constexpr int kProblems = 10, kProcesses = 60;

// Standard deviations of logarithms: of a candidate in one process, whatever the rounds, and of one
// round.
constexpr double kOffsetRested = 0.003, kOffsetSustained = 0.0013, kOfRound = 0.006;

launch::Candidate parsed(const std::string& text) {
  return *launch::parse_candidate(text);
}

bool is_default(const launch::Candidate& candidate) {
  return candidate.swizzle == 0 && candidate.raster == 0 && candidate.splits == 0;
}

class Tuning {
 public:
  explicit Tuning(int problem) {
    for (const Recorded& each : kRecorded)
      if (each.problem == problem) known_.emplace(each.candidate, each);
    for (const Recorded& each : kRecorded)
      if (each.problem == problem && is_default(parsed(each.candidate)))
        ranked_.push_back(parsed(each.candidate));
  }

  std::string choice(uint64_t process) const {
    std::mt19937_64 random(process);
    std::normal_distribution<double> normal;
    std::map<std::pair<std::string, Pace>, double> offsets;
    Stopwatch stopwatch;
    stopwatch.time = [&](std::vector<launch::Candidate> candidates, int rounds, Pace pace) {
      std::vector<Trial> trials;
      for (launch::Candidate& candidate : candidates) {
        const std::string name = to_string(candidate);
        const double spread = pace == Pace::Rested ? kOffsetRested : kOffsetSustained;
        const double offset =
            offsets.try_emplace({name, pace}, spread * normal(random)).first->second;
        const double noise = kOfRound / std::sqrt(rounds) * normal(random);
        trials.push_back(
            {std::move(candidate), microseconds(name, pace) * std::exp(offset + noise), "", false});
      }
      return trials;
    };
    stopwatch.variants = [&](const launch::Candidate& candidate) {
      std::vector<launch::Candidate> all;
      for (const auto& [name, _] : known_)
        if (launch::Candidate each = parsed(name); each.kernel == candidate.kernel)
          all.push_back(std::move(each));
      return all;
    };
    stopwatch.report = [](double, const std::string&) {};
    const TieOrder order(ranked_);
    return to_string(choose(time_in_rounds(stopwatch, ranked_, order, {}), order)->candidate);
  }

  // That of the fastest over this one's.
  double speed(const std::string& choice) const {
    double best = microseconds(choice, Pace::Sustained);
    for (const auto& [name, each] : known_) best = std::min(best, each.sustained_us);
    return best / microseconds(choice, Pace::Sustained);
  }

 private:
  double microseconds(const std::string& name, Pace pace) const {
    const Recorded& each = known_.at(name);
    return pace == Pace::Rested ? each.rested_us : each.sustained_us;
  }

  std::map<std::string, Recorded> known_;
  std::vector<launch::Candidate> ranked_;
};

int most_common(const std::map<std::string, int>& counts) {
  int most = 0;
  for (const auto& [_, count] : counts) most = std::max(most, count);
  return most;
}

// Three of these ten have a candidate at the limit of the tie.
TEST(Alike, ProcessesThatTuneHardProblems) {
  int others = 0;
  double loss = 0;
  for (int problem = 0; problem < kProblems; ++problem) {
    const Tuning tuning(problem);
    std::map<std::string, int> counts;
    for (uint64_t process = 0; process < kProcesses; ++process)
      ++counts[tuning.choice(1000 * uint64_t(problem) + process)];
    for (const auto& [choice, count] : counts)
      loss -= std::log(tuning.speed(choice)) * count / (kProblems * kProcesses);
    others += kProcesses - most_common(counts);
  }
  RecordProperty("others", others);
  EXPECT_LE(others, 36);  // 3.6 of 60
  EXPECT_LT(loss, 0.004);
}

// A row of bench/data/candidates.csv: those that may be chosen, in the order of ranks.
struct Row {
  std::vector<launch::Candidate> ranked;
  std::vector<double> us;
};

std::vector<Row> random_problems() {
  std::ifstream file(ATTACCA_CANDIDATES);
  std::vector<Row> rows;
  std::vector<std::string> names;  // a candidate is written out once, then by its number
  for (std::string line, word; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("family")) continue;
    std::istringstream columns(line);
    for (int i = 0; i < 8; ++i) std::getline(columns, word, ',');
    std::istringstream times(word);
    Row& row = rows.emplace_back();
    while (std::getline(times, word, ';')) {
      const size_t colon = word.rfind(':');
      std::string name = word.substr(0, colon);
      if (std::isdigit(static_cast<unsigned char>(name[0])))
        name = names[std::stoul(name)];
      else
        names.push_back(name);
      if (name.starts_with("bare")) continue;
      row.ranked.push_back(parsed(name));
      row.us.push_back(std::stod(word.substr(colon + 1)));
    }
  }
  return rows;
}

// Of 60 processes that tune a random problem, about one chooses otherwise than most; the price is
// less than 0.2 % of speed.
TEST(Alike, ProcessesThatTuneRandomProblems) {
  constexpr double kSpread = 0.0016;  // of the times of the last round, between processes
  constexpr int kFew = 20;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int others = 0, all = 0;
  double loss = 0;
  const std::vector<Row> rows = random_problems();
  ASSERT_GT(rows.size(), 900u);
  for (const Row& row : rows) {
    const TieOrder order(row.ranked);
    const double best = *std::min_element(row.us.begin(), row.us.end());
    std::map<std::string, int> counts;
    for (int process = 0; process < kFew; ++process) {
      std::vector<Trial> trials;
      for (size_t i = 0; i < row.us.size(); ++i)
        if (row.us[i] < 1.06 * best)
          trials.push_back(
              {row.ranked[i], row.us[i] * std::exp(kSpread * normal(random)), "", false});
      const Choice choice = *choose(merge_rounds({}, std::move(trials)), order);
      const auto chosen = std::find(row.ranked.begin(), row.ranked.end(), choice.candidate);
      loss += std::log(row.us[static_cast<size_t>(chosen - row.ranked.begin())] / best);
      ++counts[to_string(choice.candidate)];
    }
    others += kFew - most_common(counts);
    all += kFew;
  }
  RecordProperty("others", others);
  EXPECT_LE(60 * others, 1.15 * all);
  EXPECT_LT(loss / all, 0.002);
}

}  // namespace
}  // namespace attacca::tune
