// Emitted CUDA C++, compiled for the host, against the interpreter: eager bit for bit, fp32 within
// stated bounds. Context operands are strided, batched, and end in the middle of a pair.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "epilogue/emit_calls.hpp"
#include "epilogue/emit_cases.hpp"
#include "ir/interpret/interpreter.hpp"
#include "run/check/error_bound.hpp"
#include "setting.hpp"
#include "support/check.hpp"

namespace attacca::epilogue::testing {
namespace {

using ir::DType;
using ir::Tensor;

constexpr int64_t kRows = 7, kColumns = 33;  // odd: the last pair of each reaches outside
constexpr int64_t kBatch = 2, kBatchStride = 5000;

// As templates/abi.h has them.
struct ContextOperand {
  void* pointer;
  int64_t row_stride, column_stride, batch_stride;
};
struct Context {
  int32_t rows, columns, batches, reserved;
  ContextOperand operand[kContextOperands];
};

Tensor tensor_of(DType dtype, std::vector<int64_t> shape) {
  auto made = Tensor::make(dtype, std::move(shape));
  ATTACCA_CHECK(made.has_value(), "no memory");
  return *std::move(made);
}

double random_number(std::mt19937_64& random, bool special) {
  static constexpr double kSpecial[] = {
      0.0,     -0.0,     1.0,       -1.0,  0.5,   -3.0,    3.0,          7.5,   -20.0,
      20.0,    60.0,     88.0,      90.0,  -90.0, -105.0,  1e-30,        1e-40, -1e-45,
      65519.0, 65520.0,  448.0,     464.0, 465.0, 57344.0, 61440.0,      1e30,  -1e30,
      3.4e38,  INFINITY, -INFINITY, NAN,   127.5, -128.5,  2147483648.0, -1e19, 0.1};
  if (special && random() % 3 == 0) return kSpecial[random() % std::size(kSpecial)];
  if (special && random() % 8 == 0) return std::bit_cast<float>(static_cast<uint32_t>(random()));
  return std::normal_distribution<double>(0, 3)(random);
}

int64_t random_integer(std::mt19937_64& random, DType dtype) {
  static constexpr int64_t kSpecial[] = {
      0, 1, -1, 2, 3, -7, 100, 127, -128, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  const int64_t x = random() % 3 == 0   ? kSpecial[random() % std::size(kSpecial)]
                    : random() % 3 == 0 ? static_cast<int64_t>(random())
                                        : static_cast<int64_t>(random() % 64) - 32;
  return ir::to_integer(dtype, x);
}

void fill(Tensor& tensor, std::mt19937_64& random, bool special) {
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (ir::is_float(tensor.dtype()))
      tensor.set_number(i, random_number(random, special));
    else
      tensor.set_integer(i, random_integer(random, tensor.dtype()));
  }
}

bool same_bits(const Tensor& a, const Tensor& b, int64_t at) {
  if (!ir::is_float(a.dtype())) return a.integer_at(at) == b.integer_at(at);
  const double x = a.number_at(at), y = b.number_at(at);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y && std::signbit(x) == std::signbit(y);
}

uint32_t raw_bits(const Tensor& tensor, int64_t at) {
  uint32_t bits = 0;
  const int64_t size = ir::size_of(tensor.dtype());
  std::memcpy(&bits, tensor.data() + at * size, static_cast<size_t>(size));
  return bits;
}

// One case with its data: the interpreter's graph and bindings, and the operands by input.
class Bench {
 public:
  // The bits of an operand's element, by the operand's index; otherwise random.
  using Bits = std::function<std::optional<uint32_t>(size_t operand, int64_t at)>;
  Bench(const EmitCase& each, uint64_t seed, const Bits& bits = {})
      : case_(each), random_(seed), indices_(indexed_inputs(each.parsed.epilogue).size()) {
    build_graph();
    for (const Input& input : epilogue().inputs) {
      add_operand(input);
      if (bits) set_bits(operands_.back(), bits);
    }
  }

  const Epilogue& epilogue() const { return case_.parsed.epilogue; }
  const ir::Graph& graph() const { return graph_; }
  const ir::Bindings& bindings() const { return bindings_; }

  std::vector<Tensor> interpreted(ir::Precision precision) const {
    auto result = ir::interpret(graph_, bindings_, {precision, accumulators_});
    ATTACCA_CHECK(result.has_value(), case_.text + (result ? "" : to_string(result.error())));
    return *std::move(result);
  }

  // The index names no row at `row`.
  void name_nothing_at(int64_t row) {
    for (Tensor& index : indices_) index.set_integer(row, row % 2 == 0 ? kNamedRows : INT32_MIN);
  }

  // Over every pair of the domain, as a kernel calls it.
  std::vector<Tensor> emitted(EmitCall call) {
    prepare_context();
    const bool swapped = case_.signature.swapped;
    for (int64_t row = 0; row < kRows; row += swapped ? 2 : 1)
      for (int64_t column = 0; column < kColumns; column += swapped ? 1 : 2)
        run_pair(call, row, column);
    std::vector<Tensor> results;
    for (size_t i = 0; i < epilogue().outputs.size(); ++i) results.push_back(cropped(i));
    return results;
  }

 private:
  // The text's graph with each accumulator replaced by a product.
  void build_graph() {
    const ir::Graph& from = case_.parsed.graph;
    std::vector<ir::Value> moved(from.size());
    for (uint32_t id = 0; id < from.size(); ++id) {
      const ir::Node& node = from.nodes()[id];
      std::vector<ir::Value> operands;
      for (const ir::Value operand : node.operands) operands.push_back(moved[operand.id]);
      if (const Input* input = accumulator(ir::Value{id}))
        moved[id] = add_product(*input, node.name);
      else if (const auto named = indexed(ir::Value{id}))
        moved[id] = add_gather(at_size(node), *named);
      else
        moved[id] = *ir::copy_node(graph_, at_size(node), std::move(operands));
    }
    for (size_t i = 0; i < from.outputs().size(); ++i) {
      ir::Value value = moved[from.outputs()[i].value.id];
      const DType stored = epilogue().outputs[i].dtype;
      if (graph_.type(value).dtype != stored)
        value = *graph_.add(ir::Op::Cast, {value}, ir::CastAttrs{stored});
      graph_.add_output(value, fmt::format("result{}", i));
    }
  }

  static ir::Node at_size(ir::Node node) {
    for (ir::Dim& dim : node.type.shape)
      dim = dim == ir::Dim::symbol("M") ? ir::Dim(kRows)
            : dim.is(1)                 ? ir::Dim(1)
                                        : ir::Dim(kColumns);
    return node;
  }

  const Input* accumulator(ir::Value source) const {
    for (const Input& input : epilogue().inputs)
      if (input.role == Role::Accumulator && input.source == source) return &input;
    return nullptr;
  }

  // The number of the input among those whose rows an index names.
  std::optional<size_t> indexed(ir::Value source) const {
    const std::vector<size_t> all = indexed_inputs(epilogue());
    for (size_t i = 0; i < all.size(); ++i)
      if (epilogue().inputs[all[i]].source == source) return i;
    return std::nullopt;
  }

  static Tensor random_rows(DType dtype, size_t seed) {
    std::mt19937_64 random(seed);
    Tensor rows = tensor_of(dtype, {kRows});
    for (int64_t row = 0; row < kRows; ++row)
      rows.set_integer(row, static_cast<int64_t>(random() % (2 * kNamedRows)) - kNamedRows);
    return rows;
  }

  ir::Value add_gather(const ir::Node& node, size_t number) {
    const DType dtype = epilogue().inputs[indexed_inputs(epilogue())[number]].rows->dtype;
    ir::Type type = node.type;
    type.shape[0] = kNamedRows;
    const ir::Value table = *graph_.input(node.name, type);
    const ir::Value index = *graph_.input(node.name + "_rows", {dtype, {kRows}});
    bindings_.emplace(node.name + "_rows", random_rows(dtype, number));
    // Not the same memory: a test changes the emitted code's alone.
    indices_[number] = random_rows(dtype, number);
    return *graph_.add(ir::Op::Gather, {table, index}, ir::AxisAttrs{0});
  }

  ir::Value add_product(const Input& input, const std::string& name) {
    // A bound cannot be computed from accumulators, so the product is an input there.
    if (case_.check == Check::Bounds) {
      const ir::Value value = *graph_.input(name, {DType::F32, {kRows, kColumns}});
      products_.emplace(input.source, value);
      return value;
    }
    const DType dtype = ir::is_float(input.rounded) ? input.rounded : DType::S8;
    const ir::Value a = *graph_.input(name + "_a", {dtype, {kRows, 1}});
    const ir::Value b = *graph_.input(name + "_b", {dtype, {1, kColumns}});
    bindings_.emplace(name + "_a", tensor_of(dtype, {kRows, 1}));
    bindings_.emplace(name + "_b", tensor_of(dtype, {1, kColumns}));
    const ir::Value value = *graph_.add(ir::Op::MatMul, {a, b}, ir::MatMulAttrs{input.rounded});
    products_.emplace(input.source, value);
    return value;
  }

  void add_operand(const Input& input) {
    std::vector<int64_t> shape;
    switch (input.role) {
      case Role::Accumulator:
      case Role::Full:
        shape = {kRows, kColumns};
        break;
      case Role::Row:
        shape = {kColumns};
        break;
      case Role::Column:
        shape = {kRows, 1};
        break;
      case Role::Scalar:
        break;
    }
    if (input.rows) shape[0] = kNamedRows;
    Tensor tensor = tensor_of(input.dtype, shape);
    fill(tensor, random_, case_.check != Check::Bounds);
    operands_.push_back(tensor);
    const std::string& name = case_.parsed.graph[input.source].name;
    if (input.role != Role::Accumulator || case_.check == Check::Bounds)
      bindings_.emplace(name, tensor);
    else
      accumulators_.emplace(products_.at(input.source), tensor);
  }

  // The tensor is shared with the bindings.
  void set_bits(Tensor& tensor, const Bits& bits) const {
    const auto size = static_cast<size_t>(ir::size_of(tensor.dtype()));
    for (int64_t i = 0; i < tensor.size(); ++i)
      if (const auto set = bits(operands_.size() - 1, i))
        std::memcpy(tensor.data() + size * static_cast<size_t>(i), &*set, size);
  }

  static bool inside(int64_t row, int64_t column) { return row < kRows && column < kColumns; }

  int64_t offset(size_t input, int64_t row, int64_t column) const {
    switch (epilogue().inputs[input].role) {
      case Role::Accumulator:
      case Role::Full:
        return row * kColumns + column;
      case Role::Row:
        return column;
      case Role::Column:
        return row;
      case Role::Scalar:
        return 0;
    }
    return 0;
  }

  static ContextOperand context_operand(Tensor& tensor, int64_t row, int64_t column) {
    const uintptr_t shift =
        kBatch * kBatchStride * static_cast<uintptr_t>(ir::size_of(tensor.dtype()));
    return {reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(tensor.data()) - shift), row,
            column, kBatchStride};
  }

  // Results have wider rows, whose other elements must not change.
  static constexpr int64_t kPitch = kColumns + 3;

  void prepare_context() {
    context_ = {kRows, kColumns, kBatch + 1, 0, {}};
    stored_.clear();
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (case_.binding.inputs[i].place != Place::Context) continue;
      ContextOperand& operand = context_.operand[case_.binding.inputs[i].slot];
      operand = context_operand(operands_[i], offset(i, 1, 0), offset(i, 0, 1));
      if (epilogue().inputs[i].rows) operand.pointer = operands_[i].data();  // there is one batch
    }
    for (size_t i = 0; i < indices_.size(); ++i)
      context_.operand[case_.binding.indices[i].slot] = {indices_[i].data(), 1, 0, kNamedRows};
    for (size_t i = 0; i < epilogue().outputs.size(); ++i) {
      stored_.push_back(tensor_of(epilogue().outputs[i].dtype, {kRows + 1, kPitch}));
      std::memset(stored_.back().data(), 0x5A, static_cast<size_t>(stored_.back().bytes()));
      if (case_.binding.outputs[i].place == Place::Context)
        context_.operand[case_.binding.outputs[i].slot] =
            context_operand(stored_.back(), kPitch, 1);
    }
  }

  // The raw bits that a slot hands over.
  uint32_t bits_at(Place place, int slot, int64_t row, int64_t column) const {
    for (size_t i = 0; i < operands_.size(); ++i)
      if (case_.binding.inputs[i] == Placement{place, slot} && inside(row, column))
        return raw_bits(operands_[i], offset(i, row, column));
    return 0;
  }

  void run_pair(EmitCall call, int64_t row, int64_t column) {
    const HoleSignature& signature = case_.signature;
    const int64_t rows[] = {row, signature.swapped ? row + 1 : row};
    const int64_t columns[] = {column, signature.swapped ? column : column + 1};
    std::vector<uint32_t> words, results(2 * signature.result_bits.size() + 1);
    const auto pair = [&](Place place, int slot) {
      for (int e = 0; e < 2; ++e) words.push_back(bits_at(place, slot, rows[e], columns[e]));
    };
    for (int set = 0; set < signature.accumulators; ++set) pair(Place::Accumulator, set);
    for (size_t slot = 0; slot < signature.full_bits.size(); ++slot) {
      pair(Place::Full, static_cast<int>(slot));
      if (signature.full_bits[slot] == 32) continue;
      const uint32_t high = words.back();
      words.pop_back();
      words.back() |= high << 16;
    }
    for (int slot = 0; slot < signature.rows; ++slot) pair(Place::Row, slot);
    for (int slot = 0; slot < signature.columns; ++slot)
      words.push_back(bits_at(Place::Column, slot, row, column));
    call(words.data(), static_cast<int>(row), static_cast<int>(column), kBatch, &context_,
         results.data());
    for (size_t i = 0; i < epilogue().outputs.size(); ++i) store(i, results, rows, columns);
  }

  void store(size_t output, const std::vector<uint32_t>& words, const int64_t* rows,
             const int64_t* columns) {
    const Placement& at = case_.binding.outputs[output];
    if (at.place != Place::Result) return;
    size_t word = 0;
    for (int slot = 0; slot < at.slot; ++slot)
      word += static_cast<size_t>(result_words(case_.signature.result_bits[slot]));
    const size_t size = ir::size_of(epilogue().outputs[output].dtype);
    for (int e = 0; e < 2; ++e) {
      if (!inside(rows[e], columns[e])) continue;
      const uint32_t bits = size == 4 ? words[word + e] : words[word] >> (8 * size * e);
      std::memcpy(stored_[output].data() + (rows[e] * kPitch + columns[e]) * size, &bits, size);
    }
  }

  Tensor cropped(size_t output) {
    const Tensor& from = stored_[output];
    Tensor to = tensor_of(from.dtype(), {kRows, kColumns});
    const size_t size = ir::size_of(from.dtype());
    for (int64_t row = 0; row <= kRows; ++row)
      for (int64_t column = 0; column < kPitch; ++column) {
        const std::byte* at = from.data() + (row * kPitch + column) * size;
        if (inside(row, column))
          std::memcpy(to.data() + (row * kColumns + column) * size, at, size);
        else
          EXPECT_EQ(*at, std::byte{0x5A})
              << case_.text << " wrote outside, at " << row << ", " << column;
      }
    return to;
  }

  const EmitCase& case_;
  std::mt19937_64 random_;
  ir::Graph graph_;
  ir::Bindings bindings_;
  std::map<ir::Value, Tensor> accumulators_;
  std::map<ir::Value, ir::Value> products_;
  std::vector<Tensor> operands_, stored_, indices_;  // indices_: one an indexed input
  Context context_{};
};

std::string describe(const EmitCase& each, const Bench& bench, int64_t at) {
  std::string text =
      fmt::format("{} ({}{}) at {}, {}:", each.text, ir::name(each.mode),
                  each.signature.swapped ? ", swapped" : "", at / kColumns, at % kColumns);
  for (const auto& [name, tensor] : bench.bindings())
    if (tensor.size() == kRows * kColumns)
      text += fmt::format(" {} = {}", name, tensor.number_at(at));
  return text;
}

// How much an error of exp's argument grows, where that argument is computed in f32.
double conditioning(const std::string& op, double x) {
  const bool steep = op.find("gelu") != std::string::npos ||
                     op.find("geglu") != std::string::npos || op == "clamped_swiglu";
  return steep && std::isfinite(x) ? std::max(1.0, x * x) : 1;
}

struct Format {
  double ulp, tiny, largest;
};
Format format_of(DType dtype) {
  if (dtype == DType::BF16) return {0x1p-8, 0x1p-133, 0x1.FEp127};
  if (dtype == DType::F16) return {0x1p-11, 0x1p-25, 65504};
  return {0x1p-24, 0x1p-148, 0x1.FFFFFEp127};
}

std::string op_error(const EmitCase& each, const Tensor& got, const Tensor& want, int64_t at,
                     double x, double lost) {
  const double exact = want.number_at(at), value = got.number_at(at);
  const Format format = format_of(got.dtype());
  if (!std::isfinite(exact) || std::fabs(exact) > format.largest * 0.99) {
    const bool fine = std::isnan(exact) ? std::isnan(value)
                                        : value * std::copysign(1.0, exact) > format.largest * 0.98;
    return fine ? "" : fmt::format("{}, f64 says {}", value, exact);
  }
  // `ulp` is half a unit, for the result's rounding. In addition, f32 allows a few units and a
  // narrower result what fast.def allows.
  const double steepness = conditioning(each.text.substr(0, each.text.find('(')), x);
  const double relative = got.dtype() == DType::F32
                              ? (8 + 2 * steepness) * 2 * format.ulp
                              : format.ulp + std::max(0x1p-15, 0x1p-16 * steepness);
  // hardsigmoid cancels: its error is that of its summands.
  const bool cancels = each.text.starts_with("hardsigmoid") && got.dtype() == DType::F32;
  const double size = std::fabs(exact) + (cancels ? 0x1p-3 : 0);
  const double allowed = relative * size + 4 * format.tiny;
  if (std::fabs(value - exact) <= allowed + lost) return {};
  return fmt::format("{}, f64 says {} +- {}", value, exact, allowed);
}

void check_bits(const EmitCase& each, const Bench& bench, const std::vector<Tensor>& got,
                const std::vector<Tensor>& want) {
  for (size_t i = 0; i < got.size(); ++i)
    for (int64_t at = 0; at < got[i].size(); ++at)
      ASSERT_TRUE(same_bits(got[i], want[i], at))
          << describe(each, bench, at) << " result " << i << " is " << got[i].number_at(at)
          << ", the interpreter says " << want[i].number_at(at);
}

// The error of f32 below its range, fused and unfused; of a gate, times the linear half.
double lost_below_f32(const Bench& bench, int64_t at) {
  const auto y = bench.bindings().find("y");
  const double scale = y == bench.bindings().end() ? 1 : std::fabs(y->second.number_at(at));
  return 0x1p-120 * (scale > 1 ? scale : 1);
}

// An activation that is 0 only in f32, times infinity.
bool vanishes(const EmitCase& each, const Bench& bench, int64_t at) {
  const auto op = ir::parse_op(each.text.substr(0, each.text.find('(')));
  if (op != ir::Op::SwiGlu && op != ir::Op::GeGlu && op != ir::Op::GeGluTanh) return false;
  if (std::isfinite(bench.bindings().at("y").number_at(at))) return false;
  const double gate[] = {bench.bindings().at("x").number_at(at), 1};
  const double one[] = {1};
  return std::fabs(ir::evaluate(*op, gate, one)) < 0x1p-120;
}

void check_op(const EmitCase& each, Bench& bench, const std::vector<Tensor>& got) {
  const std::vector<Tensor> want = bench.interpreted(ir::Precision::Exact);
  for (int64_t at = 0; at < got[0].size(); ++at) {
    if (!ir::is_float(got[0].dtype())) {
      ASSERT_TRUE(same_bits(got[0], want[0], at)) << describe(each, bench, at);
      continue;
    }
    if (vanishes(each, bench, at)) continue;
    const double x = bench.bindings().at("x").number_at(at);
    const std::string wrong = op_error(each, got[0], want[0], at, x, lost_below_f32(bench, at));
    ASSERT_TRUE(wrong.empty()) << describe(each, bench, at) << " is " << wrong;
  }
}

struct Coverage {
  int64_t bounded = 0, all = 0;
};
Coverage coverage;

void check_bounds(const EmitCase& each, Bench& bench, const std::vector<Tensor>& got) {
  std::vector<bool> stored(bench.graph().size(), false);
  for (const ir::Output& output : bench.graph().outputs()) stored[output.value.id] = true;
  const auto bounds =
      run::error_bounds(bench.graph(), bench.bindings(), {.stored = std::move(stored)});
  ASSERT_TRUE(bounds.has_value());
  const run::Bounded& bound = bounds->front();
  for (int64_t at = 0; at < got[0].size(); ++at) {
    const double want = bound.value[static_cast<size_t>(at)], error = bound.error(at);
    ++coverage.all;
    if (!bound.promises(at)) continue;
    ++coverage.bounded;
    // The bound promises 2 units of f32 an op; composed forms take a few. Below 2^-110, a gate's
    // exp has left f32's range.
    const double allowed = (got[0].dtype() == DType::F32 ? 8 : 1.25) * error + 0x1p-110;
    const double value = got[0].number_at(at);
    const bool fine =
        bound.allows(at, value) || (std::isfinite(error) && std::fabs(value - want) <= allowed);
    ASSERT_TRUE(fine) << describe(each, bench, at) << " is " << value << ", f64 says " << want
                      << " +- " << allowed;
  }
}

uint64_t data_seed() {
  return setting("ATTACCA_SEED", kEmitSeed);
}

void check_case(size_t index, Check wanted) {
  const EmitCase& each = emit_cases()[index];
  if (each.check != wanted) return;
  Bench bench(each, data_seed() + index);
  const std::vector<Tensor> got = bench.emitted(kEmitCalls[index]);
  switch (each.check) {
    case Check::Bits:
      return check_bits(each, bench, got,
                        bench.interpreted(each.mode == ir::Mode::Eager ? ir::Precision::Eager
                                                                       : ir::Precision::Fp32));
    case Check::Op:
      return check_op(each, bench, got);
    case Check::Bounds:
      return check_bounds(each, bench, got);
  }
}

void check_all(Check wanted) {
  fmt::print("epilogues of seed {}, data of seed {} (ATTACCA_SEED)\n", kEmitSeed, data_seed());
  for (size_t i = 0; i < emit_cases().size(); ++i) check_case(i, wanted);
}

TEST(Emit, ExactCodeHasTheInterpretersBits) {
  check_all(Check::Bits);
}

TEST(Emit, AnIndexOutsideNamesARowOfNaN) {
  int cases = 0;
  for (size_t i = 0; i < emit_cases().size(); ++i) {
    const EmitCase& each = emit_cases()[i];
    if (each.text != "acc + full(named)") continue;
    ++cases;
    for (const int64_t row : {2, 3}) {
      Bench bench(each, data_seed() + i);
      bench.name_nothing_at(row);
      const Tensor got = bench.emitted(kEmitCalls[i])[0];
      for (int64_t column = 0; column < kColumns; ++column)
        EXPECT_TRUE(std::isnan(got.number_at(row * kColumns + column))) << row << ", " << column;
    }
  }
  EXPECT_EQ(cases, 4);
}

// With the largest errors that the approximate instructions may have, and with none. Half of a
// reciprocal's gives, where that is another one, the number next to the nearest.
void check_approximations(size_t index, const Bench::Bits& bits) {
  const EmitCase& each = emit_cases()[index];
  Bench bench(each, data_seed() + index, bits);
  const std::vector<Tensor> want = bench.interpreted(ir::Precision::Eager);
  for (const double exp2 : {-1.0, 0.0, 1.0})
    for (const double rcp : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
      set_approximations(exp2, rcp);
      check_bits(each, bench, bench.emitted(kEmitCalls[index]), want);
    }
  set_approximations(0, 0);
}

TEST(Emit, NarrowCodeHasTheInterpretersBitsOfEveryNumber) {
  int cases = 0;
  for (size_t i = 0; i < emit_cases().size(); ++i) {
    if (!emit_cases()[i].every_number) continue;
    ++cases;
    for (uint32_t first = 0; first < 0x10000 && !HasFailure(); first += kRows * kColumns)
      check_approximations(i, [&](size_t operand, int64_t at) -> std::optional<uint32_t> {
        if (operand != 0) return std::nullopt;
        return first + static_cast<uint32_t>(at);
      });
  }
  EXPECT_EQ(cases, 56);
}

// Every pair of fractions, with exponents of all kinds.
TEST(Emit, QuotientsOfF16HaveTheInterpretersBits) {
  const auto each = std::ranges::find_if(emit_cases(), [](const EmitCase& each) {
    return each.text == "div(full(x: f16), full(y: f16))" && each.mode == ir::Mode::Eager;
  });
  ASSERT_NE(each, emit_cases().end());
  std::mt19937 random(static_cast<uint32_t>(data_seed()));
  for (uint32_t first = 0; first < 0x100000 && !HasFailure(); first += kRows * kColumns)
    check_approximations(static_cast<size_t>(each - emit_cases().begin()),
                         [&](size_t operand, int64_t at) -> std::optional<uint32_t> {
                           const uint32_t pair = first + static_cast<uint32_t>(at);
                           const uint32_t fraction = (operand == 0 ? pair : pair >> 10) & 0x3FF;
                           return fraction | (static_cast<uint32_t>(random()) & 0xFC00);
                         });
}

TEST(Emit, EachOpStaysWithinItsBound) {
  for (const int exp2 : {-1, 0, 1})
    for (const int rcp : {-1, 0, 1}) {
      set_approximations(exp2, rcp);
      check_all(Check::Op);
      if (HasFailure()) return;
    }
  set_approximations(0, 0);
}

TEST(Emit, RandomEpiloguesStayWithinTheDerivedBound) {
  check_all(Check::Bounds);
  EXPECT_GT(coverage.bounded * 10, coverage.all * 6);
}

}  // namespace
}  // namespace attacca::epilogue::testing
