/* Texts that must fit a number of columns. They may be foreign text (base/text.h): its escapes are
 * counted. No state. */
#pragma once

#include "base/str.h"

/* Appends the text as one line, cut to `columns` with "..." at its end. */
void sw_clip_text(struct sw_bytes *out, const char *text, int columns);
/* Appends a path: the user's home directory as ~, and if it is still too long, only its last
 * components after ".../". */
void sw_clip_path(struct sw_bytes *out, const char *path, int columns);
/* Appends the text as lines of at most `columns`, cut at blanks, each but the first after indent;
 * at most `rows`, of which the last ends with "..." if the text does not fit. */
void sw_clip_wrap(struct sw_bytes *out, const char *text, const char *indent, int columns,
                  int rows);
