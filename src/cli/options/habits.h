/* Verbs and options as users of other programs type them: what this program calls them, for
 * messages. Pure functions over const tables. */
#pragma once

#include "base/str.h"
#include <stdbool.h>

/* The verb that does what `word` does elsewhere ("train": "run"), or NULL. */
const char *sw_habit_verb(const char *word);

/* Appends what to write instead of the unknown option --NAME, such as "--set job.epochs=VALUE", if
 * it is a habit or the name of a key of the recipe. `takes` tells whether the verb has an option of
 * that name. Returns false, with nothing appended, if there is no advice. */
bool sw_habit_option(const char *name, bool (*takes)(const void *user, const char *option),
                     const void *user, struct sw_bytes *out);
