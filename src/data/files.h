/* The `paths` of a data section: a list of names and shell patterns turned into a list of files.
 * One owner. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"

struct sw_files {
    char **path; /* owned, each too */
    int count;
};

/* Every name in its order; a pattern (with *, ? or [) gives its matches sorted. A plain name is
 * taken as it is, there or not. key names the list in errors. Errors: SW_ERR_NOTFOUND when the list
 * is empty or a pattern matches nothing, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_files_expand(struct sw_files *f, const struct sw_strings *names, const char *key,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_files_fini(struct sw_files *f); /* a zeroed one is accepted */

/* "PATH" or "PATH (3 files)" in new memory; NULL when exhausted. */
char *sw_files_text(const struct sw_files *f);

/* The folder that a file is in, in new memory, "" where its name has none; NULL when exhausted. */
char *sw_folder_of(const char *path);
