#include "run/check/error_bound.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "fmt/format.h"

#include "ir/interpret/codes.hpp"
#include "ir/interpret/groups.hpp"
#include "ir/interpret/mxfp4.hpp"
#include "ir/packed/header.hpp"
#include "ir/packed/packed.hpp"
#include "run/check/bound_value.hpp"
#include "run/shared/input_layout.hpp"
#include "support/check.hpp"
#include "support/memory.hpp"

namespace attacca::run {
namespace bound {
namespace {

using ir::Array;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;

// The value with `move` applied to its numbers and to its range alike.
template <class Move>
Result<Value> moved(const Value& x, const Move& move) {
  Value result;
  ATTACCA_TRY(result.value, move(x.value));
  if (!x.range) return result;
  // The range is as dense as the numbers after the move.
  const int64_t count = result.value.size();
  result.value = dense(result.value);
  result.range = std::make_shared<Range>(count);
  const auto part = [&](const std::vector<double>& from, std::vector<double>& to) -> Status {
    Array array = x.value;
    array.integers = nullptr;
    array.numbers = std::make_shared<std::vector<double>>(from);
    ATTACCA_TRY(const Array there, move(array));
    int64_t next = 0;
    for_each_position(there,
                      [&](int64_t at) { to[static_cast<size_t>(next++)] = there.number(at); });
    return {};
  };
  ATTACCA_TRY_VOID(part(x.range->low, result.range->low));
  ATTACCA_TRY_VOID(part(x.range->high, result.range->high));
  ATTACCA_TRY_VOID(part(x.range->spread, result.range->spread));
  return result;
}

// Numbers and, if any part has a range, a range.
Value joined(const std::vector<const Value*>& parts, const std::vector<int64_t>& extents,
             int64_t axis) {
  Value result;
  std::vector<Array> numbers;
  bool exact = true;
  for (const Value* part : parts) {
    numbers.push_back(part->value);
    exact = exact && !part->range;
  }
  result.value = concatenated(numbers, extents, axis);
  if (exact) return result;
  result.range = std::make_shared<Range>(result.value.size());
  const auto fill = [&](std::vector<double> Range::*which, std::vector<double>& to) {
    std::vector<Array> arrays;
    for (const Value* part : parts) {
      Array array = part->value;
      if (part->range) {
        array.integers = nullptr;
        array.numbers = std::make_shared<std::vector<double>>((*part->range).*which);
      } else {
        array = Array::of_numbers(part->value.extents);
        int64_t next = 0;
        for_each_position(part->value, [&](int64_t at) {
          (*array.numbers)[static_cast<size_t>(next++)] =
              which == &Range::spread ? 0 : part->value.number(at);
        });
      }
      arrays.push_back(std::move(array));
    }
    to = *concatenated(arrays, extents, axis).numbers;
  };
  fill(&Range::low, result.range->low);
  fill(&Range::high, result.range->high);
  fill(&Range::spread, result.range->spread);
  return result;
}

class Bounds {
 public:
  Bounds(const Graph& graph, const ir::Bindings& inputs, const BoundOptions& options,
         ir::SymbolValues symbols)
      : graph_(graph), inputs_(inputs), options_(options), symbols_(std::move(symbols)) {}

  Result<std::vector<Bounded>> run() {
    const std::vector<bool> alive = live(graph_);
    std::vector<Bounded> results(graph_.outputs().size());
    find_last_uses();
    values_.resize(graph_.size());
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      if (!alive[id]) continue;
      const Node& node = graph_.nodes()[id];
      auto value = bound(node);
      if (!value) {
        Error error = value.error();
        if (error.where.empty())
          error.where =
              node.name.empty() ? fmt::format("{} (node {})", name(node.op), id) : node.name;
        return tl::make_unexpected(std::move(error));
      }
      for (size_t i = 0; i < results.size(); ++i)
        if (graph_.outputs()[i].value.id == id) results[i] = announced(*value, node.type.dtype);
      const bool rounds = node.op != Op::Input && !node.literal &&
                          (node.op != Op::Cast || node.compute()) &&
                          (options_.stored.empty() || options_.stored[id]);
      values_[id] = rounds ? stored_value(*value, node.type.dtype) : *std::move(value);
      for (const ir::Value operand : node.operands)
        if (last_use_[operand.id] == id) values_[operand.id] = {};
    }
    return results;
  }

 private:
  const Value& operand(const Node& node, size_t i) const { return values_[node.operands[i].id]; }

  void find_last_uses() {
    last_use_.assign(graph_.size(), 0);
    for (uint32_t id = 0; id < graph_.size(); ++id)
      for (const ir::Value operand : graph_.nodes()[id].operands) last_use_[operand.id] = id;
  }

  static Bounded announced(const Value& x, DType dtype) {
    Bounded result;
    result.dtype = dtype;
    const bool exact = !x.range;
    for_each_position(x.value, [&](int64_t at) {
      const Element e = x.at(at);
      result.value.push_back(e.value);
      if (exact) return;
      result.low.push_back(e.low);
      result.high.push_back(e.high);
    });
    return result;
  }

  static Value stored_value(const Value& x, DType dtype) {
    if (!ir::is_float(dtype)) return x;
    Builder result(x.value.extents, false);
    int64_t next = 0;
    for_each_position(x.value, [&](int64_t at) { result.set(next++, stored(x.at(at), dtype)); });
    return result.finish();
  }

  Result<std::vector<int64_t>> extents_of(const Node& node) const {
    ATTACCA_TRY(auto extents, evaluate(node.type.shape, symbols_));
    int64_t bytes = node.op == Op::Input ? 1 : 8;
    for (const int64_t extent : extents)
      if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes) ||
          bytes > physical_memory())
        return fail(fmt::format("a value of shape {} is larger than this machine's memory",
                                ir::to_string(extents)),
                    {}, "use smaller dimensions");
    return extents;
  }

  Result<Value> bound(const Node& node) const {
    ATTACCA_TRY(auto extents, extents_of(node));
    if (ir::is_elementwise(node.op)) return elements(node, std::move(extents));
    if (ir::is_reduction(node.op))
      return reduction(node, materialised(operand(node, 0)), std::move(extents));
    switch (node.op) {
      case Op::Input:
        ATTACCA_TRY_VOID(check_dtype(node, inputs_.at(node.name)));
        return of_tensor(inputs_.at(node.name));
      case Op::Constant:
        return node.tensor ? of_tensor(*node.tensor) : literal(node);
      case Op::MatMul:
        return product(node, operand(node, 0), operand(node, 1), std::move(extents));
      case Op::GroupedMatMul:
        return grouped_product(node, operand(node, 0), operand(node, 1),
                               materialised(operand(node, 2)).value, std::move(extents));
      case Op::Cast:
        return cast(node, std::move(extents));
      case Op::Scatter:
        return scattered(node, std::move(extents));
      case Op::ScatterAdd:
        return scatter_added(node, std::move(extents));
      case Op::Argsort:
        return Value{
            ir::argsorted(materialised(operand(node, 0)).value, node.get<ir::AxisAttrs>().axis),
            {},
            {}};
      case Op::Arange: {
        ATTACCA_TRY(const int64_t begin, ir::first_of(node, symbols_));
        return Value{ir::arange(begin, extents[0]), {}, {}};
      }
      case Op::GroupIds:
        return Value{
            ir::reference_group_ids(materialised(operand(node, 0)).value, extents[0]), {}, {}};
      case Op::Kernel:
        return fail(
            fmt::format("the kernel of {} has no reference", node.get<ir::KernelAttrs>().call.file),
            node.name, "check a graph without it, or run it on a GPU");
      case Op::Unpack:
        return unpacked(node);
      case Op::MxFp4:
        return widened(node, std::move(extents));
      case Op::Decode:
        return decoded(node, std::move(extents));
      case Op::ScaleBlocks:
        return scaled_blocks(node, std::move(extents));
      default:
        return move(node, std::move(extents));
    }
  }

  // A view of the tensor's own memory: weights are not copied.
  static Value of_tensor(const ir::Tensor& tensor) {
    Value result;
    result.value.extents = tensor.shape();
    result.value.strides = tensor.strides();
    result.source = tensor;
    return result;
  }

  // A number that f32 (or f64) holds is exact. Folding compares the others within a tolerance.
  Value literal(const Node& node) const {
    const DType dtype = node.type.dtype;
    const double value = node.literal->value;
    Builder result({}, !ir::is_float(dtype));
    if (!ir::is_float(dtype)) {
      result.set_integer(0, ir::to_integer(dtype, value));
      return result.finish();
    }
    Element x = Element::exact(value);
    const bool wide = dtype == DType::F64;
    const double tolerance = options_.mode == ir::Mode::Eager ? 0
                             : wide                           ? 0x1p-39
                                                              : 0x1p-19;  // above 1e-12 and 1e-6
    const bool simple = ir::round_to(DType::F16, value) == value;
    if (!simple)
      x = rounded(x, {tolerance + rounding_of(wide ? dtype : DType::F32).half_place, 0, kInfinity});
    result.set(0, x);
    return result.finish();
  }

  Value cast(const Node& node, std::vector<int64_t> extents) const {
    const Value& x = operand(node, 0);
    const DType from = graph_.type(node.operands[0]).dtype;
    const DType to = node.compute().value_or(node.type.dtype);
    const auto overflow = node.saturates() ? ir::Overflow::Saturate : ir::Overflow::Ieee;
    Builder result(std::move(extents), !ir::is_float(to));
    int64_t next = 0;
    const bool whole = !x.range && !ir::is_float(from) && !ir::is_float(to);
    const Value numbers = whole ? materialised(x) : x;
    for_each_position(numbers.value, [&](int64_t at) {
      if (whole)
        result.set_integer(next++, ir::to_integer(to, numbers.value.integer(at), overflow));
      else
        result.set(next++, converted(numbers.at(at), from, to, node.saturates()));
    });
    return result.finish();
  }

  Value elements(const Node& node, std::vector<int64_t> extents) const {
    const size_t arity = node.operands.size();
    bool whole = true;
    std::array<Value, 3> operands;
    std::array<std::vector<int64_t>, 3> positions;
    Builder result(extents, !ir::is_float(node.type.dtype));
    for (size_t i = 0; i < arity; ++i) {
      operands[i] = operand(node, i);
      whole = whole && !ir::is_float(graph_.type(node.operands[i]).dtype) && !operands[i].range;
    }
    for (size_t i = 0; i < arity; ++i) {
      if (whole) operands[i] = materialised(operands[i]);
      positions[i].reserve(static_cast<size_t>(result.size()));
      for_each_position(broadcast_view(operands[i].value, extents),
                        [&](int64_t at) { positions[i].push_back(at); });
    }
    std::array<Element, 3> x;
    std::array<int64_t, 3> n{};
    for (int64_t at = 0; at < result.size(); ++at) {
      const auto index = static_cast<size_t>(at);
      if (whole) {
        for (size_t i = 0; i < arity; ++i) n[i] = operands[i].value.integer(positions[i][index]);
        result.set_integer(
            at, ir::to_integer(node.type.dtype,
                               ir::evaluate(node.op, std::span<const int64_t>(n.data(), arity),
                                            node.params())));
        continue;
      }
      for (size_t i = 0; i < arity; ++i) x[i] = operands[i].at(positions[i][index]);
      result.set(at, elementwise(graph_, node, {x.data(), arity}));
    }
    return result.finish();
  }

  // Views of exact inputs stay views; ops that copy make numbers of them first.
  Result<Value> move(const Node& node, std::vector<int64_t> extents) const {
    const Value& x = operand(node, 0);
    if (node.op == Op::Concat) {
      std::vector<Value> parts;
      std::vector<const Value*> pointers;
      for (size_t i = 0; i < node.operands.size(); ++i)
        parts.push_back(materialised(operand(node, i)));
      for (const Value& part : parts) pointers.push_back(&part);
      return joined(pointers, extents, node.get<ir::AxisAttrs>().axis);
    }
    const bool view = node.op != Op::Reshape && node.op != Op::Gather;
    if (x.source && view) {
      Value result;
      ATTACCA_TRY(result.value, moved_array(node, x.value, extents));
      result.source = x.source;
      return result;
    }
    return moved(materialised(x),
                 [&](const Array& array) { return moved_array(node, array, extents); });
  }

  Result<Array> moved_array(const Node& node, const Array& x,
                            const std::vector<int64_t>& extents) const {
    if (node.op != Op::Gather) return viewed(node, x, extents, symbols_);
    return gathered(x, materialised(operand(node, 1)).value, extents,
                    node.get<ir::AxisAttrs>().axis);
  }

  // Rows of x and of the updates behind it, chosen by where each comes from.
  Result<Value> scattered(const Node& node, std::vector<int64_t> extents) const {
    const Value x = materialised(operand(node, 0));
    Value updates = materialised(operand(node, 2));
    const Array index = materialised(operand(node, 1)).value;
    ATTACCA_TRY(const Array sources, ir::scatter_sources(extents[0], index));
    std::vector<int64_t> rows = extents;
    rows[0] = index.size();
    updates.value = dense(updates.value);
    updates.value.strides = ir::contiguous_strides(rows);
    updates.value.extents = rows;
    rows[0] += extents[0];
    return moved(joined({&x, &updates}, rows, 0),
                 [&](const Array& array) { return gathered(array, sources, extents, 0); });
  }

  Result<Value> scatter_added(const Node& node, std::vector<int64_t> extents) const {
    const Value x = materialised(operand(node, 0)), updates = materialised(operand(node, 2));
    const Array index = materialised(operand(node, 1)).value;
    ATTACCA_TRY(const std::vector<int64_t> rows, ir::indexed_rows(index, extents[0], node.op));
    const DType dtype = node.type.dtype;
    const bool narrow = ir::is_float(dtype) && dtype != DType::F64;
    return added_rows(x, updates, rows,
                      narrow && options_.mode != ir::Mode::Eager ? DType::F32 : dtype);
  }

  Value widened(const Node& node, std::vector<int64_t> extents) const {
    const Value codes = materialised(operand(node, 0)), scales = materialised(operand(node, 1));
    const Array bytes = dense(codes.value), powers = dense(scales.value);
    Builder result(std::move(extents), false);
    for (int64_t at = 0; at < result.size(); ++at) {
      const int64_t byte = bytes.integer(at / 2) >> (4 * (at % 2));
      const double value = ir::mxfp4_value(byte, powers.integer(at / ir::kMxFp4Block));
      result.set(at, stored(Element::exact(value), node.type.dtype));
    }
    return result.finish();
  }

  Value decoded(const Node& node, std::vector<int64_t> extents) const {
    const ir::CodeFormat format = *ir::code_format(graph_, node);
    const Array codes = dense(materialised(operand(node, 0)).value);
    const Value scales = materialised(operand(node, 1));
    const Array zeros = format.zeros ? dense(materialised(operand(node, 2)).value) : Array();
    std::vector<int64_t> places;
    for_each_position(scales.value, [&](int64_t at) { places.push_back(at); });
    Builder result(std::move(extents), false);
    for (int64_t at = 0; at < result.size(); ++at) {
      const int64_t code = ir::code_of(format, codes.integer(at * format.bits / 8), at);
      const int64_t zero = format.zeros ? zeros.integer(at / format.block) : format.zero;
      const Element scale = scales.at(places[static_cast<size_t>(at / format.block)]);
      const auto by = static_cast<double>(code - zero);
      Element made = Element::exact(by * scale.value);
      if (!scale.is_exact()) {
        const double error = std::fabs(by) * scale.error();
        made = {made.value, made.value - error, made.value + error, kSpread * error};
      }
      result.set(at, stored(rounded(made, rounding_of(DType::F32)), node.type.dtype));
    }
    return result.finish();
  }

  Result<Value> unpacked(const Node& node) const {
    const Value& x = operand(node, 0);
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(x.value.size()));
    for_each_position(x.value, [&](int64_t at) {
      bytes.push_back(static_cast<std::byte>(static_cast<int64_t>(x.number(at))));
    });
    ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(node.get<ir::UnpackAttrs>()));
    ATTACCA_TRY_VOID(ir::check_packed(bytes, layout));
    const DType dtype = layout.packing.whole() ? node.type.dtype : DType::F64;
    ATTACCA_TRY(ir::Tensor weights, ir::Tensor::make(dtype, {layout.n, layout.k}));
    ir::dequantize(bytes, layout, weights);
    return of_tensor(weights);
  }

  Value scaled_blocks(const Node& node, std::vector<int64_t> extents) const {
    const Value &x = operand(node, 0), &scale = operand(node, 1);
    Builder result(extents, false);
    const size_t rank = extents.size();
    std::vector<int64_t> index(rank, 0);
    int64_t next = 0;
    for_each_position(x.value, [&](int64_t at) {
      int64_t block = scale.value.offset;
      for (size_t axis = 0; axis < rank; ++axis)
        block += index[axis] / node.get<ir::BlocksAttrs>().block[axis] * scale.value.strides[axis];
      const Element p = x.at(at), q = scale.at(block);
      Element made = Element::exact(p.value * q.value);
      if (!p.is_exact() || !q.is_exact()) {
        const double error =
            std::fabs(p.value) * q.error() + p.error() * std::fabs(q.value) + p.error() * q.error();
        made = {made.value, made.value - error, made.value + error, kSpread * error};
      }
      result.set(next++, rounded(made, rounding_of(DType::F32)));
      for (size_t axis = rank; axis-- > 0 && ++index[axis] == extents[axis];) index[axis] = 0;
    });
    return result.finish();
  }

  const Graph& graph_;
  const ir::Bindings& inputs_;
  const BoundOptions& options_;
  const ir::SymbolValues symbols_;
  std::vector<uint32_t> last_use_;
  std::vector<Value> values_;
};

}  // namespace

Value materialised(const Value& x) {
  if (!x.source) return x;
  const bool integer = !ir::is_float(x.source->dtype());
  Value result;
  result.value = integer ? Array::of_integers(x.value.extents) : Array::of_numbers(x.value.extents);
  int64_t next = 0;
  for_each_position(x.value, [&](int64_t at) {
    if (integer)
      (*result.value.integers)[static_cast<size_t>(next++)] = x.source->integer_at(at);
    else
      (*result.value.numbers)[static_cast<size_t>(next++)] = x.source->number_at(at);
  });
  return result;
}

Builder::Builder(std::vector<int64_t> extents, bool integer)
    : value_(integer ? Array::of_integers(std::move(extents))
                     : Array::of_numbers(std::move(extents))) {}

void Builder::set(int64_t at, const Element& x) {
  const auto i = static_cast<size_t>(at);
  if (value_.is_integer())
    (*value_.integers)[i] = ir::to_integer(DType::S64, x.value, ir::Overflow::Saturate);
  else
    (*value_.numbers)[i] = x.value;
  if (!range_) {
    if (x.is_exact()) return;
    range_ = std::make_shared<Range>(size());
    for (size_t before = 0; before < i; ++before)
      range_->low[before] = range_->high[before] = value_.number(static_cast<int64_t>(before));
  }
  range_->low[i] = x.low;
  range_->high[i] = x.high;
  range_->spread[i] = x.spread;
}

void Builder::set_integer(int64_t at, int64_t exact) {
  (*value_.integers)[static_cast<size_t>(at)] = exact;
}

Value Builder::finish() {
  return {std::move(value_), std::nullopt, std::move(range_)};
}

}  // namespace bound

bool Bounded::promises(int64_t at) const {
  const auto i = static_cast<size_t>(at);
  return low.empty() || !(low[i] == -bound::kInfinity && high[i] == bound::kInfinity);
}

bool Bounded::allows(int64_t at, double got) const {
  const auto i = static_cast<size_t>(at);
  const double bottom = low.empty() ? value[i] : low[i], top = low.empty() ? value[i] : high[i];
  if (std::isnan(bottom)) return std::isnan(got);
  if (!ir::is_float(dtype)) return got >= bottom && got <= top;
  // f8e4m3 overflows to NaN.
  const double least = ir::round_to(dtype, bottom), most = ir::round_to(dtype, top);
  if (std::isnan(got)) return std::isnan(least) || std::isnan(most);
  return (std::isnan(least) || got >= least) && (std::isnan(most) || got <= most);
}

double Bounded::error(int64_t at) const {
  const auto i = static_cast<size_t>(at);
  const double want = value[i];
  if (!promises(at) || !std::isfinite(want)) return bound::kInfinity;
  const double bottom = low.empty() ? want : low[i], top = low.empty() ? want : high[i];
  if (!ir::is_float(dtype)) return std::max(want - bottom, top - want);
  const double error =
      std::max(want - ir::round_to(dtype, bottom), ir::round_to(dtype, top) - want);
  return std::isnan(error) ? bound::kInfinity : std::fabs(error);
}

Result<std::vector<Bounded>> error_bounds(const ir::Graph& graph, const ir::Bindings& inputs,
                                          const BoundOptions& options) {
  ATTACCA_TRY(ir::SymbolValues symbols, symbols_of(graph, inputs));
  try {
    return bound::Bounds(graph, inputs, options, std::move(symbols)).run();
  } catch (const std::bad_alloc&) {
    return fail("memory ran out for the f64 reference", {}, "use smaller dimensions");
  }
}

}  // namespace attacca::run
