/* Internal to src/recipe: a recipe while it is being built. recipe.c runs the phases in this order:
 * read the file (ini.c) with its included files (include.c), overrides (override.c) and [vars]
 * (vars.c); merge the sections with the overrides (merge.c, override.c); apply the lines of the
 * stage (stage.c) and the fallback (fallback.c); drop keys of replaced types and bind (bind.c),
 * which locates files (files.c); remove sections of other stages (stage.c); compute the identity
 * (identity.c) and the overrides to store. A phase adds
 * errors to diags and continues; a failed allocation sets pool.failed, which is checked between
 * phases. */
#pragma once

#include "recipe/diag.h"
#include "recipe/ini.h"
#include "recipe/pool.h"
#include "recipe/recipe.h"
#include "recipe/seen.h"

/* One --set text, or an option that has a key. */
struct sw_override {
    struct sw_override *next;
    const char *option; /* "--device"; NULL: --set */
    const char *text;   /* "layer.fc1.outputs=-1" */
    const char *label;  /* "--set layer.fc1.outputs=-1", "--device sim": origin and source
                           line of messages */
    const char *path;   /* "layer.fc1.outputs" */
    const char *value;  /* "-1" */
    int rank;           /* order of its messages: after those of all files */
    int path_column, value_column; /* in label */
    const char *fixed;             /* `text` with absolute paths, which a run stores; NULL: text */
};

/* A key of a section after merging, or a line of [fallback] or of a stage (then key is a path). */
struct sw_value {
    struct sw_value *next;
    struct sw_value *below; /* what it replaced */
    const char *key, *raw;
    const char *text;         /* after expansion; NULL before, or when that failed */
    bool expanded;            /* text has been computed */
    const char *files;        /* text with each path where it leads (files.c); NULL: not located */
    const char *found;        /* how, for `explain`; NULL: all paths are absolute */
    const struct sw_opt *row; /* of files */
    bool by_place;            /* files depends on the working directory */
    bool dropped;             /* belongs to a type that was replaced */
    bool unknown;             /* the section has no such key; already reported */
    bool is_fallback;         /* a fallback format that replaces missing files */
    bool by_fallback;         /* a line of a stage set by [fallback] */
    const struct sw_stage *stage; /* the stage that sets the value, or NULL */
    enum sw_origin origin;
    const struct sw_override *set; /* the override that sets it, or NULL: */
    struct sw_ini_line at;         /* the line that contains it */
    int key_column, value_column;
};

/* A section before binding, with the text of all its keys. */
struct sw_draft {
    struct sw_section pub; /* first, so that a pointer to it can be cast to the whole struct */
    struct sw_value *first, *last;
    bool written;          /* written by the recipe, [fallback] or --set; else made of defaults */
    struct sw_ini_line at; /* its header; all zeros when it has none */
    int column;
    const struct sw_value *created_by; /* the line or override that created it, or NULL */
    /* The line `fallback` that does not replace its missing files, given elsewhere; or NULL. */
    const struct sw_value *no_fallback;
};

/* A stage of a run, with the lines that apply during the stage. */
struct sw_stage {
    struct sw_stage *next;         /* file order */
    struct sw_draft section;       /* not in the schema; title and position for messages */
    struct sw_value *lines, *last; /* keys of [job], or paths */
};

struct sw_var {
    const char *name;
    const char *text;             /* NULL: its expansion failed, which was reported */
    const char *canonical;        /* NULL: not in the file */
    const struct sw_value *value; /* where it was given; its text is set */
};

/* A variable of the environment that the recipe uses. */
struct sw_env_use {
    struct sw_env_use *next;
    const char *name, *value;
    bool given; /* by --set env.NAME=VALUE */
};

struct sw_fallback_choice {
    struct sw_fallback_choice *next;
    const struct sw_draft *section;
    const char *from, *to, *paths;
    const char *found; /* the path used instead; NULL: the data is synthetic */
    int number;        /* of the alternative, counted from 1 */
};

struct sw_recipe {
    struct sw_pool pool;
    struct sw_diags diags, warnings;
    struct sw_ini ini; /* of all files: sections of included ones first, each section once */
    const char *text;  /* of all files */
    const struct sw_schema *schema;
    const char *(*env)(void *user, const char *name);
    void *env_user;
    struct sw_section *first, *last;
    struct sw_seen index; /* "kind" or "kind.name" -> struct sw_draft */
    struct sw_override *sets, *last_set;
    int set_count;
    struct sw_var *vars;
    int var_count;
    struct sw_value *lines, *last_line; /* of [fallback] */
    struct sw_stage *stages, *stage;    /* all stages, and the selected one */
    struct sw_fallback_choice *fallback_choices, *last_fallback_choice;
    size_t expanded_bytes;
    const char *data_folder; /* default of SINGA_DATA, computed on first use; or NULL */
    const char *data_root;   /* what ${SINGA_DATA} stands for, computed on first use; or NULL */
    struct sw_env_use *env_used;
    const char *added_overrides; /* what a run stores besides the overrides that were given */
    const char *overrides, *fallback;
    char hash[33];
};

/* ---- include.c ---- */
/* Reads the recipe's text and the files it includes into r->ini and r->text. Problems go to diags.
 * Errors: SW_ERR_NOMEM, SW_ERR_INVALID when the recipe itself is too large. */
int sw_include_read(struct sw_recipe *r, const char *path, const char *text, size_t bytes,
                    struct sw_err *err) SW_MUST_CHECK;

/* ---- override.c ---- */
enum { SW_PATH_BYTES = 400 };
/* Parses the --set arguments into r->sets. */
void sw_overrides_read(struct sw_recipe *r, const struct sw_recipe_source *source);
/* Joins them for sw_recipe_overrides. */
const char *sw_overrides_join(struct sw_recipe *r);

/* ---- merge.c ---- */
/* A value from a line of the file, and from an override (NULL is accepted and returned) whose key
 * begins after `skip` bytes of its path. NULL when memory is exhausted. */
struct sw_value *sw_value_of_entry(struct sw_recipe *r, const struct sw_ini_entry *e,
                                   enum sw_origin origin);
struct sw_value *sw_value_of_set(struct sw_recipe *r, const struct sw_override *o, size_t skip);
/* A new empty section at the end of the list; name NULL: [kind]. NULL when memory is exhausted. */
struct sw_draft *sw_draft_add(struct sw_recipe *r, const struct sw_schema_kind *k,
                              const char *name);
/* Adds a value to a section, unless the section has one of higher precedence. */
void sw_draft_put(struct sw_draft *n, struct sw_value *v);
struct sw_value *sw_draft_find(const struct sw_draft *n, const char *key); /* not a dropped one */
/* The precedence of a value: of two values the one with the larger number wins. */
int sw_value_precedence(const struct sw_value *v);
/* Converts the sections of the file, and adds empty sections for SECTION_ONE kinds that the file
 * lacks. */
void sw_merge_file(struct sw_recipe *r);

/* ---- path.c ---- */
/* Assigns v to the key that the path v->key names; may create the section. */
void sw_recipe_assign(struct sw_recipe *r, struct sw_value *v);
/* Reports the errors of a line of [fallback] or of a stage that is not applied. */
void sw_recipe_check_line(struct sw_recipe *r, struct sw_value *v, const char *title);
void sw_merge_overrides(struct sw_recipe *r);
/* Hints for a word that is not a kind of section, and for a key without its section. */
void sw_hint_kind(struct sw_recipe *r, const char *word);
void sw_hint_section(struct sw_recipe *r, const char *key);

/* ---- hint.c ---- */
/* The functions of hint.c add a hint to the error that was added last, unless it has one.
 * sw_hint_key: for a key that no section of this kind has. */
void sw_hint_key(struct sw_recipe *r, const struct sw_schema_kind *k, const char *key);
/* Adds the hint for a key that this section does not have. */
void sw_hint_section_key(struct sw_recipe *r, const struct sw_draft *n, const char *key);
/* Adds the hint for an unknown value that another system uses: of the ENUM key of `row`, or of a
 * type key when `row` is NULL. */
void sw_hint_alias_value(struct sw_recipe *r, const struct sw_schema_kind *k, const char *key,
                         const struct sw_opt *row, const char *value);
/* Adds the hint for an unknown kind of section that another system uses. */
void sw_hint_alias_section(struct sw_recipe *r, const char *word);

/* ---- vars.c ---- */
void sw_vars_build(struct sw_recipe *r);
/* The text of a value after expansion, computed once; NULL when that fails, which is reported under
 * `title`. */
const char *sw_value_text(struct sw_recipe *r, struct sw_value *v, const char *title);
/* A text after expansion; NULL when that fails, which is not reported. */
const char *sw_expanded_text(struct sw_recipe *r, const char *raw);
/* The last of the first `visible` variables with that name, or NULL. */
const struct sw_var *sw_var_find(const struct sw_recipe *r, const char *name, size_t bytes,
                                 int visible);
/* The value with [vars] of the file expanded and environment variables left as they are; returns
 * `raw` itself when there is a problem. */
const char *sw_canonical_text(struct sw_recipe *r, const char *raw);

/* ---- files.c ---- */
/* Whether no file has that name or matches that pattern. */
bool sw_file_is_missing(const char *path);
/* The path from the root; the path itself when the working directory is unknown. */
const char *sw_absolute_path(struct sw_recipe *r, const char *path);
/* The value of a PATH or PATHS row, each path where it leads; computed once. NULL when expansion
 * fails, which is reported under `title`. */
const char *sw_value_files(struct sw_recipe *r, struct sw_value *v, const struct sw_opt *row,
                           const char *title);
/* Computes what a run stores so that the paths of the recipe lead to the same files from every
 * working directory and in every environment. After bind. */
void sw_files_fix(struct sw_recipe *r);

/* ---- fallback.c ---- */
/* Applies the fallback. `decided` lists the sections that fall back; NULL: decide by which files
 * exist. */
void sw_fallback_apply(struct sw_recipe *r, const char *decided);

/* ---- stage.c ---- */
/* Adds a section [stage NAME] of the file to the stages. */
void sw_stage_add(struct sw_recipe *r, const struct sw_ini_section *s);
/* Adds `stage.NAME.KEY` of --set or [fallback] to the lines of that stage. Returns false for any
 * other path. */
bool sw_stage_add_line(struct sw_recipe *r, struct sw_value *v);
/* Reports the errors of such a line without applying it. */
bool sw_stage_check_line(struct sw_recipe *r, const struct sw_value *v);
/* Chooses the stage, assigns its lines to the sections that they name, and checks the lines of the
 * other stages. Errors: SW_ERR_INVALID when there is no such stage. */
int sw_stages_apply(struct sw_recipe *r, const struct sw_recipe_source *source,
                    struct sw_err *err) SW_MUST_CHECK;
/* Removes the sections that the selected stage does not have. */
void sw_stages_select(struct sw_recipe *r);

/* ---- bind.c ---- */
void sw_recipe_bind(struct sw_recipe *r);

/* ---- identity.c ---- */
void sw_recipe_identify(struct sw_recipe *r);

/* ---- place.c ---- */
struct sw_place sw_place_of_key(const struct sw_value *v);
/* The part of the value from byte `offset` on; offset and bytes 0: all of it. */
struct sw_place sw_place_of_value(const struct sw_value *v, size_t offset, size_t bytes);
struct sw_place sw_place_of_draft(const struct sw_recipe *r, const struct sw_draft *n);
/* Reports an error of a section (NULL: of the recipe), with the message after what `text` has; text
 * is freed. */
int sw_recipe_report(struct sw_recipe *r, const struct sw_draft *n, struct sw_place at,
                     struct sw_bytes *text, const char *fmt, va_list ap);
/* Reports an error about a value: "TITLE: KEY = VALUE: ...", pointing at the value. */
int sw_value_error(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                   size_t offset, size_t bytes, const char *fmt, ...) SW_PRINTF(6, 7);
int sw_value_verror(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                    size_t offset, size_t bytes, const char *fmt, va_list ap);
/* Reports an error about a section: "TITLE: ...", pointing at the key if v is given, else at the
 * header. */
int sw_draft_error(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                   const char *fmt, ...) SW_PRINTF(4, 5);
int sw_draft_verror(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                    const char *fmt, va_list ap);
/* Truncates a text for a message; out has SW_SHOWN bytes. */
enum { SW_SHOWN = 80 };
const char *sw_shown(char out[SW_SHOWN], const char *text);
