/* The identity of a recipe: a hash over its canonical text, which is
 *     [kind name]
 *     key = value
 * with sections in file order (the order of updater patterns matters), keys sorted, [vars] of the
 * file expanded and left out, the environment not expanded. */
#include "base/hash.h"
#include "recipe/build.h"
#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b)
{
    const struct sw_ini_entry *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static void add_entries(struct sw_recipe *r, const struct sw_ini_section *s, struct sw_bytes *out)
{
    const struct sw_ini_entry *sorted[SW_INI_MAX_KEYS];
    size_t count = 0;

    for (const struct sw_ini_entry *e = s->first; e; e = e->next)
        sorted[count++] = e;
    qsort(sorted, count, sizeof(sorted[0]), by_key);

    for (size_t i = 0; i < count; i++) {
        sw_bytes_add(out, sorted[i]->key);
        sw_bytes_add(out, " = ");
        sw_bytes_add(out, sw_canonical_text(r, sorted[i]->value));
        sw_bytes_add(out, "\n");
    }
}

void sw_recipe_identify(struct sw_recipe *r)
{
    struct sw_bytes text = {0};

    for (const struct sw_ini_section *s = r->ini.first; s; s = s->next) {
        if (strcmp(s->kind, "vars") == 0)
            continue;
        sw_bytes_printf(&text, "[%s%s%s]\n", s->kind, s->name ? " " : "", s->name ? s->name : "");
        add_entries(r, s, &text);
    }

    if (text.failed)
        r->pool.failed = true;
    else
        sw_hash_hex(sw_hash_bytes(sw_bytes_text(&text), text.length), r->hash);

    sw_bytes_fini(&text);
}
