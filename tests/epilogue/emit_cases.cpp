#include "epilogue/emit_cases.hpp"

#include <random>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::epilogue::testing {
namespace {

using ir::DType;
using ir::Mode;
using ir::OpInfo;
using ir::TypeRule;

constexpr DType kFloats[] = {DType::F32, DType::BF16, DType::F16};
constexpr DType kIntegers[] = {DType::S8, DType::U8, DType::S32, DType::S64};
constexpr DType kAll[] = {DType::F64,    DType::F32,    DType::F16, DType::BF16,
                          DType::F8E4M3, DType::F8E5M2, DType::S8,  DType::U8,
                          DType::S32,    DType::S64,    DType::Bool};

class Cases {
 public:
  std::vector<EmitCase> all() {
    for (const OpInfo& info : ir::all_ops())
      if (info.kind == ir::OpKind::Elementwise) add_op(info);
    for (const DType from : kAll)
      for (const DType to : kAll) add_cast(from, to);
    add_texts();
    add_random();
    add_narrow();
    return std::move(cases_);
  }

 private:
  void add(std::string text, const TextOptions& options, Mode mode, Check check,
           bool swapped = false, const PlacementLimits& limits = {}) {
    auto parsed = parse_text(text, options);
    ATTACCA_CHECK(parsed.has_value(), text + ": " + (parsed ? "" : to_string(parsed.error())));
    for (size_t i = 0; i < parsed->names.size(); ++i)
      if (parsed->names[i].starts_with(kNamed))
        parsed->epilogue.inputs[i].rows = RowIndex{
            {}, {0, {1}}, kNamedRows, parsed->names[i].ends_with("32") ? DType::S32 : DType::S64};
    const HoleSignature signature = roomy_signature(parsed->epilogue, swapped);
    auto bound = bind(parsed->epilogue, signature, limits);
    ATTACCA_CHECK(std::holds_alternative<Binding>(bound), text);
    cases_.push_back({std::move(text), *std::move(parsed), mode, check, signature,
                      std::get<Binding>(std::move(bound)), false, false});
  }

  void add_op(const OpInfo& info) {
    for (const DType dtype : kFloats)
      if (info.rule != TypeRule::Logic) add_op_over(info, dtype);
    if (info.rule == TypeRule::Float) return;
    for (const DType dtype : kIntegers)
      if (info.rule != TypeRule::Logic) add_op_over(info, dtype);
    if (info.rule == TypeRule::Logic) add_op_over(info, DType::Bool);
    if (info.rule == TypeRule::Any || info.rule == TypeRule::Compare) add_op_over(info, DType::F64);
  }

  void add_op_over(const OpInfo& info, DType dtype) {
    std::string text = fmt::format("{}(", info.name);
    constexpr std::string_view kNames[] = {"x", "y", "z"};
    for (int i = 0; i < info.max_arity; ++i) {
      const DType own = info.rule == TypeRule::Where && i == 0 ? DType::Bool : dtype;
      text += fmt::format("{}full({}: {})", i ? ", " : "", kNames[i], name(own));
    }
    if (info.op == ir::Op::Clamp)
      text += ir::is_float(dtype) ? ", min=-1.3, max=2.7" : ", min=-3, max=9";
    const bool exact = !ir::is_float(dtype) || dtype == DType::F64;
    const TextOptions own{.results = {}};
    add(text + ")", own, Mode::Eager, Check::Bits);
    add(text + ")", own, Mode::Fp32, exact ? Check::Bits : Check::Op);
  }

  void add_cast(DType from, DType to) {
    const TextOptions own{.results = {}};
    for (const char* saturate : {"", ", saturate=true"})
      add(fmt::format("cast(full(x: {}), {}{})", name(from), name(to), saturate), own, Mode::Fp32,
          Check::Bits);
    if (ir::is_float(from) && ir::is_float(to) && to != DType::F64)
      for (const Mode mode : {Mode::Eager, Mode::Fp32})
        add(fmt::format("cast(cast(full(x: {}), {}, compute=f32), f32)", name(from), name(to)), own,
            mode, Check::Bits);
  }

  void add_texts() {
    TextOptions bf16, f16, f32, s32;
    f16.results = {DType::F16};
    f32.results = {DType::F32};
    s32.accumulator = DType::S32;
    s32.results = {};
    for (const bool swapped : {false, true})
      for (const Mode mode : {Mode::Eager, Mode::Fp32}) {
        const bool eager = mode == Mode::Eager;
        const auto any = [&](const char* text, const TextOptions& options,
                             const PlacementLimits& limits = {}) {
          add(text, options, mode, Check::Bits, swapped, limits);
        };
        // Only exact ops: both modes give the reference's bits.
        any("acc", bf16);
        any("acc + row(b)", bf16);
        any("relu(acc + row(b: f32)) * col(s) - full(r)", f16);
        any("acc * scalar(a) + full(c) * scalar(b: f32)", bf16);
        any("max(acc0, acc1) + row(b)", bf16);
        any("acc, r = relu(acc), where(acc > 0, row(b), col(c))", bf16);
        any("acc + cast(full(x: f8e4m3), f32), y = acc * cast(row(s), f32)",
            {.product = DType::F32,
             .operand = DType::F8E5M2,
             .results = {DType::F8E4M3, DType::F8E5M2}});
        any("acc + full(x) + full(y: f32) + full(z)", bf16, {{false, true, true, false}, {}});
        any("acc + full(named)", bf16);
        any("(acc + full(named_a: f32)) * col(named_b32: f16) - full(r)", bf16);
        any("relu(acc0 + full(named_a32)) * (acc1 + full(named_b32: f32))", f16);
        any("acc + row(x) + col(y: f32) + scalar(z)", f16, {{false, true, true, true}, {}});
        any("acc + row(b: s32)", s32);
        any("cast(round(cast(acc, f32) * row(s) * col(t)), s8, saturate=true)", s32);
        any("cast(clamp(cast(acc, f32) * scalar(s) + row(z), min=0, max=255), u8)", s32);
        any("relu(acc0) * acc1, acc0 - acc1 * 3", s32);
        any("cast(acc, f32) * row(s) + full(r: bf16)", s32);
        any("acc + full(x: s64), cast(acc, s8) + full(y: s8)", s32);
        if (!eager) continue;
        any("silu(acc + row(b)) * full(r)", bf16);
        any("swiglu(acc0, acc1), gelu(acc0 + row(b)) * sigmoid(acc1)", f16);
        any("gelu_tanh(acc * 0.125 + row(b)) + 1.5", f32);
      }
  }

  // Random DAGs. Where the reference is a bound, ops with jumps or poles are left out.
  void add_random() {
    std::mt19937_64 random(kEmitSeed);
    for (int i = 0; i < 80; ++i) {
      const bool eager = i % 2 == 0;
      const bool swapped = random() % 2;
      TextOptions options;
      options.results = {kFloats[random() % 3]};
      if (!eager) options.product = DType::F32;
      std::string text = expression(random, eager, 4);
      if (text.find("acc") == std::string::npos && text.find("full") == std::string::npos)
        text = "acc - " + text;
      add(std::move(text), options, eager ? Mode::Eager : Mode::Fp32,
          eager ? Check::Bits : Check::Bounds, swapped);
    }
  }

  // Ops of 16 bits that eager mode rounds without f64, always or where that decides.
  void add_narrow() {
    for (const DType dtype : {DType::BF16, DType::F16})
      for (const char* op : {"exp(x)", "sigmoid(x)", "silu(x)", "quick_gelu(x)", "gelu_tanh(x)",
                             "gelu(x)", "tanh(x)", "mish(x)", "softplus(x)", "reciprocal(x)",
                             "hardswish(x)", "elu(x)", "selu(x)", "swiglu(x, y)"}) {
        std::string text = op;
        for (const char* name : {"x", "y"})
          if (const size_t at = text.rfind(name); at != std::string::npos && at > 1)
            text.replace(at, 1, fmt::format("full({}: {})", name, ir::name(dtype)));
        for (const bool may_call : {false, true}) {
          add(text, {.results = {}}, Mode::Eager, Check::Bits);
          cases_.back().may_call = may_call;
          cases_.back().every_number = true;
        }
      }
  }

  static std::string leaf(std::mt19937_64& random) {
    switch (random() % 8) {
      case 0:
        return "row(b)";
      case 1:
        return "row(s: f32)";
      case 2:
        return "col(c: f16)";
      case 3:
        return "full(r)";
      case 4:
        return "scalar(a: f32)";
      case 5:
        return fmt::format("{}", static_cast<double>(random() % 64) / 16 + 0.3);
      default:
        return "acc";
    }
  }

  static std::string expression(std::mt19937_64& random, bool eager, int depth) {
    if (depth == 0 || random() % 8 == 0) return leaf(random);
    const auto next = [&] { return expression(random, eager, depth - 1); };
    static const std::vector<std::string> unary = {
        "neg",  "abs",   "sigmoid", "silu", "gelu",       "gelu_tanh", "quick_gelu", "softplus",
        "tanh", "relu",  "erf",     "exp",  "leaky_relu", "hardswish", "mish",       "elu",
        "sin",  "floor", "round",   "sqrt", "reciprocal", "square",    "log1p"};
    static const std::vector<std::string> binary = {"max", "min", "swiglu", "geglu", "reglu"};
    switch (random() % 6) {
      case 0:
        return fmt::format("({} + {})", next(), next());
      case 1:
        return fmt::format("({} - {})", next(), next());
      case 2:
        return fmt::format("({} * {})", next(), next());
      case 3:
        return fmt::format("{}({}, {})", binary[random() % binary.size()], next(), next());
      case 4:
        if (eager)
          return fmt::format("where({} < {}, {}, {})", next(), next(), next(), leaf(random));
        return fmt::format("cast({}, {})", next(), random() % 2 ? "bf16" : "f16");
      default: {
        const std::string& op = unary[random() % (eager ? unary.size() : 16)];
        return fmt::format("{}({})", op, next());
      }
    }
  }

  std::vector<EmitCase> cases_;
};

}  // namespace

const std::vector<EmitCase>& emit_cases() {
  static const std::vector<EmitCase> cases = Cases().all();
  return cases;
}

}  // namespace attacca::epilogue::testing
