#include "ptx/analysis/store_obstacle.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "ptx/analysis/opcode_rules.hpp"

namespace attacca::ptx {
namespace {

// A register as wide as what is stored, or a wider integer; or a number.
bool is_storable(const Ref& ref, uint32_t bits) {
  if (ref.kind == Ref::Kind::Immediate) return true;
  if (ref.kind != Ref::Kind::Register || ref.variable->vector != 1 ||
      ref.text.find('.') != std::string_view::npos)
    return false;
  const std::string_view type = ref.variable->type;
  const uint32_t width = type_bits(type);
  if (type.starts_with(".f") || type.starts_with(".bf")) return width == bits;
  return width >= bits && width <= 64;
}

bool is_storable(const Argument& data, uint32_t count, uint32_t bits) {
  if (data.form == Argument::Form::Value) return count == 1 && is_storable(data.ref, bits);
  return data.form == Argument::Form::Tuple && data.parts.size() == count &&
         std::all_of(data.parts.begin(), data.parts.end(),
                     [bits](const Ref& ref) { return is_storable(ref, bits); });
}

// Address, data, perhaps a cache policy.
bool has_usual_form(const Step& store, uint32_t bits) {
  const std::string_view space = access_space(store.opcode);
  return (bits == 8 || bits == 16 || bits == 32 || bits == 64) &&
         (store.arguments.size() == 2 || store.arguments.size() == 3) &&
         (space.empty() || space == "global") &&
         store.arguments[0].form == Argument::Form::Address && store.arguments[0].parts.empty() &&
         is_storable(store.arguments[1], access_count(store.opcode), bits);
}

}  // namespace

std::optional<StoreObstacle> store_obstacle(const Step& store, uint32_t element_bytes) {
  const std::string_view opcode = store.instruction->opcode;
  const uint32_t bits = access_bits(store.opcode);
  if (bits != 0 && bits < element_bytes * 8)
    return StoreObstacle{
        "partial-element",
        fmt::format("it stores parts of an element: {} of {} bits", bits, element_bytes * 8)};
  for (const std::string_view part : {"volatile", "relaxed", "release", "mmio", "acquire"})
    if (has_part(store.opcode, part))
      return StoreObstacle{
          "volatile", fmt::format("others may see its output while it is stored ({})", opcode)};
  if (!has_usual_form(store, bits))
    return StoreObstacle{"opcode", fmt::format("it stores by {}", opcode)};
  return std::nullopt;
}

}  // namespace attacca::ptx
