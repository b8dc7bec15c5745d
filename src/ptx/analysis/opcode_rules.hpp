// What opcodes do with addresses: the rows of opcode_rules.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace attacca::ptx {

inline constexpr uint64_t kPointerBytes = 8;  // of a generic or global address

enum class ValueRule : uint8_t {
  Copy,
  Sum,
  Difference,
  MultiplySum,
  Choice,
  Convert,
  Mask,
  Assemble,
  Window,
  Test
};
// nullopt: any other opcode.
std::optional<ValueRule> value_rule(std::string_view opcode);

enum class Effect : uint8_t { Read, Write, Atomic, Transfer, Hint };
struct MemoryRule {
  std::string_view opcode;
  Effect effect;
  std::string_view rule, words;  // of the refusal
};
// Null: no opcode that is known to access memory.
const MemoryRule* memory_rule(std::string_view opcode);

struct RefusedOpcode {
  std::string_view opcode, rule, words;
};
const RefusedOpcode* refused_opcode(std::string_view opcode);

bool is_harmless_call(std::string_view function);

// ---- What an opcode's parts say

// The bits of the type of a load, store or move; 0: it has no type, or an unknown one.
uint32_t access_bits(const std::vector<std::string_view>& opcode);
// 2, 4 or 8 for .v2, .v4, .v8.
uint32_t access_count(const std::vector<std::string_view>& opcode);
// "global", "shared", ...; empty: generic.
std::string_view access_space(const std::vector<std::string_view>& opcode);
bool has_part(const std::vector<std::string_view>& opcode, std::string_view part);

}  // namespace attacca::ptx
