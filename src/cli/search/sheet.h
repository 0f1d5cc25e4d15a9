/* A contact sheet of an answer, for `singa-ws search query --sheet`: the image or text of each
 * query, and those of the rows that were found, with a frame that says whether they share a label
 * with it. Main thread. */
#pragma once

#include "cli/search/ask.h"
#include "cli/search/lines.h"

struct sw_search_sheet_options {
    const char *file;                         /* NULL: no sheet */
    const char *pictures, *texts;             /* lists, a line for each row of the index; or NULL */
    const char *query_pictures, *query_texts; /* the same for queries */
    const char *query_labels;
};

/* Rows of an option table; `member` is the place of the struct above in its holder. */
#define SW_SEARCH_SHEET_ROWS(holder, member)                                                       \
    SW_CLI_TEXT_OPTION(holder, member.file, "sheet", "FILE",                                       \
                       "draw queries and what was found to FILE.png or FILE.svg"),                 \
        SW_CLI_TEXT_OPTION(holder, member.pictures, "pictures", "LIST",                            \
                           "with --sheet: file with the path of an image for each indexed row"),   \
        SW_CLI_TEXT_OPTION(holder, member.texts, "texts", "LIST",                                  \
                           "with --sheet: file with a line of text for each indexed row"),         \
        SW_CLI_TEXT_OPTION(holder, member.query_pictures, "query-pictures", "LIST",                \
                           "with --sheet: the same for queries; default: image files that are "    \
                           "queries"),                                                             \
        SW_CLI_TEXT_OPTION(holder, member.query_texts, "query-texts", "LIST",                      \
                           "with --sheet: the same for queries; default: those of --text"),        \
        SW_CLI_TEXT_OPTION(holder, member.query_labels, "query-labels", "L.npy",                   \
                           "with --sheet: labels of the queries, for the frames; default: those "  \
                           "of the section")

/* A usage error for a file of another kind, lists without a sheet and a sheet without lists. */
int sw_search_sheet_check(const char *verb, const struct sw_search_sheet_options *o);

/* What is known about the queries from where they came; each may be empty. */
struct sw_search_sheet_queries {
    struct sw_search_lines files; /* of image files: their paths */
    struct sw_search_lines texts;
    struct sw_search_labels labels;
};

/* Draws the sheet: the first queries and their first neighbors, as many as are easy to look at.
 * Errors: those of lists, labels, images (data/picture.h) and sw_plot_end, SW_ERR_INVALID for
 * another number of lines or labels than rows. */
int sw_search_sheet_draw(const struct sw_search_sheet_options *o, const struct sw_search_ask *s,
                         const struct sw_search_sheet_queries *q, struct sw_err *err) SW_MUST_CHECK;
void sw_search_sheet_queries_fini(struct sw_search_sheet_queries *q);
