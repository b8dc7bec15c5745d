// The kernels in a plan's file: written ones are read back, damaged ones are refused.
#include "api/bundle_file.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "api/plan_file.hpp"
#include "fuzz/plans.hpp"
#include "ir/text/text.hpp"
#include "launch/candidate.hpp"
#include "mutate.hpp"
#include "support/hash.hpp"

namespace attacca::api {
namespace {

constexpr const char* kMetadata =
    R"({"name": "mma_tn_128x128x32_f2_d16", "family": "gemm", "arch": "sm_80",
"min_capability": 80, "max_capability": 999, "input_types": ["bf16", "f16"], "a_k_major": true,
"b_k_major": true, "any_strides": false, "tile": [128, 128, 32], "cluster": [1, 1, 1],
"schedule": "multistage", "stream_k": false, "dependent_launch": true, "stages": 4, "threads": 256,
"shared_bytes": 65536, "align_a": 16, "align_b": 16, "align_d": 16,
"kernel": "mma_tn_128x128x32_f2_d16", "hole": {"accumulators": 1, "accumulator_type": "f32",
"full_bits": [16, 16], "rows": 2, "columns": 2, "result_bits": [16], "swapped": false}})";

launch::BundledKernel kernel(std::string entry, std::string_view image) {
  return {std::move(entry), std::make_shared<const std::vector<char>>(image.begin(), image.end())};
}

run::Bundle bundle() {
  run::Bundle made;
  made.kernels.library = "0.2.0";
  made.kernels.device = "NVIDIA H200";
  made.kernels.capability = 90;
  made.kernels.assembler = "ptxas 13.0.88";
  made.kernels.driver = 13000;
  made.kernels.builders = "a743e8df";
  made.kernels.templates["mma_tn_128x128x32_f2_d16"] = kMetadata;
  made.kernels.kernels.emplace("a|\"key\"\n", kernel("f",
                                                     "\x7f"
                                                     "ELF one"));
  made.kernels.kernels.emplace("b", kernel("g", std::string_view("\x7f"
                                                                 "ELF\0two",
                                                                 8)));
  made.sizes = {{{"M", 1}, {"N", 4096}}, {}};
  run::KnownChoice choice;
  choice.key = {"NVIDIA H200", "problem", "m<=16", "tools"};
  choice.choice.candidate = *launch::parse_candidate("mma_tn_128x128x32_f2_d16 swizzle=2");
  made.choices.push_back(choice);
  return made;
}

std::string images(const run::Bundle& of) {
  std::string bytes;
  append_kernels(of, bytes);
  return bytes;
}

Result<run::Bundle> read(const std::string& header, std::string_view bytes) {
  ATTACCA_TRY(const json::Value parsed, json::parse(header, "test"));
  return read_bundle(parsed, bytes, "test");
}

TEST(BundleFile, ComesBackEqual) {
  const run::Bundle before = bundle();
  const std::string header = json::dump(bundle_json(before)), bytes = images(before);
  const auto after = read(header, bytes);
  ASSERT_TRUE(after) << to_string(after.error());
  EXPECT_EQ(json::dump(bundle_json(*after)), header);
  EXPECT_EQ(images(*after), bytes);
  EXPECT_EQ(after->sizes, before.sizes);
  EXPECT_EQ(after->kernels.templates, before.kernels.templates);
  EXPECT_EQ(after->choices[0].choice.candidate, before.choices[0].choice.candidate);
  EXPECT_EQ(*after->kernels.kernels.at("b").image, *before.kernels.kernels.at("b").image);
}

TEST(BundleFile, WhatTheHeaderMustSay) {
  const std::string header = json::dump(bundle_json(bundle())), bytes = images(bundle());
  const auto refused = [&](std::string_view from, std::string_view to) {
    std::string changed = header;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto made = read(changed, bytes);
    return made ? std::string("accepted") : made.error().what;
  };
  EXPECT_EQ(refused("\"library\"", "\"libary\""), "no library of the type that a plan has");
  EXPECT_EQ(refused("\"capability\": 90", "\"capability\": -90"), "capability -90 of a bundle");
  EXPECT_EQ(refused("\"M\": 1", "\"M\": true"), "size M of a bundle is no number");
  EXPECT_EQ(refused("\"bytes\": 8", "\"bytes\": 7"), "1 bytes belong to no kernel");
  EXPECT_EQ(refused("\"bytes\": 8", "\"bytes\": -1"), "kernel f has -1 bytes of 16");
  EXPECT_EQ(refused("\"bytes\": 8", "\"bytes\": 17"), "kernel f has 17 bytes of 16");
  EXPECT_EQ(refused("\"key\": \"b\"", "\"key\": \"a|\\\"key\\\"\\n\""), "kernel g is there twice");
  EXPECT_EQ(refused("\\\"family\\\": \\\"gemm\\\"", "\\\"family\\\": \\\"gem\\\""),
            "`family` of the template's metadata is \"gem\", not gemm or pointwise");
  EXPECT_FALSE(read("3", bytes));
  EXPECT_FALSE(read(header, {}));
}

TEST(BundleFile, Damage) {
  constexpr std::string_view kPieces[] = {
      "\"",         "{",     "}",    "[",       "]", "0",  "-1",          "\\",
      "4294967296", "1e999", "null", "\\u0000", "M", "\n", "\"bytes\": ", "\"kernels\": [{"};
  const auto seed = std::random_device()();
  Mutator mutator(seed);
  const std::string header = json::dump(bundle_json(bundle())), bytes = images(bundle());
  int refused = 0;
  for (int turn = 0; turn < 5000; ++turn) {
    std::string damaged = header, kernels = bytes;
    for (size_t times = 1 + mutator.below(3); times > 0; --times)
      mutator.damage_bytes(mutator.below(8) == 0 ? kernels : damaged, kPieces);
    const auto made = read(damaged, kernels);
    if (made) continue;
    ++refused;
    ASSERT_FALSE(made.error().what.empty()) << "seed " << seed << "\n" << damaged;
  }
  EXPECT_GT(refused, 1000) << "seed " << seed;
}

// In a file, of a plan for the CPU, which needs no device to be read.
class InAFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto plan =
        Plan::compile(*ir::parse_graph("graph g(x: f32[4]) { return y = relu(x) }"), {});
    const std::string whole = *write_plan(**plan);
    header_ = whole.substr(whole.find("\n{") + 1);
    header_.resize(header_.rfind('}'));
    header_ += ",\n  \"bundle\": " + json::dump(bundle_json(bundle())) + "\n}";
  }

  static std::string file(const std::string& header, const std::string& kernels) {
    return fmt::format("attacca-plan 2\n{} 0 {} {:016x}\n{}{}", header.size(), kernels.size(),
                       hash64(header + kernels), header, kernels);
  }

  std::string header_;
};

TEST_F(InAFile, IsRead) {
  const auto plan = read_plan(file(header_, images(bundle())), "test");
  ASSERT_TRUE(plan) << to_string(plan.error());
  const auto again = (*plan)->bundle();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().what, "a plan of the CPU has no kernels to keep");
}

TEST_F(InAFile, EveryLostOrChangedByteIsSeen) {
  std::string whole = file(header_, images(bundle()));
  for (size_t size = 0; size < whole.size(); ++size)
    ASSERT_FALSE(read_plan(std::string_view(whole).substr(0, size), "test")) << size;
  const std::string plan = *write_plan(**read_plan(whole, "test"));
  int harmless = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    char& byte = whole[bit / 8];
    const char before = byte;
    byte = static_cast<char>(byte ^ 1 << bit % 8);
    if (const auto read = read_plan(whole, "test")) {
      ASSERT_EQ(*write_plan(**read), plan) << bit;
      ++harmless;
    } else {
      ASSERT_FALSE(read.error().what.empty() || read.error().fix.empty()) << bit;
      ASSERT_EQ(read.error().where, "test") << bit;
    }
    byte = before;
  }
  EXPECT_LE(harmless, 16);  // a digit of the checksum in the other case
}

TEST_F(InAFile, AConstantLargerThanTheFile) {
  std::string header = header_;
  const std::string none = "\"constants\": []";
  ASSERT_NE(header.find(none), header.npos);
  header.replace(header.find(none), none.size(),
                 R"("constants": [{"input": "c", "name": "c", "dtype": "f32",
                    "shape": [1000000000, 4000000000]}])");
  const auto read = read_plan(file(header, images(bundle())), "test");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().what, "c has too few bytes");
}

TEST(Corpus, Plans) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATTACCA_CORPUS)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << stream.rdbuf();
    fuzz::try_plan(bytes.str());
    ++count;
  }
  EXPECT_GT(count, 100);
}

TEST_F(InAFile, MachineCodeThatNothingDescribes) {
  std::string without = header_;
  without.replace(without.find("\"bundle\""), 8, "\"bundel\"");
  const auto read = read_plan(file(without, "code"), "test");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().what, "machine code that the header does not describe");
}

}  // namespace
}  // namespace attacca::api
