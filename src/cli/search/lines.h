/* Lists of texts, one for each row or class: read from a text file, or collected. Main thread. */
#pragma once

#include "base/str.h"

/* Zero-initialize; free with sw_search_lines_fini. */
struct sw_search_lines {
    struct sw_bytes text; /* zero-terminated lines, one after the other */
    size_t *begin;        /* owned [count]: offsets in text */
    int count;
};

/* Reads a file with one text in each line. Errors: those of sw_lines_visit, SW_ERR_NOMEM. */
int sw_search_lines_read(struct sw_search_lines *l, const char *path,
                         struct sw_err *err) SW_MUST_CHECK;
/* Adds a text of n bytes. Errors: SW_ERR_NOMEM. */
int sw_search_lines_add(struct sw_search_lines *l, const char *text, size_t n,
                        struct sw_err *err) SW_MUST_CHECK;
/* A line, valid until the next one is added; NULL if there are not so many. */
const char *sw_search_line(const struct sw_search_lines *l, int64_t i);
void sw_search_lines_fini(struct sw_search_lines *l); /* a zeroed one is accepted */
