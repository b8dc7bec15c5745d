// Strides and offsets of operands.
#include "fmt/format.h"

#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

std::string text_of(const epilogue::Access& access) {
  return fmt::format("{} {}", to_string(access.offset), to_string(ir::Shape(access.strides)));
}

// "role dtype offset strides" of each operand, and A and B of each product.
std::string accesses(const std::string& parameters, const std::string& body) {
  const Partition result = partition_of(graph_text(parameters, body));
  std::vector<std::string> parts;
  const auto source = [&](ir::Value value) { return epilogue::display_name(result.graph, value); };
  for (const Region& region : result.regions) {
    for (const Gemm& gemm : region.gemms) {
      parts.push_back(source(gemm.a.source) + " " + text_of(gemm.a.access));
      parts.push_back(source(gemm.b.source) + " " + text_of(gemm.b.access));
    }
    for (const epilogue::Input& input : region.epilogue.inputs)
      if (input.role != epilogue::Role::Accumulator)
        parts.push_back(fmt::format("{}({}) {}", name(input.role), source(input.source),
                                    text_of(input.access)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

struct AccessCase {
  const char* name;
  const char* parameters;
  const char* body;
  const char* expected;
};

class Accesses : public ::testing::TestWithParam<AccessCase> {};

TEST_P(Accesses, Are) {
  EXPECT_EQ(accesses(GetParam().parameters, GetParam().body), GetParam().expected);
}

const AccessCase kCases[] = {
    {"row_major_b", "x: f32[M, 8], w: f32[8, 4]", "return x @ w", "x 0 [8, 1], w 0 [4, 1]"},
    {"transposed_weight", "x: f32[M, 8], w: f32[4, 8]", "return x @ transpose(w)",
     "x 0 [8, 1], w 0 [1, 8]"},
    {"permuted_weight", "x: f32[M, 8], w: f32[4, 8]", "return x @ permute(w, [1, 0])",
     "x 0 [8, 1], w 0 [1, 8]"},
    {"strided_weight", "x: f32[M, 8], w: f32[8, 4; 10, 1]", "return x @ w",
     "x 0 [8, 1], w 0 [10, 1]"},
    {"sliced_weight", "x: f32[M, 8], w: f32[8, 12]", "return x @ w[:, 4:12:2]",
     "x 0 [8, 1], w 4 [12, 2]"},
    {"sliced_rows", "x: f32[M, 16], w: f32[8, 4]", "return x[:, 8:16] @ w",
     "x 8 [16, 1], w 0 [4, 1]"},
    {"both_transposed", "x: f32[8, M], w: f32[4, 8]", "return transpose(x) @ transpose(w)",
     "x 0 [1, M], w 0 [1, 8]"},
    {"shared_weight_of_a_batch", "x: f32[B, S, 8], w: f32[8, 4]", "return x @ w",
     "x 0 [8*S, 8, 1], w 0 [0, 4, 1]"},
    {"flattened_batch", "x: f32[B, S, 8], w: f32[8, 4]", "return reshape(x, [B*S, 8]) @ w",
     "x 0 [8, 1], w 0 [4, 1]"},
    {"heads_split_and_permuted", "x: f32[B, S, 6], w: f32[B, 3, 2, T]",
     "return permute(reshape(x, [B, S, 3, 2]), [0, 2, 1, 3]) @ w",
     "x 0 [6*S, 2, 6, 1], w 0 [6*T, 2*T, T, 1]"},
    {"padded_operand", "x: f32[M, 8], w: f32[8, 4], r: f32[M, 4; 6, 1]", "return x @ w + r",
     "x 0 [8, 1], w 0 [4, 1], full(r) 0 [6, 1]"},
    {"broadcast_operand", "x: f32[M, 8], w: f32[8, 4], r: f32[M, 4; 1, 0]", "return x @ w + r",
     "x 0 [8, 1], w 0 [4, 1], col(r) 0 [1, 0]"},
    {"transposed_operand", "x: f32[M, 8], w: f32[8, 4], r: f32[4, M]",
     "return x @ w + transpose(r)", "x 0 [8, 1], w 0 [4, 1], full(r) 0 [1, M]"},
    {"operand_of_three_axes", "x: f32[2*S, 8], w: f32[8, 4], r: f32[2, S, 4; 9*S, 9, 1]",
     "return reshape(x @ w, [2, S, 4]) + r", "x 0 [8, 1], w 0 [4, 1], full(r) 0 [9, 1]"},
    {"merged_operand", "x: f32[2, S, 8], w: f32[8, 4], r: f32[2*S, 4; 5, 1]",
     "return reshape(x @ w, [2*S, 4]) + r",
     "x 0 [8*S, 8, 1], w 0 [0, 4, 1], full(r) 0 [5*S, 5, 1]"},
    {"batch_row", "x: f32[B, S, 8], w: f32[8, 4], r: f32[B, 1, 4]", "return x @ w + r",
     "x 0 [8*S, 8, 1], w 0 [0, 4, 1], row(r) 0 [4, 0, 1]"},
    {"one_row", "x: f32[1, 8], w: f32[8, 4], r: f32[1, 4], c: f32[1, 1]", "return x @ w + r * c",
     "x 0 [8, 1], w 0 [4, 1], row(r) 0 [0, 1], scalar(c) 0 [0, 0]"},
    {"bias_of_both_halves", "x: f32[M, 8], w: f32[8, 12], b: f32[12]",
     "h = x @ w + b; return swiglu(h[:, 0:6], h[:, 6:12])",
     "x 0 [8, 1], w 0 [12, 1], row(b) 0 [0, 1], row(b) 6 [0, 1]"},
    {"full_operand_before_the_split", "x: f32[M, 8], w: f32[8, 12], r: f32[M, 12]",
     "h = x @ w + r; return swiglu(h[:, ::2], h[:, 1::2])",
     "x 0 [8, 1], w 0 [12, 1], full(r) 0 [12, 2], full(r) 1 [12, 2]"},
};
INSTANTIATE_TEST_SUITE_P(Cases, Accesses, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Accumulator, OfEachKindOfProduct) {
  const auto text = [](const std::string& parameters, const std::string& body) {
    const Partition result = partition_of(graph_text(parameters, body));
    const Region& region = result.regions.at(0);
    std::string parts;
    for (const epilogue::Input& input : region.epilogue.inputs)
      if (input.role == epilogue::Role::Accumulator)
        parts +=
            fmt::format("[{} {} gemm {} from {} step {}]", name(input.dtype), name(input.rounded),
                        input.gemm, to_string(input.column_offset), input.column_step);
    return parts;
  };
  EXPECT_EQ(text("x: bf16[M, 8], w: bf16[8, 4]", "return x @ w"),
            "[f32 bf16 gemm 0 from 0 step 1]");
  EXPECT_EQ(text("x: s8[M, 8], w: u8[8, 4]", "return x @ w"), "[s32 s32 gemm 0 from 0 step 1]");
  EXPECT_EQ(text("x: f64[M, 8], w: f64[8, 4]", "return x @ w"), "[f64 f64 gemm 0 from 0 step 1]");
  EXPECT_EQ(text("x: f8e4m3[M, 8], w: f8e5m2[8, 4]", "return matmul(x, w, out=f16)"),
            "[f32 f16 gemm 0 from 0 step 1]");
  EXPECT_EQ(text("x: f16[M, 8], w: f16[8, 4]", "h = x @ w\nreturn swiglu(h[:, 0:2], h[:, 2:4])"),
            "[f32 f16 gemm 0 from 0 step 1][f32 f16 gemm 0 from 2 step 1]");
  EXPECT_EQ(text("x: f16[M, 8], w: f16[8, 2*I]", "h = x @ w\nreturn h[:, ::2] * silu(h[:, 1::2])"),
            "[f32 f16 gemm 0 from 1 step 2][f32 f16 gemm 0 from 0 step 2]");
  EXPECT_EQ(text("x: f16[M, 8], w: f16[8, 4], v: f16[8, 4]", "return silu(x @ w) * (x @ v)"),
            "[f32 f16 gemm 0 from 0 step 1][f32 f16 gemm 1 from 0 step 1]");
}

}  // namespace
}  // namespace attacca::fuse::testing
