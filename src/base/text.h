/* Foreign text in a terminal. Names, notes, paths, messages, metadata and what a model writes come
 * from recipes, files and databases of others. A terminal obeys control characters in them, and
 * marks of direction or without width make a text look like another one. Here are the one list of
 * such characters and the one way to show them: as escapes, \x1b for a byte (a control character,
 * or a byte that is not UTF-8) and \u202e or \U000e0041 for a character behind ASCII. Lines and
 * tables, messages, screens and pictures all use it; JSON has escapes of its own (json.h).
 *
 * Unsafe are the controls of ASCII, DEL, U+0080 to U+009F, the controls of bidirectional text,
 * separators of lines and paragraphs, invisible characters and tags, and what XML forbids. The
 * joiners U+200C and U+200D and combining marks belong to ordinary words and stay. No state. */
#pragma once

#include "base/str.h"

/* What sw_utf8_next answers for a byte that begins no well-formed character. */
#define SW_UTF8_BAD UINT32_MAX

/* The character at *text, of which *left bytes are at hand (at least 1), and moves both behind it:
 * by one byte where the answer is SW_UTF8_BAD. */
uint32_t sw_utf8_next(const char **text, size_t *left);
/* How many of the bytes come before a character at the end that may still be completed by further
 * bytes: all of them where there is none. For text that comes in pieces. */
size_t sw_utf8_whole(const char *text, size_t bytes);
/* Copies a text that ends with a zero into out [bytes], cut between two characters where it does
 * not fit. */
void sw_utf8_copy(char *out, size_t bytes, const char *text);

/* A character that must not reach a terminal. So is SW_UTF8_BAD. */
bool sw_rune_is_unsafe(uint32_t rune);
/* Columns of a terminal that a character takes, 0 to 2, by the blocks of Unicode (UAX 11):
 * wcwidth() would make them a function of the locale. */
int sw_rune_columns(uint32_t rune);

/* Appends a text as one line: unsafe characters as escapes, line breaks and tabs as blanks. */
void sw_text_add(struct sw_buf *out, const char *text);
/* The same, but line breaks and tabs stay. */
void sw_text_add_lines(struct sw_buf *out, const char *text, size_t bytes);
/* Columns of what sw_text_add appends. */
int sw_text_columns(const char *text);
