/* Names of memory: the names given at allocation, and names of parts that were added later. They
 * are searched only for messages, so a list is fast enough. */
#include "base/os.h"
#include "device/sim/memory.h"
#include <stdio.h>
#include <string.h>

enum { FREED = 64 }; /* names of freed memory that are remembered */

void sw_sim_names_init(struct sw_sim_names *n)
{
    *n = (struct sw_sim_names){.count = 0};
    sw_mutex_init(&n->lock);
}

void sw_sim_names_fini(struct sw_sim_names *n)
{
    sw_mutex_fini(&n->lock);
    sw_free(n->list);
    sw_free(n->freed);
}

/* n->lock is held. */
static bool exists(const struct sw_sim_names *n, const struct sw_sim_name *name)
{
    for (int i = 0; i < n->count; i++)
        if (n->list[i].from == name->from && n->list[i].to == name->to &&
            strcmp(n->list[i].text, name->text) == 0)
            return true;

    return false;
}

/* n->lock is held. Without memory for the name, the part keeps the name of its allocation or has
 * none. */
static void add(struct sw_sim_names *n, const struct sw_sim_name *name)
{
    if (sw_grow(&n->list, sizeof *n->list, n->count, &n->room, 64, "names", NULL) == SW_OK)
        n->list[n->count++] = *name;
}

void sw_sim_name_add(struct sw_sim_names *n, size_t from, size_t bytes, const char *what)
{
    struct sw_sim_name name = {.from = from, .to = from + bytes};

    snprintf(name.text, sizeof name.text, "%s", what);
    sw_mutex_lock(&n->lock);
    if (!exists(n, &name))
        add(n, &name);
    sw_mutex_unlock(&n->lock);
}

void sw_sim_name_free(struct sw_sim_names *n, size_t from, size_t to)
{
    int kept = 0;

    sw_mutex_lock(&n->lock);
    if (!n->freed)
        n->freed = sw_calloc(FREED, sizeof *n->freed);

    for (int i = 0; i < n->count; i++) {
        struct sw_sim_name name = n->list[i];
        if (name.from < from || name.from >= to)
            n->list[kept++] = name;
        else if (n->freed)
            n->freed[n->freed_count++ % FREED] = name;
    }

    n->count = kept;
    sw_mutex_unlock(&n->lock);
}

/* Writes the names of the smallest parts that contain the range: one, or two if parts share the
 * memory. */
static void smallest(const struct sw_sim_name *list, int count, size_t from, size_t to, char *out)
{
    const struct sw_sim_name *best = NULL, *second = NULL;

    for (int i = 0; i < count; i++) {
        const struct sw_sim_name *name = &list[i];
        if (name->from > from || name->to < to || !name->text[0])
            continue;

        if (!best || name->to - name->from < best->to - best->from) {
            best = name;
            second = NULL;
        } else if (name->to - name->from == best->to - best->from && !second &&
                   strcmp(name->text, best->text) != 0) {
            second = name;
        }
    }

    snprintf(out, SW_SIM_WHAT, "%s%s%s", best ? best->text : "", second ? " or " : "",
             second ? second->text : "");
}

void sw_sim_name_of(struct sw_sim_names *n, size_t from, size_t bytes, char *out)
{
    sw_mutex_lock(&n->lock);
    smallest(n->list, n->count, from, from + bytes, out);
    sw_mutex_unlock(&n->lock);
}

void sw_sim_name_of_freed(struct sw_sim_names *n, size_t from, size_t bytes, char *out)
{
    out[0] = 0;
    sw_mutex_lock(&n->lock);
    if (n->freed)
        smallest(n->freed, FREED, from, from + bytes, out);
    sw_mutex_unlock(&n->lock);
}
