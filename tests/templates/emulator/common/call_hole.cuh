// Calls the hole that the test gives, else that of the kernel's own file. Included by
// common/hole.cuh.
#pragma once

inline attacca_results call_hole(const HoleArguments& arguments, int32_t m, int32_t n,
                                 int32_t batch, const attacca_hole_context* context) {
  [[maybe_unused]] auto& acc = arguments.acc;
  [[maybe_unused]] auto& full = arguments.full;
  [[maybe_unused]] auto& row = arguments.row;
  [[maybe_unused]] auto& column = arguments.column;
  using Hole = attacca_results (*)(HOLE_PARAMETERS);
  void* const other = attacca::emulator::hole;
  const Hole hole = other ? reinterpret_cast<Hole>(other) : attacca_hole;
  return hole(
      HOLE_ACCUMULATOR_ARGUMENTS HOLE_FULL0_ARGUMENTS HOLE_FULL1_ARGUMENTS HOLE_FULL2_ARGUMENTS
          HOLE_FULL3_ARGUMENTS HOLE_ROW_ARGUMENTS HOLE_COLUMN_ARGUMENTS m,
      n, batch, context);
}
