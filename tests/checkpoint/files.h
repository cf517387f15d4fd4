/* SPDX-License-Identifier: Apache-2.0 */
/* Files for the tests of checkpoints, sound and hostile ones, in a folder of this process's own. */
#ifndef FILES_H
#define FILES_H

#include "support.h"

/* The folder, made at the first call. files_remove, at the end of a program, removes it with all
   that was made through files_path. */
const char *files_folder(void);
void files_remove(void);

/* "<folder>/<name>"; holds until the end. */
const char *files_path(const char *name);

/* A folder within. */
const char *files_make_folder(const char *name);

/* Writes these bytes; the value is the path. */
const char *files_write(const char *name, const void *bytes, size_t count);

/* Header length, header, then data. data NULL: that many zeros, as a hole in the file. */
const char *files_safetensors(const char *name, const char *header, const void *data, size_t bytes);

/* The same with a header length that need not be true, and a header of any bytes. */
const char *files_raw(const char *name, uint64_t length, const void *header, size_t header_bytes,
                      const void *data, size_t bytes);

/* Opens; the call is to succeed. */
parlin_checkpoint *files_open(const char *path);

#endif
