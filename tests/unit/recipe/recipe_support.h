/* A small schema of the tests' own, with every kind of key, and helpers to load a recipe text
 * against it without the environment or files of the machine. */
#pragma once

#include "base/os.h"
#include "recipe/job.h"
#include "recipe/recipe.h"
#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- [layer NAME] ---- */

struct toy_layer {
    struct sw_strings src, stages;
    int include;
};
struct toy_conv {
    int64_t outputs, kernel;
    bool bias;
};
struct toy_pool {
    int method;
    int64_t kernel, kernel_x;
};
struct toy_fc {
    int64_t outputs;
};
struct toy_dropout {
    double ratio;
};
struct toy_param {
    int init;
    double std, lr_mult;
};

static const char *const toy_phases[] = {"both", "train", "eval", NULL};
static const char *const toy_methods[] = {"max", "avg", NULL};
static const char *const toy_inits[] = {"constant", "gaussian", "xavier", NULL};
static const char *const toy_weights[] = {"weight", "bias", NULL};

#define TOY(struct_, key_) .key = #key_, .offset = offsetof(struct struct_, key_)

static const struct sw_opt toy_layer_opts[] = {
    {TOY(toy_layer, src), .type = SW_OPT_STRINGS, .help = "layers to read from"},
    {TOY(toy_layer, stages), .type = SW_OPT_STRINGS},
    {TOY(toy_layer, include), .type = SW_OPT_ENUM, .def = "both", .choices = toy_phases},
    {.key = NULL},
};
static const struct sw_opt toy_conv_opts[] = {
    {TOY(toy_conv, outputs), .type = SW_OPT_INT, .min = 1, .max = INFINITY, .required = true,
     .help = "feature maps to make"},
    {TOY(toy_conv, kernel), .type = SW_OPT_INT, .min = 1, .max = 1000, .required = true},
    {TOY(toy_conv, bias), .type = SW_OPT_BOOL, .def = "yes"},
    {.key = NULL},
};
static const struct sw_opt toy_pool_opts[] = {
    {TOY(toy_pool, method), .type = SW_OPT_ENUM, .def = "max", .choices = toy_methods},
    {TOY(toy_pool, kernel), .type = SW_OPT_INT, .def = "2", .min = 1, .max = INFINITY},
    /* A default outside the range: not given. */
    {TOY(toy_pool, kernel_x), .type = SW_OPT_INT, .def = "-1", .min = 1, .max = INFINITY},
    {.key = NULL},
};
static const struct sw_opt toy_fc_opts[] = {
    {TOY(toy_fc, outputs), .type = SW_OPT_INT, .min = 1, .max = 0, .required = true,
     .help = "numbers to make"},
    {.key = NULL},
};
static const struct sw_opt toy_dropout_opts[] = {
    {TOY(toy_dropout, ratio), .type = SW_OPT_REAL, .def = "0.5", .min = 0, .max = 1,
     .below_max = true},
    {.key = NULL},
};
static const struct sw_opt toy_param_opts[] = {
    {TOY(toy_param, init), .type = SW_OPT_ENUM, .def = "constant", .choices = toy_inits},
    {TOY(toy_param, std), .type = SW_OPT_REAL, .def = "0.01", .min = 0, .max = INFINITY},
    {TOY(toy_param, lr_mult), .type = SW_OPT_REAL, .def = "1"},
    {.key = NULL},
};

static const struct sw_type toy_input = {.name = "input", .help = "a field of the data"};
static const struct sw_type toy_conv_type = {.name = "convolution",
                                             .help = "filters slid over an image",
                                             .opts = toy_conv_opts,
                                             .conf_bytes = sizeof(struct toy_conv),
                                             .params = toy_weights};
static const struct sw_type toy_pool_type = {
    .name = "pooling", .opts = toy_pool_opts, .conf_bytes = sizeof(struct toy_pool)};
static const struct sw_type toy_fc_type = {.name = "inner_product",
                                           .opts = toy_fc_opts,
                                           .conf_bytes = sizeof(struct toy_fc),
                                           .params = toy_weights};
static const struct sw_type toy_dropout_type = {
    .name = "dropout", .opts = toy_dropout_opts, .conf_bytes = sizeof(struct toy_dropout)};
static const struct sw_type *const toy_layers[] = {&toy_input,   &toy_conv_type,    &toy_pool_type,
                                                   &toy_fc_type, &toy_dropout_type, NULL};

/* ---- [data NAME] ---- */

struct toy_data {
    double scale;
    bool shuffle;
    struct sw_reals mean;
};
struct toy_idx {
    struct sw_strings paths;
    const char *labels;
    int64_t cache;
};
struct toy_synthetic {
    int64_t records;
};

static const struct sw_opt toy_data_opts[] = {
    {TOY(toy_data, scale), .type = SW_OPT_REAL, .def = "1"},
    {TOY(toy_data, shuffle), .type = SW_OPT_BOOL, .def = "no"},
    {TOY(toy_data, mean), .type = SW_OPT_REALS, .min = -255, .max = 255},
    {.key = NULL},
};
static const struct sw_opt toy_idx_opts[] = {
    {TOY(toy_idx, paths), .type = SW_OPT_PATHS, .required = true},
    {TOY(toy_idx, labels), .type = SW_OPT_PATH, .required = true},
    {TOY(toy_idx, cache), .type = SW_OPT_BYTES, .def = "64MiB", .min = 0, .max = INFINITY},
    {.key = NULL},
};
static const struct sw_opt toy_synthetic_opts[] = {
    {TOY(toy_synthetic, records), .type = SW_OPT_INT, .def = "1000", .min = 1, .max = INFINITY},
    {.key = NULL},
};
static const struct sw_type toy_idx_type = {
    .name = "idx", .opts = toy_idx_opts, .conf_bytes = sizeof(struct toy_idx)};
static const struct sw_type toy_synthetic_type = {
    .name = "synthetic", .opts = toy_synthetic_opts, .conf_bytes = sizeof(struct toy_synthetic)};
static const struct sw_type *const toy_formats[] = {&toy_idx_type, &toy_synthetic_type, NULL};

/* ---- [updater] and [updater PATTERN] ---- */

struct toy_updater {
    double lr;
};
struct toy_sgd {
    double momentum;
};
struct toy_step {
    double gamma;
    int64_t every;
};
struct toy_match {
    double lr_mult;
};

static const struct sw_opt toy_updater_opts[] = {
    {TOY(toy_updater, lr), .type = SW_OPT_REAL, .min = 0, .max = -1, .above_min = true,
     .required = true},
    {.key = NULL},
};
static const struct sw_opt toy_sgd_opts[] = {
    {TOY(toy_sgd, momentum), .type = SW_OPT_REAL, .def = "0", .min = 0, .max = 1},
    {.key = NULL},
};
static const struct sw_opt toy_step_opts[] = {
    {TOY(toy_step, gamma), .type = SW_OPT_REAL, .required = true},
    {TOY(toy_step, every), .type = SW_OPT_INT, .def = "100", .min = 1, .max = INFINITY},
    {.key = NULL},
};
static const struct sw_opt toy_match_opts[] = {
    {TOY(toy_match, lr_mult), .type = SW_OPT_REAL, .def = "1"},
    {.key = NULL},
};
static const struct sw_type toy_sgd_type = {
    .name = "sgd", .opts = toy_sgd_opts, .conf_bytes = sizeof(struct toy_sgd)};
static const struct sw_type toy_plain_type = {.name = "plain"};
static const struct sw_type toy_fixed_type = {.name = "fixed"};
static const struct sw_type toy_step_type = {
    .name = "step", .opts = toy_step_opts, .conf_bytes = sizeof(struct toy_step)};
static const struct sw_type *const toy_updaters[] = {&toy_sgd_type, &toy_plain_type, NULL};
static const struct sw_type *const toy_policies[] = {&toy_fixed_type, &toy_step_type, NULL};

/* ---- The schema ---- */

static const struct sw_schema_kind toy_kinds[] = {
    SW_JOB_SCHEMA_KIND,
    {.kind = "data",
     .form = SW_SECTION_NAMED,
     .opts = toy_data_opts,
     .conf_bytes = sizeof(struct toy_data),
     .type_key = {"format"},
     .types = {toy_formats},
     .fallback_key = "fallback",
     .paths_key = "paths"},
    {.kind = "updater",
     .form = SW_SECTION_ONE,
     .opts = toy_updater_opts,
     .conf_bytes = sizeof(struct toy_updater),
     .type_key = {"type", "policy"},
     .type_default = {NULL, "fixed"},
     .types = {toy_updaters, toy_policies}},
    {.kind = "updater",
     .form = SW_SECTION_NAMED,
     .opts = toy_match_opts,
     .conf_bytes = sizeof(struct toy_match)},
    {.kind = "layer",
     .form = SW_SECTION_NAMED,
     .required = true,
     .opts = toy_layer_opts,
     .conf_bytes = sizeof(struct toy_layer),
     .type_key = {"type"},
     .types = {toy_layers},
     .param_opts = toy_param_opts,
     .param_bytes = sizeof(struct toy_param),
     .staged = true},
};
static const struct sw_schema toy_schema = {toy_kinds, sizeof(toy_kinds) / sizeof(toy_kinds[0])};

/* ---- Loading ---- */

#define TOY_JOB "[job]\nbatch = 10\nsteps = 100\n"
#define TOY_LAYER "[layer image]\ntype = input\n"

/* An environment of three names. */
static inline const char *toy_env(void *user, const char *name)
{
    if (strcmp(name, "DATA") == 0)
        return "/data";
    if (strcmp(name, "EMPTY") == 0)
        return "";
    return strcmp(name, "SINGA_DATA") == 0 ? "/singa" : NULL;
}

/* Names of files that exist, separated by blanks; everything else is missing. */
static const char *toy_files = "";

static inline int toy_stat(const char *path, struct stat *st)
{
    size_t bytes = strlen(path);
    memset(st, 0, sizeof(*st));
    for (const char *p = toy_files; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n == bytes && memcmp(p, path, n) == 0) {
            st->st_mode = S_IFREG | 0600;
            return 0;
        }
        p += n;
    }
    errno = ENOENT;
    return -1;
}

/* Puts toy_stat in place of the machine's; the files of the test are `files`. */
static inline void toy_use_files(const char *files)
{
    static struct sw_os os;
    os = sw_os_posix;
    os.stat = toy_stat;
    toy_files = files;
    sw_os_set(&os);
}

static inline struct sw_recipe_source toy_source(const char *text, const char *const *sets)
{
    struct sw_recipe_source s = {
        .path = "x.ini", .text = text, .text_bytes = strlen(text), .sets = sets, .env = toy_env};
    while (sets && sets[s.set_count])
        s.set_count++;
    return s;
}

/* Loads a text with a NULL-terminated list of --set texts (or NULL). */
static inline int toy_load(const char *text, const char *const *sets, struct sw_recipe **out)
{
    struct sw_recipe_source s = toy_source(text, sets);
    struct sw_err err;
    return sw_recipe_load(&s, &toy_schema, out, &err);
}
