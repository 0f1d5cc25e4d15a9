/* Where every value of a recipe comes from, for `singa-ws explain`: the option rows of each section
 * in order, each with the value that takes effect, its origin, and what it replaced. It reads the
 * same tables and bound structs that a run uses. Call it after sw_job_apply_rules, which fills in
 * defaults that depend on other keys, and only for a recipe without errors. Any thread. */
#pragma once

#include "recipe/recipe.h"

struct sw_value;

struct sw_explained {
    const char *kind, *name; /* of the section; name may be NULL; "vars" has no row */
    const char *key;
    const char *value;        /* as it would be written, files where they are; NULL: not given */
    const char *written;      /* of files: as it was written; NULL: like value */
    const char *found;        /* of files: "relative to the recipe"; NULL: absolute, or no files */
    const struct sw_opt *row; /* NULL for a key that chooses a type, and for a variable */
    enum sw_origin origin;
    struct sw_place where;        /* not set for a default */
    const struct sw_value *below; /* what it replaced; NULL: nothing */
};

typedef void sw_explain_visit(void *user, const struct sw_explained *e);

/* Calls visit for every value; texts are borrowed during the call. Errors: SW_ERR_NOMEM. */
int sw_recipe_explain(const struct sw_recipe *recipe, sw_explain_visit *visit, void *user,
                      struct sw_err *err) SW_MUST_CHECK;
/* Turns *e into the value that it replaced, as that was written; returns false if there is none. */
bool sw_explained_replaced(struct sw_explained *e);
/* "recipes/lenet.ini:5", "--set job.steps=10", "default". */
void sw_explained_from(const struct sw_explained *e, struct sw_bytes *out);
/* default, include, recipe, fallback, set, option. */
const char *sw_origin_name(enum sw_origin origin);
