/* What shells complete: scripts for bash and zsh, made of the verbs' option tables and the words of
 * their usage, so that they know every option and no other. Names of runs are asked for when they
 * are wanted. Pure. */
#ifndef SW_CLI_REFERENCE_COMPLETION_H
#define SW_CLI_REFERENCE_COMPLETION_H

#include "base/str.h"

/* The shells there is one for, NULL-terminated. */
extern const char *const sw_completion_shells[];
/* False for another shell. */
bool sw_completion(const char *shell, struct sw_buf *out);

#endif
