# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
build_project(${CMAKE_CURRENT_LIST_DIR}/embedded ${WORK}/build -DPARLIN_SOURCE=${SOURCE})
run(${WORK}/build/alone)
run(${MPIEXEC} -n 2 ${WORK}/build/ranks)
# Nothing but the library comes along.
foreach(extra examples/01_linear tools/parlin-info)
  file(GLOB_RECURSE found ${WORK}/build/*/${extra})
  if(found)
    message(FATAL_ERROR "built within another project: ${found}")
  endif()
endforeach()
