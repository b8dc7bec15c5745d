// The plan's file: a written plan is read back; a damaged file is refused.
#include "api/plan_file.hpp"

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "mutate.hpp"
#include "support/check.hpp"
#include "support/hash.hpp"

namespace attacca::api {
namespace {

constexpr const char* kGraph =
    "graph \"a b\"(x: bf16[M, 4; 8, 1], s: f32[]) {\n"
    "  w = constant(bf16[4, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, "
    "19, 20])\n"
    "  h = x @ w + constant(f32[5], [1, 2, nan, -0.0, inf])\n"
    "  k = h * constant(f32[18, 1, 1], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
    "17, 18])\n"
    "  return y = silu(h) * s, k\n"
    "}\n";

std::shared_ptr<const Plan> plan(const char* text = kGraph, const Options& options = {},
                                 std::vector<run::KnownChoice> choices = {}) {
  const auto graph = ir::parse_graph(text);
  ATTACCA_CHECK(graph.has_value(), graph.error().what);
  const auto made = Plan::compile(*graph, options, std::move(choices));
  ATTACCA_CHECK(made.has_value(), made.error().what);
  return *made;
}

std::string with_checksum(const std::string& header, const std::string& constants) {
  return fmt::format("attacca-plan 1\n{} {} {:016x}\n{}{}", header.size(), constants.size(),
                     hash64(header + constants), header, constants);
}

// The header and the constants of a good file.
std::pair<std::string, std::string> parts(const std::string& file) {
  const size_t line = file.find('\n') + 1;
  const size_t body = file.find('\n', line) + 1;
  const auto header = static_cast<size_t>(std::stoll(file.substr(line)));
  return {file.substr(body, header), file.substr(body + header)};
}

TEST(PlanFile, ComesBackEqual) {
  Options options;
  options.mode = ir::Mode::Eager;
  options.tuning = run::Tuning::Measure;
  options.tuning_seconds = 2.5;
  options.threads = 3;
  options.fuse = false;
  options.batch_invariant = true;
  const tune::ChoiceKey key{"NVIDIA H200", "fp32|\"quoted\"", "m<=16 n=5 batch=1 k=4", "tools"};
  tune::Choice choice;
  choice.candidate = *launch::parse_candidate("unfused algorithm=3");
  choice.seconds = 1.0 / 3;
  choice.unfused_seconds = 2.0 / 3;
  const auto before = plan(kGraph, options, {{key, choice}});
  const std::string file = *write_plan(*before);
  const auto after = read_plan(file, "test");
  ASSERT_TRUE(after) << to_string(after.error());
  EXPECT_EQ(ir::print_graph((*after)->graph()), ir::print_graph(before->graph()));
  EXPECT_EQ((*after)->options().mode, options.mode);
  EXPECT_EQ((*after)->options().tuning, options.tuning);
  EXPECT_EQ((*after)->options().tuning_seconds, options.tuning_seconds);
  EXPECT_EQ((*after)->options().threads, options.threads);
  EXPECT_EQ((*after)->options().fuse, options.fuse);
  EXPECT_EQ((*after)->options().batch_invariant, options.batch_invariant);
  ASSERT_EQ((*after)->choices().size(), 1u);
  EXPECT_EQ((*after)->choices()[0].key, key);
  EXPECT_EQ((*after)->choices()[0].choice.candidate, choice.candidate);
  EXPECT_EQ((*after)->choices()[0].choice.seconds, choice.seconds);
  EXPECT_EQ((*after)->choices()[0].choice.unfused_seconds, choice.unfused_seconds);
  EXPECT_EQ(*write_plan(**after), file);
}

// Weights that the plan has side by side are in the memory of the joined ones; its file has them as
// they were.
TEST(PlanFile, HasWeightsThatWereJoinedOnce) {
  const std::string graph =
      "graph g(x: f32[M, 2]) {\n"
      "  wq = constant(f32[2, 12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, "
      "19, 20, 21, 22, 23, 24])\n"
      "  wk = constant(f32[12, 2], [9, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, "
      "19, 20, 21, 22, 23, 29])\n"
      "  return y = (x @ wq) @ transpose(x @ transpose(wk))\n"
      "}\n";
  const auto made = plan(graph.c_str());
  EXPECT_EQ(ir::print_graph(made->graph()), ir::print_graph(*ir::parse_graph(graph)));
  const ir::Graph& joined = made->partition().graph;
  const ir::Value b = made->partition().regions[0].gemms[0].b.source;
  const ir::Tensor& memory = *joined[b].tensor;
  ASSERT_EQ(memory.size(), 48);
  for (const char* name : {"wq", "wk"}) {
    const std::byte* data = made->graph()[*made->graph().find(name)].tensor->data();
    EXPECT_TRUE(data >= memory.data() && data < memory.data() + memory.bytes()) << name;
  }
  Options apart;
  apart.fuse = false;
  const auto [header, constants] = parts(*write_plan(*made));
  EXPECT_EQ(constants, parts(*write_plan(*plan(graph.c_str(), apart))).second);
  const auto after = read_plan(*write_plan(*made), "test");
  ASSERT_TRUE(after) << to_string(after.error());
  EXPECT_EQ(ir::print_graph((*after)->graph()), ir::print_graph(made->graph()));
}

TEST(PlanFile, DescribesItself) {
  const std::string file = *write_plan(*plan());
  EXPECT_TRUE(file.starts_with("attacca-plan 1\n"));
  const auto [header, constants] = parts(file);
  EXPECT_NE(header.find("\"mode\": \"fp32\""), std::string::npos);
  Options invariant;
  invariant.batch_invariant = true;
  EXPECT_NE(write_plan(*plan(kGraph, invariant))->find("\"mode\": \"fp32+batch_invariant\""),
            std::string::npos);
  EXPECT_NE(header.find("constant 0"), std::string::npos) << header;
  EXPECT_EQ(constants.size(), 20 * 2 + 18 * 4u);  // the small one stays in the text
}

TEST(PlanFile, AnInputThatHasTheNameOfAConstant) {
  const auto before = plan(
      "graph g(\"constant 0\": f32[17]) { return y = \"constant 0\" * constant(f32[17], [1, 2, 3, "
      "4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]) }");
  const auto after = read_plan(*write_plan(*before), "test");
  ASSERT_TRUE(after) << to_string(after.error());
  EXPECT_EQ(ir::print_graph((*after)->graph()), ir::print_graph(before->graph()));
}

// JSON has no such bytes.
TEST(PlanFile, ConstantsWhoseNamesAreNoText) {
  const auto before = plan(
      "graph g(x: f32[17]) {\n"
      "  \"w\\xff\" = constant(f32[17], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
      "17])\n"
      "  \"w\\xfe\" = constant(f32[17], [17, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
      "17])\n"
      "  return y = x * \"w\\xff\" + \"w\\xfe\"\n}\n");
  const auto after = read_plan(*write_plan(*before), "test");
  ASSERT_TRUE(after) << to_string(after.error());
  EXPECT_EQ(ir::print_graph((*after)->graph()), ir::print_graph(before->graph()));
  EXPECT_NE(ir::print_graph(before->graph()).find("w\\xfe"), std::string::npos);
}

TEST(PlanFile, EveryLostByteIsSeen) {
  const std::string file = *write_plan(*plan());
  for (size_t size = 0; size < file.size(); ++size)
    ASSERT_FALSE(read_plan(std::string_view(file).substr(0, size), "test")) << size;
}

TEST(PlanFile, EveryChangedByteIsSeen) {
  std::string file = *write_plan(*plan());
  for (size_t at = 0; at < file.size(); ++at) {
    const char kept = file[at];
    file[at] = static_cast<char>(kept ^ 0x11);
    const auto read = read_plan(file, "test.plan");
    ASSERT_FALSE(read) << at;
    EXPECT_FALSE(read.error().what.empty());
    EXPECT_EQ(read.error().where, "test.plan");
    EXPECT_FALSE(read.error().fix.empty());
    file[at] = kept;
  }
}

// Damage with a corrected checksum: the file is a valid plan or is refused.
TEST(PlanFile, DamageWithAGoodChecksum) {
  constexpr std::string_view kPieces[] = {
      "\"",    "{",      "}",   "[",         "]",        "0",     "-1",      "4294967296",
      "null",  "[M, 4]", "M",   "bf16",      "constant", "1e999", "\\u0000", "\"shape\": []",
      "cuda:", "\n",     "f32", "constant 0"};
  const auto seed = std::random_device()();
  const auto [header, constants] = parts(*write_plan(*plan()));
  Mutator mutator(seed);
  int refused = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    std::string damaged = header, bytes = constants;
    for (size_t times = 1 + mutator.below(3); times > 0; --times)
      mutator.damage_bytes(mutator.below(8) == 0 ? bytes : damaged, kPieces);
    const auto read = read_plan(with_checksum(damaged, bytes), "test", run::DeviceId{});
    if (read) continue;
    ++refused;
    ASSERT_FALSE(read.error().what.empty()) << "seed " << seed << "\n" << damaged;
  }
  EXPECT_GT(refused, 1000) << "seed " << seed;
}

TEST(PlanFile, WhatTheHeaderMustSay) {
  const auto [header, constants] = parts(*write_plan(*plan()));
  const auto refused = [&](std::string_view from, std::string_view to) {
    std::string changed = header;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto read = read_plan(with_checksum(changed, constants), "test");
    return read ? std::string("accepted") : read.error().what;
  };
  EXPECT_EQ(refused("\"mode\": \"fp32\"", "\"mode\": \"fp31\""), "unknown mode fp31");
  EXPECT_EQ(refused("\"mode\": \"fp32\"", "\"mode\": 1"), "no mode of the type that a plan has");
  EXPECT_EQ(refused("\"device\": \"cpu\"", "\"device\": \"tpu\""), "unknown device tpu");
  EXPECT_EQ(refused("\"threads\": 0", "\"threads\": -1"), "-1 threads");
  EXPECT_EQ(refused("\"dtype\": \"bf16\"", "\"dtype\": \"f32\""), "constant 1 has too few bytes");
  EXPECT_EQ(refused("\"dtype\": \"f32\"", "\"dtype\": \"bf16\""), "36 bytes belong to no constant");
  EXPECT_EQ(refused("\"graph\": ", "\"graf\": "), "no graph of the type that a plan has");
  EXPECT_EQ(refused("\"choices\": []", "\"choices\": [1]"),
            "no device of the type that a plan has");
}

}  // namespace
}  // namespace attacca::api
