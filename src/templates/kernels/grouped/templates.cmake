# A of bf16 or f16 whose groups of rows are each multiplied by a matrix of their own
# (grouped/tiles.cuh).
# A name says, as those of wgmma/templates.cmake,
#   tn, tt, ta  the matrices are (N, K); (K, N); those of a gate alternate columns of (K, 2 N)
#   the tile, in the problem's orientation, and the blocks of a cluster along m and n
#   swap, pingpong, gate, direct
# GROUPS: the most groups, whose tables take 8 bytes each of shared memory; 512 unless it says so.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/FullSlots.cmake)

macro(grouped_gemm TILE_M TILE_N CLUSTER STAGES BLOCKS)
  cmake_parse_arguments(GROUPED "SWAP;PINGPONG;GATE;KN;ALTERNATE;DIRECT;FEW" "RESULT;GROUPS"
                        "FULL" ${ARGN})
  set(layout tn)
  set(k_major 1)
  set(alternate 0)
  if(GROUPED_KN)
    set(layout tt)
    set(k_major 0)
  elseif(GROUPED_ALTERNATE)
    set(layout ta)
    set(k_major 0)
    set(alternate 1)
  endif()
  string(REPLACE "x" ";" cluster_blocks ${CLUSTER})
  list(GET cluster_blocks 1 cluster_n)
  set(name grouped_${layout}_${TILE_M}x${TILE_N}_${CLUSTER})
  foreach(option SWAP PINGPONG GATE DIRECT)
    string(TOLOWER ${option} lower)
    set(${lower} 0)
    if(GROUPED_${option})
      set(${lower} 1)
      string(APPEND name _${lower})
    endif()
  endforeach()
  math(EXPR sets "1 + ${gate}")
  set(few "")
  if(GROUPED_FEW)
    set(few FEW)
  endif()
  if(NOT DEFINED GROUPED_GROUPS)
    set(GROUPED_GROUPS 512)
  endif()
  if(NOT DEFINED GROUPED_RESULT)
    set(GROUPED_RESULT 16)
  endif()
  attacca_full_slots("${GROUPED_FULL}")
  attacca_template(${name}_f${fulls}_d${GROUPED_RESULT}
                   SOURCE grouped/gemm.cu BUILDER grouped/builder.cpp ARCH 90a ${few}
                   DEFINES ELEMENT=ELEMENT_BF16 GROUPED=${GROUPED_GROUPS} PROMOTE=0 SCALED=0
                           SHARED_TAIL=0 TILE_M=${TILE_M} TILE_N=${TILE_N} CLUSTER_M=1
                           CLUSTER_N=${cluster_n} CLUSTER_K=1 STAGES=${STAGES} BLOCKS=${BLOCKS}
                           SWAPPED=${swap} PINGPONG=${pingpong} B_K_MAJOR=${k_major}
                           ALTERNATE=${alternate} DIRECT=${direct} HOLE_MAXIMA=0
                           HOLE_ACCUMULATORS=${sets} ${slots} HOLE_RESULT0=${GROUPED_RESULT})
endmacro()

# Few rows of each group: reading the weights takes the time.
#            tile    cluster stages blocks
grouped_gemm(8   64  1x1     10     2 SWAP FULL 16)
grouped_gemm(16  64  1x1     9      2 SWAP FULL 16 FEW)
grouped_gemm(32  64  1x1     7      2 SWAP FULL 16)
grouped_gemm(64  64  1x1     12     1 SWAP FULL 16)
grouped_gemm(16  64  1x1     9      2 SWAP RESULT 32)
grouped_gemm(8   64  1x1     6      2 SWAP GATE)
grouped_gemm(16  64  1x1     5      2 SWAP GATE)
grouped_gemm(32  64  1x1     5      2 SWAP GATE GROUPS 256)
grouped_gemm(64  64  1x1     4      2 SWAP GATE)
grouped_gemm(16  64  1x1     5      2 SWAP GATE RESULT 32)
grouped_gemm(16  64  1x1     9      2 KN SWAP FULL 16)
grouped_gemm(64  64  1x1     12     1 KN SWAP FULL 16)
grouped_gemm(16  64  1x1     5      2 KN SWAP GATE FEW)
grouped_gemm(64  64  1x1     4      2 KN SWAP GATE)

grouped_gemm(64  128 1x1     7      1 DIRECT PINGPONG FULL 16)
grouped_gemm(128 128 1x1     5      1 DIRECT PINGPONG FULL 16 GROUPS 256 FEW)
grouped_gemm(128 128 1x2     5      1 DIRECT PINGPONG FULL 16 GROUPS 256)
grouped_gemm(128 256 1x1     3      1 DIRECT FULL 16)
grouped_gemm(256 128 1x2     3      1 DIRECT FULL 16)
grouped_gemm(128 128 1x1     6      1 PINGPONG)
grouped_gemm(128 128 1x1     6      1 PINGPONG RESULT 32)
grouped_gemm(64  128 1x1     5      1 GATE)
grouped_gemm(128 64  1x1     5      1 GATE DIRECT PINGPONG FULL 16)
grouped_gemm(128 128 1x1     4      1 GATE DIRECT FULL 16 GROUPS 256)
grouped_gemm(128 64  1x1     6      1 GATE PINGPONG RESULT 32 GROUPS 256)
grouped_gemm(64  128 1x1     7      1 KN DIRECT PINGPONG FULL 16)
grouped_gemm(128 128 1x1     5      1 KN DIRECT PINGPONG FULL 16 GROUPS 256)
grouped_gemm(128 256 1x1     3      1 KN DIRECT FULL 16)
grouped_gemm(128 64  1x1     5      1 KN GATE DIRECT PINGPONG FULL 16)
grouped_gemm(128 128 1x1     4      1 KN GATE DIRECT FULL 16 GROUPS 256)
grouped_gemm(64  64  1x1     6      1 ALTERNATE GATE)
grouped_gemm(128 64  1x1     6      1 ALTERNATE GATE PINGPONG GROUPS 256)
grouped_gemm(128 128 1x1     4      1 ALTERNATE GATE GROUPS 256)
