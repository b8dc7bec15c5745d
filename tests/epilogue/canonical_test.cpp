// Equal epilogues serialise alike, whatever their graphs look like; different ones do not.
#include "gtest/gtest.h"

#include "fuse/fuse.hpp"
#include "ir/text/text.hpp"

namespace attacca::epilogue {
namespace {

Epilogue first_epilogue(const std::string& parameters, const std::string& body) {
  const std::string text = "graph g(" + parameters + ") {\n" + body + "\n}\n";
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error())) << text;
  const fuse::Partition result = fuse::partition(*std::move(graph));
  for (const fuse::Region& region : result.regions)
    if (region.kind != fuse::RegionKind::Single) return region.epilogue;
  return {};
}

struct Written {
  const char* parameters;
  const char* body;
};

struct Pair {
  const char* name;
  Written a, b;
};

constexpr const char* kBf16 = "x: bf16[M, 8], w: bf16[8, 4], b: bf16[4], r: bf16[M, 4]";

class Alike : public ::testing::TestWithParam<Pair> {};

TEST_P(Alike, SerialiseAlike) {
  const auto& [name, a, b] = GetParam();
  const Epilogue first = first_epilogue(a.parameters, a.body);
  const Epilogue second = first_epilogue(b.parameters, b.body);
  EXPECT_EQ(serialize(first), serialize(second));
  EXPECT_EQ(hash(first), hash(second));
  // The numbering agrees too, so that code compiled for the one binds the operands of the other.
  ASSERT_EQ(first.inputs.size(), second.inputs.size());
  for (size_t i = 0; i < first.inputs.size(); ++i) {
    EXPECT_EQ(first.inputs[i].role, second.inputs[i].role);
    EXPECT_EQ(first.inputs[i].dtype, second.inputs[i].dtype);
  }
}

const Pair kAlike[] = {
    {"names_and_extents",
     {kBf16, "y = relu(x @ w + b); return y"},
     {"a: bf16[N, 32], b: bf16[32, 16], c: bf16[16]", "z = relu(a @ b + c); return z"}},
    {"commuted_operands", {kBf16, "return (x @ w + b) * r"}, {kBf16, "return r * (b + x @ w)"}},
    {"order_of_definition",
     {kBf16, "p = cast(b, f32); h = cast(x @ w, f32); return h + p"},
     {kBf16, "h = cast(x @ w, f32); p = cast(b, f32); return h + p"}},
    {"operands_told_apart_by_use",
     {"x: f32[M, 8], w: f32[8, 4], p: f32[M, 4], q: f32[M, 4]", "return x @ w + p * q + silu(p)"},
     {"x: f32[M, 8], w: f32[8, 4], p: f32[M, 4], q: f32[M, 4]",
      "return silu(q) + (q * p + x @ w)"}},
    {"order_of_outputs",
     {kBf16, "h = x @ w; y = relu(h); return h, y"},
     {kBf16, "h = x @ w; y = relu(h); return y, h"}},
    {"order_of_products",
     {"x: f32[M, 8], w: f32[8, 4], v: f32[8, 4]", "g = x @ w; u = x @ v; return silu(g) * u"},
     {"x: f32[M, 8], w: f32[8, 4], v: f32[8, 4]", "u = x @ v; g = x @ w; return silu(g) * u"}},
    {"transposed_or_plain_weights",
     {"x: f32[M, 8], w: f32[8, 4]", "return relu(x @ w)"},
     {"x: f32[M, 8], w: f32[4, 8]", "return relu(x @ transpose(w))"}},
    {"padding",
     {"x: f32[M, 8], w: f32[8, 4], r: f32[M, 4]", "return x @ w + r"},
     {"x: f32[M, 8], w: f32[8, 4], r: f32[M, 4; 6, 1]", "return x @ w + r"}},
};
INSTANTIATE_TEST_SUITE_P(Pairs, Alike, ::testing::ValuesIn(kAlike),
                         [](const auto& info) { return info.param.name; });

class Different : public ::testing::TestWithParam<Pair> {};

TEST_P(Different, SerialiseDifferently) {
  const auto& [name, a, b] = GetParam();
  EXPECT_NE(serialize(first_epilogue(a.parameters, a.body)),
            serialize(first_epilogue(b.parameters, b.body)));
}

const Pair kDifferent[] = {
    {"ops", {kBf16, "return relu(x @ w)"}, {kBf16, "return silu(x @ w)"}},
    {"operand_order_of_sub", {kBf16, "return x @ w - r"}, {kBf16, "return r - x @ w"}},
    // max(-0, +0) is its right operand.
    {"operand_order_of_max", {kBf16, "return max(x @ w, r)"}, {kBf16, "return max(r, x @ w)"}},
    {"parameters", {kBf16, "return clamp(x @ w, max=6)"}, {kBf16, "return clamp(x @ w, max=7)"}},
    {"literals", {kBf16, "return x @ w * 2"}, {kBf16, "return x @ w * 3"}},
    {"roles", {kBf16, "return x @ w + b"}, {kBf16, "return x @ w + r"}},
    {"compute_types",
     {kBf16, "return add(x @ w, b)"},
     {kBf16, "return add(x @ w, b, compute=bf16)"}},
    {"output_dtypes", {kBf16, "return cast(x @ w, f32)"}, {kBf16, "return cast(x @ w, f16)"}},
    {"saturation",
     {kBf16, "return cast(x @ w, s8)"},
     {kBf16, "return cast(x @ w, s8, saturate=true)"}},
    {"operand_dtypes",
     {"x: f32[M, 8], w: f32[8, 4], b: bf16[4]", "return x @ w + b"},
     {"x: f32[M, 8], w: f32[8, 4], b: f32[4]", "return x @ w + b"}},
    {"inner_strides",
     {"x: f32[M, 8], w: f32[8, 4], r: f32[M, 4]", "return x @ w + r"},
     {"x: f32[M, 8], w: f32[8, 4], r: f32[4, M]", "return x @ w + transpose(r)"}},
    {"one_operand_or_two",
     {"x: f32[M, 8], w: f32[8, 4], p: f32[M, 4], q: f32[M, 4]", "return (x @ w + p) * p"},
     {"x: f32[M, 8], w: f32[8, 4], p: f32[M, 4], q: f32[M, 4]", "return (x @ w + p) * q"}},
    {"one_product_or_two",
     {"x: f32[M, 8], w: f32[8, 4], v: f32[8, 4]", "return (x @ w) * silu(x @ v)"},
     {"x: f32[M, 8], w: f32[8, 8]", "h = x @ w; return h[:, 0:4] * silu(h[:, 4:8])"}},
    {"reductions",
     {kBf16, "return amax(x @ w, axes=[1])"},
     {kBf16, "return reduce_max(x @ w, axes=[1])"}},
};
INSTANTIATE_TEST_SUITE_P(Pairs, Different, ::testing::ValuesIn(kDifferent),
                         [](const auto& info) { return info.param.name; });

TEST(Canonical, IsAFixedPoint) {
  const Epilogue epilogue = first_epilogue(kBf16, "h = x @ w + b; return silu(h) * r + h, h");
  EXPECT_EQ(serialize(canonicalize(epilogue)), serialize(epilogue));
}

TEST(Canonical, LeavesOutWhatNoOutputNeeds) {
  Epilogue epilogue = first_epilogue(kBf16, "return relu(x @ w + b) * r");
  const std::string text = serialize(epilogue);
  epilogue.nodes.push_back(epilogue.nodes.back());
  EXPECT_EQ(serialize(epilogue), text);
}

TEST(Canonical, TextIsStable) {
  EXPECT_EQ(serialize(first_epilogue(kBf16, "return clamp(x @ w + b, max=6) * r")),
            "epilogue rank=2\n"
            "i0 = acc f32 rounded=bf16 step=1 offset=0 gemm=0\n"
            "i1 = row bf16 [0 1]\n"
            "i2 = full bf16 [s 1]\n"
            "n0 = add :bf16 i0 i1\n"
            "n1 = clamp -inf 6 :bf16 n0\n"
            "n2 = mul :bf16 i2 n1\n"
            "store bf16 [s 1] = n2\n");
}

}  // namespace
}  // namespace attacca::epilogue
