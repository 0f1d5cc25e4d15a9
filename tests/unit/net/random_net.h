/* Recipes of random nets: branches that part and meet again, outputs with several readers, views,
 * chains that can run in place, several losses, layers that lead nowhere; sections in random order.
 */
#ifndef SW_TESTS_RANDOM_NET_H
#define SW_TESTS_RANDOM_NET_H

#include "net_support.h"

enum { RANDOM_LAYERS = 24, RANDOM_TEXT = 256, RANDOM_CLASSES = 6 };

struct random_net {
    struct rng r;
    int count; /* sections, and their texts */
    char text[RANDOM_LAYERS * 3][RANDOM_TEXT];
    int unknown;
    int feature_count; /* of which the first is the image */
    struct {
        char name[8];
        bool image; /* 4-D */
        int height, width, readers;
        int channels; /* or features; below 0 a number that stands for an unknown one */
    } feature[RANDOM_LAYERS + 1];
};

static inline int pick(struct random_net *n, int from, int to)
{
    return (int)rng_int(&n->r, from, to);
}

static inline void add_section(struct random_net *n, const char *fmt, ...) SW_PRINTF(2, 3);
static inline void add_section(struct random_net *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    assert_true(n->count < RANDOM_LAYERS * 3);
    int bytes = vsnprintf(n->text[n->count++], RANDOM_TEXT, fmt, ap);
    assert_true(bytes < RANDOM_TEXT);
    va_end(ap);
}

/* A feature that reads feature s; returns its name. */
static inline const char *add_feature(struct random_net *n, int s, bool image, int height,
                                      int width, int channels)
{
    int i = n->feature_count++;
    snprintf(n->feature[i].name, sizeof n->feature[i].name, "f%d", i);
    n->feature[i].image = image;
    n->feature[i].height = height;
    n->feature[i].width = width;
    n->feature[i].channels = channels;
    n->feature[i].readers = 0;
    n->feature[s].readers++;
    return n->feature[i].name;
}

/* One of the same shape. */
static inline const char *add_alike(struct random_net *n, int s)
{
    return add_feature(n, s, n->feature[s].image, n->feature[s].height, n->feature[s].width,
                       n->feature[s].channels);
}

static inline void add_inner_product(struct random_net *n, int s)
{
    int outputs = pick(n, RANDOM_CLASSES, 20);
    add_section(n, "[layer %s]\ntype = inner_product\nsrc = %s\noutputs = %d\nbias = %s\n",
                add_feature(n, s, false, 0, 0, outputs), n->feature[s].name, outputs,
                pick(n, 0, 3) ? "yes" : "no");
}

static inline void add_element_wise(struct random_net *n, int s)
{
    static const char *const functions[] = {"relu", "relu",  "leaky_relu", "sigmoid",
                                            "tanh", "stanh", "softplus",   "gelu"};
    const char *name = add_alike(n, s);
    int kind = pick(n, 0, 6);
    if (kind == 0)
        add_section(n, "[layer %s]\ntype = split\nsrc = %s\n", name, n->feature[s].name);
    else if (kind <= 2)
        add_section(n, "[layer %s]\ntype = dropout\nsrc = %s\nratio = 0.3\n", name,
                    n->feature[s].name);
    else
        add_section(n, "[layer %s]\ntype = activation\nsrc = %s\nfunction = %s\n", name,
                    n->feature[s].name, functions[pick(n, 0, 7)]);
}

static inline void add_batch_norm(struct random_net *n, int s)
{
    const char *name = add_alike(n, s);
    add_section(n, "[layer %s]\ntype = batch_norm\nsrc = %s\nsync = %s\n", name, n->feature[s].name,
                pick(n, 0, 2) ? "yes" : "no");
}

static inline void add_windowed(struct random_net *n, int s)
{
    int h = n->feature[s].height, w = n->feature[s].width;
    if (h >= 4 && w >= 4 && pick(n, 0, 1)) {
        const char *name = add_feature(n, s, true, h / 2, w / 2, n->feature[s].channels);
        add_section(n,
                    "[layer %s]\ntype = pooling\nsrc = %s\nmethod = %s\nkernel = 2\nstride = 2\n"
                    "round = floor\n",
                    name, n->feature[s].name, pick(n, 0, 1) ? "max" : "avg");
        return;
    }
    if (pick(n, 0, 2) == 0) {
        add_section(n, "[layer %s]\ntype = lrn\nsrc = %s\nsize = 3\nalpha = 0.5\n", add_alike(n, s),
                    n->feature[s].name);
        return;
    }
    int outputs = pick(n, 0, 2) ? 8 : pick(n, 1, 3) * pick(n, 1, 8);
    add_section(n, "[layer %s]\ntype = convolution\nsrc = %s\noutputs = %d\nkernel = 3\npad = 1\n",
                add_feature(n, s, true, h, w, outputs), n->feature[s].name, outputs);
}

/* A feature, perhaps s itself, that can stand beside s in a concat or, with as many channels, in an
 * eltwise; it is read once more. */
static inline const char *find_partner(struct random_net *n, int s, bool same_channels)
{
    int at = pick(n, 0, n->feature_count - 1);
    for (int tries = 0; tries < n->feature_count; tries++, at = (at + 1) % n->feature_count)
        if (n->feature[at].image == n->feature[s].image &&
            n->feature[at].height == n->feature[s].height &&
            n->feature[at].width == n->feature[s].width &&
            (!same_channels || n->feature[at].channels == n->feature[s].channels))
            break;
    n->feature[at].readers++;
    return n->feature[at].name;
}

static inline void add_eltwise(struct random_net *n, int s)
{
    static const char *const operations[] = {"sum", "sum", "product", "max"};
    const char *name = n->feature[s].name, *partner = find_partner(n, s, true);
    const char *first = pick(n, 0, 1) ? name : partner;
    const char *operation = operations[pick(n, 0, 3)], *eltwise = add_alike(n, s);
    add_section(n, "[layer %s]\ntype = eltwise\nsrc = %s, %s\noperation = %s\n", eltwise, first,
                first == name ? partner : name, operation);
    if (pick(n, 0, 1))
        add_section(n, "[layer %s]\ntype = activation\nsrc = %s\nfunction = relu\n",
                    add_alike(n, n->feature_count - 1), eltwise);
}

static inline void add_concat(struct random_net *n, int s)
{
    const char *name = n->feature[s].name, *partner = find_partner(n, s, false);
    add_section(n, "[layer %s]\ntype = concat\nsrc = %s, %s\n",
                add_feature(n, s, n->feature[s].image, n->feature[s].height, n->feature[s].width,
                            --n->unknown),
                name, partner);
}

/* Both halves of a feature. */
static inline void add_slices(struct random_net *n, int s)
{
    int channels = n->feature[s].channels;
    for (int part = 0; part < 2; part++)
        add_section(n, "[layer %s]\ntype = slice\nsrc = %s\nparts = 2\npart = %d\n",
                    add_feature(n, s, n->feature[s].image, n->feature[s].height,
                                n->feature[s].width, (channels + 1 - part) / 2),
                    n->feature[s].name, part);
}

/* Ends a feature that nobody reads in a loss, perhaps with metrics beside it. */
static inline void add_loss(struct random_net *n, int s)
{
    if (n->feature[s].image) {
        add_inner_product(n, s);
        s = n->feature_count - 1;
    }
    const char *name = n->feature[s].name;
    n->feature[s].readers++;
    add_section(n, "[layer loss_%s]\ntype = softmax_loss\nsrc = %s, label\nweight = %g\n", name,
                name, pick(n, 1, 4) * 0.5);
    if (pick(n, 0, 2) == 0)
        add_section(n, "[layer acc_%s]\ntype = accuracy\nsrc = %s, label\n", name, name);
    if (pick(n, 0, 3) == 0)
        add_section(n, "[layer top_%s]\ntype = accuracy\nsrc = loss_%s, label\n", name, name);
}

/* The recipe of net number `seed`; owned by the caller (sw_free). */
static inline char *random_net_text(uint64_t seed)
{
    struct random_net *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->r = rng_of(1000 + seed);
    n->feature_count = 1;
    strcpy(n->feature[0].name, "image");
    n->feature[0].image = true;
    n->feature[0].height = 8;
    n->feature[0].width = 10;
    n->feature[0].channels = --n->unknown;
    for (int layers = pick(n, 2, 12); layers > 0; layers--) {
        int s = pick(n, 0, 2) ? n->feature_count - 1 : pick(n, 0, n->feature_count - 1);
        int kind = pick(n, 0, 12);
        if (kind == 10)
            add_eltwise(n, s);
        else if (kind == 11)
            add_concat(n, s);
        else if (kind == 12 && n->feature[s].channels >= 2 * RANDOM_CLASSES)
            add_slices(n, s);
        else if (kind < 4)
            add_element_wise(n, s);
        else if (kind == 4)
            add_batch_norm(n, s);
        else if (kind < 9 && n->feature[s].image)
            add_windowed(n, s);
        else
            add_inner_product(n, s);
    }
    for (int i = 1, ends = n->feature_count; i < ends; i++)
        if (n->feature[i].readers == 0)
            add_loss(n, i);
    for (int dead = pick(n, 0, 1); dead > 0; dead--)
        add_element_wise(n, pick(n, 0, n->feature_count - 1));
    add_section(n, "%s", "[layer image]\ntype = input\nfield = image\n");
    add_section(n, "%s", "[layer label]\ntype = input\nfield = label\n");
    struct sw_buf b = {0};
    while (n->count) {
        int i = pick(n, 0, n->count - 1);
        sw_buf_add(&b, n->text[i]);
        memmove(n->text[i], n->text[--n->count], RANDOM_TEXT);
    }
    free(n);
    return sw_buf_take(&b);
}

#endif
