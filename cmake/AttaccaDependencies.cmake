# All dependencies are Debian packages, which tools/setup.sh installs. What is missing is collected,
# so that one message names it all.
set(ATTACCA_MISSING "")

# attacca_find(VARIABLE find_package|find_path|find_library ARGUMENTS...): VARIABLE says whether it
# was found.
macro(attacca_find VARIABLE COMMAND)
  cmake_language(CALL ${COMMAND} ${ARGN})
  if(NOT ${VARIABLE})
    list(APPEND ATTACCA_MISSING ${VARIABLE})
  endif()
endmacro()

find_package(Threads REQUIRED)
attacca_find(fmt_FOUND find_package fmt QUIET)
attacca_find(tl-expected_FOUND find_package tl-expected QUIET)
attacca_find(nlohmann_json_FOUND find_package nlohmann_json QUIET)
attacca_find(CLI11_FOUND find_package CLI11 QUIET)
# oneDNN's own package file requires OpenCL, which its CPU engine does not need.
attacca_find(DNNL_INCLUDE find_path DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
attacca_find(DNNL_LIBRARY find_library DNNL_LIBRARY dnnl)
attacca_find(Protobuf_FOUND find_package Protobuf QUIET)
attacca_find(Protobuf_PROTOC_EXECUTABLE find_program Protobuf_PROTOC_EXECUTABLE protoc)
attacca_find(ONNX_SCHEMA_ROOT find_path ONNX_SCHEMA_ROOT onnx/onnx.proto)
attacca_find(SQLite3_FOUND find_package SQLite3 QUIET)
attacca_find(PkgConfig_FOUND find_package PkgConfig QUIET)
if(PkgConfig_FOUND)
  attacca_find(hwy_FOUND pkg_check_modules hwy QUIET IMPORTED_TARGET libhwy)
  attacca_find(xxhash_FOUND pkg_check_modules xxhash QUIET IMPORTED_TARGET libxxhash)
endif()
if(ATTACCA_TESTS)
  attacca_find(GTest_FOUND find_package GTest QUIET)
  attacca_find(RAPIDCHECK_INCLUDE find_path RAPIDCHECK_INCLUDE rapidcheck.h)
  attacca_find(RAPIDCHECK_LIBRARY find_library RAPIDCHECK_LIBRARY rapidcheck)
endif()
if(ATTACCA_MISSING)
  list(TRANSFORM ATTACCA_MISSING REPLACE "_FOUND$" "")
  attacca_missing("Not found: ${ATTACCA_MISSING}.")
endif()

add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE})
