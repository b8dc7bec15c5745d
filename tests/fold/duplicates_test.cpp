// Equal ops become one, different ones stay apart.
#include "fold/duplicates.hpp"

#include "fold_testing.hpp"

namespace attacca::fold {
namespace {

void expect_merged(const std::string& before, const std::string& after) {
  const ir::Graph result = merge_duplicates(graph_of("graph g" + before)).graph;
  EXPECT_EQ(ir::print_graph(result), ir::print_graph(graph_of("graph g" + after))) << before;
  EXPECT_TRUE(ir::verify(result).has_value());
}

TEST(Duplicates, BecomeOne) {
  expect_merged(
      "(x: f32[M, 8]) { a = reshape(x, [8*M]); b = reshape(x, [8*M]); c = exp(a); d = exp(b); "
      "return c + d }",
      "(x: f32[M, 8]) { a = reshape(x, [8*M]); c = exp(a); return c + c }");
  expect_merged("(x: f32[M, 8]) { a = sum(x, axes=[1]); b = sum(x, axes=[1]); return a, exp(b) }",
                "(x: f32[M, 8]) { a = sum(x, axes=[1]); return a, exp(a) }");
  expect_merged("(x: f32[M, 8], w: f32[8, 4]) { y = x @ w; z = x @ w; return y, z }",
                "(x: f32[M, 8], w: f32[8, 4]) { y = x @ w; return y, z = y }");
}

TEST(Duplicates, NotWhatDiffers) {
  for (const char* text : {
           "(x: f32[M, 8]) { return sum(x, axes=[0]), sum(x, axes=[1]) }",
           "(x: f32[M, 8]) { return x * 2, x * 3, x * -2 }",
           "(x: f32[M, 8], y: f32[M, 8]) { return x - y, y - x }",
           "(x: f32[M, 8]) { return clamp(x, min=0, max=1), clamp(x, min=0, max=2) }",
           "(x: f32[M, 8]) { return clamp(x, max=0), clamp(x, max=-0.0) }",
           "(x: f32[M, 8]) { return cast(x, u8), cast(x, u8, saturate=true), cast(x, s8) }",
           "(x: f32[M, 8]) { return x + 0.0, x + -0.0 }",
       })
    expect_merged(text, text);
}

}  // namespace
}  // namespace attacca::fold
