/* Recorded machines of the shared data. Include once per program. */
#pragma once

#include "machine/machine.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct sw_machine *from(const char *source)
{
    struct sw_machine *m = NULL;
    struct sw_err err = {0};
    if (sw_machine_from(source, &m, &err) != SW_OK)
        fail_msg("%s", err.text);
    return m;
}

/* Loads the machine; NULL (with a printed reason) if shared data is missing. */
static struct sw_machine *recorded(const char *name)
{
    const char *root = getenv("SINGA_DATA");
    char path[512];
    if (root && root[0])
        snprintf(path, sizeof path, "%s/topologies/%s", root, name);
    else
        snprintf(path, sizeof path, "%s/../shared/data/topologies/%s", SW_SOURCE_DIR, name);
    if (access(path, R_OK) == 0)
        return from(path);
    print_message("skipped: %s is not there (set SINGA_DATA)\n", path);
    return NULL;
}
