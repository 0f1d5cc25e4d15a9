/* Lookups in a schema: kinds, types and option rows by name, and the candidates for "did you mean".
 * Pure functions over const tables. */
#pragma once

#include "base/str.h"
#include "recipe/diag.h"
#include "recipe/schema.h"

struct sw_recipe;
struct sw_section;

/* Candidates for "did you mean"; the array is on the heap and freed by sw_words_fini. */
struct sw_words {
    const char **items; /* owned array of borrowed words */
    int count;
    bool failed;
};

void sw_words_fini(struct sw_words *w);
void sw_words_add(struct sw_words *w, const char *word);
void sw_words_add_opts(struct sw_words *w, const struct sw_opt *opts);
void sw_words_add_types(struct sw_words *w, const struct sw_type *const *types);
/* Calls sw_hint_near with the words and frees them; a failed allocation sets r->pool.failed. */
void sw_words_hint(struct sw_recipe *r, struct sw_words *w, const char *word, const char *label);

/* Adds a hint to the message added last: "did you mean 'X'?" if a candidate is near the word or
 * begins with it, else "LABEL: a, b, c", or no hint if label is NULL. */
void sw_hint_near(struct sw_diags *d, const char *word, const char *const *candidates, int count,
                  const char *label);

/* Finds the row with that name in a table; NULL: none. `kind` has `bytes` characters. */
const struct sw_schema_kind *sw_schema_find(const struct sw_schema *s, const char *kind,
                                            size_t bytes, enum sw_section_form form);
const struct sw_opt *sw_opts_find(const struct sw_opt *opts, const char *key);
const struct sw_type *sw_types_find(const struct sw_type *const *types, const char *name);
/* The row of PARAM.KEY in a type, with the parameter's number; NULL when it has none. */
const struct sw_opt *sw_param_find(const struct sw_schema_kind *k, const struct sw_type *type,
                                   const char *key, int *param);
/* Slot of a type key ("type", "policy"), or -1. */
int sw_type_slot(const struct sw_schema_kind *k, const char *key);
/* Whether the type in that slot has the key, as its own or for a parameter. */
bool sw_type_has_key(const struct sw_schema_kind *k, int slot, const struct sw_type *type,
                     const char *key);
/* Whether the section takes the key: a common one, a type key, or one of its types. */
bool sw_section_has_key(const struct sw_section *s, const char *key);
/* Whether any section of the kind may have the key: common, a type key, or of any type. */
bool sw_kind_has_key(const struct sw_schema_kind *k, const char *key);
/* The next row with that key anywhere in the kind; *step counts the rows returned so far and begins
 * at 0. */
const struct sw_opt *sw_kind_row(const struct sw_schema_kind *k, const char *key, int *step);
