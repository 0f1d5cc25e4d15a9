/* What a recipe may name, in the groups that users see: registries of types with the tables of
 * their sections, and sections without types. Const tables, the same that bind and check
 * recipes. */
#pragma once

#include "recipe/option.h"

/* A registry, and the tables that its sections have besides the type's own. */
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

/* Both end with name NULL. */
extern const struct sw_catalogue_group sw_catalogue_groups[];
extern const struct sw_catalogue_section sw_catalogue_sections[];
