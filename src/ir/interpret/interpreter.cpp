#include "ir/interpret/interpreter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fmt/format.h"

#include "ir/graph/semantics.hpp"
#include "ir/interpret/array.hpp"
#include "ir/interpret/codes.hpp"
#include "ir/interpret/groups.hpp"
#include "ir/interpret/mxfp4.hpp"
#include "ir/packed/header.hpp"
#include "ir/packed/packed.hpp"
#include "support/check.hpp"
#include "support/memory.hpp"

namespace attacca::ir {
namespace {

// Rounds a computed float of a node of `dtype` that declares the compute type `compute`.
struct Rounding {
  Precision precision;
  DType dtype;
  std::optional<DType> compute = {};

  double operator()(double x) const {
    if (precision == Precision::Exact || dtype == DType::F64) return x;
    x = round_to(DType::F32, x);
    if (compute) x = round_to(*compute, x);
    return precision == Precision::Eager ? round_to(dtype, x) : x;
  }
};

class Run {
 public:
  Run(const Graph& graph, const Bindings& inputs, const InterpreterOptions& options,
      SymbolValues symbols)
      : graph_(graph), inputs_(inputs), options_(options), symbols_(std::move(symbols)) {}

  Result<std::vector<Tensor>> run() {
    const std::vector<bool> alive = live(graph_);
    const std::vector<uint32_t> last_use = last_uses();
    values_.resize(graph_.size());
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      if (!alive[id]) continue;
      auto array = evaluate_node(Value{id});
      if (!array) {
        Error error = array.error();
        if (error.where.empty()) error.where = node_place(Value{id});
        return tl::make_unexpected(std::move(error));
      }
      values_[id] = *std::move(array);
      for (const Value operand : graph_.nodes()[id].operands)
        if (last_use[operand.id] == id) values_[operand.id] = {};
    }
    std::vector<Tensor> results;
    for (const Output& output : graph_.outputs()) {
      ATTACCA_TRY(Tensor tensor, to_tensor(output.value));
      results.push_back(std::move(tensor));
    }
    return results;
  }

 private:
  std::vector<uint32_t> last_uses() const {
    std::vector<uint32_t> last(graph_.size(), 0);
    for (uint32_t id = 0; id < graph_.size(); ++id)
      for (const Value operand : graph_.nodes()[id].operands) last[operand.id] = id;
    for (const Output& output : graph_.outputs())
      last[output.value.id] = std::numeric_limits<uint32_t>::max();
    return last;
  }

  std::string node_place(Value value) const {
    const Node& node = graph_[value];
    return node.name.empty() ? fmt::format("{} (node {})", name(node.op), value.id) : node.name;
  }

  Result<std::vector<int64_t>> extents_of(Value value) const {
    ATTACCA_TRY(auto extents, evaluate(graph_.type(value).shape, symbols_));
    // All code below may allocate the result with 8 bytes for each element.
    int64_t bytes = 8;
    for (const int64_t extent : extents)
      if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes) ||
          bytes > physical_memory())
        return fail(fmt::format("a value of shape {} is larger than this machine's memory",
                                to_string(extents)),
                    {}, "use smaller dimensions");
    return extents;
  }

  Result<Array> evaluate_node(Value value) {
    const Node& node = graph_[value];
    ATTACCA_TRY(auto extents, extents_of(value));
    switch (info(node.op).kind) {
      case OpKind::Elementwise:
        return elementwise(node, std::move(extents));
      case OpKind::Reduction:
        return reduction(node, std::move(extents));
      case OpKind::Structural:
        return structural(value, node, std::move(extents));
    }
    ATTACCA_CHECK(false, "unknown kind");
  }

  Result<Array> structural(Value value, const Node& node, std::vector<int64_t> extents) {
    switch (node.op) {
      case Op::Input:
        return input(node);
      case Op::Constant:
        return constant(node);
      case Op::MatMul:
      case Op::GroupedMatMul:
        return matmul(value, node, std::move(extents));
      case Op::Cast:
        return cast(node, std::move(extents));
      case Op::Transpose:
      case Op::Permute:
      case Op::Reshape:
      case Op::Broadcast:
      case Op::Slice:
        return viewed(node, operand(node, 0), std::move(extents), symbols_);
      case Op::Concat:
        return concatenated(operands(node), std::move(extents), node.get<AxisAttrs>().axis);
      case Op::Gather:
        return gathered(operand(node, 0), values_[node.operands[1].id], std::move(extents),
                        node.get<AxisAttrs>().axis);
      case Op::Scatter:
        return scattered(operand(node, 0), values_[node.operands[1].id], operand(node, 2));
      case Op::ScatterAdd:
        return scatter_added(node);
      case Op::Argsort:
        return argsorted(operand(node, 0), node.get<AxisAttrs>().axis);
      case Op::Arange: {
        ATTACCA_TRY(const int64_t begin, first_of(node, symbols_));
        return arange(begin, extents[0]);
      }
      case Op::GroupIds:
        return reference_group_ids(operand(node, 0), extents[0]);
      case Op::Kernel:
        return fail(
            fmt::format("the kernel of {} has no reference", node.get<KernelAttrs>().call.file),
            node.name, "check a graph without it, or run it on a GPU");
      case Op::Unpack:
        return unpacked(value, node);
      case Op::MxFp4:
        return widened(node, std::move(extents));
      case Op::Decode:
        return decoded(node, std::move(extents));
      case Op::ScaleBlocks:
        return scaled_blocks(node, std::move(extents));
      default:
        ATTACCA_CHECK(false, "no reference for a structural op");
    }
  }

  // An operand of an op that moves or multiplies. A literal is rounded to its dtype first.
  Array operand(const Node& node, size_t index) const {
    const Value value = node.operands[index];
    const Array& array = values_[value.id];
    if (!graph_[value].literal || array.is_integer()) return array;
    Array rounded = dense(array);
    rounded.numbers = std::make_shared<std::vector<double>>(*rounded.numbers);
    for (double& x : *rounded.numbers) x = round_stored(x, graph_.type(value).dtype);
    return rounded;
  }

  Result<Array> unpacked(Value value, const Node& node) const {
    const Array packed = dense(operand(node, 0));
    std::vector<std::byte> bytes;
    for (const int64_t byte : *packed.integers) bytes.push_back(static_cast<std::byte>(byte));
    ATTACCA_TRY(const PackedLayout layout, packed_layout(node.get<UnpackAttrs>()));
    if (Status fits = check_packed(bytes, layout); !fits)
      return fail(fits.error().what, node_place(value), fits.error().fix);
    const bool exact = options_.precision == Precision::Exact && is_float(node.type.dtype);
    ATTACCA_TRY(Tensor weights,
                Tensor::make(exact ? DType::F64 : node.type.dtype, {layout.n, layout.k}));
    dequantize(bytes, layout, weights);
    return from_tensor(weights);
  }

  Array widened(const Node& node, std::vector<int64_t> extents) const {
    const Array codes = dense(operand(node, 0)), scales = dense(operand(node, 1));
    Array result = Array::of_numbers(std::move(extents));
    for (int64_t at = 0; at < result.size(); ++at) {
      const int64_t byte = codes.integer(at / 2), scale = scales.integer(at / kMxFp4Block);
      (*result.numbers)[at] = round_stored(mxfp4_value(byte >> (4 * (at % 2)), scale), DType::BF16);
    }
    return result;
  }

  Array decoded(const Node& node, std::vector<int64_t> extents) const {
    const Array codes = dense(operand(node, 0)), scales = dense(operand(node, 1));
    const Array zeros = node.operands.size() > 2 ? dense(operand(node, 2)) : Array();
    const CodeFormat format = *code_format(graph_, node);
    Array result = Array::of_numbers(std::move(extents));
    for (int64_t at = 0; at < result.size(); ++at) {
      const int64_t code = code_of(format, codes.integer(at * format.bits / 8), at);
      const int64_t zero = format.zeros ? zeros.integer(at / format.block) : format.zero;
      const double value = static_cast<double>(code - zero) * scales.number(at / format.block);
      (*result.numbers)[at] = options_.precision == Precision::Exact
                                  ? value
                                  : round_stored(round_stored(value, DType::F32), format.dtype);
    }
    return result;
  }

  // The updates of a row are added to it one by one.
  Result<Array> scatter_added(const Node& node) const {
    Array result = dense(operand(node, 0));
    const Array updates = dense(operand(node, 2));
    ATTACCA_TRY(const std::vector<int64_t> rows,
                indexed_rows(values_[node.operands[1].id], result.extents[0], node.op));
    const int64_t width = rows.empty() ? 0 : updates.size() / static_cast<int64_t>(rows.size());
    if (result.is_integer())
      result.integers = std::make_shared<std::vector<int64_t>>(*result.integers);
    else
      result.numbers = std::make_shared<std::vector<double>>(*result.numbers);
    const Rounding round{options_.precision, node.type.dtype};
    int64_t from = 0;
    for (const int64_t row : rows)
      for (int64_t at = row * width; at < (row + 1) * width; ++at, ++from) {
        if (result.is_integer()) {
          int64_t& x = (*result.integers)[at];
          x = to_integer(node.type.dtype, sem::add(x, updates.integer(from)));
        } else {
          double& x = (*result.numbers)[at];
          x = round(x + updates.number(from));
        }
      }
    return result;
  }

  Array scaled_blocks(const Node& node, std::vector<int64_t> extents) const {
    const Array x = operand(node, 0), scale = operand(node, 1);
    Array result = Array::of_numbers(std::move(extents));
    const size_t rank = result.extents.size();
    std::vector<int64_t> index(rank, 0);
    int64_t next = 0;
    for_each_position(x, [&](int64_t at) {
      int64_t block = scale.offset;
      for (size_t axis = 0; axis < rank; ++axis)
        block += index[axis] / node.get<BlocksAttrs>().block[axis] * scale.strides[axis];
      (*result.numbers)[next++] = round_stored(x.number(at) * scale.number(block), DType::F32);
      for (size_t axis = rank; axis-- > 0 && ++index[axis] == result.extents[axis];)
        index[axis] = 0;
    });
    return result;
  }

  double round_stored(double x, DType dtype) const {
    return options_.precision == Precision::Exact ? x : round_to(dtype, x);
  }

  Result<Array> input(const Node& node) const {
    const Tensor& tensor = inputs_.at(node.name);
    ATTACCA_TRY_VOID(check_dtype(node, tensor));
    return from_tensor(tensor);
  }

  static Array from_tensor(const Tensor& tensor) {
    const bool real = is_float(tensor.dtype());
    Array view;
    view.extents = tensor.shape();
    view.strides = tensor.strides();
    Array array = real ? Array::of_numbers(tensor.shape()) : Array::of_integers(tensor.shape());
    int64_t next = 0;
    for_each_position(view, [&](int64_t at) {
      if (real)
        (*array.numbers)[next++] = tensor.number_at(at);
      else
        (*array.integers)[next++] = tensor.integer_at(at);
    });
    return array;
  }

  Result<Array> constant(const Node& node) const {
    if (node.tensor) return from_tensor(*node.tensor);
    const DType dtype = node.type.dtype;
    Array array = is_float(dtype) ? Array::of_numbers({}) : Array::of_integers({});
    const double value = node.literal->value;
    const bool exact = options_.precision == Precision::Exact || dtype == DType::F64;
    if (is_float(dtype))
      (*array.numbers)[0] = exact ? value : round_to(DType::F32, value);
    else
      (*array.integers)[0] = to_integer(dtype, value);
    return array;
  }

  Result<Array> matmul(Value value, const Node& node, std::vector<int64_t> extents) const {
    const Rounding round{options_.precision, node.type.dtype};
    Array result;
    if (const auto given = options_.accumulators.find(value);
        given != options_.accumulators.end()) {
      if (given->second.shape() != extents)
        return fail(fmt::format("accumulators of shape {} for a product of shape {}",
                                to_string(given->second.shape()), to_string(extents)));
      result = from_tensor(given->second);
    } else {
      result = node.op == Op::MatMul ? reference_matmul(operand(node, 0), operand(node, 1))
                                     : grouped_product(node);
    }
    if (result.is_integer())
      for (int64_t& x : *result.integers) x = to_integer(node.type.dtype, x);
    else
      for (double& x : *result.numbers) x = round(x);
    return result;
  }

  Array grouped_product(const Node& node) const {
    return reference_grouped_matmul(operand(node, 0), operand(node, 1), operand(node, 2));
  }

  Result<Array> cast(const Node& node, std::vector<int64_t> extents) const {
    const Array& x = values_[node.operands[0].id];
    const DType dtype = node.type.dtype;
    const auto overflow = node.saturates() ? Overflow::Saturate : Overflow::Ieee;
    int64_t next = 0;
    if (is_float(dtype)) {
      Array result = Array::of_numbers(std::move(extents));
      const bool exact = options_.precision == Precision::Exact;
      const bool unrounded = node.compute() && options_.precision == Precision::Fp32;
      const DType rounded = unrounded ? *node.compute() : dtype;
      for_each_position(x, [&](int64_t at) {
        double number = x.number(at);
        // An integer reaches a narrow float through f32, as in the lanes of every executor.
        if (!exact && x.is_integer() && dtype != DType::F64) number = round_to(DType::F32, number);
        (*result.numbers)[next++] = exact ? number : round_to(rounded, number, overflow);
      });
      return result;
    }
    Array result = Array::of_integers(std::move(extents));
    for_each_position(x, [&](int64_t at) {
      (*result.integers)[next++] = x.is_integer() ? to_integer(dtype, x.integer(at), overflow)
                                                  : to_integer(dtype, x.number(at), overflow);
    });
    return result;
  }

  // The type in which an elementwise node combines its operands.
  DType operand_dtype(const Node& node) const {
    const size_t first = node.op == Op::Where ? 1 : 0;
    DType dtype = graph_.type(node.operands[first]).dtype;
    for (size_t i = first + 1; i < node.operands.size(); ++i)
      dtype = promote(dtype, graph_.type(node.operands[i]).dtype).value_or(dtype);
    return dtype;
  }

  Result<Array> elementwise(const Node& node, std::vector<int64_t> extents) const {
    std::array<Array, 3> operands;
    const size_t arity = node.operands.size();
    for (size_t i = 0; i < arity; ++i)
      operands[i] = broadcast_view(values_[node.operands[i].id], extents);
    return is_float(operand_dtype(node)) ? over_numbers(node, std::move(extents), operands)
                                         : over_integers(node, std::move(extents), operands);
  }

  Result<Array> over_numbers(const Node& node, std::vector<int64_t> extents,
                             const std::array<Array, 3>& operands) const {
    const size_t arity = node.operands.size();
    const bool real = is_float(node.type.dtype);
    const DType joint = operand_dtype(node);
    const bool convert = options_.precision != Precision::Exact && joint != DType::F64;
    Array result = real ? Array::of_numbers(extents) : Array::of_integers(extents);
    const int64_t count = result.size();
    std::array<std::vector<double>, 3> columns;
    for (size_t i = 0; i < arity; ++i) {
      columns[i].reserve(static_cast<size_t>(count));
      const Array& x = operands[i];
      for_each_position(x, [&](int64_t at) {
        const double number = x.number(at);
        columns[i].push_back(convert && x.is_integer() ? round_to(DType::F32, number) : number);
      });
    }
    const Rounding round{options_.precision, node.type.dtype, node.compute()};
    std::array<double, 3> in{};
    for (int64_t at = 0; at < count; ++at) {
      for (size_t i = 0; i < arity; ++i) in[i] = columns[i][at];
      const double out = evaluate(node.op, {in.data(), arity}, node.params());
      if (real)
        (*result.numbers)[at] = round(out);
      else
        (*result.integers)[at] = out != 0;
    }
    return result;
  }

  Result<Array> over_integers(const Node& node, std::vector<int64_t> extents,
                              const std::array<Array, 3>& operands) const {
    const size_t arity = node.operands.size();
    Array result = Array::of_integers(extents);
    const int64_t count = result.size();
    std::array<std::vector<int64_t>, 3> columns;
    for (size_t i = 0; i < arity; ++i) {
      columns[i].reserve(static_cast<size_t>(count));
      const Array& x = operands[i];
      for_each_position(x, [&](int64_t at) { columns[i].push_back(x.integer(at)); });
    }
    std::array<int64_t, 3> in{};
    for (int64_t at = 0; at < count; ++at) {
      for (size_t i = 0; i < arity; ++i) in[i] = columns[i][at];
      (*result.integers)[at] =
          to_integer(node.type.dtype, evaluate(node.op, {in.data(), arity}, node.params()));
    }
    return result;
  }

  Array reduction(const Node& node, std::vector<int64_t> extents) const {
    Array result =
        reduced(node.op, operand(node, 0), node.get<ReductionAttrs>().axes, std::move(extents));
    const Rounding round{options_.precision, node.type.dtype};
    if (result.is_integer())
      for (int64_t& x : *result.integers)
        x = to_integer(node.type.dtype, within(node.op, node.type.dtype, x));
    else
      for (double& x : *result.numbers) x = round(x);
    return result;
  }

  // The extremum of no elements is the end of its dtype's range, not of s64's.
  static int64_t within(Op op, DType dtype, int64_t extremum) {
    using Limits = std::numeric_limits<int32_t>;
    if (dtype != DType::S32 || (op != Op::ReduceMax && op != Op::ReduceMin)) return extremum;
    return std::clamp<int64_t>(extremum, Limits::min(), Limits::max());
  }

  std::vector<Array> operands(const Node& node) const {
    std::vector<Array> arrays;
    for (size_t i = 0; i < node.operands.size(); ++i) arrays.push_back(operand(node, i));
    return arrays;
  }

  Result<Tensor> to_tensor(Value value) const {
    const Array& array = values_[value.id];
    const DType declared = graph_.type(value).dtype;
    const bool exact = options_.precision == Precision::Exact && is_float(declared);
    ATTACCA_TRY(Tensor tensor, Tensor::make(exact ? DType::F64 : declared, array.extents));
    int64_t next = 0;
    for_each_position(array, [&](int64_t at) {
      if (array.is_integer())
        tensor.set_integer(next++, array.integer(at));
      else
        tensor.set_number(next++, array.number(at));
    });
    return tensor;
  }

  const Graph& graph_;
  const Bindings& inputs_;
  const InterpreterOptions& options_;
  SymbolValues symbols_;
  std::vector<Array> values_;
};

}  // namespace

Status check_dtype(const Node& input, const Tensor& tensor) {
  if (tensor.dtype() == input.type.dtype) return {};
  return fail(fmt::format("input {} is {}, the graph wants {}", input.name, name(tensor.dtype()),
                          to_string(input.type)),
              input.name, "convert the input");
}

Result<std::vector<Tensor>> interpret(const Graph& graph, const Bindings& inputs,
                                      const InterpreterOptions& options) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  ATTACCA_TRY(SymbolValues symbols, bind_symbols(graph, shapes));
  return Run(graph, inputs, options, std::move(symbols)).run();
}

}  // namespace attacca::ir
