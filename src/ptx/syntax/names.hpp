// Finds the declaration that a name refers to, and makes new names that clash with no other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ptx/syntax/edits.hpp"
#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// The declared variables by name, including ranges such as %r<12>.
class NameTable {
 public:
  void add(const Variable& variable);
  // Also finds %v for %v.x. Null: the name is not declared here.
  const Variable* find(std::string_view name) const;
  bool has_range(std::string_view prefix) const { return ranges_.contains(prefix); }

 private:
  std::unordered_map<std::string_view, const Variable*> names_;
  std::unordered_map<std::string_view, const Variable*> ranges_;  // by the part before the number
};

// The nested scopes around a statement. The innermost declaration of a name is the valid one.
class ScopeStack {
 public:
  void enter() { scopes_.emplace_back(); }
  void leave() { scopes_.pop_back(); }
  void declare(const Variable& variable) { scopes_.back().add(variable); }
  const Variable* find(std::string_view name) const;

 private:
  std::vector<NameTable> scopes_;
};

// A prefix, made from the stem, that no word of these modules starts with (after its '%').
std::string fresh_prefix(std::string_view stem, const Module& a, const Module& b);

// Puts a prefix before every name in its list: %f1 becomes %fill_f1.
class Renamer {
 public:
  explicit Renamer(std::string prefix) : prefix_(std::move(prefix)) {}

  void add(std::string_view name) { names_.insert(name); }
  void add(const Variable& variable) { variables_.add(variable); }
  // The new name, or the old one if it is not in the list.
  std::string renamed(std::string_view name) const;

  // Renames in a run of tokens without opcodes.
  void rename(const Module& module, Span span, Edits& edits) const;
  // Renames in all statements that have no edit yet, and leaves out .loc and .file lines:
  // another module numbers the files.
  void rename(const Module& module, const Scope& scope, Edits& edits) const;

 private:
  bool knows(std::string_view name) const;
  std::string prefixed(std::string_view name) const;

  std::string prefix_;
  std::unordered_set<std::string_view> names_;
  NameTable variables_;
};

}  // namespace attacca::ptx
