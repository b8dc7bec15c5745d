// How a round of tuning uses the trials of earlier rounds, as texts: "t swizzle=2 10us, unfused
// 12us".
#include "tune/rounds.hpp"

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "launch/candidate.hpp"

namespace attacca::tune {
namespace {

struct Timed {
  const char* candidate;
  double us;  // 0: it failed
};

std::vector<Trial> trials_of(std::initializer_list<Timed> timed) {
  std::vector<Trial> trials;
  for (const Timed& each : timed) {
    Trial& trial = trials.emplace_back();
    trial.candidate = *launch::parse_candidate(each.candidate);
    if (each.us > 0)
      trial.seconds = each.us * 1e-6;
    else
      trial.failure = "why";
  }
  return trials;
}

// With a * those of the last round.
std::string told(const std::vector<Trial>& trials) {
  std::string text;
  for (const Trial& trial : trials)
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", trial.final ? "*" : "",
                        to_string(trial.candidate),
                        trial.seconds ? fmt::format("{:.0f}us", *trial.seconds * 1e6) : "failed");
  return text;
}

std::string contenders_of(std::initializer_list<Timed> timed) {
  std::string text;
  for (const launch::Candidate& each : contenders(merge_rounds({}, trials_of(timed))))
    text += (text.empty() ? "" : ", ") + to_string(each);
  return text;
}

std::string choice_of(std::initializer_list<Timed> timed) {
  const auto choice = choose(trials_of(timed));
  return choice ? fmt::format("{} {:.0f}us, unfused {:.0f}us", to_string(choice->candidate),
                              choice->seconds * 1e6, choice->unfused_seconds * 1e6)
                : "none";
}

TEST(Rounds, LaterTimesComeFirstAndFailuresLast) {
  EXPECT_EQ(told(merge_rounds(trials_of({{"a", 10}, {"b", 11}, {"unfused", 12}, {"c", 0}}),
                              trials_of({{"unfused", 15}, {"a swizzle=2", 14}, {"a", 16}}))),
            "*a swizzle=2 14us, *unfused 15us, *a 16us, b 11us, c failed");
}

// A candidate that fails only in this round keeps its earlier time.
TEST(Rounds, AFailureForgetsNoEarlierTime) {
  EXPECT_EQ(told(merge_rounds(trials_of({{"a", 10}, {"b", 11}}), trials_of({{"b", 12}, {"a", 0}}))),
            "*b 12us, a 10us");
}

TEST(Rounds, OfThreeRoundsOnlyTheLastIsFinal) {
  EXPECT_EQ(told(merge_rounds(merge_rounds(trials_of({{"a", 9}, {"b", 8}, {"unfused", 7}}),
                                           trials_of({{"a", 10}, {"b", 11}})),
                              trials_of({{"a", 13}}))),
            "*a 13us, b 11us, unfused 7us");
}

TEST(Rounds, ContendersAreNearTheBestThreeOfAKind) {
  EXPECT_EQ(contenders_of({{"a", 100},
                           {"a swizzle=2", 101},
                           {"unfused", 102},
                           {"b", 103},
                           {"c", 104},
                           {"d", 105},
                           {"unfused algorithm=1", 105},
                           {"unfused algorithm=2", 107}}),
            "a, a swizzle=2, unfused, b, unfused algorithm=1");
}

TEST(Rounds, AtLeastOneOfEachKindContends) {
  EXPECT_EQ(contenders_of({{"a", 100}, {"b", 150}, {"unfused", 200}, {"unfused algorithm=1", 201}}),
            "a, unfused");
  EXPECT_EQ(contenders_of({{"unfused", 100}, {"a", 200}, {"b", 201}}), "unfused, a");
  EXPECT_EQ(contenders_of({{"a", 0}}), "");
}

TEST(Rounds, TheChoiceStandsBesideTheBestUnfusedWay) {
  EXPECT_EQ(choice_of({{"a", 0}, {"b", 10}, {"unfused algorithm=1", 12}, {"unfused", 13}}),
            "b 10us, unfused 12us");
  EXPECT_EQ(choice_of({{"unfused", 10}, {"b", 11}}), "unfused 10us, unfused 10us");
  EXPECT_EQ(choice_of({{"b", 10}}), "b 10us, unfused 0us");
  EXPECT_EQ(choice_of({{"a", 0}}), "none");
}

}  // namespace
}  // namespace attacca::tune
