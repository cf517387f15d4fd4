/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int redirect(FILE *file)
{
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    if (saved < 0 || dup2(fileno(file), STDERR_FILENO) < 0)
        abort();
    return saved;
}

static void read_back(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

void capture(void (*act)(void *argument), void *argument, char *text, size_t size)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = redirect(file);
    act(argument);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    read_back(file, text, size);
}

void capture_fresh(const char *variable, const char *value, void (*act)(void *argument),
                   void *argument, char *text, size_t size)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        redirect(file);
        if (value)
            setenv(variable, value, 1);
        else
            unsetenv(variable);
        act(argument);
        fflush(stderr);
        _exit(0);
    }
    int state = -1;
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFEXITED(state));
    assert_int_equal(WEXITSTATUS(state), 0);
    read_back(file, text, size);
}
