// ld, st, atom, red, cvta, cp.async and what orders memory (which needs no order here).
#include <array>
#include <cstring>

#include "fmt/format.h"

#include "ptx_interpreter/alu.hpp"
#include "ptx_interpreter/families.hpp"

namespace attacca::ptx_interpreter {
namespace {

struct Access {
  Space space = Space::Generic;
  Type type;
  uint32_t vector = 1;
};

Space take_space(Parts& parts) {
  if (parts.take("global") || parts.take("const")) return Space::Global;
  if (parts.take("shared") || parts.take("shared::cta")) return Space::Shared;
  if (parts.take("local")) return Space::Local;
  if (parts.take("param") || parts.take("param::entry") || parts.take("param::func"))
    return Space::Parameter;
  return Space::Generic;
}

// Order, scope and caching change nothing here.
void take_hints(Parts& parts) {
  for (const std::string_view name :
       {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "cta", "cluster", "gpu",
        "sys", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt"})
    parts.take(name);
  parts.take_prefixed("L1::");
  parts.take_prefixed("L2::");
}

std::optional<Access> to_access(std::string_view opcode) {
  Parts parts(opcode);
  Access access;
  access.space = take_space(parts);
  take_hints(parts);
  access.vector = parts.take("v2") ? 2 : parts.take("v4") ? 4 : parts.take("v8") ? 8 : 1;
  const auto type = parts.take_type();
  if (!type || type->kind == Kind::Predicate || !parts.empty()) return std::nullopt;
  access.type = *type;
  return access;
}

// The registers of a vector, or the one.
std::vector<const ptx::Operand*> elements(const ptx::Operand& operand, uint32_t vector) {
  if (vector == 1) return {&operand};
  const auto* tuple = std::get_if<ptx::Tuple>(&operand.form);
  std::vector<const ptx::Operand*> all;
  if (tuple)
    for (const ptx::Operand& element : tuple->elements) all.push_back(&element);
  return all;
}

std::byte* bytes_at(Thread& thread, const Location& location, uint32_t bytes) {
  const uint64_t address = location.address(thread);
  if (!location.is_in_frame) return thread.memory(location.space, address, bytes);
  std::vector<std::byte>& params = thread.frame().params;
  if (address + bytes <= params.size()) return params.data() + address;
  thread.fault =
      fmt::format("{} bytes at {} of {} bytes of parameters", bytes, address, params.size());
  return nullptr;
}

uint64_t load(const std::byte* from, uint32_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

Decoded decode_load(const ptx::Instruction& instruction, const Access& access, Operands& operands) {
  const auto targets = elements(instruction.operands[0], access.vector);
  if (targets.size() != access.vector) return operands.unknown(instruction.span, "the vector");
  ATTACCA_TRY(const Location from, operands.location(instruction.operands[1], access.space));
  std::vector<Write> writes;
  for (const ptx::Operand* target : targets) {
    ATTACCA_TRY(Write write,
                operands.write(*target, access.type.bytes() * 8, access.type.is_signed()));
    writes.push_back(std::move(write));
  }
  Step step;
  step.run = [from, writes, bytes = access.type.bytes()](Thread& thread) {
    const auto count = static_cast<uint32_t>(writes.size());
    const std::byte* data = bytes_at(thread, from, bytes * count);
    if (data == nullptr) return;
    std::array<uint64_t, 8> values{};  // all before any: the address may be among the targets
    for (uint32_t i = 0; i < count; ++i) values[i] = load(data + i * bytes, bytes);
    for (uint32_t i = 0; i < count; ++i) writes[i](thread, values[i]);
  };
  return step;
}

Decoded decode_store(const ptx::Instruction& instruction, const Access& access,
                     Operands& operands) {
  const auto sources = elements(instruction.operands[1], access.vector);
  if (sources.size() != access.vector) return operands.unknown(instruction.span, "the vector");
  ATTACCA_TRY(const Location to, operands.location(instruction.operands[0], access.space));
  std::vector<Read> reads;
  for (const ptx::Operand* source : sources) {
    ATTACCA_TRY(Read read, operands.read(*source, access.type));
    reads.push_back(std::move(read));
  }
  Step step;
  step.run = [to, reads, bytes = access.type.bytes()](Thread& thread) {
    std::byte* data = bytes_at(thread, to, bytes * static_cast<uint32_t>(reads.size()));
    if (data == nullptr) return;
    for (size_t i = 0; i < reads.size(); ++i) {
      const uint64_t value = reads[i](thread);
      std::memcpy(data + i * bytes, &value, bytes);
    }
  };
  return step;
}

// ---- atom and red

Compute atomic_operation(std::string_view name, const Type& type) {
  if (name == "exch") return [](std::span<const uint64_t> s) { return s[1]; };
  if (name == "cas")
    return [bits = type.bits](std::span<const uint64_t> s) {
      return truncate(s[0], bits) == truncate(s[1], bits) ? s[2] : s[0];
    };
  if (name == "inc")
    return [](std::span<const uint64_t> s) { return s[0] >= truncate(s[1], 32) ? 0 : s[0] + 1; };
  // The rest is as the ALU has it: add.f32, max.s32, and.b32.
  static constexpr std::array<std::string_view, 10> kTypes = {"f32", "f64", "u32", "u64", "s32",
                                                              "s64", "b32", "b64", "f16", "bf16"};
  for (const std::string_view spelled : kTypes)
    if (const auto each = to_type(spelled);
        each->kind == type.kind && each->bits == type.bits && each->bfloat == type.bfloat) {
      const auto alu = find_alu(fmt::format("{}.{}", name, spelled));
      if (alu && alu->sources == 2) return alu->compute;
    }
  return {};
}

Decoded decode_atomic(const ptx::Instruction& instruction, Operands& operands) {
  static constexpr std::array<std::string_view, 9> kNames = {"add", "min",  "max", "and", "or",
                                                             "xor", "exch", "cas", "inc"};
  Parts parts(instruction.opcode);
  const bool returns = parts.first() == "atom";
  const Space space = take_space(parts);
  take_hints(parts);
  parts.take("noftz");
  const std::string_view name = parts.take_one_of(kNames);
  const auto type = parts.take_type();
  const size_t first = returns ? 1 : 0, count = name == "cas" ? 2 : 1;
  const Compute operation = type ? atomic_operation(name, *type) : Compute();
  if (!operation || !parts.empty() || instruction.operands.size() != first + 1 + count)
    return operands.unknown(instruction.span, "the opcode");
  Write write = [](Thread&, uint64_t) {};
  if (returns) {
    ATTACCA_TRY(write, operands.write(instruction.operands[0], type->bits));
  }
  ATTACCA_TRY(const Location at, operands.location(instruction.operands[first], space));
  std::vector<Read> reads;
  for (size_t i = 0; i < count; ++i) {
    ATTACCA_TRY(Read read, operands.read(instruction.operands[first + 1 + i], *type));
    reads.push_back(std::move(read));
  }
  Step step;
  step.run = [=, bytes = type->bytes()](Thread& thread) {
    std::byte* data = bytes_at(thread, at, bytes);
    if (data == nullptr) return;
    std::vector<uint64_t> sources = {load(data, bytes)};
    for (const Read& read : reads) sources.push_back(read(thread));
    const uint64_t result = operation(sources);
    std::memcpy(data, &result, bytes);
    write(thread, sources[0]);
  };
  return step;
}

// ---- The rest

Decoded decode_cvta(const ptx::Instruction& instruction, Operands& operands) {
  Parts parts(instruction.opcode);
  const bool from_generic = parts.take("to");
  const Space space = take_space(parts);
  const auto type = parts.take_type();
  if (!type || !parts.empty() || instruction.operands.size() != 2)
    return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const Read read, operands.read(instruction.operands[1], *type));
  ATTACCA_TRY(const Write write, operands.write(instruction.operands[0], type->bits));
  Step step;
  // Of parameters, the address in their space is the generic one already.
  const uint64_t window = space == Space::Parameter ? 0 : window_of(space);
  step.run = [=](Thread& thread) {
    write(thread, from_generic ? read(thread) - window : read(thread) + window);
  };
  return step;
}

Decoded decode_async_copy(const ptx::Instruction& instruction, Operands& operands) {
  Parts parts(instruction.opcode);
  parts.take("async");
  take_hints(parts);
  const bool is_copy = parts.take("shared") || parts.take("shared::cta");
  if (parts.take("commit_group") || parts.take("wait_group") || parts.take("wait_all")) {
    if (!parts.empty()) return operands.unknown(instruction.span, "the opcode");
    Step step;  // copies were made at once
    step.run = [](Thread&) {};
    return step;
  }
  const size_t count = instruction.operands.size();
  if (!is_copy || !parts.take("global") || !parts.empty() || count < 3 || count > 4)
    return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const Location to, operands.location(instruction.operands[0], Space::Shared));
  ATTACCA_TRY(const Location from, operands.location(instruction.operands[1], Space::Global));
  ATTACCA_TRY(const Read size, operands.read(instruction.operands[2], {}));
  ATTACCA_TRY(const Read taken, operands.read(instruction.operands[count - 1], {}));
  Step step;
  step.run = [=](Thread& thread) {
    const auto bytes = static_cast<uint32_t>(size(thread));
    const auto copied = std::min(bytes, static_cast<uint32_t>(taken(thread)));
    std::byte* target = bytes_at(thread, to, bytes);
    const std::byte* source = target && copied > 0 ? bytes_at(thread, from, copied) : nullptr;
    if (target == nullptr || (copied > 0 && source == nullptr)) return;
    std::memset(target, 0, bytes);
    if (copied > 0) std::memcpy(target, source, copied);
  };
  return step;
}

}  // namespace

Decoded decode_memory(const ptx::Instruction& instruction, Operands& operands) {
  const std::string_view opcode = instruction.opcode;
  const std::string_view first = Parts(opcode).first();
  if (first == "ld" || first == "st") {
    const auto access = to_access(opcode);
    const size_t count = instruction.operands.size();
    const bool has_policy = opcode.find("::cache_hint") != std::string_view::npos;
    if (!access || count != (has_policy ? 3u : 2u))
      return operands.unknown(instruction.span, "the opcode");
    return first == "ld" ? decode_load(instruction, *access, operands)
                         : decode_store(instruction, *access, operands);
  }
  if (first == "atom" || first == "red") return decode_atomic(instruction, operands);
  if (first == "cvta") return decode_cvta(instruction, operands);
  if (opcode.starts_with("cp.async.") && !opcode.starts_with("cp.async.bulk"))
    return decode_async_copy(instruction, operands);
  // Kernels run one after the other.
  if (first == "nanosleep") {
    Step step;
    step.run = [](Thread& thread) {
      const Grid& grid = *thread.block->grid;
      if (*grid.asleep) (*grid.asleep)(*grid.memory);
    };
    return step;
  }
  if (first == "membar" || first == "fence" || first == "prefetch" || first == "griddepcontrol") {
    Step step;
    step.run = [](Thread&) {};
    return step;
  }
  return std::nullopt;
}

}  // namespace attacca::ptx_interpreter
