/* Parses `--set` texts and other options that have a key, and joins them again for a resume. */
#include "recipe/build.h"
#include <stdio.h>
#include <string.h>

static struct sw_place place_of_text(const struct sw_override *o)
{
    return (struct sw_place){.origin = o->label,
                             .rank = o->rank,
                             .column = 7,
                             .span = 1,
                             .source = o->label,
                             .source_bytes = strlen(o->label)};
}

static bool is_clean(const char *s, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        size_t n = sw_utf8_length(s + i, bytes - i);
        if (!n || ((unsigned char)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return false;
        i += n;
    }

    return true;
}

/* Splits o->text at the first '='; blanks around both sides do not count. */
static bool split_text(struct sw_recipe *r, struct sw_override *o)
{
    struct sw_place at = place_of_text(o);
    const char *equals = strchr(o->text, '=');
    struct sw_span key = sw_span_trim(o->text, equals ? equals : o->text + strlen(o->text));
    char *path = sw_pool_copy(&r->pool, key.at, key.bytes);
    if (!path)
        return false;

    if (!equals || !*path || !strchr(path, '.') || strlen(path) > SW_PATH_BYTES) {
        const char *why = !equals             ? "missing '='"
                          : !*path            ? "missing key before '='"
                          : strchr(path, '.') ? "the key is too long"
                                              : "missing section";

        sw_diags_add(&r->diags, at, "%s; expected SECTION.KEY=VALUE", why);
        sw_hint_section(r, path);
        return false;
    }

    struct sw_span value = sw_span_trim(equals + 1, o->text + strlen(o->text));
    o->path = path;
    o->value = sw_pool_copy(&r->pool, value.at, value.bytes);
    o->path_column = 7 + sw_count_characters(o->text, (size_t)(key.at - o->text));
    o->value_column = 7 + sw_count_characters(o->text, (size_t)(value.at - o->text));

    return o->value != NULL;
}

static void append(struct sw_recipe *r, struct sw_override *o)
{
    *(r->last_set ? &r->last_set->next : &r->sets) = o;
    r->last_set = o;
}

static void read_text(struct sw_recipe *r, const char *text, size_t bytes)
{
    struct sw_override *o = sw_pool_alloc(&r->pool, 1, sizeof(*o));
    char *copy = sw_pool_copy(&r->pool, text, bytes);
    char *label = sw_pool_format(&r->pool, "--set %.*s", (int)bytes, text);
    if (!o || !copy || !label)
        return;

    o->text = copy;
    o->label = label;
    o->rank = SW_INI_MAX_FILES + ++r->set_count;
    if (!is_clean(text, bytes)) {
        sw_diags_add(&r->diags, place_of_text(o), "contains a control character or invalid UTF-8");
        return;
    }

    if (split_text(r, o))
        append(r, o);
}

static void read_option(struct sw_recipe *r, const struct sw_recipe_option *option)
{
    struct sw_override *o = sw_pool_alloc(&r->pool, 1, sizeof(*o));
    if (!o)
        return;

    o->option = sw_pool_copy(&r->pool, option->option, strlen(option->option));
    o->path = sw_pool_copy(&r->pool, option->path, strlen(option->path));
    o->value = sw_pool_copy(&r->pool, option->value, strlen(option->value));
    o->text = sw_pool_format(&r->pool, "%s=%s", option->path, option->value);
    o->label = sw_pool_format(&r->pool, "%s %s", option->option, option->value);
    o->rank = SW_INI_MAX_FILES + ++r->set_count;
    o->value_column = 2 + (int)strlen(option->option);
    if (r->pool.failed)
        return;

    if (is_clean(option->value, strlen(option->value))) {
        append(r, o);
    } else {
        struct sw_place at = place_of_text(o);
        at.column = o->value_column;
        sw_diags_add(&r->diags, at, "contains a control character or invalid UTF-8");
    }
}

void sw_overrides_read(struct sw_recipe *r, const struct sw_recipe_source *source)
{
    for (const char *p = source->overrides; p && *p;) {
        size_t bytes = strcspn(p, "\n");
        if (bytes)
            read_text(r, p, bytes);
        p += bytes + (p[bytes] == '\n');
    }

    for (int i = 0; i < source->set_count; i++)
        read_text(r, source->sets[i], strlen(source->sets[i]));

    for (int i = 0; i < source->option_count; i++)
        if (source->options[i].value)
            read_option(r, &source->options[i]);
}

static const char *stored(const struct sw_override *o)
{
    return o->fixed ? o->fixed : o->text;
}

const char *sw_overrides_join(struct sw_recipe *r)
{
    size_t bytes = 2;

    for (const struct sw_override *o = r->sets; o; o = o->next)
        bytes += strlen(stored(o)) + 1;
    bytes += r->added_overrides ? strlen(r->added_overrides) : 0;

    char *joined = sw_pool_alloc(&r->pool, bytes, 1), *p = joined;
    for (const struct sw_override *o = r->sets; o && joined; o = o->next) {
        p = stpcpy(p, stored(o));
        if (o->next)
            *p++ = '\n';
    }

    if (joined && r->added_overrides && *r->added_overrides)
        sprintf(p, "%s%s", r->sets ? "\n" : "", r->added_overrides);

    return joined;
}
