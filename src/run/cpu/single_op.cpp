// Ops that are regions of their own: copies of views, concat, gather, groups of rows, reductions.
// All other ops go to the reference interpreter.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "fmt/format.h"

#include "fuse/views.hpp"
#include "ir/interpret/array.hpp"
#include "ir/interpret/codes.hpp"
#include "ir/interpret/groups.hpp"
#include "ir/interpret/interpreter.hpp"
#include "ir/packed/header.hpp"
#include "ir/packed/packed.hpp"
#include "run/cpu/executable.hpp"
#include "run/cpu/indexed.hpp"
#include "run/cpu/matrix.hpp"
#include "run/cpu/reduce.hpp"
#include "run/cpu/thread_pool.hpp"
#include "run/shared/access.hpp"
#include "run/shared/extents.hpp"
#include "run/shared/single_regions.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

using ir::Op;
using ir::Tensor;
using ir::Value;

// Elements whose copying is worth another thread.
constexpr int64_t kWorthCopying = 32 * 1024;

// One op; `operands` are dense and row-major.
class SingleOp : public Executable {
 public:
  SingleOp(const ir::Graph& graph, Value value, ir::Mode mode)
      : node_(graph[value]),
        value_(value),
        mode_(mode),
        format_(ir::code_format(graph, graph[value])) {
    for (const Value operand : node_.operands) operand_types_.push_back(graph.type(operand));
    if (fuse::is_view_op(node_.op))
      view_ = copied_access(graph, value, fuse::dense_strides(operand_types_[0].shape));
    for (const ir::Output& output : graph.outputs()) is_output_ |= output.value == value;
  }

  Status run(RunState& state, const Sizes*) const override {
    ATTACCA_TRY(auto shape, evaluate(node_.type.shape, state.symbols));
    if (fuse::is_view_op(node_.op) && !is_output_) {
      ATTACCA_TRY(const bool shared, share(shape, state));
      if (shared) return {};
    }
    ATTACCA_TRY(Tensor result, state.result(value_, node_.type.dtype, std::move(shape)));
    std::vector<Tensor> dense;
    for (const Value operand : node_.operands) {
      ATTACCA_TRY(Tensor each, state.values[operand.id].contiguous());
      dense.push_back(std::move(each));
    }
    std::vector<const Tensor*> operands;
    for (const Tensor& each : dense) operands.push_back(&each);
    ATTACCA_TRY_VOID(compute(operands, result, state));
    state.values[value_.id] = std::move(result);
    return {};
  }

 private:
  // A view whose elements follow each other in its operand is a part of the operand's memory.
  Result<bool> share(const std::vector<int64_t>& shape, RunState& state) const {
    const Tensor& x = state.values[node_.operands[0].id];
    if (!x.is_contiguous() || x.size() == 0 || count_of(shape) == 0) return false;
    ATTACCA_TRY(const ConcreteAccess view, evaluate_access(view_, state.symbols));
    const std::vector<int64_t> dense = ir::contiguous_strides(shape);
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] != 1 && view.strides[axis] != dense[axis]) return false;
    const auto whole = std::make_shared<Tensor>(x);
    const std::shared_ptr<std::byte> part(whole,
                                          whole->data() + view.offset * ir::size_of(x.dtype()));
    state.values[value_.id] = Tensor::adopt(x.dtype(), shape, part);
    return true;
  }

  Status compute(const std::vector<const Tensor*>& operands, Tensor& result,
                 RunState& state) const {
    if (node_.op == Op::Arange) return count_up(result, state);
    const Tensor& x = *operands[0];
    if (ir::is_reduction(node_.op)) {
      std::vector<bool> reduced(x.shape().size(), false);
      for (const int64_t axis : node_.get<ir::ReductionAttrs>().axes) reduced[axis] = true;
      reduce(node_.op, x, reduced, result, mode_, state.threads);
      return {};
    }
    switch (node_.op) {
      case Op::Transpose:
      case Op::Permute:
      case Op::Broadcast:
      case Op::Slice:
      case Op::Reshape: {
        if (result.size() == 0) return {};  // begin of an empty slice may be -1
        ATTACCA_TRY(const ConcreteAccess view, evaluate_access(view_, state.symbols));
        copy_view(x, view, result, state.threads);
        return {};
      }
      case Op::Concat:
        concat(operands, result, state.threads);
        return {};
      case Op::Gather:
        return gather(x, *operands[1], result, state.threads);
      case Op::Unpack:
        return unpack(x, result);
      case Op::MxFp4:
      case Op::Decode:
        widen(operands, result, state.threads);
        return {};
      case Op::GroupIds: {
        const int64_t rows = result.size();
        ir::number_rows(ir::group_ends(x.as<int32_t>(), x.size(), 1, rows), rows,
                        result.as<int32_t>());
        return {};
      }
      case Op::ScatterAdd:
        if (!ir::is_float(result.dtype()) || result.dtype() == ir::DType::F64)
          return interpret_alone(operands, result, state);
        return scatter_add(operands, result, state.threads);
      default:
        return interpret_alone(operands, result, state);
    }
  }

  static void copy_view(const Tensor& x, const ConcreteAccess& view, Tensor& result, int threads) {
    std::vector<int64_t> shape = result.shape(), strides = view.strides;
    while (shape.size() < 2) {
      shape.insert(shape.begin(), 1);
      strides.insert(strides.begin(), 0);
    }
    const size_t rank = shape.size();
    const int64_t width = ir::size_of(x.dtype()), rows = shape[rank - 2], columns = shape[rank - 1];
    const int64_t tall = std::clamp<int64_t>(65536 / columns, 1, rows);
    const int64_t down = (rows + tall - 1) / tall;
    threads = worth(threads, result.size(), kWorthCopying);
    ThreadPool::shared().run(threads, count_of(shape, 0, rank - 2) * down, [&](int64_t task) {
      int64_t rest = task / down, offset = view.offset;
      for (size_t axis = rank - 2; axis-- > 0;) {
        offset += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
      const int64_t row0 = task % down * tall, row1 = std::min(rows, row0 + tall);
      const MatrixView matrix{x.data() + offset * width, x.dtype(),        rows, columns,
                              strides[rank - 2],         strides[rank - 1]};
      copy_dense(matrix.part(row0, row1, 0, columns), x.dtype(),
                 result.data() + (task / down * rows + row0) * columns * width);
    });
  }

  void concat(const std::vector<const Tensor*>& parts, Tensor& result, int threads) const {
    const auto axis = static_cast<size_t>(node_.get<ir::AxisAttrs>().axis);
    const int64_t width = ir::size_of(result.dtype());
    const int64_t outer = count_of(result.shape(), 0, axis);
    const int64_t inner = count_of(result.shape(), axis + 1) * width;
    const int64_t whole = result.shape()[axis] * inner;
    ThreadPool::shared().run(worth(threads, result.size(), kWorthCopying), outer, [&](int64_t i) {
      std::byte* to = result.data() + i * whole;
      for (const Tensor* part : parts) {
        const int64_t bytes = part->shape()[axis] * inner;
        std::memcpy(to, part->data() + i * bytes, static_cast<size_t>(bytes));
        to += bytes;
      }
    });
  }

  Status gather(const Tensor& x, const Tensor& index, Tensor& result, int threads) const {
    const auto axis = static_cast<size_t>(node_.get<ir::AxisAttrs>().axis);
    const int64_t extent = x.shape()[axis];
    std::vector<int64_t> chosen(index.size());
    for (int64_t i = 0; i < index.size(); ++i) {
      const int64_t raw = index.integer_at(i);
      chosen[i] = raw < 0 ? raw + extent : raw;
      if (chosen[i] < 0 || chosen[i] >= extent)
        return fail(fmt::format("gather index {} is outside an axis of {}", raw, extent), place(),
                    "use indices inside the axis");
    }
    const int64_t outer = count_of(x.shape(), 0, axis);
    const int64_t inner = count_of(x.shape(), axis + 1) * ir::size_of(x.dtype());
    ThreadPool::shared().run(worth(threads, result.size(), kWorthCopying), outer, [&](int64_t o) {
      std::byte* to = result.data() + o * static_cast<int64_t>(chosen.size()) * inner;
      for (const int64_t i : chosen) {
        std::memcpy(to, x.data() + (o * extent + i) * inner, static_cast<size_t>(inner));
        to += inner;
      }
    });
    return {};
  }

  Status scatter_add(const std::vector<const Tensor*>& operands, Tensor& result,
                     int threads) const {
    const Tensor &index = *operands[1], &updates = *operands[2];
    const int64_t extent = result.shape()[0], columns = count_of(result.shape(), 1);
    ATTACCA_TRY(const std::vector<int64_t> rows,
                rows_of(index, {{0, {1}}, extent}, index.size(), Op::ScatterAdd, place()));
    const auto matrix = [&](const Tensor& of, int64_t count) {
      return MatrixView{of.data(), of.dtype(), count, columns, columns, 1};
    };
    add_rows(matrix(*operands[0], extent), matrix(updates, index.size()), rows, result.data(),
             mode_, threads);
    return {};
  }

  void widen(const std::vector<const Tensor*>& operands, Tensor& result, int threads) const {
    const ir::CodeMemory from{operands[0]->data(), operands[1]->data(),
                              operands.size() > 2 ? operands[2]->data() : nullptr};
    const int64_t blocks = operands[1]->size(), block = format_->block;
    const int64_t together = std::max<int64_t>(32768 / block, 1);
    const int64_t tasks = (blocks + together - 1) / together;
    ThreadPool::shared().run(worth(threads, result.size(), kWorthCopying), tasks, [&](int64_t i) {
      const int64_t first = i * together, count = std::min(together, blocks - first);
      widen_codes(*format_, from.from(*format_, first * block), count * block,
                  result.data() + first * block * ir::size_of(result.dtype()));
    });
  }

  Status count_up(Tensor& result, const RunState& state) const {
    ATTACCA_TRY(const int64_t begin, ir::first_of(node_, state.symbols));
    std::iota(result.as<int64_t>(), result.as<int64_t>() + result.size(), begin);
    return {};
  }

  Status unpack(const Tensor& packed, Tensor& result) const {
    const std::span<const std::byte> bytes(packed.data(), static_cast<size_t>(packed.bytes()));
    ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(node_.get<ir::UnpackAttrs>()));
    if (Status fits = ir::check_packed(bytes, layout); !fits)
      return fail(fits.error().what, place(), fits.error().fix);
    ir::dequantize(bytes, layout, result);
    return {};
  }

  std::string place() const {
    return node_.name.empty() ? fmt::format("{} (node {})", name(node_.op), value_.id) : node_.name;
  }

  // A graph of this node only, of this run's shapes.
  Status interpret_alone(const std::vector<const Tensor*>& operands, Tensor& result,
                         const RunState& state) const {
    ir::Graph alone;
    ir::Bindings inputs;
    std::vector<Value> values;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string name = fmt::format("operand{}", i);
      const auto& extents = operands[i]->shape();
      ATTACCA_TRY(
          const Value value,
          alone.input(name, {operand_types_[i].dtype, ir::Shape(extents.begin(), extents.end())}));
      values.push_back(value);
      inputs[name] = *operands[i];
    }
    ATTACCA_TRY(const Value node, alone.add(node_.op, values, node_.attrs));
    alone.add_output(node, "result");
    const auto precision = mode_ == ir::Mode::Eager ? ir::Precision::Eager : ir::Precision::Fp32;
    ATTACCA_TRY(const std::vector<Tensor> computed,
                ir::interpret(alone, inputs, {.precision = precision, .accumulators = {}}));
    std::memcpy(result.data(), computed[0].data(), static_cast<size_t>(result.bytes()));
    if (node_.op == Op::MatMul && state.accumulators) (*state.accumulators)[value_] = computed[0];
    return {};
  }

  const ir::Node node_;
  const Value value_;
  const ir::Mode mode_;
  const std::optional<ir::CodeFormat> format_;  // of an op that widens codes
  std::vector<ir::Type> operand_types_;
  epilogue::Access view_;  // of an op that only chooses elements
  bool is_output_ = false;
};

}  // namespace

Result<std::unique_ptr<Executable>> make_single(const ir::Graph& graph, const fuse::Region& region,
                                                ir::Mode mode) {
  ATTACCA_CHECK(region.nodes.size() == 1, "a single region has one node");
  const Value value = region.nodes[0];
  const Op op = graph[value].op;
  if (ir::is_elementwise(op) || op == Op::Cast)
    return make_epilogue_region(graph, pointwise_region(graph, region), mode,
                                KnownValues(graph.size()), 1);
  return std::make_unique<SingleOp>(graph, value, mode);
}

}  // namespace attacca::run
