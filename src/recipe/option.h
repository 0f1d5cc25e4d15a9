/* Option rows: one table per struct drives parsing, defaults, range checks, messages, "did you
 * mean", `singa-ws layers X` and the reference pages. Tables are const and may be read by any
 * thread; binding happens once at set-up, on one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_opt_type {
    SW_OPT_INT,     /* int64_t */
    SW_OPT_REAL,    /* double */
    SW_OPT_BOOL,    /* bool */
    SW_OPT_STRING,  /* const char *, owned by the recipe; NULL when unset without default */
    SW_OPT_ENUM,    /* int: index into choices */
    SW_OPT_BYTES,   /* int64_t, written 4GB, 512MB, 1024 */
    SW_OPT_STRINGS, /* struct sw_strings: comma-separated, blanks trimmed */
    SW_OPT_REALS,   /* struct sw_reals: comma-separated */
    SW_OPT_PATH,    /* const char *: as STRING, names a file or folder (recipe/files.c) */
    SW_OPT_PATHS,   /* struct sw_strings: as STRINGS, names files or folders */
};

struct sw_strings {
    const char *const *items; /* owned by the recipe */
    int count;
};

struct sw_reals {
    const double *items; /* owned by the recipe */
    int count;
};

struct sw_opt {
    const char *key;  /* NULL ends a table */
    const char *help; /* one line; says the unit */
    size_t offset;    /* in the struct the table fills */
    enum sw_opt_type type;
    const char *def; /* as written in a recipe; NULL: zero, empty or unset. A number outside
                        min..max means "not given" */
    double min, max; /* INT, REAL, BYTES, REALS (each item); both 0: no limit;
                        max below min: no upper limit; infinities are fine */
    const char *const *choices; /* ENUM: NULL-terminated; INT: words for 0, "not given"; or NULL */
    bool required;              /* an error when absent */
    bool above_min, below_max;  /* the limit itself is not allowed */
    const char *hint;           /* under an error about the value: what to write; or NULL */
    /* PATH, PATHS: */
    bool written; /* the program makes the file, so it is not looked for in SINGA_DATA */
    size_t (*path_at)(const char *item); /* bytes of an item before its path, its length if it is
                                            no path; NULL: the item is a path */
};

/* An option row that fills the member `member` of `conf`: the kind (INT for SW_OPT_INT), the help,
 * then other members by name. The key is the name of the member, or given. */
#define SW_OPT(kind, conf, member, ...) SW_OPT_KEY(kind, #member, conf, member, __VA_ARGS__)
#define SW_OPT_KEY(kind, key_, conf, member, ...)                                                  \
    {                                                                                              \
        .key = key_, .type = SW_OPT_##kind, .offset = offsetof(conf, member), .help = __VA_ARGS__  \
    }

/* A choice of `type =` (or format, policy): a layer type, a data format, an updater, a schedule.
 * Every descriptor has one of these as its first member, so a registry is an array of pointers. */
struct sw_type {
    const char *name;
    const char *help;          /* one line */
    const struct sw_opt *opts; /* NULL: no keys of its own */
    size_t conf_bytes;         /* of the zeroed struct that opts fill */
    const char *const
        *params; /* NULL-terminated parameter names that take PARAM.init, ...; or NULL */
};

/* A type with keys of its own, which fill a `conf`: the option table comes last, then other members
 * by name. */
#define SW_TYPE(name_, help_, conf, ...)                                                           \
    {                                                                                              \
        .name = name_, .help = help_, .conf_bytes = sizeof(conf), .opts = __VA_ARGS__              \
    }
