#include "ptx/splice/carry.hpp"

#include <unordered_map>
#include <unordered_set>

#include "fmt/format.h"

#include "ptx/syntax/signature.hpp"

namespace attacca::ptx {
namespace {

std::vector<std::string_view> names_of(const Item& item) {
  std::vector<std::string_view> names;
  if (const auto* function = std::get_if<Function>(&item)) names.push_back(function->name);
  if (const auto* declaration = std::get_if<Declaration>(&item))
    for (const Variable& variable : declaration->variables) names.push_back(variable.name);
  return names;
}

std::string_view linkage_of(const Item& item) {
  if (const auto* function = std::get_if<Function>(&item)) return function->linkage;
  if (const auto* declaration = std::get_if<Declaration>(&item)) return declaration->linkage;
  return {};
}

using Symbols = std::unordered_multimap<std::string_view, const Item*>;

Symbols symbols_of(const Module& module) {
  Symbols symbols;
  for (const Item& item : module.items)
    for (const std::string_view name : names_of(item)) symbols.emplace(name, &item);
  return symbols;
}

std::string type_of(const Item& item) {
  if (const auto* function = std::get_if<Function>(&item)) return describe_signature(*function);
  const Variable& variable = std::get<Declaration>(item).variables.front();
  return fmt::format("{} {}{}", variable.space, variable.type, variable.dims.empty() ? "" : "[]");
}

std::string renamed_text(const Module& module, const Item& item, const Renamer& renamer) {
  Edits edits(module);
  const Span span = span_of(item);
  const auto* function = std::get_if<Function>(&item);
  const bool has_body = function && function->body;
  renamer.rename(module, Span{span.begin, has_body ? function->body->span.begin : span.end}, edits);
  if (has_body) renamer.rename(module, *function->body, edits);
  return edits.apply(span);
}

bool is_external(const Item& item) {
  return linkage_of(item) == ".extern";
}

// An external that both declare stays one.
Result<bool> kernel_declares(const Module& epilogue, const Item& item, const Symbols& of_kernel) {
  for (const std::string_view name : names_of(item)) {
    const auto found = of_kernel.find(name);
    if (found == of_kernel.end()) continue;
    if (type_of(*found->second) == type_of(item)) return true;
    return fail(fmt::format("the kernel has '{}' as {}, the epilogue expects {}", name,
                            type_of(*found->second), type_of(item)),
                epilogue.where(span_of(item)), "declare it alike in both");
  }
  return false;
}

}  // namespace

Result<std::vector<const Item*>> reachable_items(const Module& epilogue, const Function& function) {
  const Symbols symbols = symbols_of(epilogue);
  std::unordered_set<const Item*> reached;
  std::vector<Span> to_scan = {function.body->span};
  while (!to_scan.empty()) {
    const Span span = to_scan.back();
    to_scan.pop_back();
    for (uint32_t i = span.begin; i < span.end; ++i) {
      const Token& token = epilogue.tokens[i];
      if (token.kind != TokenKind::Word) continue;
      if (token.text() == function.name)
        return fail(fmt::format("'{}' refers to itself", function.name),
                    epilogue.source.where(token.text()), "write it without recursion");
      const auto [begin, end] = symbols.equal_range(token.text());
      for (auto at = begin; at != end; ++at)
        if (reached.insert(at->second).second) to_scan.push_back(span_of(*at->second));
    }
  }
  std::vector<const Item*> items;
  for (const Item& item : epilogue.items)
    if (reached.contains(&item)) items.push_back(&item);
  return items;
}

void add_names(const std::vector<const Item*>& items, Renamer& renamer) {
  for (const Item* item : items)
    if (!is_external(*item))
      for (const std::string_view name : names_of(*item)) renamer.add(name);
}

Result<std::string> carried_text(const Module& epilogue, const std::vector<const Item*>& items,
                                 const Renamer& renamer, const Module& kernel) {
  const Symbols of_kernel = symbols_of(kernel);
  std::string text;
  for (const Item* item : items) {
    if (is_external(*item)) {
      ATTACCA_TRY(const bool is_there, kernel_declares(epilogue, *item, of_kernel));
      if (is_there) continue;
    }
    text += renamed_text(epilogue, *item, renamer) + "\n\n";
  }
  return text;
}

}  // namespace attacca::ptx
