/* What a built net says of partitions that its layers could have is what the partitioner does when
 * a recipe asks for them: on random nets, for several numbers of workers. */
#include "unit/net/net_support.h"
#include "unit/net/random_net.h"

#include "base/tree.h"
#include "net/layer_choices.h"

enum { NETS = 24, MOST_WORKERS = 4, ROWS = 8 };

static const struct plan_of_world plan = {
    .rows = ROWS, .channels = 3, .height = 8, .width = 10, .classes = RANDOM_CLASSES};

/* Lines that ask for a partition, on the last worker if on one. */
static void keys_of(enum sw_partition p, int workers, char out[64])
{
    if (p == SW_PARTITION_NONE)
        snprintf(out, 64, "location = %d\n", workers - 1);
    else
        snprintf(out, 64, "partition = %s\n", sw_partition_names[p]);
}

/* Adds lines to the section of a layer. */
static char *with_keys(const char *text, const char *layer, const char *keys)
{
    char header[80];
    snprintf(header, sizeof header, "[layer %s]\n", layer);
    const char *at = strstr(text, header);
    assert_non_null(at);
    at += strlen(header);
    return sw_format("%.*s%s%s", (int)(at - text), text, keys, at);
}

/* Builds the net of every worker. */
static int build(const char *text, int workers, char *says, size_t bytes)
{
    struct sw_err err = {0};
    int rc = SW_OK;
    for (int i = 0; i < workers && rc == SW_OK; i++) {
        struct fixture f = open_cpu(false, 1);
        struct sw_recipe *recipe = load_layers(text);
        struct sw_net *net = NULL;
        int64_t first, rows;
        sw_part(plan.rows, workers, i, &first, &rows);
        const int64_t dim[4] = {rows, plan.channels, plan.height, plan.width};
        const struct sw_net_field fields[2] = {
            {.name = "image", .desc = sw_desc_plain(SW_F32, 4, dim)},
            {.name = "label", .desc = sw_desc_plain(SW_I32, 1, dim)}};
        const struct sw_net_args args = {.recipe = recipe,
                                         .stream = f.stream,
                                         .seed = 3,
                                         .training = true,
                                         .rows = rows,
                                         .batch_rows = plan.rows,
                                         .group_rows = plan.rows,
                                         .workers = workers,
                                         .worker = i,
                                         .fields = fields,
                                         .field_count = 2,
                                         .source = "test"};
        rc = sw_net_new(&args, &net, &err);
        if (rc != SW_OK && sw_recipe_diags(recipe)->count > 0)
            snprintf(says, bytes, "%s", sw_recipe_diags(recipe)->items[0].text);
        else if (rc != SW_OK)
            snprintf(says, bytes, "%s", err.text);
        sw_net_free(net);
        sw_recipe_free(recipe);
        close_cpu(&f);
    }
    return rc;
}

/* Has the layer a parameter that another layer also has? */
static bool is_tied(const struct sw_net *net, int i)
{
    for (int p = 0; p < sw_net_param_count(net); p++) {
        const struct sw_net_param *np = sw_net_param(net, p);
        if (np->root >= 0 && (np->layer == i || sw_net_param(net, np->root)->layer == i))
            return true;
    }
    return false;
}

static void check_layer(const char *text, const struct sw_net *net, int i, int workers)
{
    char keys[64], says[1024] = "";
    const char *name = sw_net_layer(net, i)->name;
    for (int p = SW_PARTITION_ROWS; p <= SW_PARTITION_NONE; p++) {
        const char *reason = sw_net_refuses_partition(net, i, (enum sw_partition)p, workers);
        keys_of((enum sw_partition)p, workers, keys);
        char *asking = with_keys(text, name, keys);
        bool accepted = build(asking, workers, says, sizeof says) == SW_OK;
        if (accepted != !reason)
            fail_msg("%s: %s over %d workers is %s, but %s\n%s", name, keys, workers,
                     accepted ? "accepted" : says, reason ? reason : "said to be possible", asking);
        /* Tied layers, and columns of a source, are refused where they meet, in other words. */
        if (reason && !(p == SW_PARTITION_NONE && is_tied(net, i)) &&
            !strstr(reason, "its source has fewer") && !strstr(says, reason))
            fail_msg("%s: %s over %d workers: \"%s\" does not say \"%s\"", name, keys, workers,
                     says, reason);
        sw_free(asking);
    }
}

static void answers_are_those_of_the_partitioner(void **state)
{
    for (uint64_t seed = 0; seed < NETS; seed++) {
        const struct random_net_terms terms = {.height = 8, .width = 10, .trains = seed % 2 == 0};
        char *text = random_net_for(seed, &terms);
        struct world w = world_open(text, &plan);
        for (int i = 0; i < sw_net_layer_count(w.net); i++)
            check_layer(text, w.net, i, 2 + (int)((seed + (uint64_t)i) % (MOST_WORKERS - 1)));
        world_free(&w);
        sw_free(text);
    }
}

/* Partitions that layers may have each can be had together. */
static void possible_partitions_go_together(void **state)
{
    for (uint64_t seed = 0; seed < 4 * NETS; seed++) {
        const struct random_net_terms terms = {.height = 8, .width = 10, .trains = seed % 2 == 0};
        char *text = random_net_for(seed, &terms), keys[64], says[1024] = "";
        struct world w = world_open(text, &plan);
        struct rng r = rng_of(7000 + seed);
        int workers = 2 + (int)(seed % (MOST_WORKERS - 1));
        for (int i = 0; i < sw_net_layer_count(w.net); i++) {
            enum sw_partition p =
                (enum sw_partition)rng_int(&r, SW_PARTITION_ROWS, SW_PARTITION_NONE);
            if (sw_net_refuses_partition(w.net, i, p, workers))
                continue;
            keys_of(p, 1 + (int)rng_int(&r, 0, workers - 1), keys);
            char *more = with_keys(text, sw_net_layer(w.net, i)->name, keys);
            sw_free(text);
            text = more;
        }
        if (build(text, workers, says, sizeof says) != SW_OK)
            fail_msg("over %d workers: %s\n%s", workers, says, text);
        world_free(&w);
        sw_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_partitioner),
        cmocka_unit_test(possible_partitions_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
