# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)
set(here ${CMAKE_CURRENT_LIST_DIR})

# An installation can be moved.
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
set(prefix ${WORK}/prefix)
file(RENAME ${WORK}/first ${prefix})
if(EXISTS ${prefix}/bin/parlin-info)
  run(${prefix}/bin/parlin-info)
endif()

# find_package: from C, from C where the headers of MPI and OpenCL are not, from C++ alone.
build_project(${here}/c ${WORK}/c -DCMAKE_PREFIX_PATH=${prefix})
run(${WORK}/c/alone)
run(${WORK}/c/alone_static)
run(${WORK}/c/ranks)
run(${MPIEXEC} -n 2 ${WORK}/c/ranks)
build_project(${here}/c ${WORK}/no_headers -DCMAKE_PREFIX_PATH=${prefix}
              -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_OpenCL=ON)
run(${WORK}/no_headers/alone)
build_project(${here}/cxx ${WORK}/cxx -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX})
run(${WORK}/cxx/headers)

# pkg-config. A program on <parlin/parlin.h> needs no other flags, one with MPI the MPI's compiler.
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
flags(parlin --cflags --libs parlin)
set(rpath -Wl,-rpath,${prefix}/${LIBDIR})
run(${CC} -std=c11 ${here}/c/alone.c -o ${WORK}/alone ${parlin} ${rpath})
run(${WORK}/alone)
run(${MPICC} -std=c11 ${here}/c/ranks.c -o ${WORK}/ranks ${parlin} ${rpath})
run(${WORK}/ranks)
run(${MPIEXEC} -n 2 ${WORK}/ranks)

# The same where only the static library is.
file(COPY ${prefix}/ DESTINATION ${WORK}/static)
file(GLOB shared ${WORK}/static/${LIBDIR}/libparlin.so*)
file(REMOVE ${shared})
set(ENV{PKG_CONFIG_PATH} ${WORK}/static/${LIBDIR}/pkgconfig)
flags(parlin --static --cflags --libs parlin)
run(${CC} -std=c11 ${here}/c/alone.c -o ${WORK}/alone_static ${parlin})
run(${WORK}/alone_static)
