# A of bf16 or f16 whose groups of rows are each multiplied by a matrix of their own, by mma.sync,
# for sm_80 and later. Hopper has better kernels (grouped/templates.cmake) and runs these only if
# they are named. A name says, as those of mma/templates.cmake,
#   tn, tt, ta  the matrices are (N, K); (K, N); those of a gate alternate columns of (K, 2 N)
#   the tile, gate, the full slots, the bits of the result
#   gather      an index names the rows of A
macro(grouped_mma_gemm MAJORS TILE_M TILE_N TILE_K WARPS_M WARPS_N STAGES BLOCKS)
  cmake_parse_arguments(GROUPED "GATE;GATHER;FEW" "RESULT" "" ${ARGN})
  set(k_major 0)
  set(alternate 0)
  if(${MAJORS} STREQUAL tn)
    set(k_major 1)
  elseif(${MAJORS} STREQUAL ta)
    set(alternate 1)
  endif()
  set(name grouped_mma_${MAJORS}_${TILE_M}x${TILE_N}x${TILE_K})
  set(sets 1)
  if(GROUPED_GATE)
    string(APPEND name _gate)
    set(sets 2)
  endif()
  set(gathered "")
  if(GROUPED_GATHER)
    string(APPEND name _gather)
    set(gathered GATHERED=1)
  endif()
  set(few "")
  if(GROUPED_FEW)
    set(few FEW)
  endif()
  if(NOT DEFINED GROUPED_RESULT)
    set(GROUPED_RESULT 16)
  endif()
  attacca_template(${name}_f2_d${GROUPED_RESULT}
                   SOURCE grouped_mma/gemm.cu BUILDER grouped_mma/builder.cpp ARCH 80 ${few}
                   DEFINES ELEMENT=ELEMENT_BF16 GROUPED=512 ${gathered} ALTERNATE=${alternate}
                           TILE_M=${TILE_M} TILE_N=${TILE_N} TILE_K=${TILE_K} WARPS_M=${WARPS_M}
                           WARPS_N=${WARPS_N} STAGES=${STAGES} BLOCKS=${BLOCKS}
                           B_K_MAJOR=${k_major} ANY_STRIDES=0 ONLY_NAMED_ON=90
                           HOLE_ACCUMULATORS=${sets} HOLE_FULL0=16 HOLE_FULL1=16
                           HOLE_RESULT0=${GROUPED_RESULT})
endmacro()

#                majors tile       warps stages blocks
grouped_mma_gemm(tn     16  64  64 1 4   4      3)
grouped_mma_gemm(tn     64  64  32 2 2   5      2 FEW)
grouped_mma_gemm(tn     128 128 32 2 2   4      2)
grouped_mma_gemm(tn     16  64  64 1 4   4      3 RESULT 32)
grouped_mma_gemm(tn     128 128 32 2 2   4      2 RESULT 32)
grouped_mma_gemm(tt     16  64  64 1 4   4      3)
grouped_mma_gemm(tt     128 128 32 2 2   4      2)

# Gates.
grouped_mma_gemm(tn     16  64  64 1 4   4      2 GATE)
grouped_mma_gemm(tn     128 64  32 2 2   4      2 GATE)
grouped_mma_gemm(tt     16  64  64 1 4   4      2 GATE)
grouped_mma_gemm(tt     128 64  32 2 2   4      2 GATE)
grouped_mma_gemm(ta     16  64  64 1 4   4      2 GATE)
grouped_mma_gemm(ta     128 64  32 2 2   4      2 GATE)

# Rows of A that an index names.
grouped_mma_gemm(tn     16  64  64 1 4   4      3 GATHER)
grouped_mma_gemm(tn     128 128 32 2 2   4      2 GATHER)
grouped_mma_gemm(tn     16  64  64 1 4   4      2 GATE GATHER)
grouped_mma_gemm(tn     128 64  32 2 2   4      2 GATE GATHER)
