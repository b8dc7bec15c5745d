# Kernels for packed weights (ir/packed/packed.hpp) and few rows (packed/gemm.cuh), by mma.sync. A
# name says the weights' codes, A's type, the tile and the blocks of a cluster, which share the
# values of k. s32: scales are f32 instead of A's type. tma: TMA copies A (BOXES).
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/FullSlots.cmake)

macro(packed_codes CODES TYPE)
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
  if(NOT DEFINED PACKED_RESULT)
    set(PACKED_RESULT 16)
  endif()
  if(NOT DEFINED PACKED_SCALES)
    set(PACKED_SCALES 16)
  endif()
  set(suffix "")
  if(PACKED_SCALES EQUAL 32)
    set(suffix _s32)
  endif()
  set(element BF16)
  if(${TYPE} STREQUAL s8)
    set(element S8)
    set(PACKED_SCALES 8)
  endif()
  set(codes_defines CODE_BITS=${bits} CODE_FLOATS=${floats} A_BF16=${bf16}
                    SCALE_BITS=${PACKED_SCALES})
endmacro()

macro(packed_gemm CODES TYPE TILE_M CLUSTER)
  cmake_parse_arguments(PACKED "BOXES" ""
                        "FRAGMENTS;WARPS;PANEL;PANELS;DEPTH;BLOCKS;RESULT;SCALES" ${ARGN})
  list(GET PACKED_WARPS 0 warps_n)
  list(GET PACKED_WARPS 1 warps_k)
  packed_codes(${CODES} ${TYPE})
  if(NOT DEFINED PACKED_PANELS)
    set(PACKED_PANELS 2)
  endif()
  set(boxes 0)
  if(PACKED_BOXES)
    set(boxes 1)
    string(APPEND suffix _tma)
  endif()
  math(EXPR tile_n "16 * ${PACKED_FRAGMENTS} * ${warps_n}")
  set(tile ${TILE_M}x${tile_n}_${CLUSTER}x1)
  attacca_template(packed_${CODES}_${TYPE}_${tile}${suffix}_f2_d${PACKED_RESULT}
                   SOURCE packed/gemm.cu BUILDER packed/builder.cpp ARCH 90a
                   ${PACKED_UNPARSED_ARGUMENTS}
                   DEFINES ${codes_defines} TILE_M=${TILE_M} FRAGMENTS=${PACKED_FRAGMENTS}
                           WARPS_N=${warps_n} WARPS_K=${warps_k} PANEL=${PACKED_PANEL}
                           PANELS=${PACKED_PANELS} BOXES=${boxes} DEPTH=${PACKED_DEPTH}
                           BLOCKS=${PACKED_BLOCKS} CLUSTER=${CLUSTER} ROUNDED=0 PORTABLE=0
                           HOLE_FULL0=16 HOLE_FULL1=16 HOLE_RESULT0=${PACKED_RESULT})
endmacro()

# One row for each size of cluster.
macro(packed_gemms CODES TYPE TILE_M CLUSTERS)
  foreach(cluster ${CLUSTERS})
    packed_gemm(${CODES} ${TYPE} ${TILE_M} ${cluster} ${ARGN})
  endforeach()
endmacro()

#           codes A   rows clusters   columns: 16 * FRAGMENTS * the first of WARPS
packed_gemms(i4   bf16 8  "1;2;4;8"  FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 4)
packed_gemms(i4   bf16 16 "1;2;4"    FRAGMENTS 4 WARPS 1 8 PANEL 16 DEPTH 2 BLOCKS 2)
packed_gemms(i4   bf16 16 "1"        FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 3 DEPTH 2 BLOCKS 3 BOXES)
packed_gemms(i4   bf16 16 "1;2"      FRAGMENTS 4 WARPS 2 4 PANEL 8 PANELS 5 DEPTH 2 BLOCKS 2 BOXES)
packed_gemms(i4   bf16 32 "1;2"      FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 4 DEPTH 4 BLOCKS 2 BOXES)
packed_gemms(i8   bf16 8  "1;2;4"    FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 4)
packed_gemms(i8   bf16 8  "1"        FRAGMENTS 2 WARPS 7 4 PANEL 4 PANELS 8 DEPTH 2 BLOCKS 1 BOXES)
packed_gemms(i8   bf16 16 "1;4"      FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 5 DEPTH 2 BLOCKS 3 BOXES)
packed_gemms(i8   bf16 16 "1;2"      FRAGMENTS 4 WARPS 2 4 PANEL 4 PANELS 6 DEPTH 2 BLOCKS 2 BOXES)
packed_gemms(i8   bf16 16 "1"        FRAGMENTS 2 WARPS 7 2 PANEL 4 PANELS 12 DEPTH 4 BLOCKS 1 BOXES
             FEW)
packed_gemms(i8   bf16 32 "1;2"      FRAGMENTS 2 WARPS 4 2 PANEL 8 DEPTH 2 BLOCKS 2)
packed_gemms(e4m3 bf16 16 "1;2"      FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2)
packed_gemms(i4   f16  8  "1;2;4"    FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 4)
packed_gemms(i4   f16  16 "1;2;4"    FRAGMENTS 4 WARPS 1 8 PANEL 16 DEPTH 2 BLOCKS 2)
packed_gemms(i4   f16  16 "1"        FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 3 DEPTH 2 BLOCKS 3 BOXES)
packed_gemms(i4   f16  16 "1"        FRAGMENTS 4 WARPS 2 4 PANEL 8 PANELS 5 DEPTH 2 BLOCKS 2 BOXES)
packed_gemms(i8   f16  8  "1;2"      FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 4)
packed_gemms(i8   f16  16 "1;4"      FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 5 DEPTH 2 BLOCKS 3 BOXES)
packed_gemms(i8   f16  16 "1;2"      FRAGMENTS 4 WARPS 2 4 PANEL 4 PANELS 6 DEPTH 2 BLOCKS 2 BOXES)
packed_gemms(e4m3 f16  16 "2"        FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2)
packed_gemms(i4   bf16 16 "2"        FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 3 SCALES 32)
packed_gemms(i8   bf16 16 "2"        FRAGMENTS 4 WARPS 1 4 PANEL 8 DEPTH 2 BLOCKS 3 SCALES 32)
packed_gemms(i4   bf16 16 "2"        FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2 RESULT 32 FEW)
packed_gemms(i8   bf16 16 "2"        FRAGMENTS 4 WARPS 2 4 PANEL 8 DEPTH 2 BLOCKS 2 RESULT 32)

# The same for devices without clusters and TMA, from sm_80 on; Hopper, which has the forms above,
# runs them only if they are named. ROUNDED: each weight is multiplied by
# its scale in A's type, which eager mode needs and which leaves registers for 64 rows.
macro(packed_mma CODES TYPE TILE_M)
  cmake_parse_arguments(PACKED "ROUNDED" "FRAGMENTS;PANEL;PANELS;DEPTH;BLOCKS;RESULT;SCALES"
                        "WARPS" ${ARGN})
  list(GET PACKED_WARPS 0 warps_n)
  list(GET PACKED_WARPS 1 warps_k)
  packed_codes(${CODES} ${TYPE})
  set(rounded 0)
  if(PACKED_ROUNDED)
    set(rounded 1)
    string(APPEND suffix _rounded)
  endif()
  math(EXPR tile_n "16 * ${PACKED_FRAGMENTS} * ${warps_n}")
  attacca_template(packed_mma_${CODES}_${TYPE}_${TILE_M}x${tile_n}${suffix}_f2_d${PACKED_RESULT}
                   SOURCE packed/gemm.cu BUILDER packed/builder.cpp ARCH 80
                   ${PACKED_UNPARSED_ARGUMENTS}
                   DEFINES ${codes_defines} TILE_M=${TILE_M} FRAGMENTS=${PACKED_FRAGMENTS}
                           WARPS_N=${warps_n} WARPS_K=${warps_k} PANEL=${PACKED_PANEL}
                           PANELS=${PACKED_PANELS} BOXES=0 DEPTH=${PACKED_DEPTH}
                           BLOCKS=${PACKED_BLOCKS} CLUSTER=1 ROUNDED=${rounded} PORTABLE=1
                           ONLY_NAMED_ON=90
                           HOLE_FULL0=16 HOLE_FULL1=16 HOLE_RESULT0=${PACKED_RESULT})
endmacro()

#          codes A   rows columns: 16 * FRAGMENTS * the first of WARPS
packed_mma(i4   bf16 8  FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 4)
packed_mma(i4   bf16 8  FRAGMENTS 2 WARPS 1 8 PANEL 16 PANELS 3 DEPTH 4 BLOCKS 2 FEW)
packed_mma(i4   bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 3)
packed_mma(i4   bf16 16 FRAGMENTS 2 WARPS 1 8 PANEL 16 PANELS 2 DEPTH 2 BLOCKS 2)
packed_mma(i4   bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 2 ROUNDED)
packed_mma(i4   bf16 32 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 3 DEPTH 4 BLOCKS 2)
packed_mma(i4   bf16 32 FRAGMENTS 2 WARPS 2 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 2)
packed_mma(i4   bf16 64 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 2 DEPTH 2 BLOCKS 1 ROUNDED FEW)
packed_mma(i8   bf16 8  FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 4)
packed_mma(i8   bf16 8  FRAGMENTS 2 WARPS 1 8 PANEL 8 PANELS 3 DEPTH 2 BLOCKS 2)
packed_mma(i8   bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 3 DEPTH 2 BLOCKS 3)
packed_mma(i8   bf16 16 FRAGMENTS 2 WARPS 1 8 PANEL 8 PANELS 3 DEPTH 2 BLOCKS 2)
packed_mma(i8   bf16 32 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 2 DEPTH 2 BLOCKS 2)
packed_mma(i8   bf16 64 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 2 DEPTH 2 BLOCKS 1 ROUNDED)
packed_mma(e4m3 bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 3 DEPTH 2 BLOCKS 3)
packed_mma(i4   f16  8  FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 4)
packed_mma(i4   f16  16 FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 3)
packed_mma(i4   f16  32 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 3 DEPTH 4 BLOCKS 1)
packed_mma(i4   f16  64 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 2 DEPTH 2 BLOCKS 1 ROUNDED)
packed_mma(i8   f16  16 FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 3 DEPTH 2 BLOCKS 3)
packed_mma(i8   f16  64 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 2 DEPTH 2 BLOCKS 1 ROUNDED)
packed_mma(e4m3 f16  16 FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 3 DEPTH 2 BLOCKS 3)
packed_mma(i4   bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 3 SCALES 32)
packed_mma(i8   bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 3 DEPTH 2 BLOCKS 3 SCALES 32)
packed_mma(i4   bf16 64 FRAGMENTS 2 WARPS 4 2 PANEL 4 PANELS 2 DEPTH 2 BLOCKS 1 SCALES 32
           ROUNDED)
packed_mma(i4   bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 8 PANELS 2 DEPTH 2 BLOCKS 3 RESULT 32)
packed_mma(i8   bf16 16 FRAGMENTS 4 WARPS 1 4 PANEL 4 PANELS 3 DEPTH 2 BLOCKS 3 RESULT 32)

# The same for many rows: wgmma takes the weights from registers (packed/feed.cuh). In a name, 1x2
# means that the blocks of a cluster load their common rows of A once, 1x1x2 that they share K, and
# 1x2_tail that they share K of the last tiles only. FOLDED: one fma widens and scales a pair of
# codes (packed/folded/feed.cuh).
macro(packed_wgmma CODES TYPE TILE_M TILE_N CLUSTER STAGES BLOCKS)
  cmake_parse_arguments(PACKED "PINGPONG;DIRECT;SHARED_TAIL;FOLDED;FEW" "RESULT;SCALES" "FULL"
                        ${ARGN})
  packed_codes(${CODES} ${TYPE})
  string(REPLACE "x" ";" cluster_blocks ${CLUSTER}x1)
  list(GET cluster_blocks 1 cluster_n)
  list(GET cluster_blocks 2 cluster_k)
  set(schedule "")
  set(pingpong 0)
  if(PACKED_PINGPONG)
    set(schedule _pingpong)
    set(pingpong 1)
  endif()
  set(shared_tail 0)
  if(PACKED_SHARED_TAIL)
    set(schedule _tail)
    set(shared_tail 1)
  endif()
  set(direct 0)
  if(PACKED_DIRECT)
    string(APPEND schedule _direct)
    set(direct 1)
  endif()
  set(folded "")
  if(PACKED_FOLDED)
    set(folded FOLDED=1)
  endif()
  set(few_option "")
  if(PACKED_FEW)
    set(few_option FEW)
  endif()
  attacca_full_slots("${PACKED_FULL}")
  set(tile ${TILE_M}x${TILE_N}_${CLUSTER}${schedule})
  attacca_template(packed_wgmma_${CODES}_${TYPE}_${tile}${suffix}_f${fulls}_d${PACKED_RESULT}
                   SOURCE packed/wgmma.cu BUILDER packed/wgmma_builder.cpp ARCH 90a ${few_option}
                   DEFINES ELEMENT=ELEMENT_${element} PROMOTE=0 SCALED=0 TILE_M=${TILE_M}
                           TILE_N=${TILE_N}
                           CLUSTER_M=1 CLUSTER_N=${cluster_n} CLUSTER_K=${cluster_k}
                           SHARED_TAIL=${shared_tail} STAGES=${STAGES} BLOCKS=${BLOCKS} SWAPPED=1
                           PINGPONG=${pingpong}
                           B_K_MAJOR=1 ALTERNATE=0 DIRECT=${direct} ${codes_defines} ${slots}
                           ${folded}
                           HOLE_RESULT0=${PACKED_RESULT})
endmacro()

#           codes A   tile    cluster stages blocks
packed_wgmma(i4   bf16 256 128 1x1   5  1 DIRECT FULL 0)
packed_wgmma(i4   bf16 256 128 1x2   5  1 DIRECT SHARED_TAIL FULL 0 FEW)
packed_wgmma(i4   bf16 256 128 1x2   5  1 DIRECT FULL 0 FEW)
packed_wgmma(i4   bf16 256 128 1x2   4  1 DIRECT FULL 16)
packed_wgmma(i4   bf16 128 128 1x1   9  1 DIRECT FULL 0)
packed_wgmma(i4   bf16 128 128 1x2   10 1 PINGPONG FEW)
packed_wgmma(i4   bf16 128 128 1x1x2 8  1)
packed_wgmma(i4   bf16 128 64  1x1   5  2)
packed_wgmma(i4   bf16 64  128 1x1   7  2 FOLDED)
packed_wgmma(i4   bf16 64  128 1x1x2 6  2 FOLDED)
packed_wgmma(i4   bf16 64  128 1x1x4 5  2 FOLDED)
packed_wgmma(i4   bf16 64  64  1x1   9  2 FOLDED)
packed_wgmma(i4   bf16 64  64  1x1x2 8  2 FOLDED)
packed_wgmma(i4   bf16 64  64  1x1x4 8  2 FOLDED)
packed_wgmma(i4   bf16 32  64  1x1   9  3)
packed_wgmma(i4   bf16 32  64  1x1x4 12 2 FOLDED)
packed_wgmma(i4   bf16 32  128 1x1   11 2 FOLDED)
packed_wgmma(i4   bf16 32  128 1x1x2 10 2 FOLDED)
packed_wgmma(i4   bf16 16  64  1x1   13 3)
packed_wgmma(i4   bf16 16  64  1x1x2 12 3)
packed_wgmma(i4   bf16 16  128 1x1   14 2 FOLDED)
packed_wgmma(i8   bf16 256 128 1x1   5  1 DIRECT FULL 0)
packed_wgmma(i8   bf16 256 128 1x2   5  1 DIRECT SHARED_TAIL FULL 0)
packed_wgmma(i8   bf16 256 128 1x2   5  1 DIRECT FULL 0)
packed_wgmma(i8   bf16 256 128 1x2   3  1 DIRECT FULL 16)
packed_wgmma(i8   bf16 128 128 1x2   8  1 PINGPONG)
packed_wgmma(i8   bf16 128 128 1x1x2 7  1)
packed_wgmma(i8   bf16 128 64  1x1   4  2)
packed_wgmma(i8   bf16 64  128 1x1   6  2)
packed_wgmma(i8   bf16 64  64  1x1   7  2)
packed_wgmma(i8   bf16 64  64  1x1x2 6  2)
packed_wgmma(i8   bf16 32  64  1x1   7  3)
packed_wgmma(i8   bf16 32  128 1x1   7  2)
packed_wgmma(i8   bf16 16  64  1x1   9  3)
packed_wgmma(i8   bf16 16  64  1x1x2 9  3)
packed_wgmma(e4m3 bf16 256 128 1x2   5  1 DIRECT FULL 0)
packed_wgmma(e4m3 bf16 128 128 1x2   8  1 PINGPONG)
packed_wgmma(e4m3 bf16 64  128 1x1   6  2)
packed_wgmma(i4   f16  256 128 1x2   5  1 DIRECT FULL 0)
packed_wgmma(i4   f16  256 128 1x2   5  1 DIRECT SHARED_TAIL FULL 0)
packed_wgmma(i4   f16  128 128 1x2   10 1 PINGPONG)
packed_wgmma(i4   f16  64  128 1x1   7  2)
packed_wgmma(i8   f16  256 128 1x2   5  1 DIRECT FULL 0)
packed_wgmma(i8   f16  256 128 1x2   5  1 DIRECT SHARED_TAIL FULL 0)
packed_wgmma(i8   f16  128 128 1x2   8  1 PINGPONG)
packed_wgmma(e4m3 f16  128 128 1x2   8  1 PINGPONG)
packed_wgmma(i4   bf16 128 128 1x2   10 1 PINGPONG SCALES 32)
packed_wgmma(i8   bf16 128 128 1x2   8  1 PINGPONG SCALES 32)
packed_wgmma(i4   f16  128 128 1x2   10 1 PINGPONG SCALES 32)
packed_wgmma(i4   bf16 128 128 1x2   10 1 PINGPONG RESULT 32)
packed_wgmma(i8   bf16 128 128 1x2   8  1 PINGPONG RESULT 32)
packed_wgmma(i4   bf16 64  256 1x1   10 1 FOLDED FEW)
packed_wgmma(i4   bf16 64  256 1x1x2 8  1 FOLDED)

# 4-bit weights with scales of u8, times s8 (packed/whole/feed.cuh).
packed_wgmma(i4   s8   16  64  1x1   8  3)
packed_wgmma(i4   s8   16  64  1x1x2 8  3)
packed_wgmma(i4   s8   16  128 1x1   8  2)
packed_wgmma(i4   s8   16  128 1x1x2 8  2)
packed_wgmma(i4   s8   32  64  1x1   7  3)
packed_wgmma(i4   s8   32  128 1x1   7  2)
packed_wgmma(i4   s8   32  128 1x1x2 7  2)
packed_wgmma(i4   s8   64  64  1x1   7  2)
packed_wgmma(i4   s8   64  64  1x1x2 6  2)
packed_wgmma(i4   s8   64  128 1x1   5  2 FEW)
packed_wgmma(i4   s8   64  128 1x1x2 4  2)
packed_wgmma(i4   s8   128 128 1x2   7  1 PINGPONG)
packed_wgmma(i4   s8   256 128 1x2   4  1 DIRECT FULL 0)
packed_wgmma(i4   s8   64  128 1x1   5  2 RESULT 32)
packed_wgmma(i4   s8   64  128 1x1   5  2 RESULT 8)
