# SPDX-License-Identifier: Apache-2.0
# What an installation holds: headers, both libraries, parlin-info, parlinConfig.cmake, parlin.pc.
# It can be moved as a whole.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/parlin DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(TARGETS parlin parlin_static EXPORT parlinTargets)
if(TARGET parlin-info)
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(parlin-info PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS parlin-info)
endif()

# find_package(parlin)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/parlin)
install(EXPORT parlinTargets NAMESPACE parlin:: DESTINATION ${cmake_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/parlinConfig.cmake.in
  ${PROJECT_BINARY_DIR}/parlinConfig.cmake INSTALL_DESTINATION ${cmake_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/parlinConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/parlinConfig.cmake ${PROJECT_BINARY_DIR}/parlinConfigVersion.cmake
        DESTINATION ${cmake_folder})

# pkg-config. A static link needs the libraries below ours, as -L and -l.
function(parlin_link_flags out_variable)
  set(flags "")
  foreach(library IN LISTS ARGN)
    get_filename_component(folder "${library}" DIRECTORY)
    if(folder AND NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND flags "-L${folder}")
    endif()
    if(folder)
      get_filename_component(name "${library}" NAME)
      string(REGEX REPLACE "^lib(.*)\\.(so|a|dylib)[.0-9]*$" "\\1" name "${name}")
      list(APPEND flags "-l${name}")
    elseif(library MATCHES "^-")
      list(APPEND flags "${library}")
    else()
      list(APPEND flags "-l${library}")
    endif()
  endforeach()
  list(JOIN flags " " flags)
  set(${out_variable} "${flags}" PARENT_SCOPE)
endfunction()

get_target_property(clblast_file clblast IMPORTED_LOCATION)
if(NOT clblast_file)
  get_target_property(clblast_configurations clblast IMPORTED_CONFIGURATIONS)
  list(GET clblast_configurations 0 clblast_configuration)
  get_target_property(clblast_file clblast IMPORTED_LOCATION_${clblast_configuration})
endif()
parlin_link_flags(PARLIN_PC_PRIVATE ${clblast_file} ${CJSON_LINK_LIBRARIES} ${OpenCL_LIBRARIES} ${MPI_C_LIBRARIES}
                  ${CMAKE_THREAD_LIBS_INIT} m)
file(RELATIVE_PATH PARLIN_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PARLIN_PC_PREFIX "${PARLIN_PC_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/parlin.pc.in ${PROJECT_BINARY_DIR}/parlin.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/parlin.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
