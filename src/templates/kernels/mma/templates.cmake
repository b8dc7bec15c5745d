# GEMMs by mma.sync, which all devices from sm_80 on have; 8-bit floats need sm_89. A name says the
# layout of the operands (tn: A is (M, K), B is (N, K); tt: B is (K, N); xx: any strides and
# alignment), the tile, the full slots (f2: two of 16 bits, of which an unused one costs a branch)
# and the bits of the result. GATE: two products of one A, with TILE_N columns each. ELEMENT
# (common/element.cuh): of A and B; a name says it unless it is bf16.
macro(mma_gemm MAJORS TILE_M TILE_N TILE_K WARPS_M WARPS_N STAGES RESULT)
  cmake_parse_arguments(MMA "GATE" "ELEMENT" "" ${ARGN})
  set(arch 80)
  set(element BF16)
  set(named_element "")
  if(MMA_ELEMENT)
    set(element ${MMA_ELEMENT})
    string(TOLOWER ${element}_ named_element)
    if(element STREQUAL E4M3)
      set(arch 89)
    endif()
  endif()
  set(name mma_${named_element}${MAJORS}_${TILE_M}x${TILE_N}x${TILE_K})
  set(sets 1)
  if(MMA_GATE)
    string(APPEND name _gate)
    set(sets 2)
  endif()
  set(any 0)
  set(k_major 1)
  if(${MAJORS} STREQUAL tt)
    set(k_major 0)
  elseif(${MAJORS} STREQUAL xx)
    set(any 1)
  endif()
  attacca_template(${name}_f2_d${RESULT}
                   SOURCE mma/gemm.cu BUILDER mma/builder.cpp ARCH ${arch} ${MMA_UNPARSED_ARGUMENTS}
                   DEFINES ELEMENT=ELEMENT_${element}
                           TILE_M=${TILE_M} TILE_N=${TILE_N} TILE_K=${TILE_K} WARPS_M=${WARPS_M}
                           WARPS_N=${WARPS_N} STAGES=${STAGES} B_K_MAJOR=${k_major}
                           ANY_STRIDES=${any} HOLE_ACCUMULATORS=${sets} HOLE_FULL0=16 HOLE_FULL1=16
                           HOLE_RESULT0=${RESULT})
endmacro()

#         majors tile          warps stages result
mma_gemm(tn     256 128 32    4 2   4      16)
mma_gemm(tn     128 128 32    2 2   4      16 FEW)
mma_gemm(tn     128 64 32     2 2   4      16)
mma_gemm(tn     64 64 64      2 2   4      16)
mma_gemm(tn     64 32 64      2 2   5      16)
mma_gemm(tt     256 128 32    4 2   4      16)
mma_gemm(tt     128 128 32    2 2   4      16)
mma_gemm(tt     128 64 32     2 2   4      16)
mma_gemm(tt     64 64 64      2 2   4      16 FEW)
mma_gemm(tt     64 32 64      2 2   5      16)
mma_gemm(tn     128 128 32    2 2   4      32)
mma_gemm(tn     64 64 64      2 2   4      32)
mma_gemm(tt     128 128 32    2 2   4      32)
mma_gemm(tt     64 64 64      2 2   4      32)
mma_gemm(xx     64 64 32      2 2   2      16 FEW)
mma_gemm(xx     64 64 32      2 2   2      32)

# Gates.
mma_gemm(tn     128 64 32     2 2   4      16 GATE)
mma_gemm(tn     64 64 32      2 2   4      16 GATE FEW)
mma_gemm(tn     64 32 64      2 2   4      16 GATE)
mma_gemm(tn     64 64 32      2 2   4      32 GATE)
mma_gemm(tt     128 64 32     2 2   4      16 GATE)
mma_gemm(tt     64 32 64      2 2   4      16 GATE)
mma_gemm(xx     64 32 32      2 2   2      16 GATE FEW)
mma_gemm(xx     64 32 32      2 2   2      32 GATE)

# 8-bit elements: s8 and u8 for all devices. 8-bit floats have only rows for any strides, since
# wgmma kernels take the others.
mma_gemm(tn     128 128 64    2 2   4      8  ELEMENT S8)
mma_gemm(tn     128 128 64    2 2   4      16 ELEMENT S8)
mma_gemm(tn     128 128 64    2 2   4      32 ELEMENT S8)
mma_gemm(tn     64 64 128     2 2   4      8  ELEMENT S8 FEW)
mma_gemm(tn     64 64 128     2 2   4      16 ELEMENT S8)
mma_gemm(tn     64 64 128     2 2   4      32 ELEMENT S8)
mma_gemm(xx     64 64 64      2 2   2      8  ELEMENT S8)
mma_gemm(xx     64 64 64      2 2   2      16 ELEMENT S8)
mma_gemm(xx     64 64 64      2 2   2      32 ELEMENT S8 FEW)
mma_gemm(xx     64 64 64      2 2   2      8  ELEMENT E4M3)
mma_gemm(xx     64 64 64      2 2   2      16 ELEMENT E4M3 FEW)
mma_gemm(xx     64 64 64      2 2   2      32 ELEMENT E4M3)
foreach(bits 8 16 32)
  mma_gemm(tn     64 64 64      2 2   4      ${bits} ELEMENT S8 GATE)
  mma_gemm(xx     64 32 64      2 2   2      ${bits} ELEMENT S8 GATE)
  mma_gemm(xx     64 32 64      2 2   2      ${bits} ELEMENT E4M3 GATE)
endforeach()
