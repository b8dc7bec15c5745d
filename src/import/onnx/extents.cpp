#include "import/onnx/extents.hpp"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"

#include "ir/text/dim_text.hpp"

namespace attacca::import {
namespace {

using ir::Dim;

bool is_name(const std::string& param) {
  return !param.empty() && sanitised(param) == param;
}

// A number alone is no expression: it is a symbol of that name.
bool has_name(const std::string& param) {
  return std::any_of(param.begin(), param.end(),
                     [](unsigned char c) { return std::isalpha(c) || c == '_'; });
}

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

void InputExtents::add_names(const onnx::ValueInfoProto& input) {
  for (const auto& dim : input.type().tensor_type().shape().dim())
    if (dim.has_dim_param() && is_name(dim.dim_param()))
      names_.emplace(dim.dim_param(), symbol(dim.dim_param()));
}

// -1 is how some exporters write an unknown dimension.
Result<Dim> InputExtents::read(const onnx::TensorShapeProto::Dimension& proto,
                               const std::string& input, int axis) {
  if (proto.has_dim_value() && proto.dim_value() != -1) {
    if (proto.dim_value() < 0)
      return fail(fmt::format("the negative dimension {}", proto.dim_value()));
    return Dim(proto.dim_value());
  }
  if (!proto.has_dim_param() || proto.dim_param().empty())
    return sized(symbols_.take(fmt::format("{}_d{}", input, axis)));
  const std::string& param = proto.dim_param();
  ATTACCA_TRY_VOID(check_name(param, {}));
  if (!is_name(param) && has_name(param))
    if (auto extent = ir::parse_dim(param, names_)) return *std::move(extent);
  return symbol(param);
}

const Dim& InputExtents::symbol(const std::string& param) {
  const auto [slot, fresh] = params_.try_emplace(param);
  if (fresh) slot->second = sized(symbols_.take(param));
  return slot->second;
}

Dim InputExtents::sized(const std::string& symbol) const {
  if (const auto size = sizes_.find(symbol); size != sizes_.end()) return size->second;
  const auto equal = equal_.find(symbol);
  if (equal == equal_.end()) return Dim::symbol(symbol);
  // Its symbols may stand for others in turn. None of these is the symbol: once it stands for an
  // extent, no extent has it.
  std::vector<std::string> symbols;
  equal->second.collect_symbols(symbols);
  std::map<std::string, Dim> names;
  for (const std::string& each : symbols) names.emplace(each, sized(each));
  return ir::parse_dim(to_string(equal->second), names).value_or(equal->second);
}

}  // namespace attacca::import
