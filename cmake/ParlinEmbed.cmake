# SPDX-License-Identifier: Apache-2.0
# parlin_embed(OUT_VARIABLE FILE...): one C file that holds the given kernel files as byte arrays and a
# table of them (see src/device/kernel_files.h). Remade whenever one of the files changes.
set(PARLIN_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed.cmake)
function(parlin_embed out_variable)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/kernel_files.c)
  string(REPLACE ";" "|" files "${ARGN}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} "-DFILES=${files}" -P ${PARLIN_EMBED_SCRIPT}
    DEPENDS ${ARGN} ${PARLIN_EMBED_SCRIPT}
    COMMENT "Embedding kernels" VERBATIM)
  set(${out_variable} ${output} PARENT_SCOPE)
endfunction()
