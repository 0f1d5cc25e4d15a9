/* Where every value of a recipe comes from, for `singa-ws explain`: the rows that its sections were
 * bound by, in their order, each with the value that has the last word, who gave it, and what it
 * replaced. It asks the tables and the bound structs themselves, so it cannot disagree with what a
 * run would do. Call it after sw_job_settle, which fills in defaults that depend on others. For a
 * recipe without errors; any thread. */
#pragma once

#include "recipe/recipe.h"

struct sw_value;

struct sw_explained {
    const char *kind, *name; /* of the section; name may be NULL; "vars" has no row */
    const char *key;
    const char *value;        /* as it would be written; NULL: not given */
    const struct sw_opt *row; /* NULL for a key that chooses a type, and for a variable */
    enum sw_origin origin;
    struct sw_place where;        /* but for a default */
    const struct sw_value *below; /* what it replaced; NULL: nothing */
};

typedef void sw_explain_visit(void *user, const struct sw_explained *e);

/* Calls visit for every value; texts are borrowed during the call. Errors: SW_ERR_NOMEM. */
int sw_recipe_explain(const struct sw_recipe *recipe, sw_explain_visit *visit, void *user,
                      struct sw_err *err) SW_MUST_CHECK;
/* Turns *e into the value that it replaced (as it was written), or answers false. */
bool sw_explained_below(struct sw_explained *e);
/* "recipes/lenet.ini:5", "--set job.steps=10", "default". */
void sw_explained_from(const struct sw_explained *e, struct sw_buf *out);
/* default, include, recipe, fallback, set, option. */
const char *sw_origin_name(enum sw_origin origin);
