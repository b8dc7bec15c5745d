# CUTLASS 3 kernels for Hopper with the hole in their epilogue.
#
# cutlass_gemm(B TILE CLUSTER SCHEDULE [SWAP] [FULL bits...] [RESULT bits...] [FEW])
#   B         tn: B is (N, K); tt: B is (K, N)
#   SCHEDULE  pingpong; coop: cooperative; streamk: cooperative, with CUTLASS's stream-K scheduler
#   SWAP      the kernel's M side is the problem's N, for small M. TILE and CLUSTER are the
#             kernel's.
#   FULL      bits of the full slots, 16 by default, 0 for none
#   RESULT    bits of the results, 16 by default
if(NOT ATTACCA_CUTLASS_INCLUDE AND ATTACCA_TEMPLATES STREQUAL few)
  message(STATUS "Kernel templates: none for Hopper without CUTLASS, which tools/setup.sh fetches")
  return()
endif()

macro(cutlass_gemm B TILE CLUSTER SCHEDULE)
  cmake_parse_arguments(GEMM "SWAP;FEW" "" "FULL;RESULT" ${ARGN})
  string(REPLACE "x" ";" GEMM_TILE ${TILE})
  string(REPLACE "x" ";" GEMM_CLUSTER ${CLUSTER})
  set(GEMM_DEFINES CUTLASS_ENABLE_GDC_FOR_SM90)
  foreach(GEMM_AXIS GEMM_VALUE IN ZIP_LISTS GEMM_AXES GEMM_TILE)
    list(APPEND GEMM_DEFINES GEMM_TILE_${GEMM_AXIS}=${GEMM_VALUE})
  endforeach()
  # CUTLASS declares the other widths of wgmma only on request, which doubles the size of its
  # headers.
  list(GET GEMM_TILE 1 GEMM_TILE_N)
  if(NOT GEMM_TILE_N MATCHES "^(8|16|32|64|96|128|192|256)$")
    list(APPEND GEMM_DEFINES CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED)
  endif()
  list(GET GEMM_CLUSTER 0 GEMM_CLUSTER_M)
  list(GET GEMM_CLUSTER 1 GEMM_CLUSTER_N)
  list(APPEND GEMM_DEFINES GEMM_CLUSTER_M=${GEMM_CLUSTER_M} GEMM_CLUSTER_N=${GEMM_CLUSTER_N})
  foreach(GEMM_FLAG B_K_MAJOR=${B}:tn PINGPONG=${SCHEDULE}:pingpong STREAM_K=${SCHEDULE}:streamk
                    SWAPPED=${GEMM_SWAP}:TRUE)
    string(REGEX MATCH "^([A-Z_]+)=(.*):(.*)$" GEMM_MATCHED ${GEMM_FLAG})
    if(CMAKE_MATCH_2 STREQUAL CMAKE_MATCH_3)
      list(APPEND GEMM_DEFINES GEMM_${CMAKE_MATCH_1}=1)
    else()
      list(APPEND GEMM_DEFINES GEMM_${CMAKE_MATCH_1}=0)
    endif()
  endforeach()

  # f1: one full slot, of 16 bits; f2: two; f32: one of 32 bits. d32: a result of 32 bits.
  set(GEMM_NAME ${B}_${TILE}_${CLUSTER}_${SCHEDULE})
  if(GEMM_SWAP)
    string(APPEND GEMM_NAME _swap)
  endif()
  if(NOT DEFINED GEMM_FULL)
    set(GEMM_FULL 16)
  endif()
  if(NOT DEFINED GEMM_RESULT)
    set(GEMM_RESULT 16)
  endif()
  list(REMOVE_ITEM GEMM_FULL 0)
  list(JOIN GEMM_FULL _ GEMM_SUFFIX)
  if(GEMM_SUFFIX MATCHES "^(16)?(_16)?$")
    list(LENGTH GEMM_FULL GEMM_SUFFIX)
  endif()
  string(APPEND GEMM_NAME _f${GEMM_SUFFIX})
  list(JOIN GEMM_RESULT _ GEMM_SUFFIX)
  if(NOT GEMM_SUFFIX STREQUAL 16)
    string(APPEND GEMM_NAME _d${GEMM_SUFFIX})
  endif()
  foreach(GEMM_KIND FULL RESULT)
    set(GEMM_SLOT 0)
    foreach(GEMM_BITS ${GEMM_${GEMM_KIND}})
      list(APPEND GEMM_DEFINES HOLE_${GEMM_KIND}${GEMM_SLOT}=${GEMM_BITS})
      math(EXPR GEMM_SLOT "${GEMM_SLOT} + 1")
    endforeach()
  endforeach()

  set(GEMM_FEW_OPTION "")
  if(GEMM_FEW)
    set(GEMM_FEW_OPTION FEW)
  endif()
  # CUTLASS is not written for a host compiler: it uses names that only nvcc declares, and has
  # unused functions. COMPILED_AS: nvcc's code depends on the entry's name; the PTX that was
  # measured had the names bf16_*.
  attacca_template(cutlass_${GEMM_NAME} SOURCE cutlass/gemm.cu ARCH 90a CUTLASS ${GEMM_FEW_OPTION}
                   COMPILED_AS bf16_${GEMM_NAME}
                   DEFINES ${GEMM_DEFINES} CXX_FLAGS -fpermissive -w)
endmacro()
set(GEMM_AXES M N K)

# Large M and N. A cluster shares the longer side of its tiles. Without a full slot, 128x256 and
# 256x128 have room for one stage more.
cutlass_gemm(tn 128x256x64 2x1 coop)
cutlass_gemm(tn 128x256x64 2x1 coop FULL 0)
cutlass_gemm(tn 128x256x64 1x2 coop)
cutlass_gemm(tn 256x128x64 1x2 coop FULL 0)
cutlass_gemm(tn 128x128x64 2x1 pingpong FEW)
cutlass_gemm(tn 128x128x64 1x2 pingpong)
cutlass_gemm(tn 128x128x64 1x1 pingpong)

# Medium M: tile widths for which the last wave of blocks is full. Tiles of 256 rows are also for M
# up to 256.
cutlass_gemm(tn 128x112x64 2x1 pingpong)
cutlass_gemm(tn 128x112x64 2x1 pingpong FULL 0)
cutlass_gemm(tn 128x128x64 2x1 pingpong FULL 0)
# No thread may hold more than 128 accumulators (pingpong: M * N / 128, cooperative: half of it):
# with 144 and more, measured on an H200, a kernel takes 12 to 20 times as long.
cutlass_gemm(tn 128x144x64 2x1 coop)
cutlass_gemm(tn 128x160x64 2x1 coop)
cutlass_gemm(tn 128x176x64 2x1 coop)
cutlass_gemm(tn 128x192x64 2x1 coop)
cutlass_gemm(tn 128x224x64 2x1 coop)
cutlass_gemm(tn 128x224x64 2x1 coop FULL 0)
cutlass_gemm(tn 128x240x64 2x1 coop)
cutlass_gemm(tn 256x112x64 1x2 coop)
cutlass_gemm(tn 256x112x64 1x2 coop FULL 0)

# Few tiles or long K.
cutlass_gemm(tn 128x64x128 1x1 pingpong)
cutlass_gemm(tn 128x128x64 2x1 streamk FEW)
cutlass_gemm(tn 128x256x64 2x1 streamk)

# Small M.
cutlass_gemm(tn 64x16x128 1x1 pingpong SWAP FEW)
cutlass_gemm(tn 64x32x128 1x1 pingpong SWAP)
cutlass_gemm(tn 64x64x128 1x1 pingpong SWAP)
cutlass_gemm(tn 128x64x128 1x1 pingpong SWAP)
cutlass_gemm(tn 128x16x128 1x1 streamk SWAP)
cutlass_gemm(tn 128x64x128 1x1 streamk SWAP)

# B as (K, N).
cutlass_gemm(tt 128x256x64 2x1 coop)
cutlass_gemm(tt 128x128x64 2x1 pingpong)
cutlass_gemm(tt 128x128x64 2x1 streamk)
cutlass_gemm(tt 64x16x128 1x1 pingpong SWAP)
cutlass_gemm(tt 64x64x128 1x1 pingpong SWAP)

# Other slots.
cutlass_gemm(tn 128x256x64 2x1 coop FULL 16 16)
cutlass_gemm(tn 128x128x64 2x1 pingpong FULL 16 16)
cutlass_gemm(tn 128x128x64 2x1 pingpong FULL 32)
cutlass_gemm(tn 128x128x64 2x1 pingpong FULL 16 RESULT 32)
cutlass_gemm(tn 128x128x64 2x1 pingpong FULL 32 RESULT 32)
cutlass_gemm(tn 128x128x64 2x1 pingpong FULL 16 RESULT 16 16)
cutlass_gemm(tn 128x256x64 2x1 coop FULL 0 RESULT 16 16)
