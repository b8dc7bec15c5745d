// Writes and reads members of the JSON in a plan's file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"

#include "run/cuda/options.hpp"
#include "support/text/json.hpp"

namespace attacca::api {

inline constexpr const char* kSaveAgain = "save the plan again";

// The members of one JSON object, by type; errors name the member.
class Members {
 public:
  Members(const json::Value& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  template <class T>
  Result<T> get(std::string_view key) const {
    const json::Value* member = object_.find(key);
    if (!member || !member->is<T>()) return wrong(key);
    return member->as<T>();
  }
  Result<double> number(std::string_view key) const {
    const json::Value* member = object_.find(key);
    if (!member || !member->is_number()) return wrong(key);
    return member->number();
  }

 private:
  tl::unexpected<Error> wrong(std::string_view key) const {
    return fail(fmt::format("no {} of the type that a plan has", key), where_, kSaveAgain);
  }

  const json::Value& object_;
  std::string where_;
};

json::Value choices_json(const std::vector<run::KnownChoice>& choices);
Result<std::vector<run::KnownChoice>> read_choices(const json::Value::Array& list,
                                                   const std::string& source);

}  // namespace attacca::api
