/* Positions of sections, keys and values for error messages, in a file or in the text of a --set
 * option, and the functions that report an error about them. Every error is also counted in its
 * section. Part of building a recipe: recipe/build.h declares these functions. */
#include "recipe/build.h"
#include <stdio.h>
#include <string.h>

const char *sw_shown(char out[SW_SHOWN], const char *text)
{
    size_t bytes = 0, limit = SW_SHOWN - 4;

    while (text[bytes]) {
        size_t n = sw_utf8_length(text + bytes, strnlen(text + bytes, 4));

        n = n ? n : 1;
        if (bytes + n > limit)
            break;

        bytes += n;
    }

    snprintf(out, SW_SHOWN, "%.*s%s", (int)bytes, text, text[bytes] ? "..." : "");
    return out;
}

static struct sw_place place_in_set(const struct sw_override *set, int column, int span)
{
    return (struct sw_place){
        .origin = set->label,
        .rank = set->rank,
        .column = column,
        .span = span,
        .source = set->label,
        .source_bytes = strlen(set->label),
    };
}

struct sw_place sw_place_of_key(const struct sw_value *v)
{
    /* The key of an override is the last part of its path. */
    int span = sw_count_characters(v->key, strlen(v->key));

    if (!v->set)
        return sw_ini_place(&v->at, v->key_column, span);
    if (v->set->option)
        return place_in_set(v->set, 1, (int)strlen(v->set->option));

    int path = sw_count_characters(v->set->path, strlen(v->set->path));
    return place_in_set(v->set, v->set->path_column + path - span, span);
}

struct sw_place sw_place_of_value(const struct sw_value *v, size_t offset, size_t bytes)
{
    size_t length = strlen(v->raw);

    if ((!bytes && !offset) || offset > length || bytes > length - offset) {
        offset = 0;
        bytes = length;
    }

    int before = sw_count_characters(v->raw, offset);
    int span = bytes ? sw_count_characters(v->raw + offset, bytes) : 1;
    if (!v->set)
        return sw_ini_place(&v->at, v->value_column + before, span);

    return place_in_set(v->set, v->set->value_column + before, span);
}

struct sw_place sw_place_of_draft(const struct sw_recipe *r, const struct sw_draft *n)
{
    const struct sw_ini_line whole = {.file = r->ini.file};

    if (n->created_by)
        return sw_place_of_key(n->created_by);
    return sw_ini_place(n->at.file ? &n->at : &whole, n->column, (int)strlen(n->pub.title));
}

int sw_recipe_report(struct sw_recipe *r, const struct sw_draft *n, struct sw_place at,
                     struct sw_bytes *text, const char *fmt, va_list ap)
{
    sw_bytes_vprintf(text, fmt, ap);
    r->diags.nomem |= text->failed;
    if (n)
        ((struct sw_draft *)n)->pub.errors++;

    int rc = sw_diags_add(&r->diags, at, "%s", sw_bytes_text(text));
    sw_bytes_fini(text);
    return rc;
}

/* "stage joint" for a value that a stage gives, else "". */
static const char *in_stage(const struct sw_value *v)
{
    return v->stage ? v->stage->section.pub.title : "";
}

int sw_value_verror(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                    size_t offset, size_t bytes, const char *fmt, va_list ap)
{
    char shown[SW_SHOWN];
    struct sw_bytes text = {0};

    /* A position in the expanded text has no counterpart in the text as it was written. */
    if (v->text && strcmp(v->text, v->raw) != 0)
        offset = bytes = 0;
    sw_bytes_printf(&text, "%s%s%s: %s = %s: ", in_stage(v), v->stage ? ": " : "", n->pub.title,
                    v->key, sw_shown(shown, v->text ? v->text : v->raw));

    return sw_recipe_report(r, n, sw_place_of_value(v, offset, bytes), &text, fmt, ap);
}

int sw_value_error(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                   size_t offset, size_t bytes, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);

    int rc = sw_value_verror(r, n, v, offset, bytes, fmt, ap);
    va_end(ap);
    return rc;
}

int sw_draft_verror(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                    const char *fmt, va_list ap)
{
    struct sw_bytes text = {0};

    sw_bytes_printf(&text, "%s: ", n->pub.title);
    return sw_recipe_report(r, n, v ? sw_place_of_key(v) : sw_place_of_draft(r, n), &text, fmt, ap);
}

int sw_draft_error(struct sw_recipe *r, const struct sw_draft *n, const struct sw_value *v,
                   const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);

    int rc = sw_draft_verror(r, n, v, fmt, ap);
    va_end(ap);
    return rc;
}
