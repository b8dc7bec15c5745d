// What an instruction without memory or control computes: a function of its sources' bits.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx_interpreter/numbers.hpp"

namespace attacca::ptx_interpreter {

// An opcode's modifiers and types after its first part, taken one by one. The opcode is unknown if
// one is left over.
class Parts {
 public:
  explicit Parts(std::string_view opcode);

  std::string_view first() const { return first_; }
  bool take(std::string_view name);
  // The first of these names that is there, or empty.
  std::string_view take_one_of(std::span<const std::string_view> names);
  // All that start so: "L2::".
  void take_prefixed(std::string_view prefix);
  std::optional<Type> take_type();  // the first
  std::optional<Rounding> take_rounding();
  bool empty() const { return left_.empty(); }

 private:
  std::string_view first_;
  std::vector<std::string_view> left_;
};

using Compute = std::function<uint64_t(std::span<const uint64_t> sources)>;

struct Alu {
  size_t sources = 0;
  // The caller cuts results to the destination's width when it stores them.
  Compute compute;
};

// nullopt: an unknown opcode, or an unknown form of one.
std::optional<Alu> find_alu(std::string_view opcode);

// setp: the predicate, and its opposite for %p|%q; the last source is the one that `.and` and the
// like combine with.
struct Comparison {
  size_t sources = 2;
  std::function<std::pair<bool, bool>(std::span<const uint64_t> sources)> compute;
};
std::optional<Comparison> find_comparison(std::string_view opcode);

}  // namespace attacca::ptx_interpreter
