#include "support/json.hpp"

#include "fmt/format.h"

#include "nlohmann/json.hpp"
#include "support/check.hpp"

namespace attacca {
namespace {

using Foreign = nlohmann::ordered_json;

Foreign to_foreign(const Json& json) {
  if (json.is<bool>()) return json.as<bool>();
  if (json.is<int64_t>()) return json.as<int64_t>();
  if (json.is<double>()) return json.as<double>();
  if (json.is<std::string>()) return json.as<std::string>();
  if (json.is<Json::Array>()) {
    Foreign array = Foreign::array();
    for (const Json& element : json.as<Json::Array>()) array.push_back(to_foreign(element));
    return array;
  }
  if (json.is<Json::Object>()) {
    Foreign object = Foreign::object();
    for (const auto& [key, member] : json.as<Json::Object>()) object[key] = to_foreign(member);
    return object;
  }
  return nullptr;
}

Json from_foreign(const Foreign& foreign) {
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
      Json array = Json::array();
      for (const Foreign& element : foreign) array.push(from_foreign(element));
      return array;
    }
    case Foreign::value_t::object: {
      Json object = Json::object();
      for (const auto& [key, member] : foreign.items()) object.set(key, from_foreign(member));
      return object;
    }
    default:
      return {};
  }
}

}  // namespace

Json& Json::set(std::string key, Json value) {
  ATTACCA_CHECK(is<Object>(), "set() on something else than an object");
  std::get<Object>(value_).emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  ATTACCA_CHECK(is<Array>(), "push() on something else than an array");
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

const Json* Json::find(std::string_view key) const {
  if (!is<Object>()) return nullptr;
  for (const auto& [name, member] : as<Object>())
    if (name == key) return &member;
  return nullptr;
}

std::string Json::dump(int indent) const {
  // Text that is not UTF-8 is replaced, not thrown on.
  return to_foreign(*this).dump(indent, ' ', false, Foreign::error_handler_t::replace);
}

Result<Json> Json::parse(std::string_view text, std::string_view source) {
  // Deep nesting would overflow the stack of the conversion.
  constexpr int kMaxDepth = 256;
  bool too_deep = false;
  const auto watch = [&](int depth, Foreign::parse_event_t, Foreign&) {
    too_deep |= depth > kMaxDepth;
    return !too_deep;
  };
  try {
    const Foreign foreign = Foreign::parse(text.begin(), text.end(), watch);
    if (too_deep)
      return fail(fmt::format("JSON nested deeper than {} levels", kMaxDepth), std::string(source));
    return from_foreign(foreign);
  } catch (const Foreign::parse_error& error) {
    return fail("malformed JSON", fmt::format("{}:byte {}", source, error.byte),
                "check the text around that place");
  }
}

}  // namespace attacca
