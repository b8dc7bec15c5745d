// The environment variables that Attacca reads; support/environment.def is the table.
#pragma once

#include <span>
#include <string>

namespace attacca {

struct EnvironmentVariable {
  const char* name;
  const char* what;
  const char* otherwise;  // what holds where it is unset or empty
};

std::span<const EnvironmentVariable> environment_variables();

// Its value; empty where it is unset.
std::string environment(const char* name);

}  // namespace attacca
