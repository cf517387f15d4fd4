# SPDX-License-Identifier: Apache-2.0
# How every target of the project is compiled: C11, warnings, sanitizers.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(parlin_compile INTERFACE)
target_compile_definitions(parlin_compile INTERFACE _POSIX_C_SOURCE=200809L)
target_compile_options(parlin_compile INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wwrite-strings -Wvla -Wformat=2>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${PARLIN_WERROR}>>:-Werror>
  # One rounding an operation, on every compiler: fma only where the code says so.
  -ffp-contract=off)
if(PARLIN_SANITIZE)
  target_compile_options(parlin_compile INTERFACE -fsanitize=${PARLIN_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(parlin_compile INTERFACE -fsanitize=${PARLIN_SANITIZE})
endif()
