# Each file of the template directory is written as a draft and then renamed, so that a build that
# is killed leaves no partial file.
#
# attacca_template(NAME SOURCE file.cu ARCH 80|90a [BUILDER file.cpp] [DEFINES A=1 ...]
#                  [NVCC_FLAGS ...] [CXX_FLAGS ...] [CUTLASS] [COMPILED_AS name] [FEW]):
# one row of the table.
#
# SOURCE gives NAME.ptx. BUILDER, the same file by default, is compiled by g++ as C++ and defines
# the template's record (host/record.hpp). Both see the DEFINES and ATTACCA_TEMPLATE=NAME, which is
# also the name of the kernel's entry; the builder sees ATTACCA_BUILDER too. Files are relative to
# this project's folder. FEW: the row is also built for ATTACCA_TEMPLATES=few. COMPILED_AS: the
# entry's name while nvcc compiles, which NAME then replaces in the PTX: for large sources nvcc's
# code depends on that name.

add_library(attacca_builder_options INTERFACE)
target_include_directories(attacca_builder_options INTERFACE
                           ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/..
                           ${CMAKE_CURRENT_SOURCE_DIR}/../..)
target_compile_features(attacca_builder_options INTERFACE cxx_std_20)
target_compile_options(attacca_builder_options INTERFACE -O1 -DNDEBUG -fvisibility=hidden
                       -fvisibility-inlines-hidden -Wall -Wextra)
set(ATTACCA_BUILT_TEMPLATES "")
set(ATTACCA_BUILT_PTX "")

macro(attacca_template NAME)
  cmake_parse_arguments(ROW "CUTLASS;FEW" "SOURCE;BUILDER;ARCH;COMPILED_AS"
                        "DEFINES;NVCC_FLAGS;CXX_FLAGS" ${ARGN})
  if(ROW_FEW OR ATTACCA_TEMPLATES STREQUAL all)
    if(NOT ROW_BUILDER)
      set(ROW_BUILDER ${ROW_SOURCE})
    endif()
    if(NOT ROW_COMPILED_AS)
      set(ROW_COMPILED_AS ${NAME})
    endif()
    set(ROW_INCLUDES "")
    if(ROW_CUTLASS)
      if(NOT ATTACCA_CUTLASS_INCLUDE)
        message(FATAL_ERROR "${NAME} needs CUTLASS: run tools/setup.sh, which fetches it from "
                            "PyPI, or give -DCUTLASS_DIR=dir")
      endif()
      set(ROW_INCLUDES ${ATTACCA_CUTLASS_INCLUDE})
    endif()
    attacca_template_ptx(${NAME})
    attacca_template_builder(${NAME})
    list(APPEND ATTACCA_BUILT_TEMPLATES ${NAME})
    list(APPEND ATTACCA_BUILT_PTX ${ATTACCA_TEMPLATE_DIR}/${NAME}.ptx)
  endif()
endmacro()

# nvcc runs without -rdc=true: with it, nvcc would take C++ constants for variables that other files
# may write, and load them from memory. The undefined hole is no error, because only PTX is made.
function(attacca_template_ptx NAME)
  set(ptx ${ATTACCA_TEMPLATE_DIR}/${NAME}.ptx)
  set(draft ${ATTACCA_TEMPLATE_DIR}/${NAME}.ptx.draft)
  set(depfile ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.ptx.d)
  list(TRANSFORM ROW_DEFINES PREPEND -D OUTPUT_VARIABLE defines)
  list(TRANSFORM ROW_INCLUDES PREPEND -I OUTPUT_VARIABLE includes)
  add_custom_command(
    OUTPUT ${ptx}
    COMMAND ${ATTACCA_NVCC} -ptx -std=c++17 -O3 --expt-relaxed-constexpr -DNDEBUG
            -gencode arch=compute_${ROW_ARCH},code=compute_${ROW_ARCH} -ccbin ${CMAKE_CXX_COMPILER}
            -DATTACCA_TEMPLATE=${ROW_COMPILED_AS} ${defines} ${ROW_NVCC_FLAGS}
            -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/..
            -I${PROJECT_SOURCE_DIR}/../.. ${includes}
            -MD -MF ${depfile} -MT ${ptx}
            ${PROJECT_SOURCE_DIR}/${ROW_SOURCE} -o ${draft}
    COMMAND sed -i s/${ROW_COMPILED_AS}/${NAME}/g ${draft}
    COMMAND ${CMAKE_COMMAND} -E rename ${draft} ${ptx}
    DEPENDS ${PROJECT_SOURCE_DIR}/${ROW_SOURCE} ${ATTACCA_NVCC}
    DEPFILE ${depfile}
    JOB_POOL nvcc
    COMMENT "nvcc ${NAME}.ptx"
    VERBATIM)
endfunction()

function(attacca_template_builder NAME)
  set(target attacca_builder_${NAME})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/${ROW_BUILDER} PROPERTIES LANGUAGE CXX)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/${ROW_BUILDER})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON JOB_POOL_COMPILE nvcc)
  target_link_libraries(${target} PRIVATE attacca_builder_options)
  target_compile_definitions(${target} PRIVATE ATTACCA_BUILDER ATTACCA_TEMPLATE=${NAME}
                             ${ROW_DEFINES})
  target_compile_options(${target} PRIVATE ${ROW_CXX_FLAGS})
  target_include_directories(${target} SYSTEM PRIVATE ${ROW_INCLUDES} ${ATTACCA_CUDA_INCLUDES})
endfunction()

# Writes OUT, which defines attacca_templates_sources() (../sources.h): a hash that depends on the
# content of the sources, not on the machine or the choice of rows.
function(attacca_hash_templates OUT)
  set(kinds cu cuh hpp cpp cmake)
  list(TRANSFORM kinds PREPEND ${PROJECT_SOURCE_DIR}/*.)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${kinds})
  list(APPEND sources ${PROJECT_SOURCE_DIR}/../abi.h
       ${PROJECT_SOURCE_DIR}/../../epilogue/hole_abi.h)
  if(ATTACCA_CUTLASS_INCLUDE)
    list(APPEND sources ${ATTACCA_CUTLASS_INCLUDE}/cutlass/version.h)
  endif()
  attacca_hash_sources(${OUT} ${PROJECT_SOURCE_DIR}/host/sources.cpp.in ${sources})
endfunction()

# Makes the targets that need all rows: the list of records, the shared object, the metadata.
function(attacca_finish_templates)
  set(registry "#include \"host/record.hpp\"\n\nextern \"C\" {\n")
  foreach(name ${ATTACCA_BUILT_TEMPLATES})
    string(APPEND registry "extern const attacca_record attacca_record_${name};\n")
  endforeach()
  string(APPEND registry "}\n\nconst attacca_record* const attacca_records[] = {\n")
  foreach(name ${ATTACCA_BUILT_TEMPLATES})
    string(APPEND registry "    &attacca_record_${name},\n")
  endforeach()
  string(APPEND registry "};\nconst int attacca_record_count = "
                         "sizeof(attacca_records) / sizeof(attacca_records[0]);\n")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/registry.cpp CONTENT "${registry}" @ONLY)

  attacca_hash_templates(${CMAKE_CURRENT_BINARY_DIR}/sources.cpp)
  add_library(attacca_records OBJECT EXCLUDE_FROM_ALL
              ${CMAKE_CURRENT_BINARY_DIR}/registry.cpp ${CMAKE_CURRENT_BINARY_DIR}/sources.cpp
              host/open.cpp)
  set_target_properties(attacca_records PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(attacca_records PRIVATE attacca_builder_options)

  set(objects $<TARGET_OBJECTS:attacca_records>)
  foreach(name ${ATTACCA_BUILT_TEMPLATES})
    list(APPEND objects $<TARGET_OBJECTS:attacca_builder_${name}>)
  endforeach()
  add_library(attacca_templates_library MODULE ${objects})
  set_target_properties(attacca_templates_library PROPERTIES
                        LINKER_LANGUAGE CXX OUTPUT_NAME attacca_templates)
  # An undefined symbol fails here and not on the user's machine; the C++ runtime is linked in.
  target_link_options(attacca_templates_library PRIVATE -Wl,--no-undefined -static-libstdc++
                      -static-libgcc -Wl,--exclude-libs,ALL)

  set(library ${ATTACCA_TEMPLATE_DIR}/libattacca_templates.so)
  add_custom_command(
    OUTPUT ${library}
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:attacca_templates_library> ${library}.draft
    COMMAND ${CMAKE_COMMAND} -E rename ${library}.draft ${library}
    DEPENDS attacca_templates_library
    VERBATIM)

  add_executable(attacca_describe_templates EXCLUDE_FROM_ALL host/describe.cpp ${objects})
  target_link_libraries(attacca_describe_templates PRIVATE attacca_builder_options)
  add_custom_command(
    OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/described
    COMMAND attacca_describe_templates ${ATTACCA_TEMPLATE_DIR}
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_CURRENT_BINARY_DIR}/described
    DEPENDS attacca_describe_templates
    VERBATIM)
  set(files ${ATTACCA_BUILT_PTX} ${library} ${CMAKE_CURRENT_BINARY_DIR}/described)
  add_custom_target(attacca_kernel_templates ALL DEPENDS ${files})
  set_target_properties(attacca_kernel_templates PROPERTIES ATTACCA_FILES "${files}")
endfunction()
