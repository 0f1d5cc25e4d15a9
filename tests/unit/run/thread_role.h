/* The role of the calling thread, from its first instruction on: this program's sw_thread_start
 * replaces the library's, whose symbols come second, and calls it. Include once per program. */
#pragma once

#include "base/str.h"
#include "thread/thread.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local char thread_role[32]; /* "worker0.0", "prefetch train"; "" for the first */
static bool (*thread_refused)(const char *name); /* says which threads cannot be started, or NULL */

struct thread_of_role {
    char name[32];
    void (*main)(void *arg);
    void *arg;
};

static void thread_role_main(void *arg)
{
    struct thread_of_role t = *(struct thread_of_role *)arg;
    free(arg);
    snprintf(thread_role, sizeof thread_role, "%s", t.name);
    t.main(t.arg);
}

int sw_thread_start(struct sw_thread *t, const char *name, void (*main)(void *), void *arg,
                    struct sw_err *err)
{
    int (*real)(struct sw_thread *, const char *, void (*)(void *), void *, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_thread_start");
    if (thread_refused && thread_refused(name))
        return sw_err_set(err, SW_ERR_NOMEM, "cannot start thread %s: refused", name);
    struct thread_of_role *wrapped = malloc(sizeof *wrapped);
    *wrapped = (struct thread_of_role){.main = main, .arg = arg};
    snprintf(wrapped->name, sizeof wrapped->name, "%s", name);
    int rc = real(t, name, thread_role_main, wrapped, err);
    if (rc != SW_OK)
        free(wrapped);
    return rc;
}
