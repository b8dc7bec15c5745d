# Hopper kernels of our own: TMA and wgmma, no CUTLASS (wgmma/gemm.cuh), A as (M, K), B as (N, K). Named
# by the tile in the problem's orientation and the blocks of a cluster; swap: the weights are wgmma's M
# side, for few rows; pingpong: warpgroups take turns; gate: two products of one A.
macro(wgmma_gemm TILE_M TILE_N CLUSTER STAGES BLOCKS)
  cmake_parse_arguments(WGMMA "SWAP;PINGPONG;GATE" "" "FULL;RESULT" ${ARGN})
  set(name sm90_tn_${TILE_M}x${TILE_N}x64_${CLUSTER}x1)
  set(swapped 0)
  set(pingpong 0)
  set(sets 1)
  if(WGMMA_SWAP)
    string(APPEND name _swap)
    set(swapped 1)
  endif()
  if(WGMMA_PINGPONG)
    string(APPEND name _pingpong)
    set(pingpong 1)
  endif()
  if(WGMMA_GATE)
    string(APPEND name _gate)
    set(sets 2)
  endif()
  if(NOT DEFINED WGMMA_RESULT)
    set(WGMMA_RESULT 16)
  endif()
  attacca_template(${name}_f2_d${WGMMA_RESULT}
                   SOURCE wgmma/gemm.cu BUILDER wgmma/builder.cpp ARCH 90a
                   ${WGMMA_UNPARSED_ARGUMENTS}
                   DEFINES TILE_M=${TILE_M} TILE_N=${TILE_N} CLUSTER=${CLUSTER} STAGES=${STAGES}
                           BLOCKS=${BLOCKS} SWAPPED=${swapped} PINGPONG=${pingpong}
                           HOLE_ACCUMULATORS=${sets} HOLE_FULL0=16 HOLE_FULL1=16 HOLE_RESULT0=${WGMMA_RESULT})
endmacro()

#          tile    cluster stages blocks
wgmma_gemm(128 128 2       4      1      GATE FEW)
wgmma_gemm(128 128 1       4      1      GATE)
wgmma_gemm(128 112 2       4      1      GATE)
wgmma_gemm(128 96  2       4      1      GATE)
wgmma_gemm(128 64  2       6      1      GATE)
wgmma_gemm(128 64  2       6      1      GATE PINGPONG)
wgmma_gemm(128 64  1       6      1      GATE PINGPONG)
wgmma_gemm(64  128 2       4      1      GATE PINGPONG)
wgmma_gemm(64  128 1       5      1      GATE)
wgmma_gemm(128 128 2       4      1      GATE RESULT 32)
wgmma_gemm(128 64  2       6      1      GATE PINGPONG RESULT 32)
wgmma_gemm(8   64  1       6      2      GATE SWAP)
wgmma_gemm(16  64  1       5      2      GATE SWAP)
wgmma_gemm(32  64  1       5      2      GATE SWAP)
wgmma_gemm(64  64  1       4      2      GATE SWAP)
wgmma_gemm(16  64  1       5      2      GATE SWAP RESULT 32)
