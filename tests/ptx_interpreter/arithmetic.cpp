// Instructions that compute on registers.
#include "ptx_interpreter/alu.hpp"
#include "ptx_interpreter/families.hpp"

namespace attacca::ptx_interpreter {
namespace {

Result<std::vector<Read>> read_sources(const ptx::Instruction& instruction, size_t count,
                                       Operands& operands) {
  std::vector<Read> reads;
  Parts parts(instruction.opcode);
  const Type type = parts.take_type().value_or(Type{});
  for (size_t i = 0; i < count; ++i) {
    ATTACCA_TRY(Read read, operands.read(instruction.operands[1 + i], type));
    reads.push_back(std::move(read));
  }
  return reads;
}

std::vector<uint64_t> values_of(const std::vector<Read>& reads, Thread& thread) {
  std::vector<uint64_t> values;
  values.reserve(reads.size());
  for (const Read& read : reads) values.push_back(read(thread));
  return values;
}

Decoded decode_comparison(const ptx::Instruction& instruction, Operands& operands) {
  const auto comparison = find_comparison(instruction.opcode);
  if (!comparison || instruction.operands.size() != comparison->sources + 1)
    return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const auto target, operands.write_pair(instruction.operands[0], 1));
  ATTACCA_TRY(const auto reads, read_sources(instruction, comparison->sources, operands));
  Step step;
  step.run = [=, compute = comparison->compute](Thread& thread) {
    const auto [holds, opposite] = compute(values_of(reads, thread));
    target.first(thread, holds);
    target.second(thread, opposite);
  };
  return step;
}

}  // namespace

Decoded decode_arithmetic(const ptx::Instruction& instruction, Operands& operands) {
  if (instruction.opcode.starts_with("setp.")) return decode_comparison(instruction, operands);
  const auto alu = find_alu(instruction.opcode);
  if (!alu) return std::nullopt;
  if (instruction.operands.size() != alu->sources + 1)
    return operands.unknown(instruction.span, "the opcode");
  const bool splits = std::holds_alternative<ptx::Tuple>(instruction.operands[0].form);
  const Type type = Parts(instruction.opcode).take_type().value_or(Type{});
  ATTACCA_TRY(const Write write, operands.write(instruction.operands[0], splits ? type.bits : 64));
  ATTACCA_TRY(const auto reads, read_sources(instruction, alu->sources, operands));
  Step step;
  step.run = [=, compute = alu->compute](Thread& thread) {
    write(thread, compute(values_of(reads, thread)));
  };
  return step;
}

}  // namespace attacca::ptx_interpreter
