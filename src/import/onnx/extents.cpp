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

}  // namespace

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

Status InputExtents::check_sizes() const {
  for (const auto& [symbol, size] : sizes_) {
    if (!known_.count(symbol))
      return fail(fmt::format("the model has no dimension {}", symbol), symbol,
                  known_.empty() ? "all its dimensions are fixed"
                                 : fmt::format("its dimensions are {}", fmt::join(known_, ", ")));
    if (size < 0)
      return fail(fmt::format("{} is no size", size), symbol, "give a number of 0 or more");
  }
  return {};
}

const Dim& InputExtents::symbol(const std::string& param) {
  const auto [slot, fresh] = params_.try_emplace(param);
  if (fresh) slot->second = sized(symbols_.take(param));
  return slot->second;
}

Dim InputExtents::sized(const std::string& symbol) {
  known_.insert(symbol);
  if (const auto size = sizes_.find(symbol); size != sizes_.end()) return size->second;
  const auto equal = equal_.find(symbol);
  return equal == equal_.end() ? Dim::symbol(symbol) : equal->second;
}

}  // namespace attacca::import
