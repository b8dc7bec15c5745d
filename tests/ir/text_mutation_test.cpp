// Random bytes and random damage never crash the parser, and what it accepts round-trips.
#include "ir/text/lexer.hpp"
#include "mutate.hpp"
#include "text_testing.hpp"

namespace attacca::ir {
namespace {

constexpr std::string_view kSeeds[] = {
    "graph llama_mlp(x: bf16[M, 4096], w: bf16[11008, 4096; 8192, 1]) {\n"
    "  g = matmul(x, transpose(w)) # gate\n"
    "  return g / (1 + exp(-g)) * g, y = cast(g, f32, saturate=true)\n}\n",
    "graph s(h: f32[4, 2*N], q: s8[4], \"b/1\": bool[4]) {\n"
    "  a, b = split(h, 2, axis=-1)\n  c = h[:, 1::2] * clamp(a, max=7.0)\n"
    "  d = where(\"b/1\", q, -3) + constant(s8[2, 4], [1, -2, 3, 4, 5, 6, 7, 8])[0:1, ::-1]\n"
    "  return rmsnorm(c), softmax(b, axis=0), quantize(h, 0.5, 3, dtype=u8), d\n}\n",
    "graph r(x: f64[2, 3, 4], i: s64[5]) {\n"
    "  y = permute(reshape(x, [4, -1]), [1, 0]); z = concat(y, y, axis=-1)\n"
    "  return gather(x, i, axis=1), sum(z, axes=[0], keepdims=true) <= 1e-5, amax(x), inf\n}\n"};

constexpr std::string_view kPieces[] = {"(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        ",",
                                        ":",
                                        ";",
                                        "=",
                                        "==",
                                        "-",
                                        "*",
                                        "/",
                                        "@",
                                        "...",
                                        "\"",
                                        "\\",
                                        "#",
                                        "\n",
                                        " ",
                                        "0",
                                        "-1",
                                        "9223372036854775807",
                                        "1e308",
                                        "0.5",
                                        "nan",
                                        "inf",
                                        "true",
                                        "M",
                                        "N",
                                        "x",
                                        "h",
                                        "exp(",
                                        "constant(",
                                        "f32",
                                        "s8",
                                        "axis=",
                                        "axes=[",
                                        "::",
                                        "::-1",
                                        "return",
                                        "split(",
                                        "reshape(",
                                        "compute=bf16",
                                        "out=f64",
                                        "\x80",
                                        "\xC3\xA9",
                                        "-9223372036854775808"};

// A token in another's place, of the same kind, so that some of the damage still means something.
void replace_token(std::string& text, Mutator& mutator) {
  const auto tokens = tokenize({text, ""});
  const auto others = tokenize({mutator.any_of(kSeeds), ""});
  if (!tokens || tokens->size() < 2) return;
  const Token& token = (*tokens)[mutator.below(tokens->size() - 1)];
  for (size_t tries = 0; tries < 100; ++tries) {
    const Token& other = mutator.any_of(*others);
    if (other.kind != token.kind || other.text == token.text) continue;
    text.replace(token.offset, token.text.size(), other.text);
    return;
  }
}

std::string mutated(Mutator& mutator) {
  std::string text(mutator.any_of(kSeeds));
  for (size_t edits = 1 + mutator.below(3); edits > 0; --edits) {
    if (mutator.below(2))
      mutator.damage_bytes(text, kPieces);
    else
      replace_token(text, mutator);
  }
  return text;
}

TEST(TextMutation, UndamagedTextsParse) {
  for (const std::string_view seed : kSeeds) parsed(seed);
}

TEST(TextMutation, DamagedTextsGiveErrorsOrGraphsThatRoundTrip) {
  constexpr uint32_t kFirst = 20261121;
  constexpr int kRuns = 20000;
  int accepted = 0;
  for (uint32_t seed = kFirst; seed < kFirst + kRuns; ++seed) {
    Mutator mutator(seed);
    const std::string text = mutated(mutator);
    const auto graph = parse_graph(text);
    if (!graph) {
      EXPECT_FALSE(graph.error().what.empty());
      EXPECT_TRUE(graph.error().where.starts_with("<text>:")) << to_string(graph.error());
      continue;
    }
    ++accepted;
    const std::string printed = print_graph(*graph);
    const auto again = parse_graph(printed);
    ASSERT_TRUE(again) << "seed " << seed << "\n" << to_string(again.error()) << text << printed;
    ASSERT_TRUE(equivalent(*graph, *again)) << "seed " << seed << "\n" << text << printed;
    ASSERT_EQ(print_graph(*again), printed) << "seed " << seed << "\n" << text;
  }
  EXPECT_GT(accepted, kRuns / 50);
}

TEST(TextMutation, RandomBytesGiveErrors) {
  Mutator mutator(7);
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(parse_graph(mutator.bytes(mutator.below(200))));
}

}  // namespace
}  // namespace attacca::ir
