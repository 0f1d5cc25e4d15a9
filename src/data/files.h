/* Expands the `paths` of a data section, a list of names and shell patterns, into a list of files.
 * One owner. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"

struct sw_files {
    char **path; /* owned, elements too */
    int count;
};

/* Expands the names in order; a pattern (with *, ? or [) gives its matches sorted. A plain name is
 * kept whether or not the file exists. key is the name of the list, for errors. Errors:
 * SW_ERR_NOTFOUND if the list is empty or a pattern matches nothing, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_files_expand(struct sw_files *f, const struct sw_strings *names, const char *key,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_files_fini(struct sw_files *f); /* a zeroed one is accepted */

/* "PATH" or "PATH (3 files)" in new memory; NULL if out of memory. */
char *sw_files_text(const struct sw_files *f);

/* The folder of a file in new memory, "" if the name has none; NULL if out of memory. */
char *sw_folder_of(const char *path);
