# Dot products (dot/gemm.cuh): very few rows of A times weights as (N, K), without tensor cores. A
# name says the most rows, the columns of a block and the warps that share k. COLUMNS: of a warp.
# AHEAD: steps of k in flight, of 16 bytes for each lane and column. BLOCKS: of a multiprocessor,
# which bounds the registers. EARLY: the first weights are prefetched to L2 while the previous
# kernel ends. GATE: two products of one A.
macro(dot_gemm TILE_M COLUMNS WARPS_N WARPS_K AHEAD BLOCKS RESULT)
  cmake_parse_arguments(DOT "GATE;EARLY" "" "" ${ARGN})
  math(EXPR tile_n "${COLUMNS} * ${WARPS_N}")
  set(name dot_tn_${TILE_M}x${tile_n}_k${WARPS_K})
  set(early 0)
  if(DOT_EARLY)
    string(APPEND name _early)
    set(early 1)
  endif()
  set(sets 1)
  if(DOT_GATE)
    string(APPEND name _gate)
    set(sets 2)
  endif()
  attacca_template(${name}_f2_d${RESULT}
                   SOURCE dot/gemm.cu BUILDER dot/builder.cpp ARCH 90a ${DOT_UNPARSED_ARGUMENTS}
                   DEFINES TILE_M=${TILE_M} COLUMNS=${COLUMNS} WARPS_N=${WARPS_N} WARPS_K=${WARPS_K}
                           AHEAD=${AHEAD} BLOCKS=${BLOCKS} EARLY=${early} HOLE_ACCUMULATORS=${sets}
                           HOLE_FULL0=16 HOLE_FULL1=16 HOLE_RESULT0=${RESULT})
endmacro()

#        rows columns warps: n k  ahead blocks result
dot_gemm(1    2              1 4  4     7      16 FEW)
dot_gemm(1    2              1 4  4     7      16 EARLY)
dot_gemm(1    1              4 1  8     7      16 EARLY)
dot_gemm(1    2              2 2  4     7      16 EARLY)
dot_gemm(1    2              1 8  4     3      16)
dot_gemm(1    2              1 8  4     3      16 EARLY)
dot_gemm(2    4              1 4  2     6      16)
dot_gemm(2    2              1 8  4     2      16 EARLY)
dot_gemm(4    2              1 4  4     4      16)
dot_gemm(4    2              1 8  4     2      16 EARLY)
dot_gemm(1    2              1 4  4     7      32)
dot_gemm(4    2              1 4  4     4      32)

dot_gemm(1    2              1 4  2     8      16 GATE FEW)
dot_gemm(1    2              1 4  2     8      16 GATE EARLY)
dot_gemm(1    2              1 8  2     4      16 GATE)
dot_gemm(2    2              1 4  2     7      16 GATE EARLY)
dot_gemm(4    2              1 4  2     5      16 GATE)
dot_gemm(4    2              1 8  2     2      16 GATE EARLY)
