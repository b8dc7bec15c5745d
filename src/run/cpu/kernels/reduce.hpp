// Running reductions of lanes in memory: along a row into one total, or of many rows into a total
// for each column.
#pragma once

#include <cstddef>

#include "run/cpu/kernels/kernel.hpp"

namespace attacca::run {

// A total is an f64 or s64 of a sum or of an integer's amax, else of the lane type.
struct Reducer {
  size_t total_bytes;
  void (*start)(void* totals, size_t count);
  // Reduces `count` lanes into one total, in any order.
  void (*row)(const void* lanes, size_t count, void* total);
  // Reduces them from the first to the last.
  void (*ordered_row)(const void* lanes, size_t count, void* total);
  // Reduces lane i into total i.
  void (*columns)(const void* lanes, size_t count, void* totals);
  // Reduces `from` into `into`.
  void (*join)(const void* from, void* into);
  // Totals to lanes; floats are divided by `divisor` in f64 and rounded once.
  void (*finish)(const void* totals, size_t count, double divisor, void* lanes);
};

// NaN is the extremum of numbers among which it is; of zeros the first is the extremum.
// REQUIRES: a reduction; Mean is Sum.
const Reducer& reducer(ir::Op op, Lane lane);

}  // namespace attacca::run
