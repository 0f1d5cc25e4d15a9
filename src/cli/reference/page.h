/* A reference page in one of two forms: roff for man(1), or Markdown. Texts come from the program's
 * tables and are escaped here. One owner. */
#pragma once

#include "base/str.h"

enum sw_page_form { SW_PAGE_MAN, SW_PAGE_MARKDOWN };

struct sw_page {
    enum sw_page_form form;
    struct sw_bytes *out; /* borrowed */
};

/* Begins the page NAME(SECTION) with a one-line description. */
void sw_page_begin(struct sw_page *p, enum sw_page_form form, struct sw_bytes *out,
                   const char *name, int section, const char *line);
void sw_page_heading(struct sw_page *p, const char *text);    /* NAME, OPTIONS */
void sw_page_subheading(struct sw_page *p, const char *text); /* one verb, one type */
/* Running text; an empty line begins a paragraph, other line breaks are blanks. */
void sw_page_text(struct sw_page *p, const char *text);
/* Preformatted lines. */
void sw_page_lines(struct sw_page *p, const char *text);
/* A list item: a word, an optional remark (NULL: none), and its meaning. */
void sw_page_item(struct sw_page *p, const char *word, const char *aside, const char *text);
void sw_page_end_items(struct sw_page *p);
