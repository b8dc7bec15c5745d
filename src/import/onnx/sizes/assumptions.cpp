#include "import/onnx/sizes/assumptions.hpp"

#include <algorithm>
#include <utility>

#include "ir/text/dim_text.hpp"

namespace attacca::import {
namespace {

using ir::Dim;

// The symbol of which an extent is made; nullopt: a number, or an expression.
std::optional<std::string> lone_symbol(const Dim& extent) {
  std::vector<std::string> symbols;
  extent.collect_symbols(symbols);
  if (symbols.size() != 1 || !(extent == Dim::symbol(symbols[0]))) return std::nullopt;
  return symbols[0];
}

bool reads(const Dim& extent, const std::string& symbol) {
  std::vector<std::string> symbols;
  extent.collect_symbols(symbols);
  return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
}

// What makes two unequal extents that are not numbers equal.
std::optional<Equality> equality(const Dim& a, const Dim& b) {
  if (a.is_static() || b.is_static()) return std::nullopt;
  if (const auto symbol = lone_symbol(b); symbol && !reads(a, *symbol)) return Equality{*symbol, a};
  if (const auto symbol = lone_symbol(a); symbol && !reads(b, *symbol)) return Equality{*symbol, b};
  return std::nullopt;
}

// Whether the equality was added: not where there are very many, or sizes overflow.
bool add_equality(EqualExtents& equal, const Equality& more) {
  constexpr size_t kMost = 256;  // each has the model read again
  if (equal.size() >= kMost) return false;
  for (auto& [symbol, extent] : equal) {
    std::vector<std::string> symbols;
    extent.collect_symbols(symbols);
    std::map<std::string, Dim> names;
    for (const std::string& each : symbols)
      names.emplace(each, each == more.symbol ? more.extent : Dim::symbol(each));
    auto changed = ir::parse_dim(to_string(extent), names);
    if (!changed) return false;
    extent = *std::move(changed);
  }
  return equal.emplace(more.symbol, more.extent).second;
}

}  // namespace

std::optional<Equality> missing_equality(const std::vector<ir::Shape>& shapes) {
  std::optional<Equality> missing;
  size_t rank = 0;
  for (const ir::Shape& shape : shapes) rank = std::max(rank, shape.size());
  for (size_t back = 1; back <= rank; ++back) {
    std::optional<Dim> first;  // that is not 1
    for (const ir::Shape& shape : shapes) {
      if (back > shape.size()) continue;
      const Dim& extent = shape[shape.size() - back];
      if (extent.is(1)) continue;
      if (!first) first = extent;
      if (extent == *first) continue;
      const auto found = equality(*first, extent);
      if (!found) return std::nullopt;
      if (!missing) missing = found;
    }
  }
  return missing;
}

std::optional<SizeAssumptions> more_assumed(const SizeAssumptions& failed, bool may_be_one) {
  SizeAssumptions next{.equal = failed.equal,
                       .allow_short = failed.allow_short,
                       .allow_unequal = failed.allow_unequal,
                       .allow_empty = failed.allow_empty};
  if (failed.missing && !may_be_one) {
    if (!add_equality(next.equal, *failed.missing)) return std::nullopt;
    return next;
  }
  if (failed.allow_short && failed.met_short) {
    next.allow_short = false;
    return next;
  }
  if (!failed.allow_unequal || !failed.met_unequal) return std::nullopt;
  // Extents that must be equal need not have anything to do with the slices that were met.
  next.allow_short = true;
  next.allow_unequal = false;
  return next;
}

}  // namespace attacca::import
