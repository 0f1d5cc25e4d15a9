/* Untrusted JSON: parsing ends in a tree or an error. A tree that is written must parse to the same
 * tree, which checks the parser, the escapes and the number formats against each other. */
#include "base/json.h"
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void write_value(struct sw_json_writer *w, const struct sw_json *v)
{
    switch (v->type) {
    case SW_JSON_NULL:
        sw_json_string(w, v->key, NULL);
        return;
    case SW_JSON_BOOL:
        sw_json_bool(w, v->key, v->boolean);
        return;
    case SW_JSON_NUMBER:
        sw_json_real(w, v->key, v->number);
        return;
    case SW_JSON_STRING:
        sw_json_string(w, v->key, v->string);
        return;
    case SW_JSON_ARRAY:
        sw_json_open_array(w, v->key);
        break;
    case SW_JSON_OBJECT:
        sw_json_open_object(w, v->key);
        break;
    }
    for (const struct sw_json *child = v->first; child; child = child->next)
        write_value(w, child);
    if (v->type == SW_JSON_ARRAY)
        sw_json_close_array(w);
    else
        sw_json_close_object(w);
}

static bool is_huge(double x)
{
    return x - x != 0; /* 1e999 is valid JSON, and no double */
}

static void compare(const struct sw_json *a, const struct sw_json *b)
{
    demand(sw_str_eq(a->key, b->key));
    if (a->type == SW_JSON_NUMBER && is_huge(a->number)) {
        demand(b->type == SW_JSON_NULL);
        return;
    }
    demand(a->type == b->type && a->boolean == b->boolean);
    demand(memcmp(&a->number, &b->number, sizeof a->number) == 0);
    demand(a->type != SW_JSON_STRING || strcmp(a->string, b->string) == 0);
    const struct sw_json *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next) {
        demand(!x->key || sw_json_get(a, x->key) == x);
        compare(x, y);
    }
    demand(!x && !y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_json *root = NULL, *again = NULL;
    struct sw_err err = {0};
    if (sw_json_parse((const char *)data, bytes, &root, &err) != SW_OK) {
        demand(!root && err.code < 0 && err.text[0]);
        return 0;
    }
    struct sw_bytes text = {0};
    struct sw_json_writer w;
    sw_json_begin(&w, &text);
    write_value(&w, root);
    /* The parser goes one level deeper than the writer. */
    if (!text.failed) {
        demand(sw_json_parse(text.text, text.length, &again, &err) == SW_OK);
        compare(root, again);
    }
    sw_json_free(root);
    sw_json_free(again);
    sw_bytes_fini(&text);
    return 0;
}
