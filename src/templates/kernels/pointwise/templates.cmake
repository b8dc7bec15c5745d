# The pointwise kernels: the second kernel of the unfused path, and regions without a product. A
# name says the full slots and the results: pointwise_f16x2_f32x2_d16_d32 has full slots of 16, 16,
# 32 and 32 bits and results of 16 and 32; all keep a maximum. A slot that the epilogue does not
# read costs nothing; every result is stored. Those for sm_90 are launched while the previous kernel
# ends (programmatic dependent launch).
macro(pointwise NAME FULLS RESULTS)
  set(defines HOLE_ACCUMULATORS=0 HOLE_MAXIMA=1)
  set(index 0)
  foreach(bits ${FULLS})
    list(APPEND defines HOLE_FULL${index}=${bits})
    math(EXPR index "${index} + 1")
  endforeach()
  set(index 0)
  foreach(bits ${RESULTS})
    list(APPEND defines HOLE_RESULT${index}=${bits})
    math(EXPR index "${index} + 1")
  endforeach()
  attacca_template(pointwise_${NAME} SOURCE pointwise/kernel.cu BUILDER pointwise/builder.cpp
                   ARCH 80 ${ARGN} DEFINES ${defines} POINTWISE_DEPENDENT=0)
  attacca_template(pointwise_${NAME}_sm90 SOURCE pointwise/kernel.cu BUILDER pointwise/builder.cpp
                   ARCH 90 ${ARGN} DEFINES ${defines} POINTWISE_DEPENDENT=1)
endmacro()

#         name                fulls         results
pointwise(f16x4_d16           "16;16;16;16" "16" FEW)
pointwise(f16x4_d32           "16;16;16;16" "32")
pointwise(f16x4_d16_d16       "16;16;16;16" "16;16")
pointwise(f16x2_f32x2         "16;16;32;32" "" FEW)
pointwise(f16x2_f32x2_d16     "16;16;32;32" "16")
pointwise(f16x2_f32x2_d32     "16;16;32;32" "32")
pointwise(f16x2_f32x2_d16_d16 "16;16;32;32" "16;16")
pointwise(f16x2_f32x2_d16_d32 "16;16;32;32" "16;32" FEW)
pointwise(f16x2_f32x2_d32_d32 "16;16;32;32" "32;32")
pointwise(f32x4_d32           "32;32;32;32" "32")
pointwise(f32x4_d16           "32;32;32;32" "16")
