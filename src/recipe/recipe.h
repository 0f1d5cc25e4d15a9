/* A recipe: INI text, overrides and a schema -> checked sections with filled structs.
 * Precedence of a value: default < included file < recipe < [fallback] < the stage < --set < other
 * options; among --set the last wins, and one that names a stage wins over one that does not. When
 * a file, [fallback] or --set changes a section's type, the old type's keys of lower precedence
 * that the new type lacks, or has with another kind of value, are dropped. `include = FILE` before
 * the first section reads that file first; FILE is relative to the folder of the including file. If
 * several files set a key, the last one wins; a section that several files contain is merged at its
 * first position.
 * `${NAME}` in a value expands a line of [vars] (which may use lines above it), then the
 * environment, in which `--set env.NAME=VALUE` replaces a variable; SINGA_DATA, when the
 * environment lacks it, is ./data, or ~/.local/share/singa-ws/data when only that exists. An
 * unknown variable is an error. Keys of the types PATH and PATHS name files; where a relative path
 * leads is described in recipe/files.c.
 * `--set SECTION.KEY=VALUE` takes the longest section of the recipe whose kind knows the rest as a
 * key; without one it creates the section.
 * `[stage NAME]` is a part of a run (stage.c): its lines are keys of [job], and SECTION.KEY of any
 * other section. A recipe is loaded for one of its stages; `stages = NAME, ...` in a section lists
 * the stages that contain the section.
 * All errors are collected (sw_recipe_diags); callers in higher layers add theirs with
 * sw_recipe_error, so that one run shows them all. Everything reachable from a recipe is owned by
 * it. Built and amended on one thread; read by any thread afterwards. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "recipe/diag.h"
#include "recipe/option.h"
#include "recipe/schema.h"
#include <stdbool.h>
#include <stddef.h>

struct sw_recipe;

/* Where the effective value comes from, in rising precedence. */
enum sw_origin {
    SW_FROM_DEFAULT,
    SW_FROM_INCLUDE,
    SW_FROM_RECIPE,
    SW_FROM_FALLBACK,
    SW_FROM_STAGE,
    SW_FROM_SET,
    SW_FROM_OPTION
};

/* One section, bound. Pointers are owned by the recipe. In a section with errors, a value that
 * could not be read has its default, and type[i] is NULL when the type is missing or unknown. */
struct sw_section {
    struct sw_recipe *recipe;
    const struct sw_schema_kind *schema;
    const char *kind;  /* "layer" */
    const char *name;  /* "fc6"; NULL in [job] */
    const char *title; /* "layer fc6": how messages begin */
    void *common;      /* schema->conf_bytes, filled by schema->opts; NULL when 0 bytes */
    const struct sw_type *type[SW_SECTION_TYPES];
    void *conf[SW_SECTION_TYPES]; /* type[i]->conf_bytes, filled by type[i]->opts; NULL when 0 bytes
                                   */
    int param_count;              /* names in type[0]->params, 0 when the kind has no param_opts */
    void **param_conf;            /* [param_count], each schema->param_bytes */
    int errors;                   /* messages about this section so far */
    struct sw_section *next;      /* all sections in file order; those --set created come last */
};

/* A command-line option that has a key: it has the highest precedence, is stored with the
 * overrides, and is named in messages as it was given. */
struct sw_recipe_option {
    const char *option; /* "--device" */
    const char *path;   /* "job.device" */
    const char *value;  /* NULL: it was not given */
};

struct sw_recipe_source {
    const char *path; /* names the recipe in messages; the file read when text is NULL */
    const char *text; /* the recipe itself (resume), or NULL */
    size_t text_bytes;
    const char *overrides;   /* earlier --set texts, one per line (sw_recipe_overrides), or NULL */
    const char *const *sets; /* "layer.fc1.outputs=10", after overrides; copied */
    int set_count;
    const struct sw_recipe_option *options; /* copied */
    int option_count;
    /* NULL: check which files exist. Else an earlier decision (sw_recipe_fallback): the sections
     * that fall back, comma-separated, with ":N" for alternative N; "": no section. */
    const char *fallback;
    const char *stage; /* its name; NULL: the first one, or with last_stage the last */
    bool last_stage;
    /* NULL: the process' environment. Returns NULL for an unset name. */
    const char *(*env)(void *user, const char *name);
    void *env_user;
};

/* Reads, expands, checks and binds. With SW_ERR_INVALID from the recipe's content *out is set all
 * the same: the caller may add what it finds (graph, shapes) and prints sw_recipe_diags. Otherwise,
 * on SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM, or SW_ERR_INVALID for a file that is too large or a
 * stage that the recipe does not have, *out is NULL. The schema is borrowed until sw_recipe_free.
 */
int sw_recipe_load(const struct sw_recipe_source *source, const struct sw_schema *schema,
                   struct sw_recipe **out, struct sw_err *err) SW_MUST_CHECK;
void sw_recipe_free(struct sw_recipe *recipe);

/* All sections in file order: the first of a kind (NULL: of any), the next of the same kind word.
 */
const struct sw_section *sw_recipe_first(const struct sw_recipe *recipe, const char *kind);
const struct sw_section *sw_section_next(const struct sw_section *section);
/* The section [kind name], or [kind] when name is NULL; NULL when there is none. A SECTION_ONE kind
 * always has a section. */
const struct sw_section *sw_recipe_find(const struct sw_recipe *recipe, const char *kind,
                                        const char *name);

/* Where the value of the key ("outputs", "weight.init") comes from, and its position; without such
 * a key the position is the header of the section. */
enum sw_origin sw_section_origin(const struct sw_section *section, const char *key);
/* The precedence of the value of a key, for comparison with that of another key; 0: not set. */
int sw_section_precedence(const struct sw_section *section, const char *key);
bool sw_section_is_set(const struct sw_section *section, const char *key); /* not from default */
struct sw_place sw_section_where(const struct sw_section *section, const char *key);
/* The value of a key as text after expansion; NULL when it was not set. */
const char *sw_section_text(const struct sw_section *section, const char *key);

/* The stages of a recipe in file order, and which of them it was loaded for: -1 where it has none.
 */
int sw_recipe_stage_count(const struct sw_recipe *recipe);
const char *sw_recipe_stage_name(const struct sw_recipe *recipe, int i);
int sw_recipe_stage(const struct sw_recipe *recipe);
/* Whether the value of the key was given by the stage rather than by the recipe as a whole. */
bool sw_section_by_stage(const struct sw_section *section, const char *key);

/* Adds "TITLE: KEY = VALUE: ..." pointing at the value ("TITLE: ..." at the header when key is NULL
 * or not set; section NULL: the file as a whole). Returns SW_ERR_INVALID. */
int sw_recipe_error(struct sw_recipe *recipe, const struct sw_section *section, const char *key,
                    const char *fmt, ...) SW_PRINTF(4, 5);
/* sw_recipe_error that points at item `item` (from 0) of a comma-separated value, as in "src = fc2,
 * lable". */
int sw_recipe_error_item(struct sw_recipe *recipe, const struct sw_section *section,
                         const char *key, int item, const char *fmt, ...) SW_PRINTF(5, 6);
/* A hint line under the error added last. */
void sw_recipe_hint(struct sw_recipe *recipe, const char *fmt, ...) SW_PRINTF(2, 3);
/* "did you mean 'X'?" when a candidate is near word, else "LABEL: a, b, c" with all of them. */
void sw_recipe_hint_near(struct sw_recipe *recipe, const char *word, const char *const *candidates,
                         int count, const char *label);
/* If the data section fell back, says from which files to what, and if it did not because another
 * recipe or --set gives its paths, says that: for errors that other or missing data cause. */
void sw_recipe_hint_fallback(struct sw_recipe *recipe, const struct sw_section *section);
const struct sw_diags *sw_recipe_diags(const struct sw_recipe *recipe);
/* For checks that would stop at errors that are no concern of theirs: removes the errors so far,
 * and adds them again. */
struct sw_diags sw_recipe_set_aside(struct sw_recipe *recipe);
void sw_recipe_take_back(struct sw_recipe *recipe, struct sw_diags *had);
/* What works but will not in the next release; not errors. */
const struct sw_diags *sw_recipe_warnings(const struct sw_recipe *recipe);
/* SW_OK, or SW_ERR_INVALID with the first message if the recipe has errors. */
int sw_recipe_status(const struct sw_recipe *recipe, struct sw_err *err) SW_MUST_CHECK;

/* What a run stores so that the same recipe can be loaded again, from any working directory: the
 * path from the root, to which paths in the text are relative; the text (with the text of included
 * files embedded after their include lines, which is a valid recipe itself); the --set arguments
 * and options joined by newlines, with absolute paths, and `env.NAME=VALUE` for each variable of
 * the environment that the recipe uses; and the fallback decision. */
const char *sw_recipe_path(const struct sw_recipe *recipe);
const char *sw_recipe_file(struct sw_recipe *recipe); /* the path from the root */
const char *sw_recipe_text(const struct sw_recipe *recipe);
const char *sw_recipe_overrides(const struct sw_recipe *recipe); /* "" when there are none */
const char *sw_recipe_fallback(const struct sw_recipe *recipe);  /* "train,test:1"; "" none */
/* The type that the section's files would have had, when it fell back; else NULL. */
const char *sw_section_fell_from(const struct sw_section *section);
/* Its paths, none of which exists, when it fell back; else NULL. */
const char *sw_section_missing_files(const struct sw_section *section);
/* Whether its files are missing and were not replaced, because another recipe than that with the
 * line `fallback` gives their paths, or --set. */
bool sw_section_has_no_fallback(const struct sw_section *section);
/* Appends one line per section that fell back and one for the lines of [fallback]; nothing else. */
void sw_recipe_announce_fallback(const struct sw_recipe *recipe, struct sw_bytes *out);

/* The identity of the recipe, 32 hex digits: XXH3-128 over its sections and those of included files
 * as merged (identical to the hash of the equivalent single file), in file order, keys
 * sorted within each, [vars] expanded, the environment not (`${SINGA_DATA}` stays), without
 * comments and blanks. Overrides are not hashed: --set job.steps=10 leaves the hash unchanged, and
 * so does another value of SINGA_DATA or another folder of the recipe: paths count as written. Any
 * other change of the file changes the hash, job.name and job.steps included. */
const char *sw_recipe_hash(const struct sw_recipe *recipe);
