/* The message that host 0 writes to the standard input of `singa-ws join`, of untrusted bytes: what
 * is accepted is complete, and is the same when it is written and read again. Input: the message,
 * its first line included. */
#include "run/join.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* Exactly as large as the text, so that the address sanitizer sees a read past its end. */
static char *copy_of(const void *data, size_t bytes)
{
    char *text = malloc(bytes + (bytes == 0));
    demand(text != NULL);
    if (bytes > 0)
        memcpy(text, data, bytes);
    return text;
}

static void demand_same(const struct sw_join *a, const struct sw_join *b)
{
    demand(a->count == b->count && a->own == b->own && a->port == b->port && a->steps == b->steps);
    for (int i = 0; i < a->count; i++)
        demand(strcmp(a->names[i], b->names[i]) == 0);
    demand(strcmp(a->recipe, b->recipe) == 0 && strcmp(a->folder, b->folder) == 0);
    demand(sw_str_eq(a->name, b->name) && sw_str_eq(a->address, b->address));
    demand(a->file_count == b->file_count && sw_str_eq(a->checkpoint, b->checkpoint));
    for (int i = 0; i < a->file_count; i++)
        demand(a->files[i].bytes == b->files[i].bytes &&
               strcmp(a->files[i].sum, b->files[i].sum) == 0 &&
               strcmp(a->files[i].path, b->files[i].path) == 0);
    demand(!a->key == !b->key);
    demand(!a->key || memcmp(a->key, b->key, SW_FABRIC_KEY_BYTES) == 0);
}

/* Returns the number of bytes of the first line; 0: it is refused. */
static size_t head_of(const char *text, size_t bytes, size_t *rest)
{
    const char *newline = bytes ? memchr(text, '\n', bytes) : NULL;
    size_t line = newline ? (size_t)(newline - text) + 1 : bytes;
    return sw_join_parse_head(text, line, rest, NULL) == SW_OK ? line : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_bytes again = {0};
    struct sw_join j, k;
    size_t rest;
    size_t line = head_of((const char *)data, bytes, &rest);
    char *fields = copy_of(data + line, bytes - line), *second = NULL;

    if (line > 0 && sw_join_parse(fields, bytes - line, &j, NULL) == SW_OK) {
        demand(j.count >= 2 && j.own > 0 && j.own < j.count && j.recipe && j.folder[0] == '/');
        sw_join_write(&j, &again);
        line = head_of(again.text, again.length, &rest);
        demand(line > 0 && line + rest == again.length);
        second = copy_of(again.text + line, rest);
        demand(sw_join_parse(second, rest, &k, NULL) == SW_OK);
        demand_same(&j, &k);
    }
    free(fields);
    free(second);
    sw_bytes_fini(&again);
    return 0;
}
