# Installing and packing: libattacca.so, its headers and CMake package, the command line, and the
# kernel templates that are built. The installed files need neither nvcc nor CUTLASS.
include(CMakePackageConfigHelpers)

# Fixed names: the library and the program look for ../share/attacca/templates and for
# ../share/attacca/tuned.
install(TARGETS attacca_shared EXPORT attacca LIBRARY DESTINATION lib)
install(TARGETS attacca RUNTIME DESTINATION bin)
install(FILES include/attacca/attacca.h include/attacca/attacca.hpp include/attacca/out.cuh
        DESTINATION include/attacca)
install(FILES LICENSE DESTINATION share/doc/attacca RENAME copyright)
install(DIRECTORY ${ATTACCA_TEMPLATE_DIR}/ DESTINATION share/attacca/templates OPTIONAL
        FILES_MATCHING PATTERN "*.json" PATTERN "*.ptx" PATTERN "templates.index"
        PATTERN "libattacca_templates.so")
install(DIRECTORY src/tune/shipped/ DESTINATION share/attacca/tuned
        FILES_MATCHING PATTERN "*.choices")

set(ATTACCA_PACKAGE_DIR lib/cmake/attacca)
install(EXPORT attacca NAMESPACE attacca:: FILE attaccaTargets.cmake
        DESTINATION ${ATTACCA_PACKAGE_DIR})
configure_package_config_file(cmake/attaccaConfig.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/attaccaConfig.cmake
                              INSTALL_DESTINATION ${ATTACCA_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/attaccaConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attaccaConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/attaccaConfigVersion.cmake
        DESTINATION ${ATTACCA_PACKAGE_DIR})

# `make package`: the same as a tarball and as a Debian package, whose dependencies are read from
# the binaries. The GPU's libraries are not among them: they are opened at run time.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME attacca)
set(CPACK_PACKAGE_VENDOR Attacca)
set(CPACK_PACKAGE_CONTACT "Attacca maintainers <attacca@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libcuda1, graphviz")
include(CPack)
