// ONNX names contain any characters; the graph's names are identifiers.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "support/error.hpp"

namespace attacca::import {

// Letters, digits and underscores, not starting with a digit, not empty.
std::string sanitised(std::string_view name);
// For messages: without control characters, not too long.
std::string printable(std::string_view name);

// Errors: a NUL. Names that differ only in one would become identifiers that differ only in a
// number.
Status check_name(std::string_view name, const std::string& where);

// Distinct identifiers for distinct names.
class NameSet {
 public:
  // A fresh identifier close to `name`.
  std::string take(std::string_view name);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;
};

// An identifier for each. A name that comes again gets another one, such as y_2, and leaves the
// others theirs.
std::vector<std::string> distinct_names(const std::vector<std::string>& names);

}  // namespace attacca::import
