#include "run/cpu/kernels/chain.hpp"

#include "run/cpu/kernels/kernel.hpp"

namespace attacca::run {
namespace {

using epilogue::Epilogue;
using epilogue::Role;
using ir::DType;
using ir::Op;

struct Gate {
  Op op;
  Activation activation;
};
constexpr Gate kActivations[] = {{Op::Relu, Activation::Relu},
                                 {Op::Gelu, Activation::Gelu},
                                 {Op::GeluTanh, Activation::GeluTanh},
                                 {Op::Silu, Activation::Silu}};
constexpr Gate kGates[] = {{Op::ReGlu, Activation::Relu},
                           {Op::GeGlu, Activation::Gelu},
                           {Op::GeGluTanh, Activation::GeluTanh},
                           {Op::SwiGlu, Activation::Silu}};

class Matcher {
 public:
  explicit Matcher(const Epilogue& epilogue) : epilogue_(epilogue) {}

  std::optional<Chain> match() {
    if (epilogue_.outputs.size() != 1) return std::nullopt;
    const epilogue::Output& output = epilogue_.outputs[0];
    const bool stored = output.kind == epilogue::OutputKind::Store && is_plain(output.dtype);
    if (!stored) return std::nullopt;
    for (const epilogue::Node& node : epilogue_.nodes)
      if ((node.compute && node.op != Op::Cast) || lane_of(node.dtype) != Lane::F32)
        return std::nullopt;
    if (!match_joined(without_casts(output.value, output.dtype))) return std::nullopt;
    const epilogue::Input& x = input(chain_.x);
    if (activation_ == Activation::Gelu && output.dtype == DType::BF16 &&
        x.role == Role::Accumulator && x.rounded == DType::BF16)
      activation_ = Activation::GeluCoarse;
    const DType other = chain_.other ? input(*chain_.other).dtype : DType::F32;
    chain_.kernel = chain_kernel(chain_.bias.has_value(), activation_, join_, other == DType::BF16,
                                 output.dtype == DType::BF16);
    if (!chain_.kernel) return std::nullopt;
    return chain_;
  }

 private:
  static bool is_plain(DType dtype) { return dtype == DType::F32 || dtype == DType::BF16; }
  const epilogue::Input& input(int value) const { return epilogue_.inputs[value]; }
  bool is_input(int value) const { return value < static_cast<int>(epilogue_.inputs.size()); }
  const epilogue::Node& node(int value) const {
    return epilogue_.nodes[value - epilogue_.inputs.size()];
  }

  // Casts that round nothing: to f32, or at the root to what is stored anyway.
  int without_casts(int value, DType stored = DType::F32) const {
    while (
        !is_input(value) && node(value).op == Op::Cast &&
        (node(value).dtype == DType::F32 || node(value).dtype == stored || node(value).compute)) {
      if (node(value).saturate) return value;
      value = node(value).operands[0];
    }
    return value;
  }

  // Moves along the row, in memory or accumulators, as floats a chain reads directly.
  bool is_full(int value) const {
    if (!is_input(value)) return false;
    const epilogue::Input& in = input(value);
    if (in.role == Role::Accumulator)
      return in.dtype == DType::F32 && lane_of(in.rounded) == Lane::F32;
    return in.role == Role::Full && is_plain(in.dtype) && !in.rows;
  }
  bool is_bias(int value) const {
    return is_input(value) && input(value).role == Role::Row &&
           lane_of(input(value).dtype) == Lane::F32;
  }

  bool match_joined(int value) {
    if (!is_input(value)) {
      const epilogue::Node& top = node(value);
      for (const Gate& gate : kGates)
        if (top.op == gate.op) return match_gate(top, gate.activation);
      if (top.op == Op::Mul || top.op == Op::Add)
        for (const int side : {1, 0}) {
          const int other = without_casts(top.operands[side]);
          if (!is_full(other)) continue;
          const Chain before = chain_;
          if (match_activated(without_casts(top.operands[1 - side]))) {
            chain_.other = other;
            join_ = top.op == Op::Mul ? Join::Mul : Join::Add;
            return true;
          }
          chain_ = before;
          activation_ = Activation::None;
        }
    }
    return match_activated(value);
  }

  bool match_gate(const epilogue::Node& gate, Activation activation) {
    const int other = without_casts(gate.operands[1]);
    if (!is_full(other) || !match_biased(without_casts(gate.operands[0]))) return false;
    activation_ = activation;
    join_ = Join::Mul;
    chain_.other = other;
    if (!gate.params.empty()) chain_.alpha = static_cast<float>(gate.params[0]);
    return true;
  }

  bool match_activated(int value) {
    if (!is_input(value))
      for (const Gate& each : kActivations)
        if (node(value).op == each.op) {
          activation_ = each.activation;
          if (!node(value).params.empty()) chain_.alpha = static_cast<float>(node(value).params[0]);
          return match_biased(without_casts(node(value).operands[0]));
        }
    return match_biased(value);
  }

  bool match_biased(int value) {
    if (!is_input(value) && node(value).op == Op::Add)
      for (const int side : {1, 0}) {
        const int bias = without_casts(node(value).operands[side]);
        const int x = without_casts(node(value).operands[1 - side]);
        if (is_bias(bias) && is_start(x)) {
          chain_.x = x;
          chain_.bias = bias;
          return true;
        }
      }
    if (!is_start(value)) return false;
    chain_.x = value;
    return true;
  }

  // Where a chain begins: f32 numbers in memory or in accumulators.
  bool is_start(int value) const { return is_full(value) && input(value).dtype == DType::F32; }

  const Epilogue& epilogue_;
  Chain chain_;
  Activation activation_ = Activation::None;
  Join join_ = Join::None;
};

}  // namespace

std::optional<Chain> match_chain(const Epilogue& epilogue, ir::Mode mode) {
  if (mode != ir::Mode::Fp32) return std::nullopt;
  return Matcher(epilogue).match();
}

}  // namespace attacca::run
