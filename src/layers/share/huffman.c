/* Builds Huffman trees with two queues: the words in the order of their counts, and the inner
 * nodes, which are made in the order of theirs. */
#include "layers/share/huffman.h"
#include "base/os.h"
#include <stdlib.h>

/* Nodes 0 .. words-1 are words in ascending order of their counts, the others inner nodes. */
struct tree {
    int64_t words;
    struct leaf *leaf; /* owned [words] */
    int64_t *times;    /* owned [2 words] */
    int64_t *parent;   /* owned [2 words] */
    uint8_t *branch;   /* owned [2 words] */
    int64_t *length;   /* owned [2 words]: of the path from the root */
};

struct leaf {
    int64_t times, word;
};

static int by_times(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;

    if (x->times != y->times)
        return x->times < y->times ? -1 : 1;
    return x->word > y->word ? -1 : x->word < y->word;
}

static void fini(struct tree *t)
{
    sw_free(t->leaf);
    sw_free(t->times);
    sw_free(t->parent);
    sw_free(t->branch);
    sw_free(t->length);
}

static int init(struct tree *t, int64_t words, struct sw_err *err)
{
    const size_t nodes = 2 * (size_t)words;

    *t = (struct tree){.words = words,
                       .leaf = sw_calloc((size_t)words, sizeof *t->leaf),
                       .times = sw_calloc(nodes, sizeof *t->times),
                       .parent = sw_calloc(nodes, sizeof *t->parent),
                       .branch = sw_calloc(nodes, sizeof *t->branch),
                       .length = sw_calloc(nodes, sizeof *t->length)};
    if (t->leaf && t->times && t->parent && t->branch && t->length)
        return SW_OK;

    fini(t);
    return sw_err_nomem(err, "a tree of words", nodes * sizeof *t->times);
}

/* Takes the node with the lowest count from the fronts of the two queues. */
static int64_t take(const struct tree *t, int64_t *leaf, int64_t *inner, int64_t made)
{
    if (*leaf < t->words && (*inner == made || t->times[*leaf] <= t->times[*inner]))
        return (*leaf)++;
    return (*inner)++;
}

static void merge(struct tree *t)
{
    int64_t leaf = 0, inner = t->words;

    for (int64_t made = t->words; made < 2 * t->words - 1; made++)
        for (uint8_t branch = 0; branch < 2; branch++) {
            const int64_t node = take(t, &leaf, &inner, made);
            t->times[made] += t->times[node];
            t->parent[node] = made;
            t->branch[node] = branch;
        }

    for (int64_t node = 2 * t->words - 3; node >= 0; node--)
        t->length[node] = t->length[t->parent[node]] + 1;
}

static void write_path(const struct tree *t, int64_t node, int32_t *end)
{
    for (; node != 2 * t->words - 2; node = t->parent[node])
        *--end = (int32_t)((t->parent[node] - t->words) * 2 + t->branch[node]);
}

static int write_paths(struct sw_huffman *h, const struct tree *t, struct sw_err *err)
{
    int64_t total = 0;

    h->end = sw_calloc((size_t)t->words, sizeof *h->end);
    if (!h->end)
        return sw_err_nomem(err, "a tree of words", (size_t)t->words * sizeof *h->end);

    for (int64_t i = 0; i < t->words; i++) {
        h->end[t->leaf[i].word] = t->length[i];
        h->longest = t->length[i] > h->longest ? t->length[i] : h->longest;
    }

    for (int64_t w = 0; w < t->words; w++)
        h->end[w] = total += h->end[w];

    h->path = sw_calloc((size_t)total + 1, sizeof *h->path);
    if (!h->path)
        return sw_err_nomem(err, "a tree of words", (size_t)total * sizeof *h->path);

    for (int64_t i = 0; i < t->words; i++)
        write_path(t, i, h->path + h->end[t->leaf[i].word]);
    return SW_OK;
}

int sw_huffman_make(struct sw_huffman *h, const int64_t *times, int64_t words, struct sw_err *err)
{
    struct tree t;

    *h = (struct sw_huffman){0};
    int rc = init(&t, words, err);
    if (rc != SW_OK)
        return rc;

    for (int64_t w = 0; w < words; w++)
        t.leaf[w] = (struct leaf){times[w], w};
    qsort(t.leaf, (size_t)words, sizeof *t.leaf, by_times);
    for (int64_t i = 0; i < words; i++)
        t.times[i] = t.leaf[i].times;

    merge(&t);
    rc = write_paths(h, &t, err);
    fini(&t);
    if (rc != SW_OK)
        sw_huffman_fini(h);

    return rc;
}

void sw_huffman_fini(struct sw_huffman *h)
{
    sw_free(h->path);
    sw_free(h->end);
    *h = (struct sw_huffman){0};
}
