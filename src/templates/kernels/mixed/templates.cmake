# Kernels for packed weights (ir/packed.hpp) and few rows: the weights stream, mma.sync multiplies
# (mixed/gemm.cuh). Named by the weights' codes, A's type, the tile and the blocks of a cluster, which share
# the values of k; s32: scales of f32, else of A's type.
macro(mixed_gemm CODES TYPE TILE_M CLUSTER)
  cmake_parse_arguments(MIXED "" "" "FRAGMENTS;WARPS;PANEL;DEPTH;BLOCKS;RESULT;SCALES" ${ARGN})
  list(GET MIXED_WARPS 0 warps_n)
  list(GET MIXED_WARPS 1 warps_k)
  set(floats 0)
  set(bits 8)
  if(${CODES} STREQUAL e4m3)
    set(floats 1)
  elseif(${CODES} STREQUAL i4)
    set(bits 4)
  endif()
  set(bf16 0)
  if(${TYPE} STREQUAL bf16)
    set(bf16 1)
  endif()
  if(NOT DEFINED MIXED_RESULT)
    set(MIXED_RESULT 16)
  endif()
  if(NOT DEFINED MIXED_SCALES)
    set(MIXED_SCALES 16)
  endif()
  set(suffix "")
  if(MIXED_SCALES EQUAL 32)
    set(suffix _s32)
  endif()
  math(EXPR tile_n "16 * ${MIXED_FRAGMENTS} * ${warps_n}")
  attacca_template(mixed_${CODES}_${TYPE}_${TILE_M}x${tile_n}_${CLUSTER}x1${suffix}_f2_d${MIXED_RESULT}
                   SOURCE mixed/gemm.cu BUILDER mixed/builder.cpp ARCH 90a ${MIXED_UNPARSED_ARGUMENTS}
                   DEFINES CODE_BITS=${bits} CODE_FLOATS=${floats} A_BF16=${bf16}
                           SCALE_BITS=${MIXED_SCALES} TILE_M=${TILE_M} FRAGMENTS=${MIXED_FRAGMENTS}
                           WARPS_N=${warps_n} WARPS_K=${warps_k} PANEL=${MIXED_PANEL}
                           DEPTH=${MIXED_DEPTH} BLOCKS=${MIXED_BLOCKS}
                           CLUSTER=${CLUSTER} HOLE_FULL0=16 HOLE_FULL1=16
                           HOLE_RESULT0=${MIXED_RESULT})
endmacro()

# One row for each size of cluster.
macro(mixed_gemms CODES TYPE TILE_M CLUSTERS)
  foreach(cluster ${CLUSTERS})
    mixed_gemm(${CODES} ${TYPE} ${TILE_M} ${cluster} ${ARGN})
  endforeach()
endmacro()

#           codes A   rows clusters   columns: 16 * FRAGMENTS * the first of WARPS
mixed_gemms(i4   bf16 8  "1;2;4;8"  FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 4)
mixed_gemms(i4   bf16 8  "1;4"      FRAGMENTS 4 WARPS 2 4 PANEL 16 DEPTH 4 BLOCKS 2)
mixed_gemms(i4   bf16 16 "1;2;4"    FRAGMENTS 4 WARPS 1 8 PANEL 16 DEPTH 2 BLOCKS 2)
mixed_gemms(i4   bf16 16 "1;2;4"    FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 4 BLOCKS 2)
mixed_gemms(i4   bf16 32 "1;2"      FRAGMENTS 2 WARPS 4 2 PANEL 8 DEPTH 4 BLOCKS 2)
mixed_gemms(i8   bf16 8  "1;2;4"    FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 4)
mixed_gemms(i8   bf16 16 "2;4"      FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 3)
mixed_gemms(i8   bf16 16 "1;2"      FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2)
mixed_gemms(i8   bf16 32 "1;2"      FRAGMENTS 2 WARPS 4 2 PANEL 8 DEPTH 2 BLOCKS 2)
mixed_gemms(e4m3 bf16 16 "1;2"      FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2)
mixed_gemms(i4   f16  16 "1;4"      FRAGMENTS 4 WARPS 1 8 PANEL 16 DEPTH 2 BLOCKS 2)
mixed_gemms(i8   f16  16 "1;2"      FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2)
mixed_gemms(e4m3 f16  16 "2"        FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2)
mixed_gemms(i4   bf16 16 "2"        FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 3 SCALES 32)
mixed_gemms(i8   bf16 16 "2"        FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 3 SCALES 32)
mixed_gemms(i4   bf16 16 "2"        FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2 RESULT 32)
mixed_gemms(i8   bf16 16 "2"        FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2 RESULT 32)
