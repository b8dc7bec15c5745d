# attacca_layer(NAME SOURCES... [DEPS targets...] [APART sources...]): one folder of src as a static
# library. With ATTACCA_UNITY, each of APART is compiled by itself.
# attacca_test(NAME SOURCES... [DEPS targets...]): one gtest executable, registered with ctest.

add_library(attacca_options INTERFACE)
target_compile_features(attacca_options INTERFACE cxx_std_20)
# -ffp-contract=off: the numerics contract forbids fusing a multiplication with an addition.
target_compile_options(attacca_options INTERFACE -Wall -Wextra -Werror -ffp-contract=off)
# At -O3 GCC 12 gives false warnings for copies of std::string (its bug 105651).
target_compile_options(attacca_options INTERFACE
                       $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>)
if(ATTACCA_SANITIZE)
  target_compile_options(attacca_options INTERFACE -fsanitize=${ATTACCA_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all
                         # They take a fifth of the compile time. The address sanitizer stops at
                         # what the first two find; the third is of casts to derived classes.
                         -fno-sanitize=null,object-size,vptr
                         # GCC gives false warnings under sanitizers; the release build keeps
                         # -Werror.
                         -Wno-error $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(attacca_options INTERFACE -fsanitize=${ATTACCA_SANITIZE})
endif()

function(attacca_layer NAME)
  cmake_parse_arguments(LAYER "" "" "SOURCES;DEPS;APART" ${ARGN})
  add_library(attacca_${NAME} STATIC ${LAYER_SOURCES})
  target_include_directories(attacca_${NAME} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(attacca_${NAME} PUBLIC attacca_options ${LAYER_DEPS})
  if(ATTACCA_UNITY)
    set_target_properties(attacca_${NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    set_source_files_properties(${LAYER_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # A class in a .cpp file may have members of types without linkage.
    target_compile_options(attacca_${NAME} PRIVATE -Wno-subobject-linkage)
  endif()
  # All layers become part of libattacca.so, which exports only its public functions.
  set_target_properties(attacca_${NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

if(ATTACCA_SANITIZE AND ATTACCA_TESTS)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/gtest.cpp CONTENT "")
  add_library(attacca_gtest OBJECT ${CMAKE_BINARY_DIR}/gtest.cpp)
  target_link_libraries(attacca_gtest PRIVATE attacca_options GTest::gtest)
  target_precompile_headers(attacca_gtest PRIVATE <gtest/gtest.h>)
endif()

# A test program with GoogleTest. With ATTACCA_UNITY, its SOURCES are compiled as a few large files,
# but those of APART, which have names that others have too.
function(attacca_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;APART;DEPS" ${ARGN})
  add_executable(${NAME} ${TEST_SOURCES})
  if(ATTACCA_UNITY)
    set_target_properties(${NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    set_source_files_properties(${TEST_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_compile_options(${NAME} PRIVATE -Wno-subobject-linkage)
  endif()
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${RAPIDCHECK_INCLUDE})
  target_link_libraries(${NAME} PRIVATE ${TEST_DEPS} GTest::gtest_main ${RAPIDCHECK_LIBRARY})
  target_compile_definitions(${NAME} PRIVATE ATTACCA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # GCC compiles a test in two thirds of the time that -O2 takes.
  target_compile_options(${NAME} PRIVATE -Og)
  # A source would spend most of a second in GoogleTest's header. It is not precompiled where
  # warnings are errors: GCC 12 then gives false ones that it suppresses in a system's header.
  if(ATTACCA_SANITIZE)
    target_precompile_headers(${NAME} REUSE_FROM attacca_gtest)
  endif()
  add_test(NAME ${NAME} COMMAND ${NAME})
endfunction()
