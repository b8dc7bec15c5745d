// Tests the analysis on mutated kernels: eligible ones with a few instructions dropped, doubled,
// moved or given other registers, parameters or opcodes. A mutant that the analysis accepts must
// not read its output, and with its epilogue must compute itself, then the epilogue.
//
// ATTACCA_SEED and ATTACCA_MUTANTS (per kernel) choose other ones and more.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/compile/compile.hpp"
#include "kernels/fused.hpp"
#include "kernels/interpreted.hpp"
#include "ptx/syntax/edits.hpp"
#include "ptx/syntax/names.hpp"
#include "setting.hpp"

namespace attacca::kernels {
namespace {

using ir::Tensor;

// ---- Mutants

class Mutator {
 public:
  Mutator(const ptx::Module& module, std::string_view entry, uint64_t seed)
      : module_(module), random_(seed) {
    for (const ptx::Item& item : module.items) {
      const auto* function = std::get_if<ptx::Function>(&item);
      if (function == nullptr || !function->body) continue;
      if (function->name == entry) entry_ = function;
      collect(*function->body);
    }
  }

  std::string mutant() {
    ptx::Edits edits(module_);
    touched_.clear();
    const uint64_t count = 1 + pick(3);
    for (uint64_t i = 0; i < count; ++i) mutate(edits);
    return edits.apply();
  }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }

  void collect(const ptx::Scope& scope) {
    for (const ptx::Statement& statement : scope.statements) {
      if (const auto* inner = std::get_if<ptx::Scope>(&statement.node)) collect(*inner);
      if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.node))
        instructions_.push_back(instruction);
      if (const auto* declaration = std::get_if<ptx::Declaration>(&statement.node))
        for (const ptx::Variable& variable : declaration->variables)
          if (variable.space == ".reg" && variable.range) ranges_.push_back(&variable);
    }
  }

  void mutate(ptx::Edits& edits) {
    const ptx::Instruction& one = *instructions_[pick(instructions_.size())];
    const ptx::Instruction& other = *instructions_[pick(instructions_.size())];
    if (!touched_.insert(&one).second || !touched_.insert(&other).second) return;
    switch (pick(6)) {
      case 0:
        if (one.opcode != "ret") edits.replace(one.span, "");
        return;
      case 1:
        edits.replace(other.span,
                      fmt::format("{}\n{}", module_.text(other.span), module_.text(one.span)));
        return;
      case 2:
        return replace_opcode(one, edits);
      default:
        return replace_name(one, edits);
    }
  }

  // Another register of its kind, another parameter, or a place near it, in one place; addresses
  // most often.
  void replace_name(const ptx::Instruction& instruction, ptx::Edits& edits) {
    const bool only_addresses = pick(3) != 0;
    std::vector<std::pair<uint32_t, std::string>> choices;
    for (uint32_t at = instruction.span.begin; at < instruction.span.end; ++at) {
      const std::string_view word = module_.tokens[at].text();
      for (const ptx::Variable* range : ranges_) {
        ptx::NameTable table;
        table.add(*range);
        if (table.find(word) == nullptr || *range->range < 2) continue;
        if (only_addresses && ptx::type_bits(range->type) != 64) continue;
        choices.emplace_back(at, fmt::format("{}{}", range->name, 1 + pick(*range->range - 1)));
      }
      for (const ptx::Variable& parameter : entry_->parameters) {
        if (parameter.name != word) continue;
        choices.emplace_back(at, entry_->parameters[pick(entry_->parameters.size())].name);
        choices.emplace_back(at, fmt::format("{}+{}", word, 4 * (1 + pick(6))));
      }
    }
    if (choices.empty()) return;
    const auto& [at, name] = choices[pick(choices.size())];
    edits.replace({at, at + 1}, name);
  }

  void replace_opcode(const ptx::Instruction& instruction, ptx::Edits& edits) {
    static constexpr std::array<std::array<std::string_view, 2>, 12> kSwaps = {{
        {"add.s64", "sub.s64"},
        {"add.s64", "xor.b64"},
        {"add.s64", "min.u64"},
        {"add.s64", "and.b64"},
        {"shl.b64", "shr.u64"},
        {"st.global.f32", "st.f32"},
        {"st.global.f32", "red.global.add.f32"},
        {"ld.global.f32", "ld.f32"},
        {"mul.wide.s32", "mul.wide.u32"},
        {"cvta.to.global.u64", "mov.u64"},
        {"cvta.to.global.u64", "not.b64"},
        {"add.f32", "mul.f32"},
    }};
    const auto& [from, to] = kSwaps[pick(kSwaps.size())];
    for (uint32_t at = instruction.span.begin; at < instruction.span.end; ++at)
      if (module_.tokens[at].text() == from) return edits.replace({at, at + 1}, std::string(to));
  }

  const ptx::Module& module_;
  std::mt19937_64 random_;
  const ptx::Function* entry_ = nullptr;
  std::vector<const ptx::Instruction*> instructions_;
  std::vector<const ptx::Variable*> ranges_;
  std::set<const ptx::Instruction*> touched_;  // edits must not overlap
};

// ---- What must hold of one that is accepted

// A kernel's tail, compiled once for all its mutants.
struct Prepared {
  gpu::Tail tail;
  ptx::StoreTail signature;  // with a pack for each width of the kernel's stores
  ptx::Module filling;
  Arguments arguments;
  std::vector<Tensor> operands;
};

Result<Prepared> prepare(const Kernel& kernel) {
  ATTACCA_TRY(Fused fused, fuse(kernel));
  std::string source = fused.tail.source;
  ptx::StoreTail signature = fused.tail.signature;
  for (const auto& [elements, pack] : fused.tail.packs) {
    source += '\n' + pack.source;
    signature.packs[elements] = {pack.words, pack.is_wide};
  }
  ATTACCA_TRY(
      std::string filling,
      gpu::compile(source, {.arch = gpu::target_of(*module_of(kernel.file)), .contract = false}));
  ATTACCA_TRY(ptx::Module module, ptx::parse(std::move(filling)));
  ATTACCA_TRY(Arguments arguments, make_arguments(kernel, 11, false));
  std::vector<Tensor> operands = operand_tensors(kernel, fused.tail, 111, false);
  return Prepared{std::move(fused.tail), std::move(signature), std::move(module),
                  std::move(arguments), std::move(operands)};
}

bool same_element(const Tensor& a, const Tensor& b, int64_t i) {
  const auto size = static_cast<size_t>(ir::size_of(a.dtype()));
  const size_t at = static_cast<size_t>(i) * size;
  return std::memcmp(a.data() + at, b.data() + at, size) == 0 ||
         (std::isnan(a.number_at(i)) && std::isnan(b.number_at(i)));
}

bool is_filled_with(const Tensor& tensor, int64_t i, std::byte value) {
  const auto bytes = bytes_of(tensor).subspan(static_cast<size_t>(i * ir::size_of(tensor.dtype())),
                                              static_cast<size_t>(ir::size_of(tensor.dtype())));
  return std::ranges::all_of(bytes, [value](std::byte each) { return each == value; });
}

constexpr std::byte kOnes{0xFF}, kZeros{0x00};

std::string check_output(const Tensor& ones, const Tensor& zeros, const Tensor& joined,
                         const Tensor& applied) {
  for (int64_t i = 0; i < ones.size(); ++i) {
    const bool is_unwritten = is_filled_with(ones, i, kOnes) && is_filled_with(zeros, i, kZeros);
    if (!is_unwritten && !same_element(ones, zeros, i))
      return fmt::format("element {} depends on what the output held", i);
    if (!same_element(joined, is_unwritten ? ones : applied, i))
      return fmt::format("element {} is {}, wanted {}", i, joined.number_at(i),
                         (is_unwritten ? ones : applied).number_at(i));
  }
  return {};
}

enum class Fate { Broken, Refused, Faults, Checked };

// Empty, or why accepting this mutant was wrong.
std::string check_mutant(const Kernel& kernel, const Prepared& prepared, const std::string& text,
                         Fate& fate) {
  fate = Fate::Broken;
  const auto mutant = ptx::parse(text, "mutant");
  const auto output = ptx::parse_output(kernel.output);
  if (!mutant || !output) return {};
  const auto analysis = ptx::analyse_output(*mutant, kernel.entry, *output,
                                            static_cast<uint32_t>(ir::size_of(kernel.dtype)));
  if (!analysis) return {};
  fate = Fate::Refused;
  if (!analysis->eligible()) return {};
  const auto spliced = ptx::fuse_stores(*mutant, *analysis, prepared.filling, prepared.signature);
  if (!spliced) return "accepted, and cannot be fused: " + to_string(spliced.error());
  const auto fused = ptx::parse(spliced->ptx, "fused");
  if (!fused) return to_string(fused.error());

  fate = Fate::Faults;
  const auto ones = run_interpreted(*mutant, kernel, prepared.arguments, kOnes);
  const auto zeros = run_interpreted(*mutant, kernel, prepared.arguments, kZeros);
  if (!ones || !zeros) return {};
  fate = Fate::Checked;
  const auto joined = run_interpreted(*fused, kernel, prepared.arguments, kOnes, prepared.operands);
  if (!joined) return to_string(joined.error());
  const size_t at = prepared.arguments.output;
  const auto applied = apply_epilogue(kernel, prepared.tail, (*ones)[at], prepared.operands);
  if (!applied) return to_string(applied.error());
  for (size_t i = 0; i < ones->size(); ++i) {
    if (i == at) continue;
    if (!compare_elements((*zeros)[i], (*ones)[i]).empty())
      return fmt::format("buffer {} depends on what the output held", i);
    if (!compare_elements((*joined)[i], (*ones)[i]).empty())
      return fmt::format("buffer {} is another with the epilogue", i);
  }
  return check_output((*ones)[at], (*zeros)[at], (*joined)[at], *applied);
}

// The text with the n-th load of a parameter moved by some bytes; empty where there is no n-th.
std::string with_moved_parameter(const std::string& text, size_t n, int bytes) {
  constexpr std::string_view kLoad = "ld.param.";
  size_t at = text.find(kLoad);
  for (; n > 0 && at != std::string::npos; --n) at = text.find(kLoad, at + 1);
  if (at == std::string::npos) return {};
  std::string moved = text;
  return moved.insert(text.find(']', at), fmt::format("{:+}", bytes));
}

TEST(Mutants, ParametersBesideTheirOwnAreNotTrusted) {
  int count = 0;
  for (const Kernel& kernel : eligible_kernels()) {
    const auto prepared = prepare(kernel);
    ASSERT_TRUE(prepared) << to_string(prepared.error());
    const std::string original = text_of(kernel);
    for (const int bytes : {8, -8})
      for (size_t n = 0; n < 6; ++n) {
        const std::string text = with_moved_parameter(original, n, bytes);
        if (text.empty()) break;
        Fate fate{};
        EXPECT_EQ(check_mutant(kernel, *prepared, text, fate), "")
            << to_string(kernel) << ", load " << n << " moved by " << bytes << "\n"
            << text;
        count += fate != Fate::Broken;
      }
  }
  EXPECT_GT(count, 300);
}

TEST(Mutants, WhatIsAcceptedIsRight) {
  const uint64_t seed = setting("ATTACCA_SEED", 1), count = setting("ATTACCA_MUTANTS", 30);
  std::array<int, 4> fates{};
  for (const Kernel& kernel : eligible_kernels()) {
    const auto prepared = prepare(kernel);
    ASSERT_TRUE(prepared) << to_string(prepared.error());
    const auto module = ptx::parse(text_of(kernel), "kernel");
    ASSERT_TRUE(module);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string text = Mutator(*module, kernel.entry, seed * 1000003 + i).mutant();
      Fate fate{};
      const std::string wrong = check_mutant(kernel, *prepared, text, fate);
      ++fates[static_cast<size_t>(fate)];
      ASSERT_EQ(wrong, "") << to_string(kernel) << ", mutant " << i << " of seed " << seed << "\n"
                           << text;
    }
  }
  fmt::print("seed {}: {} broken, {} refused, {} fault, {} accepted and right\n", seed, fates[0],
             fates[1], fates[2], fates[3]);
  EXPECT_GT(fates[3], fates[0]);
}

}  // namespace
}  // namespace attacca::kernels
