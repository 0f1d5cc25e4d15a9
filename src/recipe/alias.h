/* Names of SINGA, Caffe, Poseidon and PyTorch that a recipe calls otherwise: one const table, read
 * only when a key, a value or a kind of section is unknown. It gives hints and never changes what a
 * recipe means. Any thread may read it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum sw_alias_kind {
    SW_ALIAS_KEY,     /* a key */
    SW_ALIAS_VALUE,   /* a value of `key`: a type, a policy or a choice */
    SW_ALIAS_SECTION, /* a kind of section */
    SW_ALIAS_NOTE,    /* a key without a counterpart */
};

struct sw_alias {
    const char *name;   /* in the other system: "num_output" */
    const char *system; /* "Caffe" */
    enum sw_alias_kind kind;
    const char *section; /* kind of the section that has the counterpart: "layer" */
    const char *key;     /* KEY: the counterpart, "outputs"; VALUE: "type"; else NULL */
    const char *value;   /* VALUE: the counterpart, "activation"; NOTE: the advice; else NULL */
    const char *extra;   /* VALUE: a line that must be added, "function = relu"; or NULL */
};

/* All rows, for tests. */
const struct sw_alias *sw_aliases(size_t *count);
/* The next row of that kind and name after `last` (NULL: the first); NULL when none is left. */
const struct sw_alias *sw_alias_next(const struct sw_alias *last, enum sw_alias_kind kind,
                                     const char *name);
/* Whether `name` is another system's name for the key in sections of that kind. */
bool sw_alias_means(const char *section, const char *name, const char *key);
