// Products with weights of 2, 4 or 8 bits that are quantised in blocks along K.
#include "import/onnx/microsoft/blocks.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/linear.hpp"
#include "ir/packed/packed.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Op;
using ir::Tensor;
using ir::Value;

constexpr std::string_view kStore = "store it as an initializer";

// Weight (n, k) is (code - zero point) * scale, both of row n and of the block that k is in. Codes
// of a row follow each other, the first one in the lowest bits of a byte.
struct BlockWeights {
  int64_t n = 0, k = 0, block = 0, blocks = 0;  // blocks: in each row
  int bits = 4;
  Tensor codes, scales;
  std::optional<Tensor> zeros;      // of bytes: packed like the codes, each row from a new byte on
  std::vector<int64_t> block_of_k;  // where the blocks are not in order

  int64_t zeros_of_row() const { return (blocks * bits + 7) / 8; }
  bool real_zeros() const { return zeros && ir::is_float(zeros->dtype()); }

  static int field(const uint8_t* bytes, int64_t i, int bits) {
    const int64_t at = i * bits;
    return bytes[at / 8] >> (at % 8) & ((1 << bits) - 1);
  }
  int code(int64_t row, int64_t at) const {
    return field(codes.as<uint8_t>() + row * blocks * (block * bits / 8), at, bits);
  }
  int zero_code(int64_t row, int64_t at) const {
    return field(zeros->as<uint8_t>() + row * zeros_of_row(), at, bits);
  }
  double zero(int64_t row, int64_t at) const {
    if (!zeros) return 1 << (bits - 1);
    return real_zeros() ? zeros->number_at(row * blocks + at) : zero_code(row, at);
  }
};

Result<Tensor> stored(Node& node, size_t at, std::string_view what) {
  ATTACCA_TRY(const Value value, node.input(at));
  const ir::Node& from = node.graph()[value];
  if (from.op != Op::Constant || !from.tensor)
    return fail(fmt::format("{} (input {}) must be a constant", what, at), {}, std::string(kStore));
  return *from.tensor;
}

Status check_stored(const Tensor& tensor, std::string_view what, DType dtype, int64_t rows,
                    std::vector<int64_t> row) {
  std::vector<int64_t> whole = row;
  whole.insert(whole.begin(), rows);
  const bool flat = row.size() == 1 && tensor.shape().size() == 1 &&
                    tensor.size() / rows == row[0] && tensor.size() % rows == 0;
  if (tensor.dtype() == dtype && (flat || tensor.shape() == whole)) return {};
  return fail(fmt::format("{} {}{}, wanted {}{}", what, ir::name(tensor.dtype()),
                          ir::to_string(tensor.shape()), ir::name(dtype), ir::to_string(whole)));
}

Status read_sizes(Node& node, BlockWeights& weights) {
  weights.n = node.integer("N", 0);
  weights.k = node.integer("K", 0);
  weights.block = node.integer("block_size", 0);
  const int64_t bits = node.integer("bits", 4);
  constexpr int64_t kMost = int64_t{1} << 31;
  if (weights.n < 1 || weights.k < 1 || weights.n >= kMost || weights.k >= kMost)
    return fail(fmt::format("N={}, K={}", weights.n, weights.k), {}, "give both, at least 1");
  if (weights.block < 16 || weights.block > kMost || (weights.block & (weights.block - 1)) != 0)
    return fail(fmt::format("block_size={}", weights.block), {},
                "a power of two, 16 or more, is wanted");
  if (bits != 2 && bits != 4 && bits != 8)
    return fail(fmt::format("bits={} is not supported", bits), {}, "quantise to 2, 4 or 8 bits");
  if (node.integer("weight_prepacked", 0) != 0)
    return fail("weight_prepacked is not supported", {}, "export the weights as they are");
  weights.bits = static_cast<int>(bits);
  weights.blocks = (weights.k + weights.block - 1) / weights.block;
  return {};
}

Status read_order(Node& node, BlockWeights& weights) {
  ATTACCA_TRY(const Tensor order, stored(node, 4, "g_idx"));
  if (order.dtype() != DType::S32 || order.shape().size() != 1 || order.size() < weights.k)
    return fail(fmt::format("g_idx {}{}, wanted s32[{}]", ir::name(order.dtype()),
                            ir::to_string(order.shape()), weights.k));
  for (int64_t k = 0; k < weights.k; ++k) {
    weights.block_of_k.push_back(order.integer_at(k));
    if (weights.block_of_k.back() < 0 || weights.block_of_k.back() >= weights.blocks)
      return fail(fmt::format("g_idx of {} is {}, of {} blocks", k, weights.block_of_k.back(),
                              weights.blocks));
  }
  return {};
}

Result<BlockWeights> read_weights(Node& node, DType dtype) {
  BlockWeights weights;
  ATTACCA_TRY_VOID(read_sizes(node, weights));
  ATTACCA_TRY(weights.codes, stored(node, 1, "B"));
  ATTACCA_TRY_VOID(check_stored(weights.codes, "B", DType::U8, weights.n,
                                {weights.blocks, weights.block * weights.bits / 8}));
  ATTACCA_TRY(weights.scales, stored(node, 2, "the scales"));
  ATTACCA_TRY_VOID(
      check_stored(weights.scales, "the scales are", dtype, weights.n, {weights.blocks}));
  if (node.has(3)) {
    ATTACCA_TRY(weights.zeros, stored(node, 3, "the zero points"));
    const bool real = weights.real_zeros();
    ATTACCA_TRY_VOID(check_stored(*weights.zeros, "the zero points are", real ? dtype : DType::U8,
                                  weights.n, {real ? weights.blocks : weights.zeros_of_row()}));
  }
  if (node.has(4)) ATTACCA_TRY_VOID(read_order(node, weights));
  return weights;
}

// What ir/packed/packed.hpp describes; nullopt: no packed tensor has such blocks, or no kernel
// multiplies them with activations of the scales' dtype. Plain weights are faster then, since
// packed ones would be unpacked by each launch.
std::optional<ir::Packing> packing_of(const BlockWeights& weights) {
  const bool pairs = weights.bits == 8 || weights.k % 2 == 0;
  ir::Packing packing{.weights = weights.zeros ? DType::U8 : DType::S8,
                      .bits = weights.bits,
                      .group = weights.block,
                      .scales = weights.scales.dtype(),
                      .zeros = weights.zeros.has_value()};
  const bool can = packing.scales == DType::BF16 && pairs && !weights.real_zeros() &&
                   weights.block_of_k.empty() && ir::check(packing).has_value();
  return can ? std::optional(packing) : std::nullopt;
}

// Without zero points the middle code means 0: codes with their highest bit inverted are signed.
Result<Value> packed(Node& node, const BlockWeights& weights, const ir::Packing& packing) {
  const int64_t columns = weights.k * weights.bits / 8;
  const int64_t row = weights.blocks * (weights.block * weights.bits / 8);
  const uint8_t flip = weights.zeros ? 0 : weights.bits == 4 ? 0x88 : 0x80;
  ir::Quantized parts;
  ATTACCA_TRY(parts.weights, Tensor::make(packing.weights, {weights.n, columns}));
  for (int64_t n = 0; n < weights.n; ++n)
    for (int64_t at = 0; at < columns; ++at)
      parts.weights.as<uint8_t>()[n * columns + at] =
          weights.codes.as<uint8_t>()[n * row + at] ^ flip;
  ATTACCA_TRY(parts.scales, Tensor::make(packing.scales, {weights.n, weights.blocks}));
  std::copy_n(weights.scales.data(), weights.scales.bytes(), parts.scales.data());
  if (weights.zeros) {
    ATTACCA_TRY(parts.zeros, Tensor::make(DType::U8, {weights.n, weights.blocks}));
    for (int64_t n = 0; n < weights.n; ++n)
      for (int64_t at = 0; at < weights.blocks; ++at)
        parts.zeros->set_integer(n * weights.blocks + at, weights.zero_code(n, at));
  }
  ATTACCA_TRY(Tensor bytes, ir::pack(parts, packing));
  const Value constant = node.graph().constant(std::move(bytes));
  return node.graph().add(Op::Unpack, {constant},
                          ir::UnpackAttrs{packing, {weights.n, weights.k}, packing.scales});
}

// An element of f32, f16 or bf16 from a number that f32 holds, or nearly so.
template <class T>
T element(DType dtype, double value) {
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(value);
  else
    return ir::encode16(dtype, static_cast<float>(value));
}

// Values from begin to end of a row, all of one block. The numbers of all codes are computed once
// where they are fewer.
template <class T>
void fill_block(const BlockWeights& weights, int64_t n, int64_t block, int64_t begin, int64_t end,
                Tensor& result) {
  const DType dtype = result.dtype();
  const double scale = weights.scales.number_at(n * weights.blocks + block);
  const double zero = weights.zero(n, block);
  T* row = result.as<T>() + n * weights.k;
  std::array<T, 16> table = {};
  if (weights.bits > 4 || end - begin < 16) {
    for (int64_t k = begin; k < end; ++k)
      row[k] = element<T>(dtype, (weights.code(n, k) - zero) * scale);
    return;
  }
  for (int code = 0; code < 1 << weights.bits; ++code)
    table[static_cast<size_t>(code)] = element<T>(dtype, (code - zero) * scale);
  for (int64_t k = begin; k < end; ++k) row[k] = table[static_cast<size_t>(weights.code(n, k))];
}

template <class T>
void fill(const BlockWeights& weights, Tensor& result) {
  for (int64_t n = 0; n < weights.n; ++n) {
    for (size_t k = 0; k < weights.block_of_k.size(); ++k) {
      const auto at = static_cast<int64_t>(k);
      fill_block<T>(weights, n, weights.block_of_k[k], at, at + 1, result);
    }
    for (int64_t block = 0; block < weights.blocks && weights.block_of_k.empty(); ++block)
      fill_block<T>(weights, n, block, block * weights.block,
                    std::min(weights.k, (block + 1) * weights.block), result);
  }
}

Result<Value> dense(Node& node, const BlockWeights& weights) {
  const DType dtype = weights.scales.dtype();
  ATTACCA_TRY(Tensor result, Tensor::make(dtype, {weights.n, weights.k}));
  if (dtype == DType::F32)
    fill<float>(weights, result);
  else
    fill<uint16_t>(weights, result);
  return node.graph().constant(std::move(result));
}

// Whether kernels read such experts' weights as codes. Others are faster as plain numbers, since
// each launch would decode them.
bool is_decoded(const BlockWeights& weights) {
  const bool half = ir::size_of(weights.scales.dtype()) == 2;
  const bool whole = weights.blocks == 1;
  const bool power = (weights.block & (weights.block - 1)) == 0;
  return half && weights.k % 32 == 0 && weights.block % 32 == 0 && (whole || power);
}

// Of `shape`, as codes that a decode reads.
Result<Value> decoded(Node& node, const BlockWeights& weights, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> blocks = {shape[0], shape[1], weights.blocks};
  ATTACCA_TRY(Tensor scales, Tensor::make(weights.scales.dtype(), blocks));
  std::copy_n(weights.scales.data(), weights.scales.bytes(), scales.data());
  std::vector<Value> operands = {node.graph().constant(weights.codes),
                                 node.graph().constant(std::move(scales))};
  ir::DecodeAttrs attrs{.bits = weights.bits, .dtype = weights.scales.dtype()};
  if (weights.zeros) {
    ATTACCA_TRY(Tensor zeros, Tensor::make(DType::U8, blocks));
    for (int64_t n = 0; n < weights.n; ++n)
      for (int64_t at = 0; at < weights.blocks; ++at)
        zeros.set_integer(n * weights.blocks + at, weights.zero_code(n, at));
    operands.push_back(node.graph().constant(std::move(zeros)));
  } else {
    attrs.zero = 1 << (weights.bits - 1);
  }
  return node.graph().add(Op::Decode, std::move(operands), attrs);
}

}  // namespace

Result<Value> expert_weights(Node& node, const QuantisedExperts& from) {
  BlockWeights weights;
  ATTACCA_TRY(weights.codes, stored(node, from.codes, "the experts' weights"));
  ATTACCA_TRY(weights.scales, stored(node, from.scales, "the scales"));
  const std::vector<int64_t> shape = weights.codes.shape();
  if ((from.bits != 4 && from.bits != 8) || weights.codes.dtype() != DType::U8 || shape.size() != 3)
    return fail(fmt::format("experts' weights of {} bits as {}{}", from.bits,
                            ir::name(weights.codes.dtype()), ir::to_string(shape)),
                {}, "give u8[experts, N, K * bits / 8] of 4 or 8 bits");
  weights.bits = static_cast<int>(from.bits);
  weights.n = shape[0] * shape[1];
  weights.k = shape[2] * 8 / from.bits;
  weights.block = from.block == 0 ? weights.k : from.block;
  weights.blocks = weights.block < 1 ? 0 : weights.k / weights.block;
  if (weights.n * weights.k == 0 || weights.blocks * weights.block != weights.k)
    return fail(fmt::format("blocks of {} in rows of {}", weights.block, weights.k), {},
                "use blocks that divide the rows");
  const auto check = [&](const Tensor& tensor, std::string_view what, int64_t row) -> Status {
    const std::vector<int64_t> rows = {shape[0], shape[1]}, whole = {shape[0], shape[1], row};
    if (tensor.shape() == whole || (from.block == 0 && row == 1 && tensor.shape() == rows))
      return {};
    return fail(fmt::format("{} of shape {}, wanted {}", what, ir::to_string(tensor.shape()),
                            ir::to_string(whole)));
  };
  ATTACCA_TRY_VOID(check(weights.scales, "scales", weights.blocks));
  const DType dtype = weights.scales.dtype();
  if (dtype != DType::F32 && !ir::is_half(dtype))
    return fail(fmt::format("scales of dtype {}", ir::name(dtype)));
  if (from.zeros) {
    ATTACCA_TRY(weights.zeros, stored(node, *from.zeros, "the zero points"));
    if (from.block == 0 || weights.zeros->dtype() != DType::U8)
      return fail("zero points of whole rows, or of another dtype than u8", {},
                  "give zero points of blocks");
    ATTACCA_TRY_VOID(check(*weights.zeros, "zero points", weights.zeros_of_row()));
  }
  if (dtype == from.dtype && is_decoded(weights)) return decoded(node, weights, shape);
  ATTACCA_TRY(const Value flat, dense(node, weights));
  return cast(reshape(node.expr(flat), {shape[0], shape[1], weights.k}), from.dtype).value;
}

// accuracy_level= allows a kernel to compute in fewer bits; here the product is in A's dtype.
Result<Outputs> mat_mul_n_bits(Node& node) {
  ATTACCA_TRY(const Value a, node.input(0));
  const DType dtype = node.dtype(a);
  if (dtype != DType::F32 && !ir::is_half(dtype))
    return fail(fmt::format("A is {}", ir::name(dtype)), {}, "cast it to a float of 16 or 32 bits");
  ATTACCA_TRY(const BlockWeights weights, read_weights(node, dtype));
  const auto packing = packing_of(weights);
  ATTACCA_TRY(const Value w, packing ? packed(node, weights, *packing) : dense(node, weights));
  const Expr product = numpy_matmul(node, node.expr(a), emit(Op::Transpose, node.expr(w)));
  ATTACCA_TRY(const Expr result, biased(node, product, 5));
  return result;
}

}  // namespace attacca::import
