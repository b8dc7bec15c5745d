#include "support/warnings.hpp"

#include <algorithm>
#include <mutex>

#include "support/files/process_gate.hpp"

namespace attacca {
namespace {

std::mutex mutex;

std::vector<Error>& all() {
  static auto& list = *new std::vector<Error>;
  return list;
}

}  // namespace

void warn(const Error& warning) {
  const ForkSafeLock lock(mutex);
  const bool known = std::any_of(all().begin(), all().end(),
                                 [&](const Error& other) { return other.what == warning.what; });
  if (!known) all().push_back(warning);
}

std::vector<Error> warnings() {
  const ForkSafeLock lock(mutex);
  return all();
}

}  // namespace attacca
