#include "import/onnx/nodes/names.hpp"

#include <cctype>

#include "fmt/format.h"

#include "ir/text/rules.hpp"

namespace attacca::import {

std::string sanitised(std::string_view name) {
  const bool prefixed = name.empty() || std::isdigit(static_cast<unsigned char>(name[0]));
  std::string result(prefixed ? 1 : 0, '_');
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return result;
}

std::string printable(std::string_view name) {
  constexpr size_t kLongest = 200;
  std::string result(name.substr(0, kLongest));
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  if (name.size() > kLongest) result += "...";
  return result;
}

Status check_name(std::string_view name, const std::string& where) {
  if (name.find('\0') == std::string_view::npos) return {};
  return fail(fmt::format("the name {} holds a NUL byte", printable(name)), where, "rename it");
}

std::string NameSet::take(std::string_view name) {
  std::string base = sanitised(name);
  if (ir::is_reserved(base)) base += '_';
  std::string candidate = base;
  int& next = next_.emplace(base, 2).first->second;
  while (!taken_.insert(candidate).second) candidate = fmt::format("{}_{}", base, next++);
  return candidate;
}

std::vector<std::string> distinct_names(const std::vector<std::string>& names) {
  std::vector<std::string> result(names.size());
  NameSet taken;
  std::unordered_set<std::string> seen;
  std::vector<size_t> again;
  for (size_t i = 0; i < names.size(); ++i) {
    if (seen.insert(names[i]).second)
      result[i] = taken.take(names[i]);
    else
      again.push_back(i);
  }
  for (const size_t i : again) result[i] = taken.take(names[i]);
  return result;
}

}  // namespace attacca::import
