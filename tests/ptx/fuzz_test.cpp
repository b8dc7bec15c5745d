// Damaged PTX: never a crash, and what is accepted stays PTX. ATTACCA_SEED repeats a run.
#include <cstdlib>
#include <random>

#include "mutate.hpp"
#include "ptx/splice.hpp"
#include "ptx_testing.hpp"

namespace attacca::ptx {
namespace {

constexpr int kRounds = 6000;
constexpr size_t kMaxBytes = 8000;  // larger samples would only slow it down

constexpr std::string_view kPieces[] = {"{", "}", "(", ")", "[", "]",  ";", ":", ",",
                                        ".", "@", "%", "<", ">", "\"", "/", "*", "0"};
constexpr std::string_view kNumbers[] = {"0", "1", "3", "8", "4294967296", "0xFFFFFFFFFFFFFFFF"};

// Drops, repeats, swaps or replaces whole tokens, so that much of it still parses.
void damage_token(std::string& text, Mutator& mutator) {
  const Source source(text, "fuzz");
  const auto tokens = tokenize(source);
  if (!tokens || tokens->size() < 3) return mutator.damage_bytes(text, kPieces);
  const Token& a = (*tokens)[mutator.below(tokens->size() - 1)];
  const Token& b = (*tokens)[mutator.below(tokens->size() - 1)];
  const size_t begin = source.begin_of(a), length = a.size;
  const std::string other(b.text());
  const std::string strange(a.kind == TokenKind::Number ? mutator.any_of(kNumbers) : "x");
  switch (mutator.below(4)) {
    case 0:
      text.erase(begin, length);
      break;
    case 1:
      text.insert(begin, other + " ");
      break;
    case 2:
      text.replace(begin, length, other);
      break;
    default:
      text.replace(begin, length, strange);
  }
}

std::string damaged(std::string text, Mutator& mutator) {
  for (size_t edits = 1 + mutator.below(4); edits > 0; --edits) {
    if (mutator.below(3) == 0)
      mutator.damage_bytes(text, kPieces);
    else
      damage_token(text, mutator);
  }
  return text;
}

TEST(Fuzz, DamagedPtxIsRefusedOrStaysPtx) {
  const char* given = std::getenv("ATTACCA_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "ATTACCA_SEED=" << seed << "\n";
  Mutator mutator(seed);
  std::vector<std::pair<std::string, std::string>> samples;
  for (const std::string& name : testing::sample_names()) {
    samples.emplace_back(testing::kernel_text(name), testing::epilogue_text(name));
    if (samples.back().first.size() > kMaxBytes) samples.pop_back();
  }
  int parsed = 0;
  int spliced = 0;
  for (int round = 0; round < kRounds; ++round) {
    auto [kernel_text, epilogue_text] = samples[mutator.below(samples.size())];
    std::string& victim = mutator.below(2) ? kernel_text : epilogue_text;
    victim = damaged(std::move(victim), mutator);
    const auto kernel = parse(kernel_text);
    const auto epilogue = parse(epilogue_text);
    if (!kernel || !epilogue) continue;
    ++parsed;
    ASSERT_EQ(print(*kernel), kernel_text);
    ASSERT_EQ(print(*epilogue), epilogue_text);
    const auto result = splice(*kernel, *epilogue, "hole");
    if (!result) continue;
    ++spliced;
    const auto again = parse(result->ptx);
    ASSERT_TRUE(again) << to_string(again.error()) << result->ptx;
    ASSERT_EQ(print(*again), result->ptx);
  }
  // Too much or too little damage would test nothing.
  EXPECT_GT(parsed, kRounds / 10);
  EXPECT_GT(spliced, kRounds / 20);
}

}  // namespace
}  // namespace attacca::ptx
