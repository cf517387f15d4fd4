# SPDX-License-Identifier: Apache-2.0
# cmake -DOUTPUT=x.c "-DFILES=a.cl|b.cl" -P embed.cmake
string(REPLACE "|" ";" files "${FILES}")
set(arrays "")
set(table "")
set(index 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "static const unsigned char file_${index}[] = {\n${bytes}0x00};\n")
  string(APPEND table "    {\"${name}\", (const char *)file_${index}, ${size}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUTPUT}.new" "/* Made from kernels/ by cmake/embed.cmake. */
#include \"device/kernel_files.h\"

${arrays}
const pl_kernel_file pl_kernel_files[] = {
${table}};
const size_t pl_kernel_file_count = ${index};
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
