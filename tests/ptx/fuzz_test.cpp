// Damaged PTX: no crash, and an accepted text is still PTX. ATTACCA_SEED repeats a run.
#include <cstdlib>
#include <random>

#include "fmt/format.h"

#include "kernel_testing.hpp"
#include "mutate.hpp"
#include "ptx/analysis/fuse_kernel.hpp"
#include "ptx/splice/splice.hpp"
#include "ptx_testing.hpp"
#include "setting.hpp"

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
  const uint64_t seed = setting("ATTACCA_SEED", std::random_device()());
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
  // The damage must be neither too large nor too small to test anything.
  EXPECT_GT(parsed, kRounds / 10);
  EXPECT_GT(spliced, kRounds / 20);
}

// ---- Kernels whose stores are fused

constexpr const char* kTail = R"(.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 result) attacca_tail(
	.param .b32 value, .param .b64 index, .param .b64 operand)
{
	.reg .b32 %r<2>;
	.reg .pred %p<2>;
	ld.param.b32 %r1, [value];
	setp.eq.s32 %p1, %r1, 0;
	@%p1 bra done;
	add.s32 %r1, %r1, 1;
done:
	st.param.b32 [result], %r1;
	ret;
}
)";

// Words that may stand for each other and leave the text PTX that assembles.
constexpr std::string_view kAlike[][6] = {
    {"add.s64", "sub.s64", "xor.b64", "and.b64", "or.b64", "max.s64"},
    {"st.global.f32", "st.f32", "st.global.b32", "st.volatile.global.f32", "st.global.cs.u32",
     "st.global.wb.s32"},
    {"st.global.b16", "st.global.b32", "st.global.u8", "st.u32", "st.global.cg.u16", "st.b8"},
    {"ld.global.f32", "ld.f32", "ld.volatile.global.f32", "ld.global.nc.f32", "ld.global.b32",
     "ld.global.cv.f32"},
    {"in", "out", "other", "args", "in", "out"},
    {"mov.b64", "cvta.to.global.u64", "cvta.global.u64", "cvt.u64.u64", "not.b64", "neg.s64"},
};

std::string_view class_of(std::string_view word) {
  return word.substr(0, word.find_last_not_of("0123456789") + 1);
}

// Another register of its kind, another number, another opcode of its shape.
void damage_meaning(std::string& text, Mutator& mutator) {
  const Source source(text, "fuzz");
  const auto tokens = tokenize(source);
  if (!tokens) return;
  const size_t first = mutator.below(tokens->size());
  for (size_t i = 0; i < tokens->size(); ++i) {
    const Token& token = (*tokens)[(first + i) % tokens->size()];
    const size_t begin = source.begin_of(token);
    if (token.kind == TokenKind::Number && token.size == 1 && mutator.below(4) == 0) {
      text.replace(begin, token.size, std::to_string(4 * mutator.below(3)));
      return;
    }
    if (token.kind != TokenKind::Word) continue;
    for (const auto& alike : kAlike)
      if (std::find(std::begin(alike), std::end(alike), token.text()) != std::end(alike)) {
        text.replace(begin, token.size, std::string(mutator.any_of(alike)));
        return;
      }
    const std::string_view kind = class_of(token.text());
    if (kind.size() == token.size || !kind.starts_with('%') || mutator.below(2) == 0) continue;
    text.replace(begin, token.size, fmt::format("{}{}", kind, 1 + mutator.below(6)));
    return;
  }
}

// Kernels that fusing made: they have functions and every kind of store.
std::vector<std::string> kernels() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(testing::kFolder / "golden"))
    if (entry.path().filename().string().starts_with("fused_"))
      texts.push_back(testing::read_file(entry.path()));
  std::sort(texts.begin(), texts.end());
  for (const char* body :
       {"st.global.f32 [%rd5], %f1;", "@%p1 st.global.v2.f32 [%rd5+8], {%f1, 0f00000000};",
        "mov.b64 %rd6, out; ld.param.u64 %rd7, [%rd6]; st.global.v4.b32 [%rd7], {%r1, 1, %r2, 2};",
        "st.global.b16 [%rd5], %rs1; { .reg .b64 %rd5; ld.param.u64 %rd5, [other];"
        "ld.global.f32 %f2, [%rd5]; }"})
    texts.push_back(testing::kernel_around(body));
  return texts;
}

// ATTACCA_FUZZ_OUT: a folder that gets every kernel that was fused, before and after, for
// fuse_fuzz_check.py to assemble.
TEST(Fuzz, DamagedKernelsAreRefusedOrFused) {
  const char* folder = std::getenv("ATTACCA_FUZZ_OUT");
  const uint64_t seed = setting("ATTACCA_SEED", std::random_device()());
  std::cout << "ATTACCA_SEED=" << seed << "\n";
  Mutator mutator(seed);
  const std::vector<std::string> texts = kernels();
  const Module tail = testing::parsed(kTail);
  int decided = 0, fused = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string text = texts[mutator.below(texts.size())];
    if (mutator.below(4) == 0) text = damaged(std::move(text), mutator);
    for (size_t edits = mutator.below(6); edits > 0; --edits) damage_meaning(text, mutator);
    const auto module = parse(text);
    if (!module) continue;
    const uint32_t bytes = 1U << mutator.below(3);
    const auto analysis = analyse_output(*module, "k", {"out"}, bytes);
    if (!analysis) continue;
    ++decided;
    if (!analysis->eligible()) continue;
    const auto result = fuse_stores(*module, *analysis, tail, {"attacca_tail", {"bias"}});
    if (!result) continue;
    ++fused;
    const auto again = parse(result->ptx);
    ASSERT_TRUE(again) << to_string(again.error()) << result->ptx;
    if (!folder) continue;
    std::ofstream(fmt::format("{}/{}.before.ptx", folder, fused)) << text;
    std::ofstream(fmt::format("{}/{}.after.ptx", folder, fused)) << result->ptx;
  }
  EXPECT_GT(decided, kRounds / 10);
  EXPECT_GT(fused, kRounds / 50);
}

}  // namespace
}  // namespace attacca::ptx
