#include "import/onnx/ops.hpp"

#include <algorithm>
#include <unordered_map>

#include "support/immortal.hpp"

namespace attacca::import {
namespace {

KnownHandler find_known(std::string_view name) {
#define KNOWN(NAME, FUNCTION) \
  if (name == NAME) return FUNCTION;
#include "import/onnx/ops.def"
  return nullptr;
}

const std::vector<OpRow>& rows() {
  return immortal([] {
    std::vector<OpRow> made = {
#define DIRECT(NAME, FIRST, LAST, OP) {NAME, FIRST, LAST, direct, ir::Op::OP, nullptr, ""},
#define VIA(NAME, FIRST, LAST, HANDLER, OP) {NAME, FIRST, LAST, HANDLER, ir::Op::OP, nullptr, ""},
#define CUSTOM(NAME, FIRST, LAST, HANDLER) {NAME, FIRST, LAST, HANDLER, ir::Op::Input, nullptr, ""},
#define MICROSOFT(NAME, FIRST, LAST, HANDLER) \
  {NAME, FIRST, LAST, HANDLER, ir::Op::Input, nullptr, "com.microsoft"},
#include "import/onnx/ops.def"
    };
    for (OpRow& row : made)
      if (row.domain.empty()) row.known = find_known(row.name);
    return made;
  });
}

using Index = std::unordered_multimap<std::string_view, const OpRow*>;
const Index& index() {
  return immortal([] {
    Index map;
    for (const OpRow& row : rows()) map.emplace(row.name, &row);
    return map;
  });
}

}  // namespace

const OpRow* find_op(std::string_view domain, std::string_view name, int64_t opset) {
  const auto [begin, end] = index().equal_range(name);
  for (auto it = begin; it != end; ++it)
    if (it->second->domain == domain && it->second->first <= opset && opset <= it->second->last)
      return it->second;
  return nullptr;
}

bool is_known_op(std::string_view domain, std::string_view name) {
  const auto [begin, end] = index().equal_range(name);
  return std::any_of(begin, end, [&](const auto& row) { return row.second->domain == domain; });
}

}  // namespace attacca::import
