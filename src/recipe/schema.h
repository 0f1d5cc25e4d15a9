/* What a recipe may contain: the kinds of sections with their option tables. The layers above own
 * the tables and registries and pass them in; src/recipe only reads them. A schema is const and may
 * be read by any thread. `[vars]`, `[fallback]` and `[stage NAME]` belong to the language itself
 * and are in no schema. */
#pragma once

#include "recipe/option.h"
#include <stdbool.h>
#include <stddef.h>

enum { SW_SECTION_TYPES = 2 };

enum sw_section_form {
    SW_SECTION_ONE,   /* [job]: bound from defaults when the recipe has none */
    SW_SECTION_NAMED, /* [layer NAME]: any number */
};

/* One kind of section. A kind word may occur twice, once as ONE and once as NAMED ([updater] and
 * [updater PATTERN]). A key may be a common one, one of either type, or PARAM.KEY for the
 * parameters of type[0]; a key found in several tables fills all of them. */
struct sw_schema_kind {
    const char *kind; /* "layer" */
    enum sw_section_form form;
    bool required;                          /* ONE: must be written; NAMED: at least one must be */
    const struct sw_opt *opts;              /* keys of every section of the kind; NULL: none */
    size_t conf_bytes;                      /* of the zeroed struct that opts fill */
    const char *type_key[SW_SECTION_TYPES]; /* "type", "policy"; NULL: no such key */
    const char *type_default[SW_SECTION_TYPES];           /* NULL: the key is required */
    const struct sw_type *const *types[SW_SECTION_TYPES]; /* NULL-terminated registries */
    const struct sw_opt *param_opts; /* init, std, lr_mult ...; NULL: parameters take no keys */
    size_t param_bytes;
    /* If fallback_key ("fallback") is set, a section may contain `fallback = TYPE PATH, TYPE`. If
     * none of the files in paths_key ("paths", comma-separated) exists, type_key[0] becomes the
     * first TYPE whose PATH exists, with that path as its files, or that needs no path. The key
     * needs no row in opts. */
    const char *fallback_key, *paths_key;
    /* NAMED: opts has a list `stages` of patterns; the section exists only in matching stages. */
    bool staged;
};

struct sw_schema {
    const struct sw_schema_kind *kinds;
    int count;
};
