#include "ptx_interpreter/variables.hpp"

#include <algorithm>

namespace attacca::ptx_interpreter {

uint64_t aligned(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

uint64_t alignment_of(const ptx::Variable& variable) {
  const uint64_t element = ptx::type_bits(variable.type) / 8 * variable.vector;
  return std::max<uint64_t>({variable.alignment, element, 1});
}

namespace {

// The bytes of {1, 2, 0f3F800000}; nullopt for addresses and whatever else is no number.
std::optional<std::vector<std::byte>> initial_bytes(const ptx::Module& module,
                                                    const ptx::Variable& variable, uint64_t size) {
  std::vector<std::byte> bytes(size);
  const uint64_t element = ptx::type_bits(variable.type) / 8;
  uint64_t at = 0;
  bool negative = false;
  for (uint32_t i = variable.initializer.begin; i < variable.initializer.end; ++i) {
    const ptx::Token& token = module.tokens[i];
    if (token.kind == ptx::TokenKind::Symbol) {
      negative = token.is('-');
      if (!negative && !token.is('{') && !token.is('}') && !token.is(',')) return std::nullopt;
      continue;
    }
    const auto value = to_number(std::string(negative ? "-" : "") + std::string(token.text()));
    if (!value || at + element > size) return std::nullopt;
    for (uint64_t byte = 0; byte < element; ++byte)
      bytes[at + byte] = static_cast<std::byte>(*value >> (8 * byte));
    at += element;
  }
  return bytes;
}

void place_global(const ptx::Module& module, const ptx::Variable& variable, Memory& memory,
                  Places& places) {
  const auto size = ptx::size_in_bytes(variable);
  const auto bytes = size ? initial_bytes(module, variable, *size) : std::nullopt;
  if (!bytes) return;  // a step that names it faults
  const uint64_t address = memory.allocate(*size);
  std::copy(bytes->begin(), bytes->end(), memory.bytes(address).begin());
  places[&variable] = {Space::Global, address, false, static_cast<uint32_t>(*size)};
}

struct SharedLayout {
  Places places;
  uint32_t bytes = 0;
  std::vector<const ptx::Variable*> dynamic;

  void add(const ptx::Declaration& declaration) {
    for (const ptx::Variable& variable : declaration.variables) {
      if (variable.space != ".shared") continue;
      const auto size = ptx::size_in_bytes(variable);
      if (!size) {
        dynamic.push_back(&variable);
        continue;
      }
      bytes = static_cast<uint32_t>(aligned(bytes, alignment_of(variable)));
      places[&variable] = {Space::Shared, bytes, false, static_cast<uint32_t>(*size)};
      bytes += static_cast<uint32_t>(*size);
    }
  }
  void add(const ptx::Scope& scope) {
    for (const ptx::Statement& statement : scope.statements) {
      if (const auto* inner = std::get_if<ptx::Scope>(&statement.node)) add(*inner);
      if (const auto* declared = std::get_if<ptx::Declaration>(&statement.node)) add(*declared);
    }
  }
  void finish() {
    bytes = static_cast<uint32_t>(aligned(bytes, 128));
    for (const ptx::Variable* variable : dynamic)
      places[variable] = {Space::Shared, bytes, false, 0};
  }
};

}  // namespace

Places place_variables(const ptx::Module& module, Memory& memory, uint32_t* static_shared) {
  SharedLayout shared;
  for (const ptx::Item& item : module.items) {
    if (const auto* declaration = std::get_if<ptx::Declaration>(&item)) shared.add(*declaration);
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && function->body) shared.add(*function->body);
  }
  shared.finish();
  *static_shared = shared.bytes;
  Places places = std::move(shared.places);
  for (const ptx::Item& item : module.items)
    if (const auto* declaration = std::get_if<ptx::Declaration>(&item))
      for (const ptx::Variable& variable : declaration->variables)
        if (variable.space == ".global" || variable.space == ".const")
          place_global(module, variable, memory, places);
  return places;
}

}  // namespace attacca::ptx_interpreter
