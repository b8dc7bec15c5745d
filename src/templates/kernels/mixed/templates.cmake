# Kernels for packed weights (ir/packed.hpp) and few rows: the weights stream, mma.sync multiplies
# (mixed/gemm.cuh). Named by the weights' codes, A's type, the tile and the blocks of a cluster, which share
# the values of k; s32: scales of f32, else of A's type.
macro(mixed_codes CODES TYPE)
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
  set(codes_defines CODE_BITS=${bits} CODE_FLOATS=${floats} A_BF16=${bf16}
                    SCALE_BITS=${MIXED_SCALES})
endmacro()

macro(mixed_gemm CODES TYPE TILE_M CLUSTER)
  cmake_parse_arguments(MIXED "" "" "FRAGMENTS;WARPS;PANEL;DEPTH;BLOCKS;RESULT;SCALES" ${ARGN})
  list(GET MIXED_WARPS 0 warps_n)
  list(GET MIXED_WARPS 1 warps_k)
  mixed_codes(${CODES} ${TYPE})
  math(EXPR tile_n "16 * ${MIXED_FRAGMENTS} * ${warps_n}")
  attacca_template(mixed_${CODES}_${TYPE}_${TILE_M}x${tile_n}_${CLUSTER}x1${suffix}_f2_d${MIXED_RESULT}
                   SOURCE mixed/gemm.cu BUILDER mixed/builder.cpp ARCH 90a ${MIXED_UNPARSED_ARGUMENTS}
                   DEFINES ${codes_defines} TILE_M=${TILE_M} FRAGMENTS=${MIXED_FRAGMENTS}
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

# The same for many rows: wgmma takes the weights from registers (wgmma/packed.cuh). Named by the tile;
# cluster: blocks beside each other, 1x2, load their common rows of A once; 1x1x2: they share K.
macro(mixed_wgmma CODES TYPE TILE_M TILE_N CLUSTER STAGES BLOCKS)
  cmake_parse_arguments(MIXED "PINGPONG;FEW" "RESULT;SCALES" "" ${ARGN})
  mixed_codes(${CODES} ${TYPE})
  string(REPLACE "x" ";" cluster_blocks ${CLUSTER}x1)
  list(GET cluster_blocks 1 cluster_n)
  list(GET cluster_blocks 2 cluster_k)
  set(schedule "")
  set(pingpong 0)
  if(MIXED_PINGPONG)
    set(schedule _pingpong)
    set(pingpong 1)
  endif()
  set(few_option "")
  if(MIXED_FEW)
    set(few_option FEW)
  endif()
  attacca_template(mixed_wgmma_${CODES}_${TYPE}_${TILE_M}x${TILE_N}_${CLUSTER}${schedule}${suffix}_f2_d${MIXED_RESULT}
                   SOURCE wgmma/gemm.cu BUILDER wgmma/builder.cpp ARCH 90a ${few_option}
                   DEFINES ELEMENT=ELEMENT_BF16 PROMOTE=0 SCALED=0 TILE_M=${TILE_M} TILE_N=${TILE_N}
                           CLUSTER_M=1 CLUSTER_N=${cluster_n} CLUSTER_K=${cluster_k}
                           STAGES=${STAGES} BLOCKS=${BLOCKS} SWAPPED=1 PINGPONG=${pingpong}
                           B_K_MAJOR=1 ALTERNATE=0 DIRECT=0 ${codes_defines} HOLE_FULL0=16
                           HOLE_FULL1=16 HOLE_RESULT0=${MIXED_RESULT})
endmacro()

#           codes A   tile    cluster stages blocks
mixed_wgmma(i4   bf16 128 128 1x2   10 1 PINGPONG FEW)
mixed_wgmma(i4   bf16 128 128 1x1   10 1 PINGPONG)
mixed_wgmma(i4   bf16 256 128 1x2   5  1)
mixed_wgmma(i4   bf16 256 128 1x1   5  1)
mixed_wgmma(i4   bf16 128 256 1x1   8  1)
mixed_wgmma(i4   bf16 128 128 1x1x2 8  1)
mixed_wgmma(i4   bf16 64  128 1x1   12 1 PINGPONG)
mixed_wgmma(i4   bf16 64  128 1x1x2 12 1)
mixed_wgmma(i4   bf16 128 64  1x1   5  2)
mixed_wgmma(i8   bf16 128 128 1x2   8  1 PINGPONG)
mixed_wgmma(i8   bf16 128 128 1x1   8  1 PINGPONG)
mixed_wgmma(i8   bf16 256 128 1x2   5  1)
mixed_wgmma(i8   bf16 128 256 1x1   6  1)
mixed_wgmma(i8   bf16 128 128 1x1x2 7  1)
mixed_wgmma(i8   bf16 64  128 1x1   10 1 PINGPONG)
mixed_wgmma(i8   bf16 64  128 1x1x2 9  1)
mixed_wgmma(i8   bf16 128 64  1x1   4  2)
mixed_wgmma(e4m3 bf16 128 128 1x2   8  1 PINGPONG)
mixed_wgmma(e4m3 bf16 256 128 1x2   5  1)
mixed_wgmma(i4   f16  128 128 1x2   10 1 PINGPONG)
mixed_wgmma(i4   f16  256 128 1x2   5  1)
mixed_wgmma(i8   f16  128 128 1x2   8  1 PINGPONG)
mixed_wgmma(e4m3 f16  128 128 1x2   8  1 PINGPONG)
mixed_wgmma(i4   bf16 128 128 1x2   10 1 PINGPONG SCALES 32)
mixed_wgmma(i8   bf16 128 128 1x2   8  1 PINGPONG SCALES 32)
mixed_wgmma(i4   f16  128 128 1x2   10 1 PINGPONG SCALES 32)
mixed_wgmma(i4   bf16 128 128 1x2   10 1 PINGPONG RESULT 32)
mixed_wgmma(i8   bf16 128 128 1x2   8  1 PINGPONG RESULT 32)
