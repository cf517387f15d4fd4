/* SPDX-License-Identifier: Apache-2.0 */
/* Where the sentences of parlin_last_error are written: by the code that finds the fault. */
#ifndef PL_CORE_STATUS_H
#define PL_CORE_STATUS_H

#include <parlin/status.h>

/* Longest sentence kept, terminator included; a longer one (a build log) is cut at its end. */
#define PL_SENTENCE 8192

/* Writes the sentence of this thread's last error and returns `status`. */
__attribute__((format(printf, 2, 3))) parlin_status pl_error(parlin_status status,
                                                             const char *format, ...);

/* Forwards `status` from inside a function that returns one. */
#define PL_TRY(call)                                                                               \
    do {                                                                                           \
        parlin_status pl_try_status = (call);                                                      \
        if (pl_try_status != PARLIN_SUCCESS)                                                       \
            return pl_try_status;                                                                  \
    } while (0)

#endif
