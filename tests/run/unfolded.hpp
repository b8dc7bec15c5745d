// Graphs as they stand, cut for a target: tests of the executors say themselves what is folded.
#pragma once

#include "run/shared/target.hpp"

namespace attacca::run {

inline Prepared unfolded(ir::Graph graph, const Target& target = Target::cpu()) {
  return {target,
          {},
          std::make_shared<const fuse::Partition>(
              fuse::partition(std::move(graph), target.fuse_options()))};
}

}  // namespace attacca::run
