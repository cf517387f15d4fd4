/* SPDX-License-Identifier: Apache-2.0 */
/* What a call answers: a status code, and one sentence about the last failure of this thread. */
#ifndef PARLIN_STATUS_H
#define PARLIN_STATUS_H

#if defined(__GNUC__)
#define PARLIN_API __attribute__((visibility("default")))
#else
#define PARLIN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The one table of status codes: name, value, meaning. */
#define PARLIN_STATUS_TABLE(X)                                                                     \
    X(PARLIN_SUCCESS, 0, "success")                                                                \
    X(PARLIN_ERROR_ARGUMENT, 1, "an argument or a configuration was refused")                      \
    X(PARLIN_ERROR_SHAPE, 2, "shapes or ranges do not fit each other")                             \
    X(PARLIN_ERROR_UNSUPPORTED, 3, "valid, but this device or this version cannot do it")          \
    X(PARLIN_ERROR_STATE, 4,                                                                       \
      "the call came at the wrong time: a part not loaded, MPI not started")                       \
    X(PARLIN_ERROR_MEMORY, 5, "host or device memory could not be had")                            \
    X(PARLIN_ERROR_NO_DEVICE, 6, "no device answers the request")                                  \
    X(PARLIN_ERROR_DEVICE, 7, "OpenCL or CLBlast reported a failure")                              \
    X(PARLIN_ERROR_BUILD, 8, "a kernel did not build; the message holds its log")                  \
    X(PARLIN_ERROR_COMM, 9, "MPI reported a failure")                                              \
    X(PARLIN_ERROR_MISMATCH, 10, "the ranks of a group called with different arguments")           \
    X(PARLIN_ERROR_GROUP_LOST, 11, "a collective ran out of time; the group is of no more use")    \
    X(PARLIN_ERROR_FILE, 12, "a file could not be read or is malformed")

typedef enum parlin_status {
#define PARLIN_STATUS_ENUM(name, value, meaning) name = value,
    PARLIN_STATUS_TABLE(PARLIN_STATUS_ENUM)
#undef PARLIN_STATUS_ENUM
} parlin_status;

/* The name of a status code, e.g. "PARLIN_ERROR_SHAPE". Never NULL. Not collective. */
PARLIN_API const char *parlin_status_string(parlin_status status);

/* What a status code means, in a few words. Never NULL. Not collective. */
PARLIN_API const char *parlin_status_meaning(parlin_status status);

/* One sentence about the last call of this thread that failed: the call, the values seen, the
   values wanted, and foreign error codes by name. "" before any failure; a call that succeeds
   leaves it as it is. The text belongs to the library and holds until this thread's next failing
   call. Not collective. */
PARLIN_API const char *parlin_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
