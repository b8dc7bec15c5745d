// The DEFINES of a grouped mma row beside those of mma/config.cuh, and the kernel's parameters.
//   GROUPED    the most groups
//   BLOCKS     blocks that a multiprocessor holds at once
//   GATHERED   defined: an index names the rows of A
//   ALTERNATE  1: the matrices of a gate are alternate columns of one (K, 2 N)
#pragma once

#include "grouped/groups.cuh"
#include "mma/config.cuh"

namespace attacca_grouped_mma {

constexpr int kMostGroups = GROUPED, kBlocks = BLOCKS, kThreads = attacca_mma::kThreads;
constexpr bool kAlternate = ALTERNATE;
#ifdef GATHERED
constexpr bool kGathered = true;
#else
constexpr bool kGathered = false;
#endif
static_assert(!attacca_mma::kAnyStrides && kElementBytes == 2);
static_assert(!kAlternate || (!attacca_mma::kBKMajor && attacca_mma::kSets == 2));

// The table of the groups follows what the mma kernel has in shared memory.
constexpr int kTableAt = attacca_mma::kSharedBytes;
constexpr int kSharedBytes = kTableAt + attacca_groups::table_bytes(kMostGroups);

// A batch of B is the matrix of a group.
struct Params : attacca_mma::Params {
  int32_t odd_first;  // alternate columns: B is the odd ones
  attacca_groups::Groups weights;
};

}  // namespace attacca_grouped_mma
