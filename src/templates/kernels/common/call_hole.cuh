// Calls the hole with the arguments that the row has. The emulator of tests/templates has its own
// version of this file. Included by common/hole.cuh.
#pragma once

__device__ __forceinline__ attacca_results call_hole(const HoleArguments& arguments, int32_t m,
                                                     int32_t n, int32_t batch,
                                                     const attacca_hole_context* context) {
  [[maybe_unused]] auto& acc = arguments.acc;
  [[maybe_unused]] auto& full = arguments.full;
  [[maybe_unused]] auto& row = arguments.row;
  [[maybe_unused]] auto& column = arguments.column;
  return attacca_hole(
      HOLE_ACCUMULATOR_ARGUMENTS HOLE_FULL0_ARGUMENTS HOLE_FULL1_ARGUMENTS HOLE_FULL2_ARGUMENTS
          HOLE_FULL3_ARGUMENTS HOLE_ROW_ARGUMENTS HOLE_COLUMN_ARGUMENTS m,
      n, batch, context);
}
