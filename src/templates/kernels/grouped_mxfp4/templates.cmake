# A of bf16 whose groups of rows are each multiplied by a matrix of their own, (N, K) in MXFP4 as it
# lies in memory (grouped_mxfp4/feed.cuh). A name says the layout of the weights (tn), the tile in
# the problem's orientation, the blocks of a cluster, swap, pingpong, gate, and gather as those of
# grouped/templates.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/FullSlots.cmake)

macro(mxfp4_gemm TILE_M TILE_N STAGES BLOCKS)
  cmake_parse_arguments(MXFP4 "PINGPONG;GATE;GATHER;FEW" "RESULT;GROUPS" "FULL" ${ARGN})
  set(name grouped_mxfp4_tn_${TILE_M}x${TILE_N}_1x1_swap)
  set(sets 1)
  set(pingpong 0)
  if(MXFP4_PINGPONG)
    string(APPEND name _pingpong)
    set(pingpong 1)
  endif()
  if(MXFP4_GATE)
    string(APPEND name _gate)
    set(sets 2)
  endif()
  set(gathered "")
  if(MXFP4_GATHER)
    string(APPEND name _gather)
    set(gathered GATHERED=1)
  endif()
  set(few "")
  if(MXFP4_FEW)
    set(few FEW)
  endif()
  if(NOT DEFINED MXFP4_GROUPS)
    set(MXFP4_GROUPS 512)
  endif()
  if(NOT DEFINED MXFP4_RESULT)
    set(MXFP4_RESULT 16)
  endif()
  attacca_full_slots("${MXFP4_FULL}")
  attacca_template(${name}_f${fulls}_d${MXFP4_RESULT}
                   SOURCE grouped_mxfp4/gemm.cu BUILDER grouped_mxfp4/builder.cpp ARCH 90a ${few}
                   DEFINES ELEMENT=ELEMENT_BF16 MXFP4=1 CODE_BITS=4 CODE_FLOATS=1 SCALE_BITS=16
                           A_BF16=1 GROUPED=${MXFP4_GROUPS} PROMOTE=0 SCALED=0 ${gathered}
                           SHARED_TAIL=0 TILE_M=${TILE_M} TILE_N=${TILE_N} CLUSTER_M=1 CLUSTER_N=1
                           CLUSTER_K=1 STAGES=${STAGES} BLOCKS=${BLOCKS} SWAPPED=1
                           PINGPONG=${pingpong} B_K_MAJOR=1 ALTERNATE=0 DIRECT=0 HOLE_MAXIMA=0
                           HOLE_ACCUMULATORS=${sets} ${slots} HOLE_RESULT0=${MXFP4_RESULT})
endmacro()

#          tile    stages blocks
mxfp4_gemm(8   64  10     3 FULL 16)
mxfp4_gemm(16  64  10     3 FULL 16 FEW)
mxfp4_gemm(32  64  9      2 FULL 16)
mxfp4_gemm(64  64  9      2 FULL 16)
mxfp4_gemm(128 64  5      2 FULL 16 GROUPS 256)
mxfp4_gemm(128 128 8      1 PINGPONG FULL 16)
mxfp4_gemm(16  64  10     3 RESULT 32 FEW)
mxfp4_gemm(128 128 8      1 PINGPONG RESULT 32)
mxfp4_gemm(8   64  8      3 GATE)
mxfp4_gemm(16  64  12     2 GATE FEW)
mxfp4_gemm(32  64  7      2 GATE)
mxfp4_gemm(64  128 8      1 GATE)
mxfp4_gemm(16  64  10     3 GATHER FULL 16)
mxfp4_gemm(16  64  12     2 GATHER GATE)
mxfp4_gemm(64  128 8      1 GATHER GATE)
