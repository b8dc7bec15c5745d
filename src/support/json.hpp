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

namespace attacca {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;  // null
  Json(bool value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value) : value_(static_cast<int64_t>(value)) {}
  Json(double value) : value_(value) {}  // NaN and infinities are written as null
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  static Json array() { return Json(Array()); }
  static Json object() { return Json(Object()); }

  // REQUIRES: an object; the key is new. Returns *this.
  Json& set(std::string key, Json value);
  // REQUIRES: an array. Returns *this.
  Json& push(Json value);

  bool is_null() const { return is<std::monostate>(); }
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
  const Json* find(std::string_view key) const;
  friend bool operator==(const Json&, const Json&) = default;

  // indent < 0: one line.
  std::string dump(int indent = 2) const;
  static Result<Json> parse(std::string_view text, std::string_view source = "<json>");

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace attacca
