// How timed launches follow each other.
#pragma once

namespace attacca::tune {

// Products without pauses drive an H200 to its power limit. There a kernel's time depends on its
// energy and is up to a fifth longer.
enum class Pace {
  Rested,  // with pauses: the clock stays up, and many candidates can be compared in a short time
  Sustained,  // without pauses, in a shuffled order: as in real use
};

}  // namespace attacca::tune
