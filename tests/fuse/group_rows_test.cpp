// Operands that are a row for each group of a grouped product's rows, written as gathers by the
// groups' numbers.
#include "fuse/device_options.hpp"
#include "fuse_testing.hpp"
#include "support/text/json.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kInputs =
    "x: bf16[R, 64], w: bf16[5, 64, 96], v: bf16[5, 64, 96], o: s32[5], p: s32[5], q: s32[10], "
    "b: bf16[5, 96], c: bf16[6, 96], s: bf16[5, 1], m: bf16[64, 96]";

Partition cut(const std::string& body, const FuseOptions& options = gpu_options()) {
  return partition_of(graph_text(kInputs, body), options);
}
std::string regions(const std::string& body, const FuseOptions& options = gpu_options()) {
  return summary(cut(body, options));
}

TEST(GroupRows, AreRowsOfTheEpilogue) {
  for (const FuseOptions& options : {gpu_options(), FuseOptions{.rows = true}}) {
    const Partition partition =
        cut("return y = relu(grouped_matmul(x, w, o) + gather(b, group_ids(o, [R])))", options);
    EXPECT_EQ(summary(partition), "gemm y = relu(acc + row(b by group))");
    const epilogue::Input& bias = partition.regions[0].epilogue.inputs[1];
    EXPECT_EQ(bias.role, epilogue::Role::Row);
    EXPECT_EQ(bias.group_stride, ir::Dim(96));
    EXPECT_EQ(bias.access, (epilogue::Access{0, {0, 1}}));
    std::vector<std::string> names;
    for (const ir::Value input : partition.regions[0].inputs)
      names.push_back(partition.graph[input].name);
    EXPECT_EQ(names, (std::vector<std::string>{"x", "w", "o", "b"}));
    EXPECT_NE(json::dump(explain_json(partition)).find("\"group_stride\": 96"), std::string::npos);
  }
}

TEST(GroupRows, OneNumberForEachGroupIsAScalar) {
  EXPECT_EQ(regions("return y = grouped_matmul(x, w, o) * gather(s, group_ids(o, [R]))"),
            "gemm y = acc * scalar(s by group)");
}

TEST(GroupRows, HalvesAndAlternateColumnsOfGates) {
  const std::string bias = "h = grouped_matmul(x, w, o) + gather(b, group_ids(o, [R]))\n";
  EXPECT_EQ(regions(bias + "return y = silu(h[:, ::2]) * h[:, 1::2]"),
            "gated y = silu(acc0 + row(b[0::2] by group)) * (acc1 + row(b[1::2] by group))");
  EXPECT_EQ(regions(bias + "return y = silu(h[:, :48]) * h[:, 48:]"),
            "gated y = silu(acc0 + row(b[0:] by group)) * (acc1 + row(b[48:] by group))");
  EXPECT_EQ(regions("e = gather(b, group_ids(o, [R]))\n"
                    "return y = silu(grouped_matmul(x, w, o) + e) * (grouped_matmul(x, v, o) + e)"),
            "gated y = silu(acc0 + row(b by group)) * (acc1 + row(b by group))");
}

TEST(GroupRows, ViewsOfOffsetsAndOfTheTable) {
  EXPECT_EQ(regions("e = q[::2]\nreturn y = grouped_matmul(x, w, e) + "
                    "gather(c[1:6], group_ids(q[::2], [R]))"),
            "gemm y = acc + row(c by group)");
}

// What is not the group of the product's rows stays an index.
TEST(GroupRows, OtherNumbersAreIndices) {
  const auto with = [](const std::string& table, const std::string& index) {
    return regions("i = " + index + "\nreturn y = grouped_matmul(x, w, o) + gather(" + table +
                   ", i)");
  };
  const std::string indexed = "single i; gemm y = acc + full(b[i])";
  EXPECT_EQ(with("b", "group_ids(p, [R])"), indexed);
  EXPECT_EQ(with("b", "group_ids(q[0:5], [R])"), "single t10; " + indexed);
  EXPECT_EQ(with("c", "group_ids(o, [R])"), "single i; gemm y = acc + full(c[i])");
  const std::string view = "single t10; gemm y = acc + full(b[t10])";
  EXPECT_EQ(with("b", "group_ids(o, [R + 3])[0:R]"), view);
  EXPECT_EQ(with("b", "group_ids(o, [2 * R])[0:2 * R:2]"), view);
  EXPECT_EQ(regions("i = group_ids(o, [R])\nreturn y = x @ m + gather(b, i)"),
            "single i; gemm y = acc + full(b[i])");
}

TEST(GroupRows, TheNumbersAreComputedForOtherReaders) {
  EXPECT_EQ(regions("i = group_ids(o, [R])\ny = grouped_matmul(x, w, o) + gather(b, i)\n"
                    "return y, i"),
            "single i; gemm y = acc + row(b by group)");
}

TEST(GroupRows, NotWithoutKernelsForGroups) {
  EXPECT_EQ(regions("return y = grouped_matmul(x, w, o) + gather(b, group_ids(o, [R]))",
                    gpu_options(false)),
            "single t10; single t11; single t12; pointwise y = full(t10) + full(t12)");
}

}  // namespace
}  // namespace attacca::fuse::testing
