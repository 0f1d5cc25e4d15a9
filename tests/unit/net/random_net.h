/* Recipes of random nets: branches that split and join, outputs with several readers, views, chains
 * that can run in place, several losses, layers that lead nowhere; sections in random order. Nets
 * that are trained in several configurations and compared (`trains`) have more layer types and
 * nothing that amplifies rounding: statistics are over all workers, no initial value is zero where
 * its gradient may be, and there are no products of activations, whose scale is unbounded. */
#pragma once

#include "unit/device/device_support.h"

#include "base/os.h"
#include "base/str.h"

enum { RANDOM_LAYERS = 48, RANDOM_TEXT = 256, RANDOM_CLASSES = 6 };

/* Of the pictures that the net reads. */
struct random_net_terms {
    int height, width;
    bool trains;
    bool smooth; /* of those that train: no function has a kink that a rounding could cross */
};

struct random_net {
    struct rng r;
    bool trains, smooth;
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
    assert_true(i <= RANDOM_LAYERS);
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

/* Keys of a layer with a bias. Before a normalisation its gradient is nothing but rounding, which
 * shows in a value that began as zero. */
static inline const char *bias_of(const struct random_net *n)
{
    return n->trains ? "bias.init = gaussian\nbias.std = 0.1\n" : "";
}

static inline void add_inner_product(struct random_net *n, int s)
{
    int outputs = pick(n, RANDOM_CLASSES, 20), bias = pick(n, 0, 3);
    add_section(n, "[layer %s]\ntype = inner_product\nsrc = %s\noutputs = %d\nbias = %s\n%s",
                add_feature(n, s, false, 0, 0, outputs), n->feature[s].name, outputs,
                bias ? "yes" : "no", bias ? bias_of(n) : "");
}

/* There and back with one weight: as it is, and the other way round. */
static inline void add_shared_pair(struct random_net *n, int s)
{
    int inputs = pick(n, RANDOM_CLASSES, 12), outputs = pick(n, RANDOM_CLASSES, 12);
    const char *below = add_feature(n, s, false, 0, 0, inputs), *src = n->feature[s].name;
    add_section(n, "[layer %s]\ntype = inner_product\nsrc = %s\noutputs = %d\n%s", below, src,
                inputs, bias_of(n));
    s = n->feature_count - 1;
    const char *there = add_feature(n, s, false, 0, 0, outputs);
    add_section(n, "[layer %s]\ntype = inner_product\nsrc = %s\noutputs = %d\n%s", there, below,
                outputs, bias_of(n));
    const char *back = add_feature(n, s + 1, false, 0, 0, inputs);
    add_section(n,
                "[layer %s]\ntype = inner_product\nsrc = %s\noutputs = %d\ntranspose = yes\n"
                "weight.share = %s.weight\n%s",
                back, there, inputs, there, bias_of(n));
}

static inline void add_element_wise(struct random_net *n, int s)
{
    static const char *const functions[] = {"relu", "relu",  "leaky_relu", "sigmoid",
                                            "tanh", "stanh", "softplus",   "gelu"};
    enum { SMOOTH = 3 };
    const char *name = add_alike(n, s);
    int kind = pick(n, 0, 6);
    if (kind == 0)
        add_section(n, "[layer %s]\ntype = split\nsrc = %s\n", name, n->feature[s].name);
    else if (kind <= 2)
        add_section(n, "[layer %s]\ntype = dropout\nsrc = %s\nratio = 0.3\n", name,
                    n->feature[s].name);
    else
        add_section(n, "[layer %s]\ntype = activation\nsrc = %s\nfunction = %s\n", name,
                    n->feature[s].name, functions[pick(n, n->smooth ? SMOOTH : 0, 7)]);
}

static inline void add_batch_norm(struct random_net *n, int s)
{
    const char *name = add_alike(n, s);
    add_section(n, "[layer %s]\ntype = batch_norm\nsrc = %s\nsync = %s\n%s", name,
                n->feature[s].name, pick(n, 0, 2) || n->trains ? "yes" : "no", bias_of(n));
}

/* Layers that keep shape, of types that only nets that train have. */
static inline void add_rarer(struct random_net *n, int s)
{
    const char *src = n->feature[s].name, *name = add_alike(n, s);
    switch (pick(n, 0, 3)) {
    case 0:
        add_section(n, "[layer %s]\ntype = layer_norm\nsrc = %s\n%s", name, src, bias_of(n));
        break;
    case 1:
        add_section(n, "[layer %s]\ntype = noise\nsrc = %s\nmethod = %s\n", name, src,
                    pick(n, 0, 1) ? "gaussian" : "masking");
        break;
    case 2: /* mean activations are over the rows of all workers */
        add_section(n, "[layer %s]\ntype = activation\nsrc = %s\nfunction = sigmoid\n", name, src);
        add_section(n, "[layer %s]\ntype = sparsity\nsrc = %s\nrho = 0.3\nbeta = 0.05\n",
                    add_alike(n, n->feature_count - 1), name);
        break;
    default:
        add_section(n, "[layer %s]\ntype = softmax\nsrc = %s\n", name, src);
    }
}

static inline void add_windowed(struct random_net *n, int s)
{
    int h = n->feature[s].height, w = n->feature[s].width;
    if (h >= 4 && w >= 4 && pick(n, 0, 1)) {
        const char *name = add_feature(n, s, true, h / 2, w / 2, n->feature[s].channels);
        add_section(n,
                    "[layer %s]\ntype = pooling\nsrc = %s\nmethod = %s\nkernel = 2\nstride = 2\n"
                    "round = floor\n",
                    name, n->feature[s].name, pick(n, 0, 1) && !n->smooth ? "max" : "avg");
        return;
    }
    if (pick(n, 0, 2) == 0) {
        const char *region = n->trains && n->feature_count % 2 ? "region = within_channel\n" : "";
        add_section(n, "[layer %s]\ntype = lrn\nsrc = %s\nsize = 3\nalpha = 0.5\n%s",
                    add_alike(n, s), n->feature[s].name, region);
        return;
    }
    int usual = n->trains && n->feature_count % 2 ? 12 : 8;
    int outputs = pick(n, 0, 2) ? usual : pick(n, 1, 3) * pick(n, 1, 8),
        channels = n->feature[s].channels;
    const char *type = n->trains && pick(n, 0, 5) == 0 ? "deconvolution" : "convolution";
    /* As many as line up with a split over two workers, or four. */
    int groups = n->trains && channels > 0 && outputs % 4 == 0 ? pick(n, 0, 2) : 0;
    groups = groups > 0 && channels % (2 * groups) == 0 ? 2 * groups : 1;
    /* And some that do not. */
    if (n->trains && groups == 1 && channels > 0 && channels % 3 == 0) {
        groups = 3;
        outputs = (outputs + 2) / 3 * 3;
    }
    add_section(n,
                "[layer %s]\ntype = %s\nsrc = %s\noutputs = %d\nkernel = 3\npad = 1\n"
                "groups = %d\n%s",
                add_feature(n, s, true, h, w, outputs), type, n->feature[s].name, outputs, groups,
                bias_of(n));
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
    int kind = pick(n, 0, 3);
    const char *operation =
        operations[(n->trains && kind == 2) || (n->smooth && kind == 3) ? 0 : kind];
    const char *eltwise = add_alike(n, s);
    add_section(n, "[layer %s]\ntype = eltwise\nsrc = %s, %s\noperation = %s\n", eltwise, first,
                first == name ? partner : name, operation);
    if (pick(n, 0, 1))
        add_section(n, "[layer %s]\ntype = activation\nsrc = %s\nfunction = %s\n",
                    add_alike(n, n->feature_count - 1), eltwise, n->smooth ? "tanh" : "relu");
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
    bool hinge = n->trains && pick(n, 0, 3) == 0;
    add_section(n, "[layer loss_%s]\ntype = %s\nsrc = %s, label\nweight = %g\n%s", name,
                hinge ? "hinge_loss" : "softmax_loss", name, pick(n, 1, 4) * 0.5,
                hinge && n->smooth ? "norm = l2\n" : "");
    if (hinge)
        return;
    if (pick(n, 0, 2) == 0)
        add_section(n, "[layer acc_%s]\ntype = accuracy\nsrc = %s, label\n", name, name);
    if (pick(n, 0, 3) == 0)
        add_section(n, "[layer top_%s]\ntype = accuracy\nsrc = loss_%s, label\n", name, name);
}

/* A loss between two features of one shape, each of which leads to another loss, too. */
static inline void add_distance(struct random_net *n, int s)
{
    const char *name = n->feature[s].name, *partner = find_partner(n, s, true);
    if (partner != name)
        add_section(n, "[layer apart_%s]\ntype = euclidean_loss\nsrc = %s, %s\nweight = 0.01\n",
                    name, name, partner);
}

/* The feature that is added to: the newest, or any; in nets that train often the newest image. */
static inline int pick_feature(struct random_net *n)
{
    int s = n->feature_count - 1;
    if (n->trains && pick(n, 0, 1))
        while (!n->feature[s].image)
            s--;
    return pick(n, 0, 2) ? s : pick(n, 0, n->feature_count - 1);
}

static inline void add_layer(struct random_net *n)
{
    int s = pick_feature(n);
    int kind = pick(n, 0, n->trains ? 15 : 12);
    if (kind == 15)
        add_shared_pair(n, s);
    else if (kind >= 13)
        add_rarer(n, s);
    else if (kind == 10)
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

/* All sections, in random order; owned by the caller (sw_free). */
static inline char *shuffle_sections(struct random_net *n)
{
    struct sw_bytes b = {0};
    while (n->count) {
        int i = pick(n, 0, n->count - 1);
        sw_bytes_add(&b, n->text[i]);
        memmove(n->text[i], n->text[--n->count], RANDOM_TEXT);
    }
    return sw_bytes_take(&b);
}

/* The layers of net number `seed`; owned by the caller (sw_free). */
static inline char *random_net_for(uint64_t seed, const struct random_net_terms *terms)
{
    struct random_net *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->r = rng_of(1000 + seed);
    n->trains = terms->trains;
    n->smooth = terms->smooth;
    n->feature_count = 1;
    strcpy(n->feature[0].name, "image");
    n->feature[0].image = true;
    n->feature[0].height = terms->height;
    n->feature[0].width = terms->width;
    n->feature[0].channels = --n->unknown;
    for (int layers = pick(n, 2, 12); layers > 0; layers--)
        add_layer(n);
    for (int i = 1, ends = n->feature_count; i < ends; i++)
        if (n->feature[i].readers == 0)
            add_loss(n, i);
    if (n->trains && pick(n, 0, 2) == 0)
        add_distance(n, pick(n, 1, n->feature_count - 1));
    for (int dead = pick(n, 0, 1); dead > 0; dead--)
        add_element_wise(n, pick(n, 0, n->feature_count - 1));
    add_section(n, "%s", "[layer image]\ntype = input\nfield = image\n");
    add_section(n, "%s", "[layer label]\ntype = input\nfield = label\n");
    char *text = shuffle_sections(n);
    free(n);
    return text;
}

static inline char *random_net_text(uint64_t seed)
{
    return random_net_for(seed, &(struct random_net_terms){.height = 8, .width = 10});
}
