#include "support/environment.hpp"

#include <cstdlib>

namespace attacca {
namespace {

constexpr EnvironmentVariable kVariables[] = {
#define VARIABLE(name, what, otherwise) {name, what, otherwise},
#include "support/environment.def"
};

}  // namespace

std::span<const EnvironmentVariable> environment_variables() {
  return kVariables;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace attacca
