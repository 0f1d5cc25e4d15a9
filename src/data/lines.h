/* Reads text files line by line, plain or .gz. No state; any thread. */
#pragma once

#include "data/blob.h"

/* Handles one line: text without its end (\n or \r\n), zero-terminated, may be changed. number
 * counts from 1. */
typedef int sw_line_visit(void *user, const char *path, int64_t number, char *text,
                          struct sw_err *err);

/* Calls visit for every line, including blank ones, until a call fails. Errors: those of visit,
 * SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT (a zero byte, or more than max_bytes). */
int sw_lines_visit(const char *path, uint64_t max_bytes, sw_line_visit *visit, void *user,
                   struct sw_err *err) SW_MUST_CHECK;
/* The same for a file that was read whole (sw_blob_open_whole), whose content is changed. */
int sw_lines_visit_blob(struct sw_blob *b, sw_line_visit *visit, void *user,
                        struct sw_err *err) SW_MUST_CHECK;
