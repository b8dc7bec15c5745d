#include "run/check/random_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "run/shared/input_layout.hpp"
#include "support/hash.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Graph;
using ir::Op;
using ir::Value;

bool is_view(Op op) {
  return op == Op::Transpose || op == Op::Permute || op == Op::Reshape || op == Op::Broadcast ||
         op == Op::Slice || op == Op::Cast;
}

bool is_product(Op op) {
  return op == Op::MatMul || op == Op::GroupedMatMul;
}

// The input that a chain of views or casts starts from, if it does.
std::optional<Value> input_behind(const Graph& graph, Value value) {
  while (is_view(graph[value].op)) value = graph[value].operands[0];
  if (graph[value].op != Op::Input) return std::nullopt;
  return value;
}

// The range of an input's random numbers.
struct Wish {
  double scale = 1;              // of a float
  std::optional<int64_t> below;  // of an index
  std::optional<int64_t> rows;   // of the groups of which it has the ends
  std::optional<int64_t> near;   // of the exponents of a scale
};

Result<std::vector<Wish>> wishes(const Graph& graph, const ir::SymbolValues& symbols) {
  std::vector<Wish> result(graph.size());
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == Op::GroupedMatMul || node.op == Op::GroupIds)
      if (const auto offsets = input_behind(graph, node.operands.back())) {
        ATTACCA_TRY(result[offsets->id].rows, node.type.shape[0].evaluate(symbols));
      }
    if (node.op == Op::MxFp4)
      if (const auto scales = input_behind(graph, node.operands[1])) result[scales->id].near = 127;
    if (node.op == Op::Decode) {
      const int64_t codes = int64_t{1} << node.get<ir::DecodeAttrs>().bits;
      const double depth = static_cast<double>(node.type.shape.back().value());
      if (const auto scales = input_behind(graph, node.operands[1]))
        result[scales->id].scale = 4 / (static_cast<double>(codes) * std::sqrt(depth));
      if (node.operands.size() > 2)
        if (const auto zeros = input_behind(graph, node.operands[2]))
          result[zeros->id].below = codes;
    }
    const bool scatters = node.op == Op::Scatter || node.op == Op::ScatterAdd;
    if (!is_product(node.op) && node.op != Op::Gather && !scatters) continue;
    const auto input = input_behind(graph, node.operands[1]);
    if (!input) continue;
    Wish& wish = result[input->id];
    const ir::Shape& shape = graph.type(node.operands[is_product(node.op) ? 1 : 0]).shape;
    const ir::Dim& dim = is_product(node.op)     ? shape[shape.size() - 2]
                         : node.op == Op::Gather ? shape[node.get<ir::AxisAttrs>().axis]
                                                 : shape[0];
    ATTACCA_TRY(const int64_t extent, dim.evaluate(symbols));
    if (is_product(node.op))
      wish.scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(extent, 1)));
    else
      wish.below = std::min(wish.below.value_or(extent), extent);
  }
  return result;
}

double draw(DType dtype, const Wish& wish, std::mt19937_64& random) {
  if (ir::is_float(dtype)) return std::normal_distribution<double>(0, wish.scale)(random);
  if (wish.near) return static_cast<double>(*wish.near - 4 + static_cast<int64_t>(random() % 5));
  const uint64_t range =
      std::max<int64_t>(wish.below.value_or(ir::size_of(dtype) == 1 ? 256 : 8), 1);
  return static_cast<double>(random() % range);
}

// The ends of groups in ascending order. Three of four times every row belongs to a group.
void fill_ends(ir::Tensor& tensor, int64_t rows, std::mt19937_64& random) {
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < tensor.size(); ++i)
    ends.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(rows + 1)));
  if (!ends.empty() && random() % 4 != 0) ends.back() = rows;
  std::sort(ends.begin(), ends.end());
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_integer(i, ends[static_cast<size_t>(i)]);
}

// Weights have hundreds of millions of elements. They are drawn from a pool of 2^16 values, four
// by one random number.
void fill(ir::Tensor& tensor, const Wish& wish, std::mt19937_64& random) {
  constexpr int64_t kPool = 1 << 16;
  const int64_t count = tensor.size(), width = ir::size_of(tensor.dtype());
  std::vector<double> values;
  for (int64_t i = 0; i < std::min(count, kPool); ++i)
    values.push_back(draw(tensor.dtype(), wish, random));
  const int64_t pooled = static_cast<int64_t>(values.size());
  const ir::Tensor pool = ir::Tensor::of(tensor.dtype(), {pooled}, values);
  if (count == pooled) {
    std::memcpy(tensor.data(), pool.data(), static_cast<size_t>(count * width));
    return;
  }
  uint64_t bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits = i % 4 == 0 ? random() : bits >> 16;
    const auto from = static_cast<int64_t>(bits & (kPool - 1));
    std::memcpy(tensor.data() + i * width, pool.data() + from * width, static_cast<size_t>(width));
  }
}

// Draws again if the input's strides put several elements at one place, which must be equal.
Status agree(const ir::Node& input, const ir::SymbolValues& symbols, const Wish& wish,
             std::mt19937_64& random, ir::Tensor& tensor) {
  if (input.type.strides.empty() || tensor.size() == 0) return {};
  ATTACCA_TRY(const auto strides, ir::evaluate(input.type.strides, symbols));
  ATTACCA_TRY(const int64_t span, span_of(input, tensor.shape(), strides));
  if (!may_overlap(tensor.shape(), strides)) return {};
  ATTACCA_TRY(ir::Tensor places, ir::Tensor::make(tensor.dtype(), {span}));
  fill(places, wish, random);
  const auto elements =
      ir::Tensor::view(tensor.dtype(), tensor.shape(), places.data(), strides).contiguous();
  if (!elements) return tl::make_unexpected(elements.error());
  std::memcpy(tensor.data(), elements->data(), static_cast<size_t>(tensor.bytes()));
  return {};
}

// The op that unpacks an input, if one does.
const ir::Node* unpack_of(const Graph& graph, Value input) {
  for (const ir::Node& node : graph.nodes())
    if (node.op == Op::Unpack && node.operands[0] == input) return &node;
  return nullptr;
}

}  // namespace

Result<ir::Tensor> random_packed(const ir::PackedLayout& layout, std::mt19937_64& random) {
  const ir::Packing& packing = layout.packing;
  const int64_t columns = packing.bits == 4 ? layout.k / 2 : layout.k;
  ir::Quantized from;
  ATTACCA_TRY(from.weights, ir::Tensor::make(packing.weights, {layout.n, columns}));
  auto* codes = from.weights.as<uint8_t>();
  // 8-bit floats: neither NaN nor the largest numbers.
  const uint64_t mask = ir::is_float(packing.weights) ? 0xbfbfbfbfbfbfbfbfu : ~uint64_t{0};
  uint64_t bits = 0;
  for (int64_t i = 0; i < from.weights.size(); ++i) {
    bits = i % 8 == 0 ? random() & mask : bits >> 8;
    codes[i] = static_cast<uint8_t>(bits);
  }
  // Weights are scaled so that products are about 1.
  const double code = ir::is_float(packing.weights) ? 0.6 : packing.bits == 4 ? 4.6 : 74;
  std::uniform_real_distribution<double> scale(0.5, 1.5);
  const double unit = 1 / (code * std::sqrt(static_cast<double>(layout.k)));
  ATTACCA_TRY(from.scales, ir::Tensor::make(packing.scales, {layout.n, layout.groups}));
  // 15 times 8 is still an s8.
  for (int64_t i = 0; i < from.scales.size(); ++i)
    from.scales.set_number(
        i, packing.whole() ? static_cast<double>(1 + random() % 8) : scale(random) * unit);
  if (packing.zeros) {
    ATTACCA_TRY(from.zeros, ir::Tensor::make(packing.weights, {layout.n, layout.groups}));
    for (int64_t i = 0; i < from.zeros->size(); ++i) {
      const auto zero = static_cast<int64_t>(random() % (uint64_t{1} << packing.bits));
      from.zeros->set_integer(i, zero - layout.zero());
    }
  }
  return ir::pack(from, packing);
}

Result<ir::Bindings> random_inputs(const Graph& graph, const ir::SymbolValues& symbols,
                                   uint64_t seed, ir::Bindings given) {
  ATTACCA_TRY(const std::vector<Wish> wish, wishes(graph, symbols));
  for (const Value input : graph.inputs()) {
    const ir::Node& node = graph[input];
    if (given.count(node.name)) continue;
    std::mt19937_64 random(seed ^ hash64(node.name));
    if (const ir::Node* unpack = unpack_of(graph, input)) {
      ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(unpack->get<ir::UnpackAttrs>()));
      ATTACCA_TRY(ir::Tensor packed, random_packed(layout, random));
      given.emplace(node.name, std::move(packed));
      continue;
    }
    ATTACCA_TRY(auto shape, ir::evaluate(node.type.shape, symbols));
    ATTACCA_TRY(ir::Tensor tensor, ir::Tensor::make(node.type.dtype, shape));
    if (const auto rows = wish[input.id].rows; rows && ir::is_integer(node.type.dtype))
      fill_ends(tensor, *rows, random);
    else
      fill(tensor, wish[input.id], random);
    ATTACCA_TRY_VOID(agree(node, symbols, wish[input.id], random, tensor));
    given.emplace(node.name, std::move(tensor));
  }
  return given;
}

std::vector<Value> weight_inputs(const Graph& graph) {
  std::vector<Value> weights;
  for (const ir::Node& node : graph.nodes()) {
    if (!is_product(node.op)) continue;
    const auto input = input_behind(graph, node.operands[1]);
    const size_t rank = node.op == Op::MatMul ? 2 : 3;
    if (input && graph.type(*input).shape.size() == rank &&
        ir::is_static(graph.type(*input).shape) &&
        std::find(weights.begin(), weights.end(), *input) == weights.end())
      weights.push_back(*input);
  }
  return weights;
}

}  // namespace attacca::run
