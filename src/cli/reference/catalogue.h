/* The types and sections of recipes, in the groups that users see: registries of types with the
 * option tables of their sections, and sections without types. The tables are const, the same that
 * parse and check recipes. */
#pragma once

#include "recipe/option.h"

/* A registry, and the tables that its sections have in addition to that of the type. */
struct sw_catalogue_group {
    const char *name, *title;
    const struct sw_type *(*at)(int i);   /* NULL past the last one */
    const struct sw_opt *common, *params; /* or NULL */
    /* A layer's role; NULL for other groups. */
    const char *(*role)(int i);
};
/* Sections whose keys do not depend on a type. */
struct sw_catalogue_section {
    const char *name, *title, *help;
    const struct sw_opt *opts;
};

/* Tables that end with name NULL. */
extern const struct sw_catalogue_group sw_catalogue_groups[];
extern const struct sw_catalogue_section sw_catalogue_sections[];
