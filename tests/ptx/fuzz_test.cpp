// Damaged PTX: never a crash, and what is accepted stays PTX. ATTACCA_SEED repeats a run.
#include <cstdlib>
#include <random>

#include "ptx/splice.hpp"
#include "ptx_testing.hpp"

namespace attacca::ptx {
namespace {

constexpr int kRounds = 6000;
constexpr size_t kMaxBytes = 8000;  // larger samples would only slow it down

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }

  std::string mutate(std::string text) {
    for (size_t i = 1 + below(4); i > 0 && !text.empty(); --i)
      below(3) == 0 ? mutate_byte(text) : mutate_token(text);
    return text;
  }

 private:
  void mutate_byte(std::string& text) {
    const size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        text.insert(at, 1, "{}()[];:,.@%<>\"/*0"[below(18)]);
        break;
      default:
        text.resize(at);
        break;
    }
  }

  // Drops, repeats, swaps or replaces whole tokens, so that much of it still parses.
  void mutate_token(std::string& text) {
    const Source source(text, "fuzz");
    const auto tokens = tokenize(source);
    if (!tokens || tokens->size() < 3) return mutate_byte(text);
    const Token& a = (*tokens)[below(tokens->size() - 1)];
    const Token& b = (*tokens)[below(tokens->size() - 1)];
    const std::string other = text.substr(b.begin, b.end - b.begin);
    switch (below(4)) {
      case 0:
        text.erase(a.begin, a.end - a.begin);
        break;
      case 1:
        text.insert(a.begin, other + " ");
        break;
      case 2:
        text.replace(a.begin, a.end - a.begin, other);
        break;
      default:
        text.replace(a.begin, a.end - a.begin, mutate_number(a));
        break;
    }
  }

  std::string mutate_number(const Token& token) {
    if (token.kind != TokenKind::Number) return std::string(token.text) + "x";
    constexpr const char* kNumbers[] = {"0", "1", "3", "8", "4294967296", "0xFFFFFFFFFFFFFFFF"};
    return kNumbers[below(std::size(kNumbers))];
  }

  std::mt19937_64 random_;
};

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
    std::string& damaged = mutator.below(2) ? kernel_text : epilogue_text;
    damaged = mutator.mutate(std::move(damaged));
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
