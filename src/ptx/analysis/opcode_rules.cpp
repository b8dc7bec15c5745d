#include "ptx/analysis/opcode_rules.hpp"

#include <algorithm>
#include <array>

#include "fmt/format.h"

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {
namespace {

struct ValueRow {
  std::string_view opcode;
  ValueRule rule;
};

constexpr ValueRow kValueRows[] = {
#define VALUE_OP(opcode, rule) {opcode, ValueRule::rule},
#include "ptx/analysis/opcode_rules.def"
};

constexpr MemoryRule kMemoryRows[] = {
#define MEMORY_OP(opcode, effect, rule, words) {opcode, Effect::effect, rule, words},
#include "ptx/analysis/opcode_rules.def"
};

constexpr RefusedOpcode kRefusedRows[] = {
#define REFUSED_OP(opcode, rule, words) {opcode, rule, words},
#include "ptx/analysis/opcode_rules.def"
};

constexpr std::string_view kHarmless[] = {
#define HARMLESS_CALL(function) function,
#include "ptx/analysis/opcode_rules.def"
};

// "cp.async" begins "cp.async.bulk.tensor.2d", not "cp.asynchronous".
bool begins(std::string_view prefix, std::string_view opcode) {
  return opcode.starts_with(prefix) &&
         (opcode.size() == prefix.size() || opcode[prefix.size()] == '.');
}

template <class Rows>
auto find_row(const Rows& rows, std::string_view opcode) -> decltype(&rows[0]) {
  for (const auto& row : rows)
    if (begins(row.opcode, opcode)) return &row;
  return nullptr;
}

constexpr std::array<std::string_view, 6> kSpaces = {"global", "shared", "local",
                                                     "const",  "param",  "tex"};

}  // namespace

std::optional<ValueRule> value_rule(std::string_view opcode) {
  const ValueRow* row = find_row(kValueRows, opcode);
  return row ? std::optional(row->rule) : std::nullopt;
}

const MemoryRule* memory_rule(std::string_view opcode) {
  return find_row(kMemoryRows, opcode);
}

const RefusedOpcode* refused_opcode(std::string_view opcode) {
  return find_row(kRefusedRows, opcode);
}

bool is_harmless_call(std::string_view function) {
  return std::find(std::begin(kHarmless), std::end(kHarmless), function) != std::end(kHarmless);
}

uint32_t access_bits(const std::vector<std::string_view>& opcode) {
  return opcode.size() < 2 ? 0 : type_bits(fmt::format(".{}", opcode.back()));
}

uint32_t access_count(const std::vector<std::string_view>& opcode) {
  for (const std::string_view part : opcode)
    if (part == "v2" || part == "v4" || part == "v8") return static_cast<uint32_t>(part[1] - '0');
  return 1;
}

// ld.shared::cta.b32, ld.volatile.global.f32
std::string_view access_space(const std::vector<std::string_view>& opcode) {
  for (const std::string_view part : opcode) {
    const std::string_view plain = part.substr(0, part.find("::"));
    for (const std::string_view space : kSpaces)
      if (plain == space) return space;
  }
  return {};
}

bool has_part(const std::vector<std::string_view>& opcode, std::string_view part) {
  return std::find(opcode.begin(), opcode.end(), part) != opcode.end();
}

}  // namespace attacca::ptx
