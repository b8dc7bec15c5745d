# Sets ATTACCA_CUTLASS_INCLUDE; empty if CUTLASS is not found, which fails only rows with the option
# CUTLASS.
set(CUTLASS_DIR "" CACHE PATH "CUTLASS 4.5 or newer; default: what tools/setup.sh unpacked")
set(ATTACCA_CUTLASS_INCLUDE "")
foreach(place ${CUTLASS_DIR} ${ATTACCA_DEPS}/cutlass)
  if(NOT ATTACCA_CUTLASS_INCLUDE AND EXISTS ${place}/include/cutlass/cutlass.h)
    set(ATTACCA_CUTLASS_INCLUDE ${place}/include)
  endif()
endforeach()
