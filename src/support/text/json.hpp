// A JSON value whose objects keep their order, so that what we write is stable.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/error.hpp"

namespace attacca::json {

class Value {
 public:
  using Array = std::vector<Value>;
  using Object = std::vector<std::pair<std::string, Value>>;

  Value() = default;  // null
  Value(bool value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : value_(static_cast<int64_t>(value)) {}
  Value(double value) : value_(value) {}  // NaN and infinities are written as null
  Value(std::string value) : value_(std::move(value)) {}
  Value(std::string_view value) : value_(std::string(value)) {}
  Value(const char* value) : value_(std::string(value)) {}
  Value(Array value) : value_(std::move(value)) {}
  Value(Object value) : value_(std::move(value)) {}
  static Value array() { return Value(Array()); }
  static Value object() { return Value(Object()); }

  // REQUIRES: an object; the key is new. Returns *this.
  Value& set(std::string key, Value value);
  // REQUIRES: an array. Returns *this.
  Value& push(Value value);

  bool is_number() const { return is<int64_t>() || is<double>(); }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  // REQUIRES: is<T>(). T: bool, int64_t, double, std::string, Array or Object.
  template <class T>
  const T& as() const {
    return std::get<T>(value_);
  }
  double number() const { return is<double>() ? as<double>() : double(as<int64_t>()); }
  // The member of an object, or nullptr where there is none or this is no object.
  const Value* find(std::string_view key) const;
  friend bool operator==(const Value&, const Value&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// indent < 0: one line.
std::string dump(const Value& value, int indent = 2);
Result<Value> parse(std::string_view text, std::string_view source = "<json>");

}  // namespace attacca::json
