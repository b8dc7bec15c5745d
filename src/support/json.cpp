#include "support/json.hpp"

#include "fmt/format.h"

#include "nlohmann/json.hpp"
#include "support/check.hpp"

namespace attacca::json {
namespace {

using Foreign = nlohmann::ordered_json;

Foreign to_foreign(const Value& value) {
  if (value.is<bool>()) return value.as<bool>();
  if (value.is<int64_t>()) return value.as<int64_t>();
  if (value.is<double>()) return value.as<double>();
  if (value.is<std::string>()) return value.as<std::string>();
  if (value.is<Value::Array>()) {
    Foreign array = Foreign::array();
    for (const Value& element : value.as<Value::Array>()) array.push_back(to_foreign(element));
    return array;
  }
  if (value.is<Value::Object>()) {
    Foreign object = Foreign::object();
    for (const auto& [key, member] : value.as<Value::Object>()) object[key] = to_foreign(member);
    return object;
  }
  return nullptr;
}

Value from_foreign(const Foreign& foreign) {
  switch (foreign.type()) {
    case Foreign::value_t::boolean:
      return foreign.get<bool>();
    case Foreign::value_t::number_integer:
      return foreign.get<int64_t>();
    case Foreign::value_t::number_unsigned: {
      const auto value = foreign.get<uint64_t>();
      if (value > INT64_MAX) return static_cast<double>(value);
      return static_cast<int64_t>(value);
    }
    case Foreign::value_t::number_float:
      return foreign.get<double>();
    case Foreign::value_t::string:
      return foreign.get<std::string>();
    case Foreign::value_t::array: {
      Value array = Value::array();
      for (const Foreign& element : foreign) array.push(from_foreign(element));
      return array;
    }
    case Foreign::value_t::object: {
      Value object = Value::object();
      for (const auto& [key, member] : foreign.items()) object.set(key, from_foreign(member));
      return object;
    }
    default:
      return {};
  }
}

}  // namespace

Value& Value::set(std::string key, Value value) {
  ATTACCA_CHECK(is<Object>(), "set() on something else than an object");
  std::get<Object>(value_).emplace_back(std::move(key), std::move(value));
  return *this;
}

Value& Value::push(Value value) {
  ATTACCA_CHECK(is<Array>(), "push() on something else than an array");
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

const Value* Value::find(std::string_view key) const {
  if (!is<Object>()) return nullptr;
  for (const auto& [name, member] : as<Object>())
    if (name == key) return &member;
  return nullptr;
}

std::string dump(const Value& value, int indent) {
  // Text that is not UTF-8 is replaced, not thrown on.
  return to_foreign(value).dump(indent, ' ', false, Foreign::error_handler_t::replace);
}

Result<Value> parse(std::string_view text, std::string_view source) {
  // Deep nesting would overflow the stack of the conversion.
  constexpr int kMaxDepth = 256;
  bool too_deep = false;
  const auto watch = [&](int depth, Foreign::parse_event_t, Foreign&) {
    too_deep |= depth > kMaxDepth;
    return !too_deep;
  };
  std::string where(source);
  Foreign foreign;
  try {
    foreign = Foreign::parse(text.begin(), text.end(), watch);
  } catch (const Foreign::parse_error& error) {
    where = fmt::format("{}:byte {}", source, error.byte);
    if (!too_deep) return fail("malformed JSON", where, "check the text around that place");
  } catch (const Foreign::out_of_range&) {
    return fail("a JSON number beyond the range of f64", where, "write smaller numbers");
  }
  if (too_deep) return fail(fmt::format("JSON nested deeper than {} levels", kMaxDepth), where);
  return from_foreign(foreign);
}

}  // namespace attacca::json
