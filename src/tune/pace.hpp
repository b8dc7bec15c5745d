// How launches under the stopwatch follow each other.
#pragma once

namespace attacca::tune {

// Products one after the other drive an H200 to its power limit, where every kernel takes what its
// energy takes, up to a fifth longer.
enum class Pace {
  Rested,  // with pauses: the device keeps its clock, and many candidates compare in a short time
  Sustained,  // without, in a shuffled order: as in use
};

}  // namespace attacca::tune
