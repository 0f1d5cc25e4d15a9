/* Prints the reference of a type for `singa-ws layers TYPE`, from the same option tables that bind
 * and check recipes. */
#pragma once

#include "base/json.h"
#include "base/str.h"
#include "recipe/option.h"

/* "int >= 1", "real 0..1", "max|avg", "list of text": the type and range of a row. */
void sw_opt_describe(const struct sw_opt *opt, struct sw_bytes *out);

/* The default as it is written; NULL where there is none (one outside its own range means "not
 * given"). */
const char *sw_opt_default(const struct sw_opt *opt);

/* Appends name and help, then the keys of the type, of every section of the kind (common) and of
 * its parameters (params): key, type and range, default, help, in columns of at most 80 characters.
 * common and params may be NULL. */
void sw_print_type(struct sw_bytes *out, const struct sw_type *type, const struct sw_opt *common,
                   const struct sw_opt *params);
/* A table of keys alone, under a title ("[job]"). */
void sw_print_opts(struct sw_bytes *out, const char *title, const struct sw_opt *opts);
/* {"name","help","keys":[{"key","type","range","default","min","max","choices","required","help"}],
 *  "common":[...],"params":["weight",...],"param_keys":[...]} as a value with that key. */
void sw_json_type(struct sw_json_writer *w, const char *key, const struct sw_type *type,
                  const struct sw_opt *common, const struct sw_opt *params);
