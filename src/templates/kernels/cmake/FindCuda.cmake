# Sets ATTACCA_NVCC and ATTACCA_CUDA_INCLUDES from -DATTACCA_CUDA=dir or, without it, from the first
# of these places that has nvcc and its headers: the wheels in .deps/venv, $CUDA_HOME,
# /usr/local/cuda.
set(ATTACCA_CUDA "" CACHE PATH "A CUDA 13 toolkit, or site-packages/nvidia/cu13 of the wheels")

# A toolkit has CCCL's headers in include/cccl; the wheels have them there or in include.
function(attacca_cuda_includes root result)
  set(found "")
  if(EXISTS ${root}/bin/nvcc AND EXISTS ${root}/include/cuda_runtime.h)
    foreach(cccl ${root}/include/cccl ${root}/include)
      if(NOT found AND EXISTS ${cccl}/cuda/std/type_traits)
        set(found ${root}/include ${cccl})
      endif()
    endforeach()
  endif()
  list(REMOVE_DUPLICATES found)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

if(ATTACCA_CUDA)
  set(places ${ATTACCA_CUDA})
else()
  file(GLOB places ${ATTACCA_DEPS}/venv/lib/python3*/site-packages/nvidia/cu13)
  list(APPEND places $ENV{CUDA_HOME} /usr/local/cuda)
endif()
set(ATTACCA_NVCC "")
foreach(place ${places})
  attacca_cuda_includes(${place} ATTACCA_CUDA_INCLUDES)
  if(ATTACCA_CUDA_INCLUDES)
    set(ATTACCA_NVCC ${place}/bin/nvcc)
    break()
  endif()
endforeach()
if(NOT ATTACCA_NVCC)
  list(JOIN places "\n  " places)
  message(FATAL_ERROR "No nvcc with its headers (cuda_runtime.h, CCCL) in\n  ${places}\n"
                      "Run tools/setup.sh, which fetches them from PyPI, or give "
                      "-DATTACCA_CUDA=dir, or -DATTACCA_TEMPLATES=none to build no templates.")
endif()
message(STATUS "Kernel templates: ${ATTACCA_TEMPLATES}, by ${ATTACCA_NVCC}")
