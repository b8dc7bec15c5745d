#include "support/text/json.hpp"

#include <algorithm>
#include <optional>

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
    // Appended without looking up names, which would take quadratic time.
    Foreign object = Foreign::object();
    auto& members = object.get_ref<Foreign::object_t&>();
    members.reserve(value.as<Value::Object>().size());
    for (const auto& [key, member] : value.as<Value::Object>())
      members.emplace_back(key, to_foreign(member));
    return object;
  }
  return nullptr;
}

// Builds a value while the text is read, as nlohmann's SAX interface asks.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  Result<Value> read(std::string_view text) {
    if (Foreign::sax_parse(text.begin(), text.end(), this)) return std::move(root_);
    return tl::make_unexpected(std::move(*error_));
  }

  bool null() { return put({}); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) {
    if (value > INT64_MAX) return put(static_cast<double>(value));
    return put(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Foreign::binary_t&) { return put({}); }
  bool start_object(size_t) { return open(Value::object()); }
  bool start_array(size_t) { return open(Value::array()); }
  bool key(std::string& name) {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() {
    if (const auto twice = repeated(open_.back().value.as<Value::Object>()))
      return failed(fmt::format("a JSON object has the member {} twice", *twice), source_,
                    "name members apart");
    return close();
  }
  bool end_array() { return close(); }
  bool parse_error(size_t byte, const std::string&, const Foreign::exception& error) {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange)
      return failed("a JSON number beyond the range of f64", source_, "write smaller numbers");
    return failed("malformed JSON", fmt::format("{}:byte {}", source_, byte),
                  "check the text around that place");
  }

 private:
  // An object or array that is not closed yet, and the name of the object's next member.
  struct Open {
    Value value;
    std::string key;
  };

  static std::optional<std::string_view> repeated(const Value::Object& members) {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& [name, member] : members) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice == names.end()) return std::nullopt;
    return *twice;
  }

  bool open(Value value) {
    // Deep nesting would overflow the stack of code that walks the value.
    constexpr size_t kMaxDepth = 256;
    if (open_.size() >= kMaxDepth)
      return failed(fmt::format("JSON nested deeper than {} levels", kMaxDepth), source_,
                    "write it flatter");
    open_.push_back({std::move(value), {}});
    return true;
  }
  bool close() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  bool put(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& outer = open_.back(); outer.value.is<Value::Array>()) {
      outer.value.push(std::move(value));
    } else {
      outer.value.set(std::move(outer.key), std::move(value));
    }
    return true;
  }
  bool failed(std::string what, std::string where, std::string fix) {
    error_ = Error{std::move(what), std::move(where), std::move(fix)};
    return false;
  }

  std::string source_;
  std::vector<Open> open_;
  Value root_;
  std::optional<Error> error_;
};

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
  // Invalid UTF-8 is replaced instead of throwing.
  return to_foreign(value).dump(indent, ' ', false, Foreign::error_handler_t::replace);
}

Result<Value> parse(std::string_view text, std::string_view source) {
  return Reader(source).read(text);
}

}  // namespace attacca::json
