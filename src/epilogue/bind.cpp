// Where an epilogue's inputs and outputs go in a kernel's hole.
#include <algorithm>
#include <optional>

#include "fmt/format.h"

#include "epilogue/hole.hpp"
#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

std::string_view name(Place place) {
  static constexpr std::string_view kNames[] = {"acc",     "full",   "row",    "col",
                                                "context", "result", "maximum"};
  return kNames[static_cast<size_t>(place)];
}

int bits_of(ir::DType dtype) {
  return ir::info(dtype).bits;
}

bool flagged(const std::vector<bool>& flags, size_t i) {
  return i < flags.size() && flags[i];
}

class Binder {
 public:
  Binder(const Epilogue& epilogue, const HoleSignature& signature, const PlacementLimits& limits)
      : epilogue_(epilogue),
        signature_(signature),
        limits_(limits),
        full_used_(signature.full_bits.size(), false),
        result_used_(signature.result_bits.size(), false) {}

  std::variant<Binding, std::string> run() {
    if (auto reason = refusal()) return *std::move(reason);
    binding_.inputs.resize(epilogue_.inputs.size());
    place_accumulators();
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) place_operand(i);
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) place_scalar(i);
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) place_in_context(i);
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i) place_output(i);
    for (const Input& input : epilogue_.inputs)
      if (input.rows) binding_.indices.push_back({Place::Context, context_++});
    for (size_t slot = 0; slot < result_used_.size(); ++slot)
      if (!result_used_[slot])
        return fmt::format(
            "the kernel stores result {} of {} bits, and the epilogue has no output for it", slot,
            signature_.result_bits[slot]);
    if (context_ > kContextOperands)
      return fmt::format("{} operands without a slot, and the context takes {}", context_,
                         kContextOperands);
    return std::move(binding_);
  }

 private:
  std::optional<std::string> refusal() const {
    int accumulators = 0;
    for (const Input& input : epilogue_.inputs) {
      if (input.role != Role::Accumulator) continue;
      ++accumulators;
      if (signature_.accumulators == 1 && !(input.column_step == 1 && input.column_offset.is(0)))
        return "the epilogue reads some of the product's columns, the kernel hands over all";
      if (accumulators <= signature_.accumulators && input.dtype != signature_.accumulator_type)
        return fmt::format("the epilogue reads {} accumulators, the kernel has {}",
                           name(input.dtype), name(signature_.accumulator_type));
    }
    if (accumulators != signature_.accumulators)
      return fmt::format("the epilogue reads {} accumulators, the kernel hands over {}",
                         accumulators, signature_.accumulators);
    int maxima = 0;
    for (const Output& output : epilogue_.outputs) {
      if (output.kind == OutputKind::Store) continue;
      if (signature_.maxima == 0 || !is_amax_of_all(output))
        return fmt::format("the kernel stores elements, and an output is a {}",
                           ir::name(output.reduction));
      if (++maxima > signature_.maxima) return "the kernel keeps one maximum, and there are more";
    }
    return std::nullopt;
  }

  void place_accumulators() {
    int set = 0;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i)
      if (epilogue_.inputs[i].role == Role::Accumulator) place(i, Place::Accumulator, set++);
  }

  void place(size_t input, Place place, int slot) {
    binding_.inputs[input] = {place, slot};
    placed_.resize(epilogue_.inputs.size(), false);
    placed_[input] = true;
  }

  bool is_placed(size_t input) const { return input < placed_.size() && placed_[input]; }

  // A vector slot hands over at most 32 bits an element.
  bool take_row(size_t input) {
    if (rows_ == signature_.rows) return false;
    place(input, Place::Row, rows_++);
    return true;
  }
  bool take_column(size_t input) {
    if (columns_ == signature_.columns) return false;
    place(input, Place::Column, columns_++);
    return true;
  }

  bool may_use_slot(size_t i) const {
    return !is_placed(i) && !flagged(limits_.context_inputs, i) && !epilogue_.inputs[i].rows &&
           bits_of(epilogue_.inputs[i].dtype) <= 32;
  }

  void place_operand(size_t i) {
    if (!may_use_slot(i)) return;
    const Input& input = epilogue_.inputs[i];
    if (input.role == Role::Full) {
      for (size_t slot = 0; slot < full_used_.size(); ++slot) {
        if (full_used_[slot] || signature_.full_bits[slot] != bits_of(input.dtype)) continue;
        full_used_[slot] = true;
        place(i, Place::Full, static_cast<int>(slot));
        return;
      }
    } else if (input.role == Role::Row) {
      signature_.swapped ? take_column(i) : take_row(i);
    } else if (input.role == Role::Column) {
      signature_.swapped ? take_row(i) : take_column(i);
    }
  }

  // After the vectors, which need their kind of slot; a column slot costs the kernel less.
  void place_scalar(size_t i) {
    if (epilogue_.inputs[i].role != Role::Scalar || !may_use_slot(i)) return;
    if (!take_column(i)) take_row(i);
  }

  void place_in_context(size_t i) {
    if (!is_placed(i)) place(i, Place::Context, context_++);
  }

  void place_output(size_t i) {
    if (epilogue_.outputs[i].kind != OutputKind::Store) {
      binding_.outputs.push_back({Place::Maximum, 0});
      return;
    }
    const int bits = bits_of(epilogue_.outputs[i].dtype);
    if (!flagged(limits_.context_outputs, i))
      for (size_t slot = 0; slot < result_used_.size(); ++slot) {
        if (result_used_[slot] || signature_.result_bits[slot] != bits) continue;
        result_used_[slot] = true;
        binding_.outputs.push_back({Place::Result, static_cast<int>(slot)});
        return;
      }
    binding_.outputs.push_back({Place::Context, context_++});
  }

  const Epilogue& epilogue_;
  const HoleSignature& signature_;
  const PlacementLimits& limits_;
  Binding binding_;
  std::vector<bool> placed_, full_used_, result_used_;
  int rows_ = 0, columns_ = 0, context_ = 0;
};

}  // namespace

bool is_amax_of_all(const Output& output) {
  const auto& strides = output.access.strides;
  return output.kind == OutputKind::FullReduce && output.reduction == ir::Op::AMax &&
         output.dtype == ir::DType::F32 &&
         std::all_of(strides.begin(), strides.end(), [](const ir::Dim& dim) { return dim.is(0); });
}

HoleSignature roomy_signature(const Epilogue& epilogue, bool swapped) {
  HoleSignature signature;
  signature.accumulators = 0;
  signature.swapped = swapped;
  for (const Input& input : epilogue.inputs) {
    const int bits = bits_of(input.dtype);
    if (input.role == Role::Accumulator) {
      ++signature.accumulators;
      signature.accumulator_type = input.dtype;
    } else if (input.rows) {
      continue;
    } else if (input.role == Role::Full) {
      if (bits == 16 || bits == 32) signature.full_bits.push_back(bits);
    } else if (bits <= 32) {
      ++((input.role == Role::Row) != swapped ? signature.rows : signature.columns);
    }
  }
  for (const Output& output : epilogue.outputs) {
    const int bits = bits_of(output.dtype);
    if (is_amax_of_all(output))
      signature.maxima = 1;
    else if (bits <= 32)
      signature.result_bits.push_back(bits);
  }
  return signature;
}

std::variant<Binding, std::string> bind(const Epilogue& epilogue, const HoleSignature& signature,
                                        const PlacementLimits& limits) {
  return Binder(epilogue, signature, limits).run();
}

std::string serialize(const Binding& binding) {
  std::vector<std::string> parts;
  for (const Placement& input : binding.inputs)
    parts.push_back(fmt::format("{}{}", name(input.place), input.slot));
  parts.emplace_back("->");
  for (const Placement& output : binding.outputs)
    parts.push_back(fmt::format("{}{}", name(output.place), output.slot));
  if (!binding.indices.empty()) parts.emplace_back("by");
  for (const Placement& index : binding.indices)
    parts.push_back(fmt::format("{}{}", name(index.place), index.slot));
  return fmt::format("{}", fmt::join(parts, " "));
}

Epilogue unfuse(const Epilogue& epilogue, const std::vector<ir::Dim>& gemm_columns,
                const std::vector<ir::Value>& gemm_nodes) {
  Epilogue result = epilogue;
  const ir::Shape& domain = epilogue.domain;
  for (Input& input : result.inputs) {
    if (input.role != Role::Accumulator) continue;
    const auto gemm = static_cast<size_t>(input.gemm);
    ATTACCA_CHECK(gemm < gemm_columns.size() && gemm < gemm_nodes.size(), "a product not given");
    Access access;
    access.offset = input.column_offset;
    access.strides.resize(domain.size());
    ir::Dim stride = gemm_columns[gemm];
    for (size_t axis = domain.size() - 1; axis-- > 0;) {
      access.strides[axis] = stride;
      stride = stride * domain[axis];
    }
    access.strides.back() = input.column_step;
    input.dtype = input.rounded;
    input.role = Role::Full;
    input.source = gemm_nodes[gemm];
    input.access = std::move(access);
    input.column_offset = 0;
    input.column_step = 1;
  }
  return result;
}

}  // namespace attacca::epilogue
