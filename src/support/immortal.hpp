// Objects for the whole process: made on first use, complete in a child that another thread forks
// meanwhile, and not destroyed by exit(), because other threads may still use them.
#pragma once

#include "support/files/process_gate.hpp"

namespace attacca {

// return immortal([] { return make_table(); });
// Each call in the source has its own object, because each lambda `make` has its own type.
template <class Make>
const auto& immortal(Make make) {
  const ForkHold hold;
  static const auto& object = *new auto(make());
  return object;
}

}  // namespace attacca
