/* Untrusted text in a terminal. Names, notes, paths, messages, metadata and the output of models
 * come from recipes, files and databases of other users. A terminal executes control characters in
 * them, and bidirectional or zero-width characters make one text look like another. This file has
 * the only list of such characters and the only functions that replace them by escapes: \x1b for a
 * byte (a control character, or a byte that is not UTF-8) and \u202e or \U000e0041 for a character
 * beyond ASCII. Lines, tables, messages, screens and images all use it; JSON has its own escapes
 * (json.h).
 *
 * Unsafe are the control characters of ASCII, DEL, U+0080 to U+009F, bidirectional controls, line
 * and paragraph separators, invisible characters and tags, and what XML forbids. The joiners U+200C
 * and U+200D and combining marks belong to ordinary words and are kept. No state. */
#pragma once

#include "base/str.h"

/* The return value of sw_utf8_next for a byte that does not begin a well-formed character. */
#define SW_UTF8_BAD UINT32_MAX

/* Returns the character at *text, of which *left bytes are available (at least 1), and advances
 * both; by one byte if the result is SW_UTF8_BAD. */
uint32_t sw_utf8_next(const char **text, size_t *left);
/* The number of bytes before an incomplete character at the end that further bytes may complete;
 * all of them if there is none. For text that arrives in pieces. */
size_t sw_utf8_whole(const char *text, size_t bytes);
/* Copies a text that ends with a zero into out [bytes], cut between two characters where it does
 * not fit. */
void sw_utf8_copy(char *out, size_t bytes, const char *text);

/* Whether a character must not be written to a terminal; true for SW_UTF8_BAD. */
bool sw_rune_is_unsafe(uint32_t rune);
/* The columns of a terminal that a character takes, 0 to 2, by the blocks of Unicode (UAX 11).
 * wcwidth() is not used because it depends on the locale. */
int sw_rune_columns(uint32_t rune);

/* Appends a text as one line: unsafe characters as escapes, line breaks and tabs as blanks. */
void sw_text_add(struct sw_bytes *out, const char *text);
/* Appends a text of several lines: unsafe characters as escapes, line breaks and tabs unchanged. */
void sw_text_add_lines(struct sw_bytes *out, const char *text, size_t bytes);
/* The columns of the text that sw_text_add appends. */
int sw_text_columns(const char *text);
