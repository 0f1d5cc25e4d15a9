/* Updaters by name with their default keys, and one range to update. */
#pragma once

#include "base/philox.h"
#include "optim/updater.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Sets the team size in the OpenMP runtime of the library. */
static inline void set_threads(int threads)
{
    void (*set)(int);
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    assert_non_null(set);
    set(threads);
}

static inline const struct sw_updater *find_updater(const char *name)
{
    for (int i = 0; sw_updaters[i]; i++)
        if (strcmp(sw_updaters[i]->base.name, name) == 0)
            return sw_updaters[i];
    fail_msg("no updater is named %s", name);
    return NULL;
}

/* Returns a conf with default keys, except that `key` (or NULL) is set to value. All keys of
 * updaters are numbers. */
static inline void *updater_conf(const struct sw_updater *u, const char *key, double value)
{
    void *conf = calloc(1, u->base.conf_bytes + 1);
    assert_non_null(conf);
    bool found = !key;
    for (const struct sw_opt *o = u->base.opts; o && o->key; o++) {
        bool it = key && strcmp(o->key, key) == 0;
        assert_int_equal(o->type, SW_OPT_REAL);
        *(double *)((char *)conf + o->offset) = it ? value : strtod(o->def, NULL);
        found = found || it;
    }
    assert_true(found);
    return conf;
}

/* Returns random values between -1/2 and 1/2. */
static inline float *noise(uint32_t row, int64_t count)
{
    float *x = malloc((size_t)count * sizeof *x);
    struct sw_philox key = sw_philox_stream(1, SW_PURPOSE_TEST, 0);
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = sw_philox_uniform(sw_philox_word(key, 0, row, (uint32_t)i)) - 0.5f;
    return x;
}
