# SPDX-License-Identifier: Apache-2.0
# Steps that the consumer tests share. Each stops the test where it fails, and prints what the
# command said.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nended with ${result}\n${output}")
  endif()
endfunction()

# configure(SOURCE BUILD ARGUMENT...), then builds.
function(build_project source build)
  run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${source} -B ${build} -DCMAKE_BUILD_TYPE=Debug
      -DCMAKE_C_COMPILER=${CC} ${ARGN})
  run(${CMAKE_COMMAND} --build ${build})
endfunction()

# flags(OUT_VARIABLE PKG_CONFIG_ARGUMENT...)
function(flags out_variable)
  execute_process(COMMAND ${PKG_CONFIG} ${ARGN} OUTPUT_VARIABLE output
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(output UNIX_COMMAND "${output}")
  set(${out_variable} "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
