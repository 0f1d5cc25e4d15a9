/* Bags of words, stored as one array of ids and the end of each bag. sw_bags_number replaces the
 * ids in place in one pass and drops words without a new id. One owner until then. */
#include "data/bags.h"
#include "base/os.h"
#include <string.h>

enum { FIRST = 256 };

void sw_bags_fini(struct sw_bags *b)
{
    sw_lexicon_fini(&b->words);
    sw_free(b->end);
    sw_free(b->id);
    *b = (struct sw_bags){0};
}

static int add_id(struct sw_bags *b, int32_t id, struct sw_err *err)
{
    int rc = sw_grow(&b->id, sizeof *b->id, b->ids, &b->id_capacity, FIRST, "bags of words", err);
    if (rc)
        return rc;

    b->id[b->ids++] = id;
    return rc;
}

static int end_bag(struct sw_bags *b, struct sw_err *err)
{
    int rc = sw_grow(&b->end, sizeof *b->end, b->count, &b->capacity, FIRST, "bags of words", err);
    if (rc)
        return rc;

    b->end[b->count++] = b->ids;
    return rc;
}

int sw_bags_add(struct sw_bags *b, const char *text, struct sw_err *err)
{
    static const char blanks[] = " \t\r";
    int rc = SW_OK;

    for (text += strspn(text, blanks); !rc && *text;) {
        const size_t n = strcspn(text, blanks);
        int32_t id = 0;

        rc = sw_lexicon_add(&b->words, text, n, 1, &id, err);
        if (!rc)
            rc = add_id(b, id, err);
        text += n;
        text += strspn(text, blanks);
    }

    return rc ? rc : end_bag(b, err);
}

int sw_bags_put(struct sw_bags *b, const int32_t *id, int64_t n, struct sw_err *err)
{
    int rc = SW_OK;

    for (int64_t i = 0; !rc && i < n; i++)
        rc = add_id(b, id[i], err);

    return rc ? rc : end_bag(b, err);
}

void sw_bags_number(struct sw_bags *b, const int32_t *number)
{
    int64_t from = 0, to = 0;

    for (int64_t i = 0; i < b->count; i++) {
        for (; from < b->end[i]; from++) {
            if (number[b->id[from]] >= 0)
                b->id[to++] = number[b->id[from]];
        }

        b->end[i] = to;
    }

    b->ids = to;
}

const int32_t *sw_bags_get(const struct sw_bags *b, int64_t i, int64_t *n)
{
    const int64_t first = i ? b->end[i - 1] : 0;
    *n = b->end[i] - first;
    return b->id ? b->id + first : NULL; /* no bag has a word */
}

int64_t sw_bags_most(const struct sw_bags *b)
{
    int64_t most = 0;

    for (int64_t i = 0; i < b->count; i++) {
        int64_t n;
        sw_bags_get(b, i, &n);
        most = n > most ? n : most;
    }

    return most;
}
