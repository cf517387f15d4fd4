/* SPDX-License-Identifier: Apache-2.0 */
/* The PARLIN_* environment variables. This is the only place that reads the environment. */
#ifndef PL_CORE_OPTION_H
#define PL_CORE_OPTION_H

#include <stdbool.h>

/* The one table: identifier, variable, values, meaning. docs/environment.md is checked against
   it. */
#define PL_OPTION_TABLE(X)                                                                         \
    X(PL_OPTION_DEVICE, "PARLIN_DEVICE", "SPEC", "which device to open; see parlin_device_open")   \
    X(PL_OPTION_LOG, "PARLIN_LOG", "none|warn|info|debug", "what is written to stderr")            \
    X(PL_OPTION_ENGINE, "PARLIN_ENGINE", "auto|plain|clblast", "force one product engine")         \
    X(PL_OPTION_KERNELS, "PARLIN_KERNELS", "FOLDER",                                               \
      "read kernels from here, not from the library")                                              \
    X(PL_OPTION_CACHE, "PARLIN_CACHE", "on|off", "keep built programs on disk")                    \
    X(PL_OPTION_CACHE_DIR, "PARLIN_CACHE_DIR", "FOLDER", "where they are kept")                    \
    X(PL_OPTION_XDG_CACHE_HOME, "XDG_CACHE_HOME", "FOLDER", "parent of the default cache folder")  \
    X(PL_OPTION_HOME, "HOME", "FOLDER", "its .cache is used without XDG_CACHE_HOME")

typedef enum pl_option_id {
#define PL_OPTION_ENUM(id, variable, values, meaning) id,
    PL_OPTION_TABLE(PL_OPTION_ENUM)
#undef PL_OPTION_ENUM
        PL_OPTION_COUNT
} pl_option_id;

/* The variable's text, or NULL where it is unset or empty. */
const char *pl_option(pl_option_id id);

/* The variable's name, for messages. */
const char *pl_option_name(pl_option_id id);

/* An on|off variable; a bad value is warned about once and answered with `otherwise`. */
bool pl_option_flag(pl_option_id id, bool otherwise);

#endif
