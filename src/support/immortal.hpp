// Objects of the whole process: made by the first who asks, whole in a child that another thread
// forks meanwhile, and not destroyed by exit(), because other threads may still use them.
#pragma once

#include "support/files/process_gate.hpp"

namespace attacca {

// return immortal([] { return make_table(); });
// One object a call in the source: `make` is a lambda, whose type is its own.
template <class Make>
const auto& immortal(Make make) {
  const ForkHold hold;
  static const auto& object = *new auto(make());
  return object;
}

}  // namespace attacca
