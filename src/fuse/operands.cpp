#include "fuse/operands.hpp"

#include <algorithm>
#include <utility>

#include "support/check.hpp"

namespace attacca::fuse {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// How an operand reads the matrices of the value in memory.
enum class MatrixLayout : uint8_t { AsIs, Transposed, Other };

// `rank`: the one that a value whose matrices may be transposed has.
MatrixLayout layout_of(const Facts& facts, Value operand, size_t rank = 2) {
  const View& view = facts.views[operand.id];
  const Shape& shape = facts.graph.type(operand).shape;
  const Shape& own = facts.graph.type(view.source).shape;
  if (!view.access.offset.is(0)) return MatrixLayout::Other;
  std::vector<Dim> dense = dense_strides(own);
  if (shape == own && view.access.strides == dense) return MatrixLayout::AsIs;
  if (own.size() != rank) return MatrixLayout::Other;
  Shape transposed = own;
  std::swap(transposed[rank - 2], transposed[rank - 1]);
  std::swap(dense[rank - 2], dense[rank - 1]);
  const bool is_transposed = shape == transposed && view.access.strides == dense;
  return is_transposed ? MatrixLayout::Transposed : MatrixLayout::Other;
}

// The layout of B, a matrix or the matrices of groups.
MatrixLayout layout_of_b(const Facts& facts, Value matmul) {
  const ir::Node& product = facts.graph[matmul];
  return layout_of(facts, product.operands[1], product.op == Op::GroupedMatMul ? 3 : 2);
}

// The unpack op whose result, transposed and the same for all batches, is B of this product.
std::optional<Value> packed_weights(const Facts& facts, Value matmul) {
  if (facts.graph[matmul].op != Op::MatMul) return std::nullopt;
  const Value operand = facts.graph[matmul].operands[1];
  const View& view = facts.views[operand.id];
  const ir::Node& node = facts.graph[view.source];
  if (node.op != Op::Unpack || facts.graph.type(operand).shape.size() != 2) return std::nullopt;
  // Kernels begin to read weights before the preceding kernel has ended.
  const Op from = facts.graph[node.operands[0]].op;
  if (from != Op::Input && from != Op::Constant) return std::nullopt;
  if (facts.views[facts.graph[matmul].operands[0].id].source == view.source) return std::nullopt;
  const std::vector<Dim> dense = dense_strides(node.type.shape);
  const bool whole =
      facts.graph.type(operand).shape == Shape{node.type.shape[1], node.type.shape[0]};
  const bool transposed = view.access.strides == std::vector<Dim>{dense[1], dense[0]};
  if (!whole || !transposed || !view.access.offset.is(0)) return std::nullopt;
  return view.source;
}

// The cast of bytes whose result, possibly transposed, is B of this product.
std::optional<Value> widened_weights(const Facts& facts, Value matmul) {
  const ir::Node& product = facts.graph[matmul];
  if (product.op != Op::MatMul) return std::nullopt;
  const View& view = facts.views[product.operands[1].id];
  const ir::Node& node = facts.graph[view.source];
  if (node.op != Op::Cast || layout_of(facts, product.operands[1]) == MatrixLayout::Other)
    return std::nullopt;
  const DType dtype = node.type.dtype, from = facts.graph.type(node.operands[0]).dtype;
  if (!ir::is_half(dtype) || !ir::is_byte(from)) return std::nullopt;
  if (facts.graph.type(product.operands[0]).dtype != dtype) return std::nullopt;
  if (facts.views[product.operands[0].id].source == view.source) return std::nullopt;
  const Op origin = facts.graph[facts.views[node.operands[0].id].source].op;
  if (origin != Op::Input && origin != Op::Constant) return std::nullopt;
  return view.source;
}

// Whether all that reads a value are nodes that `reads` names, each of which reads it once, as its
// first operand.
template <class Reads>
bool only_first_operand_of(const Facts& facts, Value value, const Reads& reads) {
  const std::vector<Value>& users = facts.users[value.id];
  return !facts.is_output[value.id] && std::all_of(users.begin(), users.end(), [&](Value user) {
    const ir::Node& node = facts.graph[user];
    return reads(user) && node.operands[0] == value &&
           std::count(node.operands.begin(), node.operands.end(), value) == 1;
  });
}

// Whether a value is A of grouped products and nothing else.
bool only_grouped_products_read(const Facts& facts, Value value) {
  return only_first_operand_of(
      facts, value, [&](Value user) { return facts.graph[user].op == Op::GroupedMatMul; });
}

// The gathered rows that a scale_blocks, A of grouped products, multiplies by their scales.
std::optional<GatheredRows> rows_of_blocks(const Facts& facts, Value scaled) {
  const View& view = facts.views[facts.graph[scaled].operands[0].id];
  const bool alone =
      only_grouped_products_read(facts, scaled) &&
      only_first_operand_of(facts, view.source, [&](Value user) { return user == scaled; });
  if (!alone || !facts.is_dense(view.source, view.access)) return std::nullopt;
  return gathered_rows(facts, view.source);
}

// A matrix of each batch, or its transpose. REQUIRES: a layout other than Other.
GemmOperand matrices_of(const Facts& facts, Value value, MatrixLayout layout, const Shape& batch) {
  const View& view = facts.views[value.id];
  Shape shape = facts.graph.type(value).shape;
  std::vector<Dim> own = view.access.strides;
  if (layout == MatrixLayout::Transposed) {
    std::swap(shape[shape.size() - 2], shape.back());
    std::swap(own[own.size() - 2], own.back());
  }
  Shape whole = batch;
  whole.insert(whole.end(), shape.end() - 2, shape.end());
  std::vector<Dim> strides = broadcast_strides(shape, own, whole);
  // An axis of extent 1 gets the stride that a second row or column would have.
  Dim &row = strides[strides.size() - 2], &column = strides.back();
  if (whole.back().is(1)) column = 1;
  if (whole[whole.size() - 2].is(1)) row = column * whole.back();
  return {
      view.source, facts.graph.type(view.source).dtype, {view.access.offset, std::move(strides)}};
}

GemmOperand operand_of(const Facts& facts, Value matmul, size_t index, const Shape& batch) {
  return matrices_of(facts, facts.graph[matmul].operands[index], MatrixLayout::AsIs, batch);
}

GroupEnds groups_of(const Facts& facts, Value matmul) {
  const Value offsets = facts.graph[matmul].operands[2];
  const View& view = facts.views[offsets.id];
  return {view.source, view.access, facts.graph.type(offsets).shape[0]};
}

// Makes the kernel read the operand of `op`, an unpack or a cast, as B.
void read_quantized(const Facts& facts, Value op, Gemm& gemm) {
  const ir::Node& node = facts.graph[op];
  if (node.op == Op::Unpack) {
    const auto layout = ir::packed_layout(node.get<ir::UnpackAttrs>());
    ATTACCA_CHECK(layout.has_value(), "an unpack op of no layout");
    gemm.b.packed = *layout;
    gemm.b.source = node.operands[0];
    return;
  }
  const MatrixLayout layout = layout_of(facts, facts.graph[gemm.node].operands[1]);
  gemm.b = matrices_of(facts, node.operands[0], layout, gemm.batch);
}

// Makes the kernel read the operands of `op`, an mxfp4 or a decode, as B.
void read_codes(const Facts& facts, Value op, Gemm& gemm) {
  const ir::Node& node = facts.graph[op];
  const auto source = [&](size_t operand) { return facts.views[node.operands[operand].id].source; };
  gemm.b.source = source(0);
  gemm.b.codes = {*ir::code_format(facts.graph, node), source(1)};
  if (node.operands.size() > 2) gemm.b.codes->zeros = source(2);
}

// Makes the kernel read the operands of scale_blocks ops as A and B. `matrices`: the axes in front
// of B's matrices.
void read_scaled(const Facts& facts, const ScaledOperands& scaled, const Shape& matrices,
                 Gemm& gemm) {
  GemmOperand* const operands[] = {&gemm.a, &gemm.b};
  for (size_t i = 0; i < 2; ++i) {
    const MatrixLayout layout = i == 0 ? MatrixLayout::AsIs : layout_of_b(facts, gemm.node);
    const Shape& batch = i == 0 ? gemm.batch : matrices;
    const std::vector<Value>& own = facts.graph[scaled.of[i]].operands;
    *operands[i] = matrices_of(facts, own[0], layout, batch);
    GemmOperand scales = matrices_of(facts, own[1], layout, batch);
    operands[i]->scales = BlockScales{scales.source, std::move(scales.access)};
  }
}

}  // namespace

DType accumulator_of(const Facts& facts, Value product) {
  const ir::Node& node = facts.graph[product];
  if (node.op == Op::Kernel) return node.type.dtype;
  const DType a = facts.graph.type(node.operands[0]).dtype;
  const DType b = facts.graph.type(node.operands[1]).dtype;
  if (ir::is_integer(a)) return DType::S32;
  const bool wide = a == DType::F64 || b == DType::F64 || node.type.dtype == DType::F64;
  return wide ? DType::F64 : DType::F32;
}

std::optional<ScaledOperands> scaled_operands(const Workspace& work, Value matmul) {
  const Facts& facts = work.facts;
  const ir::Node& product = facts.graph[matmul];
  if (!work.options.quantized_operands || !is_product(product.op)) return std::nullopt;
  ScaledOperands result;
  for (size_t i = 0; i < 2; ++i) {
    const Value operand = product.operands[i];
    result.of[i] = facts.views[operand.id].source;
    const ir::Node& node = facts.graph[result.of[i]];
    if (node.op != Op::ScaleBlocks || node.type.shape.size() < 2 ||
        !ir::is_fp8(facts.graph.type(node.operands[0]).dtype) ||
        facts.graph.type(node.operands[1]).dtype != DType::F32)
      return std::nullopt;
    const MatrixLayout layout = i == 0 ? layout_of(facts, operand) : layout_of_b(facts, matmul);
    if (layout != MatrixLayout::AsIs && (i == 0 || layout != MatrixLayout::Transposed))
      return std::nullopt;
    std::vector<int64_t> block(node.type.shape.size(), 1);
    block.back() = kScaleBlock;
    if (i == 1) block[block.size() - 2] = kScaleBlock;
    if (node.get<ir::BlocksAttrs>().block != block) return std::nullopt;
  }
  return result;
}

std::optional<Value> quantized_weights(const Workspace& work, Value matmul) {
  if (!work.options.quantized_operands) return std::nullopt;
  if (const auto packed = packed_weights(work.facts, matmul)) return packed;
  return widened_weights(work.facts, matmul);
}

std::optional<Value> coded_weights(const Workspace& work, Value matmul) {
  const Op op = work.graph()[matmul].op;
  const bool wanted = work.options.codes || (work.options.grouped_codes && op == Op::GroupedMatMul);
  if (!wanted || !is_product(op)) return std::nullopt;
  const Value b = work.graph()[matmul].operands[1];
  const View& view = work.facts.views[b.id];
  const ir::Node& node = work.graph()[view.source];
  const bool decodes = node.op == Op::MxFp4 || node.op == Op::Decode;
  if (!decodes || !view.access.offset.is(0)) return std::nullopt;
  const ir::Shape &shape = work.graph().type(b).shape, &own = node.type.shape;
  if (shape.size() != own.size()) return std::nullopt;
  for (const Value operand : node.operands) {
    if (!work.facts.is_dense(operand, work.facts.views[operand.id].access)) return std::nullopt;
  }
  const bool grouped = op == Op::GroupedMatMul && own.size() == 3 && shape[0] == own[0] &&
                       view.access.strides[0] == dense_strides(own)[0];
  return grouped || own.size() == 2 ? std::optional(view.source) : std::nullopt;
}

std::optional<GatheredRows> gathered_a(const Workspace& work, Value matmul) {
  if (!is_product(work.graph()[matmul].op)) return std::nullopt;
  const Value a = work.graph()[matmul].operands[0];
  const View& view = work.facts.views[a.id];
  if (const auto scaled = scaled_operands(work, matmul))
    return work.options.grouped_rows && work.graph()[matmul].op == Op::GroupedMatMul
               ? rows_of_blocks(work.facts, scaled->of[0])
               : std::nullopt;
  const bool grouped =
      work.options.grouped_rows && only_grouped_products_read(work.facts, view.source);
  if (!work.options.rows && !grouped) return std::nullopt;
  const ir::Shape& shape = work.graph().type(view.source).shape;
  if (work.graph().type(a).shape != shape || work.graph().type(matmul).shape.size() != 2 ||
      !work.facts.is_dense(view.source, view.access))
    return std::nullopt;
  return gathered_rows(work.facts, view.source);
}

Gemm describe_gemm(const Workspace& work, Value matmul) {
  const Facts& facts = work.facts;
  const ir::Node& node = facts.graph[matmul];
  const Shape& shape = node.type.shape;
  Gemm gemm;
  gemm.node = matmul;
  gemm.batch = Shape(shape.begin(), shape.end() - 2);
  if (node.op == Op::GroupedMatMul) gemm.groups = groups_of(facts, matmul);
  const Shape matrices = gemm.groups ? Shape{gemm.groups->count} : gemm.batch;
  gemm.a = operand_of(facts, matmul, 0, gemm.batch);
  gemm.b = operand_of(facts, matmul, 1, matrices);
  if (const auto op = quantized_weights(work, matmul)) read_quantized(facts, *op, gemm);
  if (const auto scaled = scaled_operands(work, matmul))
    read_scaled(facts, *scaled, matrices, gemm);
  if (auto gathered = gathered_a(work, matmul)) {
    gemm.a.source = gathered->source;
    gemm.a.access = std::move(gathered->access);
    gemm.a.rows = std::move(gathered->rows);
  }
  if (const auto op = coded_weights(work, matmul)) read_codes(facts, *op, gemm);
  gemm.m = shape[shape.size() - 2];
  gemm.n = shape.back();
  gemm.k = facts.graph.type(node.operands[0]).shape.back();
  gemm.accumulator = accumulator_of(facts, matmul);
  gemm.fast = node.get<ir::MatMulAttrs>().fast;
  return gemm;
}

}  // namespace attacca::fuse
