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

struct Times {
  std::string candidate;
  double rested_us, sustained_us;
};
struct Recorded {
  int problem;
  const char* candidate;
  double rested_us, sustained_us;
};
constexpr Recorded kRecorded[] = {
#include "recorded_tunings.inc"
};
constexpr int kProblems = 10, kProcesses = 60;

std::vector<Times> recorded(int problem) {
  std::vector<Times> times;
  for (const Recorded& each : kRecorded)
    if (each.problem == problem)
      times.push_back({each.candidate, each.rested_us, each.sustained_us});
  return times;
}

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
  // In the order of ranks.
  explicit Tuning(const std::vector<Times>& times) {
    for (const Times& each : times) {
      known_.emplace(each.candidate, each);
      launch::Candidate candidate = parsed(each.candidate);
      if (is_default(candidate))
        ranked_.push_back(candidate);
      else
        variants_.push_back(candidate);
    }
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
    stopwatch.change_worker = [&] { offsets.clear(); };
    stopwatch.variants = [&](const launch::Candidate& candidate) {
      std::vector<launch::Candidate> all = {candidate};
      for (const launch::Candidate& each : variants_)
        if (each.kernel == candidate.kernel) all.push_back(each);
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
    const Times& each = known_.at(name);
    return pace == Pace::Rested ? each.rested_us : each.sustained_us;
  }

  std::map<std::string, Times> known_;
  std::vector<launch::Candidate> ranked_, variants_;
};

// Of processes that tune problems: how many choose otherwise than most that tune the same one, and
// what the choices lose to the fastest candidate, as a mean logarithm.
struct Outcome {
  int others = 0, all = 0;
  double loss = 0, worst = 0;

  void add(const Tuning& tuning, uint64_t seed, int processes) {
    std::map<std::string, int> counts;
    for (int process = 0; process < processes; ++process)
      ++counts[tuning.choice(seed + uint64_t(process))];
    int most = 0;
    for (const auto& [choice, count] : counts) {
      const double lost = -std::log(tuning.speed(choice));
      loss = (loss * all + lost * count) / (all + count);
      all += count;
      worst = std::max(worst, lost);
      most = std::max(most, count);
    }
    others += processes - most;
  }
};

// These ten were picked because candidates are close.
TEST(Alike, ProcessesThatTuneHardProblems) {
  Outcome outcome;
  for (int problem = 0; problem < kProblems; ++problem)
    outcome.add(Tuning(recorded(problem)), 1000 * uint64_t(problem), kProcesses);
  RecordProperty("others", outcome.others);
  EXPECT_LE(outcome.others, kProblems);  // 1 of 60
  EXPECT_LT(outcome.loss, 0.005);
}

// A row of bench/data/candidates.csv or candidates2.csv: all candidates, in the order of ranks.
std::vector<std::vector<Times>> random_problems(const char* path) {
  std::ifstream file(path);
  std::vector<std::vector<Times>> problems;
  std::vector<std::string> names;  // a candidate is written out once, then by its number
  for (std::string line, word; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("family")) continue;
    std::istringstream columns(line);
    for (int i = 0; i < 8; ++i) std::getline(columns, word, ',');
    std::istringstream times(word);
    std::vector<Times>& all = problems.emplace_back();
    while (std::getline(times, word, ';')) {
      const size_t colon = word.rfind(':');
      std::string name = word.substr(0, colon);
      if (std::isdigit(static_cast<unsigned char>(name[0])))
        name = names[std::stoul(name)];
      else
        names.push_back(name);
      const double us = std::stod(word.substr(colon + 1));
      if (!name.starts_with("bare")) all.push_back({name, us, us});
    }
  }
  return problems;
}

// The price is less than 0.3 % of speed.
TEST(Alike, ProcessesThatTuneRandomProblems) {
  constexpr int kFew = 10, kEach = 3;
  Outcome outcome;
  size_t problem = 0;
  for (const char* path :
       {ATTACCA_CANDIDATES "candidates.csv", ATTACCA_CANDIDATES "candidates2.csv"})
    for (const std::vector<Times>& times : random_problems(path))
      if (++problem % kEach == 0) outcome.add(Tuning(times), 1000 * problem, kFew);
  ASSERT_GT(problem, 1600u);
  RecordProperty("others", outcome.others);
  EXPECT_LE(60 * outcome.others, outcome.all);  // 1 of 60
  EXPECT_LT(outcome.loss, 0.003);
}

}  // namespace
}  // namespace attacca::tune
