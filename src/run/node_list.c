/* Expands lists of hosts in the form of Slurm (man sinfo, "hostlist expressions"). A name may have
 * several brackets, of which the last one counts fastest; numbers keep their leading zeros. */
#include "run/node_list.h"

#include "base/os.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 9, MOST_BRACKETS = 8 };

/* What is being read, and where its names go. */
struct reader {
    const char *list;
    int most;
    struct sw_node_list *out;
    struct sw_err *err;
};

/* One bound of a range: its number, and how many digits it has. 0 digits: not a number. */
static int read_bound(const char **at, long *value)
{
    int digits = (int)strspn(*at, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS)
        return 0;

    *value = strtol(*at, NULL, 10);
    *at += digits;
    return digits;
}

static int refuse(const struct reader *r, const char *part)
{
    return sw_err_set(r->err, SW_ERR_INVALID,
                      "the list of hosts '%.200s' cannot be read at '%.60s'", r->list, part);
}

static int add_name(const struct reader *r, const char *name)
{
    char(*slot)[SW_NODE_NAME] = sw_array_add(&r->out->name, &r->out->count, sizeof *slot);
    if (!slot)
        return sw_err_nomem(r->err, "list of hosts", SW_NODE_NAME);

    snprintf(*slot, sizeof *slot, "%s", name);
    return SW_OK;
}

static int expand(const struct reader *r, const char *name, const char *rest, int brackets);

/* All names of one range "03-05" or of one number, followed by what comes after the bracket. */
static int expand_range(const struct reader *r, const char *name, const char **at, const char *rest,
                        int brackets)
{
    const char *begin = *at;
    long first, last;
    int rc = SW_OK, digits = read_bound(at, &first);

    last = first;
    if (digits > 0 && **at == '-') {
        ++*at;
        if (read_bound(at, &last) == 0)
            digits = 0;
    }
    if (digits == 0 || last < first)
        return refuse(r, begin);

    for (long i = first; i <= last && rc == SW_OK && r->out->count < r->most; i++) {
        char longer[SW_NODE_NAME];
        if (snprintf(longer, sizeof longer, "%s%0*ld", name, digits, i) >= (int)sizeof longer)
            return refuse(r, begin);
        rc = expand(r, longer, rest, brackets);
    }

    return rc;
}

/* Adds all names that begin with `name` and continue with `rest`, which has no comma outside of
 * brackets. */
static int expand(const struct reader *r, const char *name, const char *rest, int brackets)
{
    char longer[SW_NODE_NAME];
    const size_t plain = strcspn(rest, "[");

    int n = snprintf(longer, sizeof longer, "%s%.*s", name, (int)plain, rest);
    if (n >= (int)sizeof longer || brackets == MOST_BRACKETS || memchr(rest, ']', plain))
        return refuse(r, rest);
    if (!rest[plain])
        return n > 0 ? add_name(r, longer) : refuse(r, r->list);

    const char *at = rest + plain + 1, *end = strchr(at, ']');
    if (!end)
        return refuse(r, rest + plain);

    for (;;) {
        int rc = expand_range(r, longer, &at, end + 1, brackets + 1);
        if (rc != SW_OK)
            return rc;
        if (at == end)
            return SW_OK;
        if (*at++ != ',')
            return refuse(r, at - 1);
    }
}

/* Bytes up to the next comma that is outside of brackets. */
static size_t item_length(const char *text)
{
    bool inside = false;
    size_t n = 0;

    for (; text[n] && (inside || text[n] != ','); n++)
        inside = text[n] == '[' || (inside && text[n] != ']');
    return n;
}

int sw_node_list_read(const char *text, int most, struct sw_node_list *out, struct sw_err *err)
{
    const struct reader r = {text, most, out, err};

    for (const char *at = text;;) {
        char *item = sw_format("%.*s", (int)item_length(at), at);
        if (!item)
            return sw_err_nomem(err, "list of hosts", strlen(text));

        int rc = expand(&r, "", item, 0);
        sw_free(item);
        if (rc != SW_OK)
            return rc;

        at += item_length(at);
        if (!*at++ || out->count >= most)
            return SW_OK;
    }
}

void sw_node_list_fini(struct sw_node_list *l)
{
    sw_free(l->name);
    *l = (struct sw_node_list){0};
}
