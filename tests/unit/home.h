/* A temporary home for a test program: a folder for state, history and runtime files. home_begin
 * makes it, home_end removes it with everything in it. Include once per program. */
#pragma once

#include "base/err.h"
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char home_dir[64];

static inline int home_begin(void **state)
{
    strcpy(home_dir, "/tmp/singa-home-XXXXXX");
    if (!mkdtemp(home_dir))
        return -1;
    setenv("HOME", home_dir, 1);
    setenv("XDG_STATE_HOME", home_dir, 1);
    setenv("XDG_RUNTIME_DIR", home_dir, 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    unsetenv("SINGA_DB");
    return 0;
}

static inline int home_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static inline int home_end(void **state)
{
    return nftw(home_dir, home_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* A path in the folder; valid until the 64th call after this one. */
static inline char *in_home(const char *fmt, ...) SW_PRINTF(1, 2);
static inline char *in_home(const char *fmt, ...)
{
    static char paths[64][512];
    static unsigned next;
    char *path = paths[next++ % 64], name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    snprintf(path, sizeof paths[0], "%s/%s", home_dir, name);
    return path;
}
