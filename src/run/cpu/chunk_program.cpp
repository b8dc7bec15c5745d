#include "run/cpu/chunk_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "support/check.hpp"

namespace attacca::run {
namespace {

using epilogue::Epilogue;
using ir::DType;

// The rows of a chunk. Operands with one value for each row are splats in one row, and arrays of
// lanes in several.
enum class ChunkRows : uint8_t { One, Several };

class Compiler {
 public:
  Compiler(const Epilogue& epilogue, ir::Mode mode, ChunkRows rows)
      : epilogue_(epilogue), mode_(mode), pointwise_(is_pointwise(epilogue)), rows_(rows) {}

  ChunkProgram compile() {
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) add_input_slot(i);
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) add_value_of_input(i);
    count_uses();
    for (const epilogue::Node& node : epilogue_.nodes) add_node(node);
    for (const epilogue::Output& output : epilogue_.outputs) add_store(output);
    choose_direct_outputs();
    move_alike_steps();
    assign_buffers();
    program_.chain = match_chain(epilogue_, mode_);
    find_integer_chain();
    return std::move(program_);
  }

 private:
  // An epilogue value: where it lives, and its dtype in the graph.
  struct Value {
    int slot = 0;
    DType dtype = DType::F32;
  };

  int add_slot(Lane lane, bool splat, Slot::Kind kind = Slot::Kind::Buffer, int index = 0) {
    program_.slots.push_back({kind, lane, splat, index});
    return static_cast<int>(program_.slots.size()) - 1;
  }

  void add_input_slot(size_t i) {
    const epilogue::Input& input = epilogue_.inputs[i];
    const bool splat = input.role != epilogue::Role::Accumulator &&
                       (input.access.strides.empty() || input.access.strides.back().is(0)) &&
                       !(rows_ == ChunkRows::Several && input.role == epilogue::Role::Column);
    add_slot(lane_of(input.dtype), splat, Slot::Kind::Input, static_cast<int>(i));
  }

  // In eager mode an accumulator is first rounded to its matmul's dtype.
  void add_value_of_input(size_t i) {
    const epilogue::Input& input = epilogue_.inputs[i];
    const auto slot = static_cast<int>(i);
    if (input.role != epilogue::Role::Accumulator) {
      values_.push_back({slot, input.dtype});
      return;
    }
    values_.push_back({accumulator(slot, input), input.rounded});
  }

  int accumulator(int slot, const epilogue::Input& input) {
    const Lane lane = lane_of(input.rounded);
    if (lane != lane_of(input.dtype)) return scalar_cast(slot, input.rounded, ir::Overflow::Ieee);
    const bool round = mode_ == ir::Mode::Eager && lane == Lane::F32;
    return round ? rounded(slot, input.rounded) : slot;
  }

  void add_store(const epilogue::Output& output) {
    constexpr DType kWhole[] = {DType::F32, DType::S32, DType::F64, DType::S64};
    const int slot = values_[output.value].slot;
    const bool store = output.kind == epilogue::OutputKind::Store;
    const Lane lane = program_.slots[slot].lane;
    program_.stores.push_back({slot, store ? output.dtype : kWhole[static_cast<int>(lane)]});
  }

  Step& add_step(Kernel kernel, int out, const std::vector<int>& in) {
    ATTACCA_CHECK(kernel != nullptr, "a step without a kernel");
    Step& step = program_.steps.emplace_back();
    step.kernel = kernel;
    step.out = out;
    step.arity = static_cast<int>(in.size());
    std::copy(in.begin(), in.end(), step.in);
    return step;
  }

  int unary(Kernel kernel, Lane lane, int in) {
    const int out = add_slot(lane, program_.slots[in].splat);
    add_step(kernel, out, {in});
    return out;
  }

  int rounded(int slot, DType dtype, ir::Overflow overflow = ir::Overflow::Ieee) {
    const Kernel kernel = round_kernel(dtype, overflow);
    return kernel ? unary(kernel, Lane::F32, slot) : slot;
  }

  void count_uses() {
    uses_.assign(epilogue_.inputs.size() + epilogue_.nodes.size(), 0);
    for (const epilogue::Node& node : epilogue_.nodes)
      for (const int operand : node.operands) ++uses_[operand];
    for (const epilogue::Output& output : epilogue_.outputs) ++uses_[output.value];
  }

  // The node of a value if it is such an op, computed in its dtype, and one other reads it.
  const epilogue::Node* only_read(int value, ir::Op op, DType dtype = DType::F32) const {
    const auto inputs = static_cast<int>(epilogue_.inputs.size());
    if (value < inputs || uses_[value] != 1) return nullptr;
    const epilogue::Node& node = epilogue_.nodes[value - inputs];
    const bool plain = node.op == op && node.dtype == dtype && !node.compute;
    return plain ? &node : nullptr;
  }
  bool is_number(int value) const {
    const Slot& slot = program_.slots[values_[value].slot];
    return slot.splat && slot.lane == Lane::F32;
  }
  bool is_float(int value) const { return program_.slots[values_[value].slot].lane == Lane::F32; }

  // Takes back the step that computes a value which is computed in one with its only reader.
  void remove_step(int value) {
    const int slot = values_[value].slot;
    std::erase_if(program_.steps, [slot](const Step& step) { return step.out == slot; });
  }

  // saturate(round(x / scale) + zero) as one step, or -1. The scale and zero point are numbers.
  int quantized(const epilogue::Node& cast) {
    const Kernel kernel = cast.saturate ? quantize_kernel(cast.dtype) : nullptr;
    if (!kernel) return -1;
    int rounded = cast.operands[0], zero = -1;
    if (const epilogue::Node* add = only_read(rounded, ir::Op::Add)) {
      zero = add->operands[1];
      rounded = add->operands[0];
      if (!is_number(zero)) return -1;
    }
    const epilogue::Node* round = only_read(rounded, ir::Op::Round);
    const epilogue::Node* quotient = round ? only_read(round->operands[0], ir::Op::Div) : nullptr;
    if (!quotient || !is_number(quotient->operands[1]) || !is_float(quotient->operands[0]))
      return -1;
    if (zero >= 0) remove_step(cast.operands[0]);
    remove_step(rounded);
    remove_step(round->operands[0]);
    return with_scale(kernel, Lane::S32, quotient->operands[0], quotient->operands[1], zero);
  }

  // (f32(q) - zero) * scale as one step, or -1.
  int dequantized(const epilogue::Node& product) {
    for (const int side : {0, 1}) {
      int shifted = product.operands[side], zero = -1;
      const int scale = product.operands[1 - side];
      if (!is_number(scale)) continue;
      if (const epilogue::Node* sub = only_read(shifted, ir::Op::Sub)) {
        zero = sub->operands[1];
        shifted = sub->operands[0];
        if (!is_number(zero)) continue;
      }
      const epilogue::Node* cast = only_read(shifted, ir::Op::Cast);
      if (!cast || program_.slots[values_[cast->operands[0]].slot].lane != Lane::S32) continue;
      if (zero < 0)
        if (const int scaled = scaled_difference(*cast, scale); scaled >= 0) {
          remove_step(shifted);
          return scaled;
        }
      if (zero >= 0) remove_step(product.operands[side]);
      remove_step(shifted);
      return with_scale(dequantize_kernel(), Lane::F32, cast->operands[0], scale, zero);
    }
    return -1;
  }

  // f32(x - y) * scale of s32 numbers as one step, or -1.
  int scaled_difference(const epilogue::Node& cast, int scale) {
    const epilogue::Node* sub = only_read(cast.operands[0], ir::Op::Sub, DType::S32);
    if (!sub) return -1;
    const int x = values_[sub->operands[0]].slot, y = values_[sub->operands[1]].slot;
    if (program_.slots[x].lane != Lane::S32 || program_.slots[y].lane != Lane::S32) return -1;
    remove_step(cast.operands[0]);
    const int out = add_slot(Lane::F32, program_.slots[x].splat && program_.slots[y].splat);
    add_step(scale_difference_kernel(), out, {x, y, values_[scale].slot});
    return out;
  }

  int with_scale(Kernel kernel, Lane lane, int x, int scale, int zero) {
    const int in = values_[x].slot;
    const int none = zero < 0 ? constant(0, DType::F32) : values_[zero].slot;
    const int out = add_slot(lane, program_.slots[in].splat);
    add_step(kernel, out, {in, values_[scale].slot, none});
    return out;
  }

  void add_node(const epilogue::Node& node) {
    int joined = -1;
    if (node.op == ir::Op::Cast) joined = quantized(node);
    if (node.op == ir::Op::Mul && node.dtype == DType::F32 && !node.compute)
      joined = dequantized(node);
    if (joined >= 0)
      values_.push_back({joined, node.dtype});
    else if (node.op == ir::Op::Constant)
      values_.push_back({constant(node.literal, node.dtype), node.dtype});
    else if (node.op == ir::Op::Cast)
      values_.push_back({cast(node), node.dtype});
    else
      values_.push_back({elementwise(node), node.dtype});
  }

  // In f32 computation a literal is rounded to f32, whatever its dtype.
  int constant(double literal, DType dtype) {
    const Lane lane = lane_of(dtype);
    double bytes = 0;
    if (lane == Lane::F64) {
      bytes = literal;
    } else if (lane == Lane::F32) {
      const auto x = static_cast<float>(literal);
      std::memcpy(&bytes, &x, sizeof(x));
    } else {
      const int64_t x = ir::to_integer(dtype, literal);
      const auto low = static_cast<int32_t>(x);
      std::memcpy(&bytes, lane == Lane::S64 ? static_cast<const void*>(&x) : &low,
                  lane == Lane::S64 ? 8 : 4);
    }
    program_.constants.push_back(bytes);
    return add_slot(lane, true, Slot::Kind::Constant,
                    static_cast<int>(program_.constants.size()) - 1);
  }

  int cast(const epilogue::Node& node) {
    const int in = values_[node.operands[0]].slot;
    const bool eager = mode_ == ir::Mode::Eager;
    const DType dtype = eager ? node.dtype : node.compute.value_or(node.dtype);
    const Lane from = program_.slots[in].lane, to = lane_of(dtype);
    const auto overflow = node.saturate ? ir::Overflow::Saturate : ir::Overflow::Ieee;
    if (is_wide(from) || is_wide(to)) return wide_cast(in, dtype, overflow);
    if (from == Lane::F32 && to == Lane::F32) return rounded(in, dtype, overflow);
    if (from == Lane::S32 && to == Lane::F32)
      return rounded(unary(int_to_float_kernel(), Lane::F32, in), dtype, overflow);
    if (from == Lane::F32) return unary(float_to_int_kernel(dtype, overflow), Lane::S32, in);
    const Kernel wrap = wrap_kernel(dtype, overflow);
    return wrap ? unary(wrap, Lane::S32, in) : in;
  }

  int wide_cast(int in, DType dtype, ir::Overflow overflow) {
    const Lane from = program_.slots[in].lane, to = lane_of(dtype);
    if (from == Lane::S32 && to == Lane::S64) return unary(widen_kernel(), to, in);
    if (from == Lane::S64 && to == Lane::F32)
      return rounded(unary(wide_to_float_kernel(), to, in), dtype, overflow);
    if (from != Lane::S64 || to != Lane::S32 || overflow == ir::Overflow::Saturate)
      return scalar_cast(in, dtype, overflow);
    const Kernel wrap = wrap_kernel(dtype, overflow);
    const int low = unary(narrow_kernel(dtype), to, in);
    return wrap ? unary(wrap, to, low) : low;
  }

  int scalar_cast(int in, DType dtype, ir::Overflow overflow) {
    const Lane to = lane_of(dtype);
    const int out = add_slot(to, program_.slots[in].splat);
    Step& step = add_step(scalar_kernel(), out, {in});
    step.scalar = std::make_unique<ScalarCall>();
    step.scalar->op = ir::Op::Cast;
    step.scalar->in[0] = program_.slots[in].lane;
    step.scalar->out = to;
    step.scalar->narrow = to != Lane::F64;
    step.scalar->dtype = dtype;
    step.scalar->overflow = overflow;
    return out;
  }

  // The type in which an elementwise node computes, as in the interpreter.
  DType operand_dtype(const epilogue::Node& node) const {
    const size_t first = node.op == ir::Op::Where ? 1 : 0;
    DType dtype = values_[node.operands[first]].dtype;
    for (size_t i = first + 1; i < node.operands.size(); ++i)
      dtype = ir::promote(dtype, values_[node.operands[i]].dtype).value_or(dtype);
    return dtype;
  }

  // x / 2^n is x * 2^-n to the bit, and faster. Returns the reciprocal's slot.
  std::optional<int> reciprocal_of_power(const epilogue::Node& node) {
    if (node.op != ir::Op::Div || operand_dtype(node) == DType::F64) return std::nullopt;
    const Slot& slot = program_.slots[values_[node.operands[1]].slot];
    if (slot.kind != Slot::Kind::Constant || slot.lane != Lane::F32) return std::nullopt;
    float divisor = 0;
    std::memcpy(&divisor, &program_.constants[slot.index], sizeof(divisor));
    int exponent = 0;
    constexpr int kMost = 100;
    if (std::fabs(std::frexp(divisor, &exponent)) != 0.5f || std::abs(exponent) > kMost)
      return std::nullopt;
    return constant(1 / static_cast<double>(divisor), DType::F32);
  }

  int elementwise(const epilogue::Node& from) {
    epilogue::Node node = from;
    const std::optional<int> reciprocal = reciprocal_of_power(node);
    if (reciprocal) node.op = ir::Op::Mul;
    std::vector<int> in;
    bool splat = true, wide = is_wide(lane_of(node.dtype));
    for (const int operand : node.operands) {
      in.push_back(values_[operand].slot);
      splat &= program_.slots[in.back()].splat;
      wide |= is_wide(program_.slots[in.back()].lane);
    }
    if (reciprocal) in[1] = *reciprocal;
    const DType joint = operand_dtype(node);
    const Kernel kernel =
        wide ? integer_kernel_of_wide(node, joint, in) : vector_kernel(node, joint, in);
    const int out = add_slot(lane_of(node.dtype), splat);
    Step& step = add_step(kernel ? kernel : scalar_kernel(), out, in);
    for (size_t i = 0; i < node.params.size(); ++i) step.params[i] = node.params[i];
    if (!kernel) describe_scalar(step, node, joint);
    return round_result(node, out);
  }

  // The kernel of an operation on s64 lanes, nullptr if there is none. Widens operands of fewer
  // bits in place.
  Kernel integer_kernel_of_wide(const epilogue::Node& node, DType joint, std::vector<int>& in) {
    const Kernel kernel = joint == DType::S64 ? wide_kernel(node.op) : nullptr;
    if (kernel)
      for (int& slot : in)
        if (program_.slots[slot].lane == Lane::S32) slot = unary(widen_kernel(), Lane::S64, slot);
    return kernel;
  }

  // The kernel of an operation on vectors, nullptr if there is none. Converts integer operands of a
  // float operation in place.
  Kernel vector_kernel(const epilogue::Node& node, DType joint, std::vector<int>& in) {
    const bool over_floats = ir::is_float(joint);
    if (node.op == ir::Op::Where) {
      for (size_t k = 1; k < in.size() && over_floats; ++k) in[k] = as_float(in[k]);
      return program_.slots[in[0]].lane == Lane::S32 ? select_kernel() : nullptr;
    }
    if (!over_floats) return integer_kernel(node.op);
    const Kernel kernel = float_kernel(node.op, mode_ == ir::Mode::Eager);
    if (kernel)
      for (int& slot : in) slot = as_float(slot);
    return kernel;
  }

  int as_float(int slot) {
    return program_.slots[slot].lane == Lane::S32 ? unary(int_to_float_kernel(), Lane::F32, slot)
                                                  : slot;
  }

  void describe_scalar(Step& step, const epilogue::Node& node, DType joint) {
    step.scalar = std::make_unique<ScalarCall>();
    ScalarCall& call = *step.scalar;
    call.op = node.op;
    call.arity = step.arity;
    for (int k = 0; k < step.arity; ++k) call.in[k] = program_.slots[step.in[k]].lane;
    call.out = lane_of(node.dtype);
    call.over_floats = ir::is_float(joint);
    call.narrow = joint != DType::F64;
    call.dtype = node.dtype;
    call.params = node.params;
  }

  int round_result(const epilogue::Node& node, int slot) {
    const Lane lane = program_.slots[slot].lane;
    if (lane == Lane::S32) {
      return ir::is_byte(node.dtype)
                 ? unary(wrap_kernel(node.dtype, ir::Overflow::Ieee), Lane::S32, slot)
                 : slot;
    }
    if (lane != Lane::F32) return slot;
    if (node.compute) slot = rounded(slot, *node.compute);
    return mode_ == ir::Mode::Eager ? rounded(slot, node.dtype) : slot;
  }

  // A value that is stored in its lane type is computed in memory.
  void choose_direct_outputs() {
    program_.direct.assign(program_.slots.size(), -1);
    for (size_t i = 0; i < program_.stores.size(); ++i) {
      const auto [index, dtype] = program_.stores[i];
      const Slot& slot = program_.slots[index];
      const bool whole = has_lanes(dtype);
      // What a reduction reads may be what another output stores.
      const int before = program_.direct[index];
      const bool better =
          before < 0 || epilogue_.outputs[before].kind != epilogue::OutputKind::Store;
      if (slot.kind == Slot::Kind::Buffer && !slot.splat && whole && better &&
          slot.lane == lane_of(dtype))
        program_.direct[index] = static_cast<int>(i);
    }
  }

  // Steps that read constants and inputs that are alike in all rows come first.
  void move_alike_steps() {
    std::vector<bool>& alike = alike_;
    alike.resize(program_.slots.size());
    for (size_t i = 0; i < alike.size(); ++i) {
      const Slot& slot = program_.slots[i];
      alike[i] = slot.kind == Slot::Kind::Constant ||
                 (slot.kind == Slot::Kind::Input && is_alike(epilogue_.inputs[slot.index]));
    }
    const auto rest =
        std::stable_partition(program_.steps.begin(), program_.steps.end(), [&](const Step& step) {
          const bool all =
              std::all_of(step.in, step.in + step.arity, [&](int in) { return alike[in]; });
          return alike[step.out] = all && program_.direct[step.out] < 0;
        });
    program_.alike = static_cast<size_t>(rest - program_.steps.begin());
  }
  // Tiles of products have rows of the domain, others any of the outer axes.
  bool is_alike(const epilogue::Input& input) const {
    if (input.role == epilogue::Role::Accumulator || input.access.strides.size() < 2) return false;
    const auto end = input.access.strides.end() - 1;
    const auto begin = pointwise_ ? input.access.strides.begin() : end - 1;
    return std::all_of(begin, end, [](const ir::Dim& stride) { return stride.is(0); });
  }

  void find_integer_chain() {
    auto chain = match_integer_chain(epilogue_, mode_);
    if (!chain || pointwise_) return;
    enum class Values : uint8_t { OneAColumn, One };
    bool fits = true;
    const auto place = [&](int& value, Lane lane, Values values) {
      value = values_[value].slot;
      const Slot& slot = program_.slots[value];
      fits &= alike_[value] && slot.lane == lane && slot.splat == (values == Values::One);
    };
    for (IntegerChain::Scaled* each : {&chain->x, chain->gate ? &*chain->gate : nullptr}) {
      if (each && each->shift) place(*each->shift, Lane::S32, Values::OneAColumn);
      for (size_t i = 0; each && i < each->scales.size(); ++i)
        place(each->scales[i], Lane::F32, Values::One);
    }
    if (chain->bias) place(*chain->bias, Lane::F32, Values::OneAColumn);
    if (chain->quantum) place(*chain->quantum, Lane::F32, Values::One);
    if (chain->zero) place(*chain->zero, Lane::F32, Values::One);
    if (fits) program_.integer_chain = std::move(chain);
  }

  // Buffers are handed out in order of the steps and returned after the last read.
  void assign_buffers() {
    std::vector<size_t> last_read(program_.slots.size(), 0);
    for (size_t s = 0; s < program_.steps.size(); ++s)
      for (int k = 0; k < program_.steps[s].arity; ++k) last_read[program_.steps[s].in[k]] = s;
    for (const auto& store : program_.stores) last_read[store.slot] = program_.steps.size();
    for (size_t s = 0; s < program_.alike; ++s)
      last_read[program_.steps[s].out] = program_.steps.size();
    std::vector<int> free;
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const Step& step = program_.steps[s];
      Slot& out = program_.slots[step.out];
      if (free.empty()) free.push_back(program_.buffers++);
      out.index = free.back();
      free.pop_back();
      // A result that is not read gives its buffer back at once.
      std::vector<int> done;
      for (int k = 0; k < step.arity; ++k)
        if (last_read[step.in[k]] == s) done.push_back(step.in[k]);
      if (last_read[step.out] <= s) done.push_back(step.out);
      std::sort(done.begin(), done.end());
      done.erase(std::unique(done.begin(), done.end()), done.end());
      for (const int slot : done)
        if (program_.slots[slot].kind == Slot::Kind::Buffer)
          free.push_back(program_.slots[slot].index);
    }
  }

  const Epilogue& epilogue_;
  const ir::Mode mode_;
  const bool pointwise_;
  const ChunkRows rows_;
  ChunkProgram program_;
  std::vector<Value> values_;
  std::vector<int> uses_;    // of each value
  std::vector<bool> alike_;  // of each slot: the same for every row
};

}  // namespace

bool is_pointwise(const Epilogue& epilogue) {
  return std::none_of(
      epilogue.inputs.begin(), epilogue.inputs.end(),
      [](const epilogue::Input& input) { return input.role == epilogue::Role::Accumulator; });
}

ChunkProgram compile_chunk_program(const Epilogue& epilogue, ir::Mode mode) {
  ChunkProgram program = Compiler(epilogue, mode, ChunkRows::One).compile();
  const bool columns = std::any_of(
      epilogue.inputs.begin(), epilogue.inputs.end(),
      [](const epilogue::Input& input) { return input.role == epilogue::Role::Column; });
  if (columns)
    program.of_rows = std::make_unique<const ChunkProgram>(
        Compiler(epilogue, mode, ChunkRows::Several).compile());
  return program;
}

}  // namespace attacca::run
