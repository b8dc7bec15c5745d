// Plans computed several times by one launch, on the stand-in for the driver: what is launched, and
// what is refused. What the kernels compute is tested where they run:
// gpu/awaited_problems_test.cpp.
#include "run/parts/parts.hpp"

#include "gtest/gtest.h"

#include "gpu/fake_cuda.hpp"
#include "ir/text/text.hpp"
#include "run/pipeline.hpp"

namespace attacca::run {
namespace {

// Rows of 120 bytes: what takes them needs no tensor map, which the stand-in cannot encode.
const std::string kInputs = "x: f16[M, 60], w: f16[20, 60], v: f16[20, 60], a: f16[20]";
const std::string kProduct = "return silu(x @ transpose(w) + a)";
const std::string kGate = "return silu(x @ transpose(w)) * (x @ transpose(v))";

Result<CudaPlan> plan_of(const std::string& inputs, const std::string& body,
                         CudaOptions options = {.tuning = Tuning::Model},
                         bool batch_invariant = false) {
  ATTACCA_TRY(const ir::Graph graph, ir::parse_graph("graph g(" + inputs + ") {\n" + body + "\n}"));
  Target target = Target::of({.cuda = true}).value();
  target.batch_invariant = batch_invariant;
  ATTACCA_TRY(Prepared prepared, prepare(graph, target));
  return CudaPlan::make(std::move(prepared), std::move(options));
}

std::vector<void*> addresses(uintptr_t begin, size_t count) {
  std::vector<void*> all;
  for (size_t i = 0; i < count; ++i) all.push_back(reinterpret_cast<void*>(begin + 0x10000 * i));
  return all;
}

struct Launched {
  std::string what;  // failed, or the call
  std::string candidate;
};

// One launch of three parts, of which the second awaits nothing.
Launched launched(const std::string& inputs, size_t count, const std::string& body) {
  const auto plan = plan_of(inputs, body);
  if (!plan) return {to_string(plan.error()), ""};
  const auto parts = make_parts(*plan, {{"M", 24}}, {}, 3);
  if (!parts) return {to_string(parts.error()), ""};
  const std::string name = (*parts)->candidate().kernel;
  const auto& builder = *plan->toolbox()->catalog().find(name)->builder;
  const size_t at =
      ptx::parameters_of_several(builder.params_bytes, builder.params_align, 3, true).signals_at;
  std::string watch;
  for (size_t i = 0; i < 3; ++i) {
    const size_t of_part = at + i * sizeof(ptx::Signals);
    const size_t reported = of_part + offsetof(ptx::Signals, reported);
    watch += "8+" + std::to_string(of_part) + " 4+" + std::to_string(of_part + 8) + " 8+" +
             std::to_string(reported) + " 8+" + std::to_string(reported + 8) + " ";
  }
  std::string said;
  // Again with other values, by the parameters that were built before.
  for (const uint32_t value : {7u, 8u}) {
    fake<decltype(fake_cuda_reset)>("fake_cuda_reset")();
    fake<decltype(fake_cuda_watch)>("fake_cuda_watch")(watch.c_str());
    const std::vector<ptx::Signals> signals{
        {{0x5000, value}, {}}, {{}, {0x7000, 0x7004, value}}, {{0x6000, value + 2}, {}}};
    const Status status =
        (*parts)->launch(addresses(0x100000, 3 * count), addresses(0x9000000, 3), signals, nullptr);
    if (!status) return {to_string(status.error()), name};
    const std::string calls = fake<decltype(fake_cuda_calls)>("fake_cuda_calls")();
    const size_t first = calls.find("cuLaunch");
    if (first == calls.npos || calls.find("cuLaunch", first + 1) != calls.npos)
      return {"not one launch: " + calls, name};
    const std::string call = calls.substr(first, calls.find('\n', first) - first);
    const size_t bits = call.find(" 0x5000");
    said += bits == call.npos ? call : call.substr(bits);
  }
  return {said, name};
}

const std::string kWords =
    " 0x5000 0x7 0 0 0 0 0x7000 0x7004 0x6000 0x9 0 0 0x5000 0x8 0 0 0 0 0x7000 0x7004 0x6000 0xa "
    "0 0";

TEST(Parts, AProductIsOneLaunch) {
  const Launched ran = launched("x: f16[M, 60], w: f16[20, 60], a: f16[20]", 3, kProduct);
  EXPECT_EQ(ran.what, kWords);
  EXPECT_EQ(ran.candidate.find("gate"), std::string::npos);
}

TEST(Parts, AGateIsOneLaunch) {
  const Launched ran = launched("x: f16[M, 60], w: f16[20, 60], v: f16[20, 60]", 3, kGate);
  EXPECT_EQ(ran.what, kWords);
  EXPECT_NE(ran.candidate.find("gate"), std::string::npos);
}

std::string refusal(const std::string& body, size_t parts = 2,
                    CudaOptions options = {.tuning = Tuning::Model}, bool batch_invariant = false) {
  const auto plan = plan_of(kInputs, body, std::move(options), batch_invariant);
  if (!plan) return to_string(plan.error());
  const auto made = make_parts(*plan, {{"M", 24}}, {}, parts);
  return made ? "" : made.error().what;
}

TEST(Parts, RefusesOtherPlans) {
  EXPECT_EQ(refusal(kProduct), "");
  EXPECT_EQ(refusal(kProduct, 1), "1 parts");
  EXPECT_EQ(refusal(kProduct, 9), "9 parts");
  EXPECT_EQ(refusal("return y = x @ transpose(w), z = x @ transpose(v)"), "the plan has 2 regions");
  EXPECT_EQ(refusal("return silu(x)"), "the plan is no product with what follows it");
  EXPECT_EQ(refusal("y = x @ transpose(w); return y = y, z = y"),
            "output z is a copy of an input, a constant or another output");
  EXPECT_EQ(refusal("return y = x @ transpose(w), z = x"),
            "output z is a copy of an input, a constant or another output");
  EXPECT_EQ(refusal(kProduct, 2, {.tuning = Tuning::Unfused}), "the plan is not fused");
  EXPECT_EQ(refusal(kProduct, 2, {.tuning = Tuning::Model}, true), "the plan is batch-invariant");
}

// What a kernel loads in a slot may have no address, if nothing else reads it.
TEST(Parts, InputsThatMayBeAbsent) {
  const std::string inputs = "x: f16[M, 64], w: f16[64, 64], a: f16[64], f: f16[M, 64]";
  const auto absent = [&](const std::string& body) {
    const auto plan = plan_of(inputs, body);
    EXPECT_TRUE(plan) << to_string(plan.error());
    const auto parts = make_parts(*plan, {{"M", 24}}, {}, 2);
    EXPECT_TRUE(parts) << to_string(parts.error());
    std::string found;
    for (size_t i = 0; i < 5; ++i) found += (*parts)->may_be_absent(i) ? '1' : '0';
    return found;
  };
  EXPECT_EQ(absent("return x @ transpose(w) + a + f"), "00010");
  EXPECT_EQ(absent("return x @ transpose(w) + a + x * f")[0], '0');  // x is the product's, too
}

TEST(Parts, RefusesAddressesAndWordsThatDoNotFit) {
  fake<decltype(fake_cuda_watch)>("fake_cuda_watch")("");  // not where words of three parts lie
  const auto plan = plan_of(kInputs, kProduct);
  ASSERT_TRUE(plan) << to_string(plan.error());
  const auto parts = make_parts(*plan, {{"M", 24}}, {}, 2);
  ASSERT_TRUE(parts) << to_string(parts.error());
  const std::vector<ptx::Signals> signals(2);
  const auto inputs = addresses(0x100000, 8), outputs = addresses(0x9000000, 2);
  const auto what = [&](std::vector<void*> in, std::span<void* const> out,
                        std::span<const ptx::Signals> of_parts) {
    const Status status = (*parts)->launch(in, out, of_parts, nullptr);
    return status ? std::string() : status.error().what;
  };
  EXPECT_EQ(what(inputs, outputs, signals), "");
  EXPECT_EQ(what(addresses(0x100000, 4), outputs, signals),
            "4 addresses of inputs for 2 parts of 4");
  EXPECT_EQ(what(inputs, std::span(outputs).first(1), signals),
            "1 addresses of outputs for 2 parts of 1");
  EXPECT_EQ(what(inputs, outputs, std::span(signals).first(1)), "signals of 1 parts for 2");
  std::vector<void*> odd = inputs;
  odd[5] = reinterpret_cast<void*>(0x100008);
  EXPECT_EQ(what(odd, outputs, signals),
            "input 1 of part 1 at 0x100008 is not aligned to 16 bytes");
}

}  // namespace
}  // namespace attacca::run
