// Scales of blocks that reshapes spread: what becomes scale_blocks, and what must not.
#include "fold_testing.hpp"

namespace attacca::fold {
namespace {

TEST(Blocks, NumbersCutIntoBlocks) {
  expect_graph(
      "(q: f8e4m3[M, 256], s: f32[M, 2]) {"
      " return reshape(cast(reshape(q, [M, 2, 128]), f32) * reshape(s, [M, 2, 1]), [M, 256]) }",
      "(q: f8e4m3[M, 256], s: f32[M, 2]) { return scale_blocks(q, s, [1, 128]) }");
  expect_graph(
      "(q: f8e4m3[M, 256], s: f32[M, 2, 1]) {"
      " return reshape(s * reshape(cast(q, f32), [M, 2, 128]), [M, 256]) }",
      "(q: f8e4m3[M, 256], s: f32[M, 2, 1]) {"
      " return scale_blocks(q, reshape(s, [M, 2]), [1, 128]) }");
  expect_graph(
      "(q: s8[256, 384], s: f32[2, 3]) {"
      " return reshape(reshape(cast(q, f32), [2, 128, 3, 128]) * reshape(s, [2, 1, 3, 1]),"
      " [256, 384]) }",
      "(q: s8[256, 384], s: f32[2, 3]) { return scale_blocks(q, s, [128, 128]) }");
}

TEST(Blocks, MatricesOfGroups) {
  constexpr const char* kFolded =
      "(q: f8e4m3[5, 256, 384], s: f32[5, 2, 3]) { return scale_blocks(q, s, [1, 128, 128]) }";
  expect_graph(
      "(q: f8e4m3[5, 256, 384], s: f32[5, 2, 3]) {"
      " return reshape(reshape(cast(q, f32), [5, 2, 128, 3, 128]) * reshape(s, [5, 2, 1, 3, 1]),"
      " [5, 256, 384]) }",
      kFolded);
  expect_graph(
      "(q: f8e4m3[5, 256, 384], s: f32[5, 2, 3]) { return cast(q, f32) *"
      " reshape(broadcast(reshape(s, [5, 2, 1, 3, 1]), [5, 2, 128, 3, 128]), [5, 256, 384]) }",
      kFolded);
}

TEST(Blocks, ScalesRepeated) {
  expect_graph(
      "(q: f8e4m3[M, 256], s: f32[M, 2]) { return cast(q, f32) *"
      " reshape(broadcast(reshape(s, [M, 2, 1]), [M, 2, 128]), [M, 256]) }",
      "(q: f8e4m3[M, 256], s: f32[M, 2]) { return scale_blocks(q, s, [1, 128]) }");
}

TEST(Blocks, WhatStays) {
  // A scale of each element of a block, of one element, of other types.
  expect_unchanged(
      "(q: f8e4m3[M, 256], s: f32[M, 2, 128]) {"
      " return reshape(cast(reshape(q, [M, 2, 128]), f32) * s, [M, 256]) }");
  expect_unchanged(
      "(q: f8e4m3[M, 256], s: f32[2, 1]) {"
      " return reshape(cast(reshape(q, [M, 2, 128]), f32) * s, [M, 256]) }");
  expect_unchanged(
      "(q: f32[M, 256], s: f32[M, 2, 1]) {"
      " return reshape(reshape(q, [M, 2, 128]) * s, [M, 256]) }");
  // Joined in another order than it was split.
  expect_unchanged(
      "(q: f8e4m3[4, 256], s: f32[4, 2, 1]) {"
      " return reshape(cast(reshape(q, [4, 2, 128]), f32) * s, [8, 128]) }");
}

}  // namespace
}  // namespace attacca::fold
