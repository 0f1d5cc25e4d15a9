/* ctest-timeout: 240
 * What a built net says of partitions that its layers could have is what the partitioner does when
 * a recipe asks for them: on random nets of images, Boltzmann machines and sequences, for several
 * numbers of workers. */
#include "unit/net/net_support.h"
#include "unit/net/random_machines.h"
#include "unit/net/random_net.h"
#include "unit/net/random_sequences.h"

#include "base/tree.h"
#include "net/layer_choices.h"

enum { NETS = 16, MOST_WORKERS = 4, ROWS = 8, CHANNELS = 3, HEIGHT = 8, WIDTH = 10, STEPS = 4 };

enum kind { IMAGES, MACHINES, SEQUENCES, KINDS };

static const enum sw_algorithm algorithms[] = {SW_ALGORITHM_BP, SW_ALGORITHM_CD, SW_ALGORITHM_BPTT};

/* Blanks out sections of other kinds. */
static char *layers_only(char *text)
{
    for (char *at; (at = strstr(text, "[updater ")) != NULL;)
        memset(at, '\n', strcspn(at + 1, "[") + 1);
    return text;
}

/* Owned by the caller. */
static char *text_of(enum kind kind, uint64_t seed)
{
    const struct random_net_terms terms = {
        .height = HEIGHT, .width = WIDTH, .trains = seed % 2 == 0};
    bool stateful;

    return kind == IMAGES     ? random_net_for(seed, &terms)
           : kind == MACHINES ? layers_only(random_machines_for(seed))
                              : random_sequences_for(seed, STEPS, RANDOM_CLASSES, &stateful);
}

/* A worker's net of a group, or what is wrong with it. */
struct built {
    struct fixture f;
    struct sw_recipe *recipe;
    struct sw_net *net; /* NULL: it could not be built */
    char says[1024];
};

static void build_one(struct built *b, enum kind kind, const char *text, int workers, int worker)
{
    struct sw_err err = {0};
    int64_t first, rows;
    sw_part(ROWS, workers, worker, &first, &rows);
    const int64_t dim[4] = {rows, CHANNELS, HEIGHT, WIDTH}, list[2] = {rows, STEPS};
    const struct sw_net_field fields[] = {
        {.name = "image", .desc = sw_desc_plain(SW_F32, 4, dim)},
        {.name = "label", .desc = sw_desc_plain(SW_I32, 1, dim)},
        {.name = "tokens", .desc = sw_desc_plain(SW_I32, 2, list)},
        {.name = "target", .desc = sw_desc_plain(SW_I32, 2, list)}};
    *b = (struct built){.f = open_cpu(false, 1), .recipe = load_layers(text)};
    const struct sw_net_args args = {.recipe = b->recipe,
                                     .stream = b->f.stream,
                                     .seed = 3,
                                     .algorithm = algorithms[kind],
                                     .training = true,
                                     .rows = rows,
                                     .batch_rows = ROWS,
                                     .group_rows = ROWS,
                                     .workers = workers,
                                     .worker = worker,
                                     .fields = fields,
                                     .field_count = sizeof fields / sizeof *fields,
                                     .source = "test"};
    if (sw_net_new(&args, &b->net, &err) == SW_OK)
        return;
    b->net = NULL;
    const struct sw_diags *d = sw_recipe_diags(b->recipe);
    snprintf(b->says, sizeof b->says, "%s", d->count > 0 ? d->items[0].text : err.text);
}

static void drop(struct built *b)
{
    sw_net_free(b->net);
    sw_recipe_free(b->recipe);
    close_cpu(&b->f);
}

/* Can the nets of all workers be built? says: what is wrong, of as many bytes as in struct built.
 */
static bool is_accepted(enum kind kind, const char *text, int workers, char *says)
{
    bool accepted = true;
    says[0] = '\0';
    for (int i = 0; i < workers && accepted; i++) {
        struct built b;
        build_one(&b, kind, text, workers, i);
        accepted = b.net != NULL;
        memcpy(says, b.says, sizeof b.says);
        drop(&b);
    }
    return accepted;
}

/* The text, which is freed, with a key that asks for a partition of a layer. */
static char *asking(char *text, const char *layer, enum sw_partition p, int location)
{
    char header[80], key[64];
    snprintf(header, sizeof header, "[layer %s]\n", layer);
    if (p == SW_PARTITION_NONE)
        snprintf(key, sizeof key, "location = %d\n", location);
    else
        snprintf(key, sizeof key, "partition = %s\n", sw_partition_names[p]);
    const char *at = strstr(text, header);
    assert_non_null(at);
    at += strlen(header);
    char *more = sw_format("%.*s%s%s", (int)(at - text), text, key, at);
    sw_free(text);
    return more;
}

/* Has the layer a parameter that another one also has? */
static bool is_tied(const struct sw_net *net, int i)
{
    for (int p = 0; p < sw_net_param_count(net); p++) {
        const struct sw_net_param *np = sw_net_param(net, p);
        if (np->root >= 0 && (np->layer == i || sw_net_param(net, np->root)->layer == i))
            return true;
    }
    return false;
}

static void check_layer(enum kind kind, const char *text, const struct sw_net *net, int i,
                        int workers)
{
    char says[sizeof((struct built *)0)->says];
    const char *name = sw_net_layer(net, i)->name;
    for (enum sw_partition p = SW_PARTITION_ROWS; p <= SW_PARTITION_NONE; p++) {
        const char *reason = sw_net_refuses_partition(net, i, p, workers);
        char *more = asking(sw_format("%s", text), name, p, workers - 1);
        bool accepted = is_accepted(kind, more, workers, says);
        /* Together with the other layers that have its parameter it could be on one worker. */
        bool tied = p == SW_PARTITION_NONE && is_tied(net, i);
        if (accepted != !reason)
            fail_msg("%s: partition %s over %d workers is %s, but %s\n%s", name,
                     sw_partition_names[p], workers, accepted ? "accepted" : says,
                     reason ? reason : "said to be possible", more);
        /* Columns of a source are refused where they are used, with their number. */
        if (reason && !tied && !strstr(reason, "its source has fewer") && !strstr(says, reason))
            fail_msg("%s: partition %s over %d workers: \"%s\" does not say \"%s\"", name,
                     sw_partition_names[p], workers, says, reason);
        sw_free(more);
    }
}

static void answers_are_those_of_the_partitioner(void **state)
{
    for (uint64_t seed = 0; seed < NETS; seed++)
        for (enum kind kind = IMAGES; kind < KINDS; kind++) {
            char *text = text_of(kind, seed);
            struct built b;
            build_one(&b, kind, text, 1, 0);
            if (!b.net)
                fail_msg("%s\n%s", b.says, text);
            for (int i = 0; i < sw_net_layer_count(b.net); i++)
                if (!sw_net_is_unrolled(b.net, i))
                    check_layer(kind, text, b.net, i,
                                2 + (int)((seed + (uint64_t)i) % (MOST_WORKERS - 1)));
            drop(&b);
            sw_free(text);
        }
}

/* Partitions that layers may have each can be had together. */
static void possible_partitions_go_together(void **state)
{
    char says[sizeof((struct built *)0)->says];
    for (uint64_t seed = 0; seed < 3 * NETS; seed++)
        for (enum kind kind = IMAGES; kind < KINDS; kind++) {
            char *text = text_of(kind, seed);
            struct built b;
            struct rng r = rng_of(7000 + seed);
            int workers = 2 + (int)(seed % (MOST_WORKERS - 1));
            build_one(&b, kind, text, 1, 0);
            assert_non_null(b.net);
            for (int i = 0; i < sw_net_layer_count(b.net); i++) {
                int p = (int)rng_int(&r, SW_PARTITION_ROWS, SW_PARTITION_NONE);
                if (!sw_net_is_unrolled(b.net, i) &&
                    !sw_net_refuses_partition(b.net, i, (enum sw_partition)p, workers))
                    text = asking(text, sw_net_layer(b.net, i)->name, (enum sw_partition)p,
                                  (int)rng_int(&r, 0, workers - 1));
            }
            if (!is_accepted(kind, text, workers, says))
                fail_msg("over %d workers: %s\n%s", workers, says, text);
            drop(&b);
            sw_free(text);
        }
}

/* Time steps, whose section could say otherwise, and what stands between them. */
static void time_steps_are_in_rows(void **state)
{
    int steps = 0;
    for (uint64_t seed = 0; seed < NETS; seed++) {
        char *text = text_of(SEQUENCES, seed);
        struct built b;
        build_one(&b, SEQUENCES, text, 1, 0);
        for (int i = 0; i < sw_net_layer_count(b.net); i++) {
            struct sw_layer_factors f;
            if (!sw_net_is_unrolled(b.net, i))
                continue;
            steps++;
            assert_null(sw_net_refuses_partition(b.net, i, SW_PARTITION_ROWS, 2));
            assert_non_null(sw_net_refuses_partition(b.net, i, SW_PARTITION_COLUMNS, 2));
            assert_non_null(sw_net_refuses_partition(b.net, i, SW_PARTITION_NONE, 2));
            assert_non_null(sw_net_refuses_factors(b.net, i, &f));
        }
        drop(&b);
        sw_free(text);
    }
    assert_true(steps > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_partitioner),
        cmocka_unit_test(possible_partitions_go_together),
        cmocka_unit_test(time_steps_are_in_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
