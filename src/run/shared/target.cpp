#include "run/shared/target.hpp"

namespace attacca::run {

fuse::FuseOptions Target::fuse_options() const {
  if (!device) return {.fuse = fuse};
  return {.fuse = fuse, .reductions = fuse::Reductions::Amax, .packed = true};
}

}  // namespace attacca::run
