/* All values of a run's recipe, defaults included, for comparing runs. One owner. */
#pragma once

#include "history/reader.h"

/* Zero-initialise; free with sw_settings_fini. */
struct sw_settings {
    struct sw_setting {
        char *key, *value; /* "layer.fc1.outputs"; value is NULL if none is given */
    } * items;             /* owned, in the order of the recipe */
    int count;
    bool failed; /* out of memory */
};

/* Reads the recipe stored for the run, with its overrides. Errors: those of reading a recipe (an
 * older program may have known keys that this one does not), SW_ERR_NOTFOUND (none is stored). */
int sw_settings_load(struct sw_settings *s, const struct sw_run *run,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_settings_fini(struct sw_settings *s);
/* NULL if the recipe has no such key. */
const struct sw_setting *sw_settings_find(const struct sw_settings *s, const char *key);
