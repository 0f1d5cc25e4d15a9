/* ctest-labels: threads
 * ctest-timeout: 300
 * The planner's models of real jobs: a model is what `check` says of the net; a plan becomes
 * settings with which a job follows it; times of layers come from runs and from measurements that
 * are kept; and a plan's memory is that of the job. */
#include "base/json.h"
#include "net/layer_choices.h"
#include "planner/parallel_plan.h"
#include "run/planning.h"
#include "unit/planner/planner_support.h"
#include "workers_support.h"

/* ---- models ---- */

struct model {
    struct sw_job *job;
    struct sw_net_model *net;
};

static struct model model_of(const struct sw_job_options *o)
{
    struct model m = {0};
    struct sw_bytes messages = {0};
    struct sw_err err;
    if (sw_planning_open(o, NULL, &m.job, &messages, &err) != SW_OK)
        fail_msg("%s: %s%s", o->recipe_path, err.text, sw_bytes_text(&messages));
    sw_bytes_fini(&messages);
    if (sw_planning_net(m.job, &m.net, &err) != SW_OK)
        fail_msg("%s: %s", o->recipe_path, err.text);
    return m;
}

static void model_free(struct model *m)
{
    sw_planning_net_free(m->net);
    sw_job_close(m->job);
}

static int layer_at(const struct sw_net_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->layer[i].name, name) == 0)
            return i;
    fail_msg("there is no layer %s", name);
    return -1;
}

/* The same job as `check` opens it, with one worker. */
static struct sw_job *check_of(const char *path)
{
    static const char *const one[] = {"cluster.workers_per_group=1", "cluster.worker_groups=1",
                                      "cluster.framework=custom", "cluster.server_groups=1"};
    const struct sw_job_options o = {
        .recipe_path = path, .sets = one, .set_count = 4, .device = "cpu", .no_probes = true};
    struct sw_bytes messages = {0};
    struct sw_job *job = NULL;
    struct sw_err err;
    if (sw_job_open(&o, NULL, &job, &messages, &err) != SW_OK)
        fail_msg("%s: %s%s", path, err.text, sw_bytes_text(&messages));
    sw_bytes_fini(&messages);
    return job;
}

static void check_layer(const struct sw_job_layer *row, const struct sw_layer_model *l)
{
    assert_string_equal(l->name, row->name);
    assert_string_equal(l->type, row->type);
    assert_true(l->forward_flops == row->flops_forward);
    assert_true(l->backward_flops == row->flops_backward);
    assert_int_equal(l->params, row->params); /* nothing is frozen */
    assert_int_equal(l->output_bytes, row->feature_bytes);
    assert_int_equal(l->gradient_bytes, row->gradient_bytes);
    assert_int_equal(l->saved_bytes, row->saved_bytes);
    assert_int_equal(l->source_count, row->read_count);
    for (int k = 0; k < l->source_count; k++)
        assert_int_equal(l->source[k], row->reads[k]);
    assert_true(l->has_backward || l->backward_flops == 0);
    assert_true(isfinite(l->forward_bytes) && isfinite(l->backward_bytes));
    assert_true(l->has_backward == (l->backward_bytes > 0) || l->columns == 0 || row->in_place);
}

static void check_recipe(const char *name)
{
    char *path = sw_format("%s/recipes/%s.ini", SW_SOURCE_DIR, name);
    struct model m = model_of(&(struct sw_job_options){.recipe_path = path, .device = "cpu"});
    struct sw_job *job = check_of(path);
    const struct sw_job_plan *plan = sw_job_plan(job);
    double flops = 0;
    int64_t params = 0;
    assert_true(m.net->count <= plan->layer_count);
    assert_int_equal(m.net->batch, plan->batch);
    for (int i = 0; i < plan->layer_count; i++) {
        assert_true(plan->layers[i].train == (i < m.net->count));
        if (i >= m.net->count)
            break;
        check_layer(&plan->layers[i], &m.net->layer[i]);
        flops += m.net->layer[i].forward_flops + m.net->layer[i].backward_flops;
        params += m.net->layer[i].params;
    }
    assert_int_equal(params, plan->params);
    assert_true(fabs(flops / (double)plan->batch - plan->flops_per_sample) <=
                1e-9 * plan->flops_per_sample);
    sw_job_close(job);
    model_free(&m);
    sw_free(path);
}

static void models_are_what_check_says(void **state)
{
    static const char *const recipes[] = {"alexnet",  "cifar10-quick", "mnist-mlp", "char-rnn",
                                          "resnet50", "googlenet",     "rbm1"};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        check_recipe(recipes[i]);
}

/* A layer whose numbers are known. */
static void bytes_and_factors_follow_from_the_shapes(void **state)
{
    struct model m = model_of(&(struct sw_job_options){
        .recipe_path = write_recipe("m.ini", workers_recipe), .device = "cpu"});
    const double rows = 25, inputs = 24, out = 4, weight = 24 * 4 + 4;
    const struct sw_layer_model *l = &m.net->layer[layer_at(m.net, "fc2")];
    assert_true(l->steps == 1 && l->inputs == inputs && l->outputs == out && l->columns == out);
    assert_int_equal(l->params, (int64_t)weight);
    assert_true(l->forward_flops == 2 * rows * inputs * out);
    /* Those of the parameters as they are stored, perhaps padded. */
    const double stored = (double)sw_job_plan(m.job)->layers[layer_at(m.net, "fc2")].param_bytes;
    assert_true(l->forward_bytes == 4 * rows * (inputs + out) + stored);
    /* The gradient of the output, the source and its gradient, the parameters and theirs. */
    assert_true(l->backward_bytes == 4 * rows * (out + 2 * inputs) + 2 * stored);
    assert_true(!l->reads_columns && !l->is_input && l->has_backward);
    assert_true(m.net->layer[layer_at(m.net, "conv1")].steps == 0);
    assert_true(m.net->layer[layer_at(m.net, "act1")].reads_columns);
    assert_true(m.net->layer[layer_at(m.net, "image")].is_input);
    assert_int_equal(m.net->updater_slots, 1);
    assert_false(m.net->controls_updates);
    assert_true(m.net->fixed_bytes > 0);
    model_free(&m);
}

static const char steps_recipe[] =
    "[job]\nsteps = 20\nbatch = 24\n[data train]\nformat = synthetic\nkind = sequences\n"
    "classes = 8\nrecords = 200\nlength = 5\n" UPDATER_SECTIONS
    "[layer text]\ntype = input\nfield = tokens\n[layer next]\ntype = input\nfield = target\n"
    "[layer words]\ntype = onehot\nsrc = text\nclasses = 8\nunroll = 5\n"
    "[layer cell]\ntype = gru\nsrc = words, cell\nhidden = 7\nunroll = 5\n"
    "[layer out]\ntype = inner_product\nsrc = cell\noutputs = 8\naxis = 2\n"
    "[layer loss]\ntype = softmax_loss\nsrc = out, next\n";

static void time_steps_are_one_layer_in_rows(void **state)
{
    const char *path = write_recipe("steps.ini", steps_recipe);
    struct model m = model_of(&(struct sw_job_options){.recipe_path = path, .device = "cpu"});
    int cell = layer_at(m.net, "cell@0..4");
    assert_true(m.net->layer[cell].columns == 5 * 7 && m.net->layer[cell].steps == 0);
    assert_true(m.net->layer[cell].params > 0);
    for (int i = 0; i < m.net->count; i++)
        if (strncmp(m.net->layer[i].name, "cell@", 5) == 0)
            for (int p = SW_PARTITION_ROWS; p <= SW_PARTITION_NONE; p++)
                assert_true(!m.net->refuses(m.net, i, (enum sw_partition)p, 2) ==
                            (p == SW_PARTITION_ROWS));
    model_free(&m);
    check_recipe("char-rnn");
}

/* What the recipe says of workers is for the plan, not for the model. */
static void a_model_has_one_worker(void **state)
{
    static const char *const sets[] = {"cluster.workers_per_group=3", "layer.fc1.location=2",
                                       "layer.fc2.partition=1", "layer.fc2.comm=auto",
                                       "job.memory=fit:1MiB"};
    struct model m = model_of(&(struct sw_job_options){
        .recipe_path = write_recipe("m.ini", workers_recipe), .sets = sets, .set_count = 5});
    struct sw_planning_keys keys;
    struct sw_err err;
    assert_int_equal(sw_planning_keys(m.net, &keys, &err), SW_OK);
    int fc1 = layer_at(m.net, "fc1"), fc2 = layer_at(m.net, "fc2"),
        conv1 = layer_at(m.net, "conv1");
    assert_int_equal(keys.location[fc1], 2);
    assert_int_equal(keys.partition[fc1], SW_PARTITION_NONE);
    assert_int_equal(keys.partition[fc2], SW_PARTITION_COLUMNS);
    assert_int_equal(keys.comm[fc2], SW_EXCHANGE_AUTO);
    assert_int_equal(keys.partition[conv1], -1);
    assert_int_equal(keys.location[conv1], -1);
    sw_planning_keys_fini(&keys);
    model_free(&m);

    struct trial t = {
        .recipe = workers_recipe, .oversubscribe = true, .sets = {"cluster.workers_per_group=2"}};
    struct sw_net_model *net = NULL;
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(sw_planning_net(t.job, &net, &err), SW_ERR_INVALID);
    trial_close(&t);
}

/* Of layers that place the columns of several sources, and of options that wait for all gradients.
 */
static void joins_and_controls_are_known(void **state)
{
    static const char *const sets[] = {"job.grad_clip=norm:1"};
    struct model m =
        model_of(&(struct sw_job_options){.recipe_path = write_recipe("m.ini", budget_recipe),
                                          .sets = sets,
                                          .set_count = 1,
                                          .device = "cpu"});
    assert_true(m.net->controls_updates);
    assert_true(m.net->layer[layer_at(m.net, "both")].joins);
    assert_false(m.net->layer[layer_at(m.net, "mix")].joins);
    model_free(&m);
}

/* ---- following a plan ---- */

static struct sw_parallel_plan plan_for(const struct sw_net_model *m, int workers)
{
    struct sw_parallel_plan p = {.shape = {.framework = SW_FRAMEWORK_CUSTOM,
                                           .consistency = SW_CONSISTENCY_BSP,
                                           .staleness = -1,
                                           .groups = 1,
                                           .group_size = workers,
                                           .servers = 2},
                                 .layers = m->count};
    p.choice = calloc((size_t)m->count, sizeof *p.choice);
    assert_non_null(p.choice);
    return p;
}

/* Whatever the layers can have. */
static void draw_choices(const struct sw_net_model *m, struct sw_parallel_plan *p, struct rng *r)
{
    for (int i = 0; i < m->count; i++) {
        struct sw_layer_choice *c = &p->choice[i];
        enum sw_partition wanted =
            (enum sw_partition)rng_int(r, SW_PARTITION_ROWS, SW_PARTITION_NONE);
        if (!m->refuses(m, i, wanted, p->shape.group_size))
            c->partition = wanted;
        if (c->partition == SW_PARTITION_NONE)
            c->location = (int)rng_int(r, 0, p->shape.group_size - 1);
        if (c->partition == SW_PARTITION_ROWS && m->layer[i].steps > 0)
            c->comm = (enum sw_exchange_mode)rng_int(r, SW_EXCHANGE_PS, SW_EXCHANGE_ADAM);
    }
}

static void check_plan(const struct sw_job *job, const struct sw_net_model *m,
                       const struct sw_parallel_plan *p)
{
    static const char *const spreads[] = {"rows", "columns", "sums", "one"};
    const struct sw_job_plan *plan = sw_job_plan(job);
    assert_int_equal(job->topology->worker_groups * job->topology->group_size,
                     p->shape.groups * p->shape.group_size);
    assert_int_equal(job->topology->servers, p->shape.servers);
    assert_string_equal(plan->framework, "custom");
    for (int i = 0, n = 0; i < m->count; i++, n++) {
        const struct sw_layer_choice *c = &p->choice[i];
        while (strcmp(plan->layers[n].name, m->layer[i].name) != 0)
            n++; /* a connection */
        assert_true(n < plan->layer_count);
        if (strcmp(plan->layers[n].spread, spreads[c->partition]) != 0)
            fail_msg("%s is in %s, not in %s", m->layer[i].name, plan->layers[n].spread,
                     spreads[c->partition]);
        if (c->partition == SW_PARTITION_NONE)
            for (int w = 0; w < p->shape.group_size; w++) {
                const struct sw_net *net = job->workers[w].train;
                assert_true(sw_net_info(net, sw_net_find(net, m->layer[i].name)).holds ==
                            (w == c->location));
            }
        if (c->partition == SW_PARTITION_ROWS && plan->layers[n].comm.mode)
            assert_string_equal(plan->layers[n].comm.mode, sw_exchange_mode_names[c->comm]);
    }
}

/* Opens the recipe with the settings of the plan, once each way. */
static void follow(const char *path, const struct sw_job_options *of, const struct model *m,
                   const struct sw_parallel_plan *p)
{
    struct sw_planning_texts texts;
    struct sw_err err;
    if (sw_planning_texts(m->net, p, 1, &texts, &err) != SW_OK)
        fail_msg("%s", err.text);
    for (int as_ini = 0; as_ini < 2; as_ini++) {
        const char *sets[64];
        struct sw_job_options o = *of;
        struct sw_bytes messages = {0};
        struct sw_job *job = NULL;
        int count = 0;
        for (int i = 0; i < of->set_count; i++)
            sets[count++] = of->sets[i];
        for (int i = 0; i < texts.count && !as_ini; i++)
            sets[count++] = texts.sets[i];
        o.sets = sets;
        o.set_count = count;
        o.oversubscribe = true;
        if (as_ini) {
            char *more = sw_format("include = %s\n%s", path, texts.ini);
            o.recipe_path = write_recipe("more.ini", more);
            sw_free(more);
        }
        if (sw_job_open(&o, NULL, &job, &messages, &err) != SW_OK)
            fail_msg("%s%s\n%s", err.text, sw_bytes_text(&messages), texts.ini);
        check_plan(job, m->net, p);
        sw_job_close(job);
        sw_bytes_fini(&messages);
    }
    sw_planning_texts_fini(&texts);
}

static void a_job_follows_the_settings_of_a_plan(void **state)
{
    const char *path = write_recipe("m.ini", workers_recipe);
    struct model m = model_of(&(struct sw_job_options){.recipe_path = path, .device = "cpu"});
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct rng r = rng_of(seed);
        struct sw_parallel_plan p = plan_for(m.net, 2 + (int)(seed % 2));
        draw_choices(m.net, &p, &r);
        follow(path, &(struct sw_job_options){.recipe_path = path, .device = "cpu"}, &m, &p);
        free(p.choice);
    }
    model_free(&m);
}

/* Opens the recipe with sets, and those of the plan behind them. */
static void open_with(const char *const *sets, const struct sw_planning_texts *texts,
                      struct trial *t)
{
    int count = 0;
    *t = (struct trial){.recipe = workers_recipe, .device = "cpu", .oversubscribe = true};
    for (; sets[count]; count++)
        t->sets[count] = sets[count];
    for (int i = 0; i < texts->count; i++)
        t->sets[count++] = texts->sets[i];
    if (trial_open(t) != SW_OK)
        fail_msg("%s%s\n%s", t->err.text, sw_bytes_text(&t->messages), texts->ini);
}

/* Only what differs from the recipe, which may differ from the defaults, and comm, whose default
 * depends on the device. */
static void settings_are_those_that_the_recipe_lacks(void **state)
{
    static const char *const sets[] = {"job.partition=1",         "cluster.comm=sfb",
                                       "layer.fc1.partition=1in", "layer.fc2.comm=adam",
                                       "cluster.worker_groups=2", NULL};
    const char *path = write_recipe("m.ini", workers_recipe);
    const struct sw_job_options plain = {.recipe_path = path, .device = "cpu"};
    struct sw_job_options other = plain;
    other.sets = sets;
    other.set_count = 5;
    struct model m = model_of(&plain), o = model_of(&other);
    struct sw_parallel_plan p = plan_for(m.net, 2);
    struct sw_planning_texts texts;
    struct sw_err err;
    p.choice[layer_at(m.net, "fc1")].comm = SW_EXCHANGE_SFB;
    p.choice[layer_at(m.net, "conv2")].partition = SW_PARTITION_COLUMNS;
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_OK);
    assert_string_equal(texts.ini,
                        "[cluster]\nframework = custom\nworkers_per_group = 2\n"
                        "servers_per_group = 2\ncomm = ps\n\n[layer conv2]\npartition = 1\n\n"
                        "[layer fc1]\ncomm = sfb\n");
    assert_int_equal(texts.count, 6);
    assert_string_equal(texts.sets[4], "layer.conv2.partition=1");
    sw_planning_texts_fini(&texts);

    for (uint64_t seed = 20; seed < 26; seed++) {
        struct rng r = rng_of(seed);
        draw_choices(o.net, &p, &r);
        struct sw_planning_texts all;
        assert_int_equal(sw_planning_texts(o.net, &p, 1, &all, &err), SW_OK);
        struct trial t;
        open_with(sets, &all, &t);
        check_plan(t.job, o.net, &p);
        trial_close(&t);
        sw_planning_texts_fini(&all);
        memset(p.choice, 0, (size_t)p.layers * sizeof *p.choice);
    }
    free(p.choice);
    model_free(&m);
    model_free(&o);
}

static void a_job_has_the_shape_of_a_plan(void **state)
{
    static const struct sw_plan_shape shapes[] = {
        {SW_FRAMEWORK_ALLREDUCE, SW_CONSISTENCY_BSP, -1, 1, 2, 2, 0},
        {SW_FRAMEWORK_ALLREDUCE, SW_CONSISTENCY_BSP, -1, 1, 1, 1, 1},
        {SW_FRAMEWORK_SANDBLASTER, SW_CONSISTENCY_BSP, -1, 1, 3, 1, 0},
        {SW_FRAMEWORK_DOWNPOUR, SW_CONSISTENCY_ASYNC, -1, 2, 1, 1, 0},
        {SW_FRAMEWORK_DOWNPOUR, SW_CONSISTENCY_SSP, 3, 2, 2, 2, 0},
        {SW_FRAMEWORK_HOGWILD, SW_CONSISTENCY_HOGWILD, -1, 2, 1, 1, 0},
        {SW_FRAMEWORK_CUSTOM, SW_CONSISTENCY_BSP, -1, 2, 2, 2, 0},
        {SW_FRAMEWORK_CUSTOM, SW_CONSISTENCY_ASYNC, -1, 3, 1, 2, 0},
        {SW_FRAMEWORK_CUSTOM, SW_CONSISTENCY_SSP, 2, 2, 1, 1, 0}};
    static const char *const others[][5] = {
        {NULL},
        {"cluster.framework=hogwild", "cluster.server_groups=2", "cluster.worker_groups=2", NULL},
        {"cluster.framework=custom", "cluster.consistency=async", "cluster.servers_per_group=3",
         "cluster.worker_groups=4", NULL}};

    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        int count = 0;
        while (others[k][count])
            count++;
        struct model m =
            model_of(&(struct sw_job_options){.recipe_path = write_recipe("m.ini", workers_recipe),
                                              .device = "cpu",
                                              .sets = others[k],
                                              .set_count = count});
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct sw_parallel_plan p = plan_for(m.net, 2);
            struct sw_planning_texts texts;
            struct sw_err err;
            struct trial t;
            p.shape = shapes[i];
            assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_OK);
            open_with(others[k], &texts, &t);
            const struct sw_topology *is = t.job->topology;
            assert_string_equal(sw_job_plan(t.job)->framework,
                                sw_framework_name(p.shape.framework));
            assert_int_equal(is->workers, p.shape.groups * p.shape.group_size);
            assert_int_equal(is->servers, p.shape.servers);
            if (p.shape.threads > 0)
                assert_int_equal(sw_placement_worker(t.job->place.placement, 0)->threads,
                                 p.shape.threads);
            assert_int_equal(is->consistency, p.shape.consistency);
            if (p.shape.consistency != SW_CONSISTENCY_BSP) {
                assert_int_equal(is->worker_groups, p.shape.groups);
                assert_int_equal(is->staleness, p.shape.staleness);
            }
            trial_close(&t);
            sw_planning_texts_fini(&texts);
            free(p.choice);
        }
        model_free(&m);
    }
}

static void a_bound_of_the_recipe_is_taken_back_only_for_bsp(void **state)
{
    static const char *const sets[] = {"cluster.framework=downpour", "cluster.staleness=4", NULL};
    struct model m = model_of(&(struct sw_job_options){
        .recipe_path = write_recipe("m.ini", workers_recipe), .sets = sets, .set_count = 2});
    struct sw_parallel_plan p = plan_for(m.net, 2);
    struct sw_planning_texts texts;
    struct sw_err err;
    struct trial t;
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_OK);
    open_with(sets, &texts, &t);
    assert_int_equal(t.job->topology->consistency, SW_CONSISTENCY_BSP);
    trial_close(&t);
    sw_planning_texts_fini(&texts);

    p.shape = (struct sw_plan_shape){SW_FRAMEWORK_DOWNPOUR, SW_CONSISTENCY_ASYNC, -1, 2, 1, 1, 0};
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "cluster.staleness = 4 is set in the recipe"));
    sw_planning_texts_fini(&texts);
    free(p.choice);
    model_free(&m);
}

static void a_location_of_the_recipe_must_be_that_of_the_plan(void **state)
{
    static const char *const sets[] = {"layer.fc1.location=1"};
    struct model m = model_of(&(struct sw_job_options){
        .recipe_path = write_recipe("m.ini", workers_recipe), .sets = sets, .set_count = 1});
    struct sw_parallel_plan p = plan_for(m.net, 2);
    struct sw_planning_texts texts;
    struct sw_err err;
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "layer fc1: location = 1 is set in the recipe"));
    sw_planning_texts_fini(&texts);
    p.choice[layer_at(m.net, "fc1")] =
        (struct sw_layer_choice){.partition = SW_PARTITION_NONE, .location = 1};
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_OK);
    assert_null(strstr(texts.ini, "[layer fc1]"));
    sw_planning_texts_fini(&texts);
    free(p.choice);
    model_free(&m);
}

/* ---- memory ---- */

static void memory_is_that_of_the_job(void **state)
{
    const char *path = write_recipe("m.ini", workers_recipe);
    static const char *const as_trials[] = {"job.winograd=no"};
    const struct sw_job_options o = {.recipe_path = path, .sets = as_trials, .set_count = 1};
    struct model m = model_of(&(struct sw_job_options){.recipe_path = path, .device = "cpu"});
    struct sw_parallel_plan p = plan_for(m.net, 2);
    struct sw_planning_memory memory;
    struct sw_planning_texts texts;
    struct sw_err err;
    p.choice[layer_at(m.net, "fc1")].partition = SW_PARTITION_COLUMNS;
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_OK);
    if (sw_planning_memory(&o, &texts, "sim:gpus=2,mem=64MiB", NULL, &memory, &err) != SW_OK)
        fail_msg("%s", err.text);

    struct trial t = {
        .recipe = workers_recipe, .device = "sim:gpus=2,mem=64MiB", .oversubscribe = true};
    for (int i = 0; i < texts.count; i++)
        t.sets[i] = texts.sets[i];
    assert_int_equal(trial_open(&t), SW_OK);
    const struct sw_job_bytes *b = &sw_job_plan(t.job)->bytes;
    int64_t most = 0, all = 0;
    assert_int_equal(memory.workers, 2);
    for (int i = 0; i < 2; i++) {
        most = memory.device_bytes[i] > most ? memory.device_bytes[i] : most;
        all += memory.device_bytes[i];
    }
    assert_true(most > 0);
    assert_int_equal(most, b->device);
    assert_int_equal(all + memory.host_bytes, b->peak);
    trial_close(&t);
    sw_planning_memory_fini(&memory);

    if (sw_planning_memory(&o, &texts, "cpu", NULL, &memory, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_int_equal(memory.device_bytes[0], 0);
    assert_true(memory.host_bytes > 0);
    sw_planning_memory_fini(&memory);

    assert_int_equal(sw_planning_memory(&o, &texts, "sim:gpus=2,mem=256KiB", NULL, &memory, &err),
                     SW_ERR_NOMEM);
    assert_non_null(strstr(err.text, "out of memory: training needs"));
    sw_planning_memory_fini(&memory);
    sw_planning_texts_fini(&texts);

    /* With a budget: one that suffices, and one that does not. */
    const struct sw_device_throughput rates = {1e12, 1e11, 1e10};
    char set[64];
    p.fit.budget_bytes = most;
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_OK);
    snprintf(set, sizeof set, "job.memory=fit:%lld", (long long)most);
    assert_string_equal(texts.sets[0], set);
    if (sw_planning_memory(&o, &texts, "sim:gpus=2,mem=64MiB", &rates, &memory, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_true(memory.fit.is_exact && memory.fit.budget_bytes == most);
    assert_int_equal(memory.fit.recomputed + memory.fit.offloaded, 0);
    sw_planning_memory_fini(&memory);
    sw_planning_texts_fini(&texts);

    p.fit.budget_bytes = most / 2;
    assert_int_equal(sw_planning_texts(m.net, &p, 1, &texts, &err), SW_OK);
    assert_int_equal(sw_planning_memory(&o, &texts, "sim:gpus=2,mem=64MiB", &rates, &memory, &err),
                     SW_ERR_NOMEM);
    assert_non_null(strstr(err.text, "the smallest possible budget is memory = fit:"));
    sw_planning_memory_fini(&memory);
    sw_planning_texts_fini(&texts);
    free(p.choice);
    model_free(&m);
}

/* ---- times ---- */

static struct sw_run run_of(const char *name, struct sw_history_reader **r)
{
    struct sw_run run;
    struct sw_err err;
    if (sw_history_reader_open(r, in_home("history.db"), &err) != SW_OK ||
        sw_history_find(*r, name, &run, &err) != SW_OK)
        fail_msg("%s", err.text);
    return run;
}

static void times_of_a_run_are_samples(void **state)
{
    train(.recipe = steps_recipe, .name = "two", .steps = 3, .oversubscribe = true,
          .sets = {"cluster.workers_per_group=2"});
    train(.recipe = workers_recipe, .name = "cut", .steps = 2, .oversubscribe = true,
          .sets = {"cluster.workers_per_group=2", "layer.fc1.partition=1"});
    struct model m = model_of(&(struct sw_job_options){
        .recipe_path = write_recipe("steps.ini", steps_recipe), .device = "cpu"});
    struct sw_history_reader *r = NULL;
    struct sw_run run = run_of("two", &r);
    struct sw_err err;
    char source[64], begins[32];
    double step_s;
    int workers;
    if (sw_planning_times_of_run(m.net, r, &run, source, &workers, &step_s, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_int_equal(workers, 2);

    /* Of the two steps after the first, the mean of the middle ones of four values. */
    double least = ask("SELECT min(ms) FROM (SELECT read_ms + decode_ms + h2d_ms + forward_ms + "
                       "backward_ms + update_ms + comm_exposed_ms + wait_ms + idle_ms AS ms "
                       "FROM step_time WHERE run_id = %d AND step > 1)",
                       run_id("two"));
    double most = ask("SELECT max(ms) FROM (SELECT read_ms + decode_ms + h2d_ms + forward_ms + "
                      "backward_ms + update_ms + comm_exposed_ms + wait_ms + idle_ms AS ms "
                      "FROM step_time WHERE run_id = %d AND step > 1)",
                      run_id("two"));
    assert_true(least > 0 && step_s * 1e3 >= least && step_s * 1e3 <= most);
    snprintf(begins, sizeof begins, "run %d of 20", run_id("two"));
    assert_true(strncmp(source, begins, strlen(begins)) == 0);
    for (int i = 0; i < m.net->count; i++) {
        assert_int_equal(m.net->layer[i].sample_count, 1);
        assert_int_equal(m.net->layer[i].samples[0].rows, 12);
        assert_int_equal(m.net->layer[i].samples[0].workers, 2);
        assert_true(m.net->layer[i].samples[0].threads >= 1);
    }
    /* All steps of the unrolled layer, means over the workers. */
    const struct sw_layer_sample *s = m.net->layer[layer_at(m.net, "cell@0..4")].samples;
    double update_s = 0;
    for (int i = 0; i < m.net->count; i++)
        update_s += m.net->layer[i].samples[0].update_s;
    assert_true(update_s * 1e3 <=
                ask("SELECT max(update_ms) FROM step_time WHERE run_id = %d", run_id("two")));
    double ms = ask("SELECT sum(forward_ms) / 2 FROM layer_time WHERE run_id = %d AND layer IN "
                    "('cell@0', 'cell@1', 'cell@2', 'cell@3', 'cell@4')",
                    run_id("two"));
    assert_true(ms > 0 && fabs(s->forward_s * 1e3 - ms) <= 1e-6 * ms);
    sw_run_fini(&run);
    sw_history_reader_close(r);
    model_free(&m);

    m = model_of(&(struct sw_job_options){.recipe_path = write_recipe("m.ini", workers_recipe)});
    run = run_of("cut", &r);
    assert_int_equal(sw_planning_times_of_run(m.net, r, &run, source, &workers, &step_s, &err),
                     SW_ERR_UNSUPPORTED);
    assert_int_equal(m.net->layer[0].sample_count, 0);
    sw_run_fini(&run);
    sw_history_reader_close(r);
    model_free(&m);
}

static void note(void *user, enum sw_log_level level, const char *source, const char *text)
{
    snprintf(user, 512, "%s: %s", source, text);
}

/* Measures a model of the recipe, or looks for stored times; returns the source. */
static const char *measured(const char *recipe, const char *set, int workers, bool stored_only,
                            struct model *m, char logged[512])
{
    static char source[64];
    struct sw_job_options o = {.recipe_path = write_recipe("m.ini", recipe),
                               .sets = &set,
                               .set_count = set != NULL,
                               .oversubscribe = true,
                               .device = "cpu"};
    struct sw_log *log = sw_log_new();
    struct sw_err err;
    logged[0] = '\0';
    assert_int_equal(sw_log_add_sink(log, SW_LOG_WARN, note, logged, &err), SW_OK);
    *m = model_of(&o);
    const struct sw_planning_measurement how = {
        .options = &o, .log = log, .workers = workers, .stored_only = stored_only};
    if (sw_planning_measure(m->net, &how, source, &err) != SW_OK)
        fail_msg("%s", err.text);
    sw_log_free(log);
    return source;
}

static void measurements_are_kept(void **state)
{
    struct model first, again, other;
    char logged[512];
    const char *path = in_home("singa-ws/calibration.json");
    remove(path);
    assert_string_equal(measured(workers_recipe, NULL, 2, true, &first, logged), "");
    assert_string_equal(logged, "");
    model_free(&first);

    const char *source = measured(workers_recipe, NULL, 2, false, &first, logged);
    assert_true(strncmp(source, "measured 20", 11) == 0 && strlen(source) == 19);
    assert_true(exists(path));
    const struct sw_layer_sample *s = first.net->layer[layer_at(first.net, "conv1")].samples;
    assert_true(s->rows == 12 && s->workers == 2 && s->threads >= 1);
    assert_true(s->forward_s > 0 && s->backward_s > 0 && s->forward_s < 60);
    assert_true(s->update_s > 0 && s->update_s < 60);

    /* Nothing of the run that measured is left. */
    glob_t found = {0};
    assert_int_equal(glob(in_home("singa-ws/measuring-*"), 0, NULL, &found), GLOB_NOMATCH);
    globfree(&found);

    /* The same again; another batch and another number of workers are something else. */
    assert_string_not_equal(measured(workers_recipe, NULL, 2, true, &again, logged), "");
    for (int i = 0; i < first.net->count; i++) {
        const struct sw_layer_sample *a = first.net->layer[i].samples,
                                     *b = again.net->layer[i].samples;
        assert_int_equal(again.net->layer[i].sample_count, 1);
        assert_true(fabs(a->forward_s - b->forward_s) <= 1e-9 * a->forward_s);
        assert_true(fabs(a->backward_s - b->backward_s) <= 1e-9 * a->backward_s);
        assert_true(fabs(a->update_s - b->update_s) <= 1e-9 * a->update_s);
        assert_true(first.net->layer[i].params > 0 || a->update_s == 0);
    }
    model_free(&again);
    assert_string_equal(measured(workers_recipe, "job.batch=24", 2, true, &other, logged), "");
    model_free(&other);
    assert_string_equal(measured(workers_recipe, NULL, 1, true, &other, logged), "");
    assert_int_equal(other.net->layer[0].sample_count, 0);
    model_free(&other);
    model_free(&first);

    /* Measuring another one keeps the first. */
    assert_string_not_equal(measured(workers_recipe, NULL, 1, false, &other, logged), "");
    model_free(&other);
    assert_string_not_equal(measured(workers_recipe, NULL, 2, true, &other, logged), "");
    model_free(&other);
}

static void damaged_measurements_are_ignored_with_a_message(void **state)
{
    static const char *const texts[] = {"{\"host\": \"", "[]",
                                        "{\"host\": \"%s\", \"entries\": [{\"net\": 3}, 7]}"};
    const char *path = in_home("singa-ws/calibration.json");
    struct model m;
    char logged[512];
    assert_string_not_equal(measured(workers_recipe, NULL, 1, false, &m, logged), "");
    model_free(&m);

    write_file(path, texts[0], strlen(texts[0]));
    assert_string_equal(measured(workers_recipe, NULL, 1, true, &m, logged), "");
    assert_non_null(strstr(logged, "planner: stored times are ignored: "));
    assert_non_null(strstr(logged, "calibration.json is damaged"));
    model_free(&m);

    /* The measurement replaces the file; an entry of it that lacks a time is no measurement. */
    assert_string_not_equal(measured(workers_recipe, NULL, 1, false, &m, logged), "");
    model_free(&m);
    char *text = NULL;
    size_t bytes;
    struct sw_err err;
    assert_int_equal(sw_os_read_file(path, 1 << 20, &text, &bytes, &err), SW_OK);
    /* The first layer takes very long, the second lacks a time. */
    char *first = strstr(text, "\"forward_ms\":"), *second = strstr(first + 1, "\"forward_ms\":");
    assert_true(first && second);
    second[1] = 'F';
    first += strlen("\"forward_ms\":");
    char *wrong = sw_format("%.*s1e9%s", (int)(first - text), text, strchr(first, ','));
    write_file(path, wrong, strlen(wrong));
    sw_free(wrong);
    sw_free(text);
    assert_string_equal(measured(workers_recipe, NULL, 1, true, &m, logged), "");
    assert_non_null(strstr(logged, "an entry of calibration.json is damaged"));
    model_free(&m);
    assert_string_not_equal(measured(workers_recipe, NULL, 1, false, &m, logged), "");
    assert_true(m.net->layer[0].samples[0].forward_s < 1e3);
    model_free(&m);

    for (size_t i = 1; i < sizeof texts / sizeof *texts; i++) {
        write_file(path, texts[i], strlen(texts[i]));
        assert_string_equal(measured(workers_recipe, NULL, 1, true, &m, logged), "");
        model_free(&m);
    }
}

/* A device with its own memory measures itself; what a step takes beside its layers is the measured
 * step less the simulated one. */
static void devices_are_measured(void **state)
{
    const char *path = write_recipe("m.ini", workers_recipe);
    const struct sw_job_options o = {
        .recipe_path = path, .device = "sim:gpus=2,mem=64MiB", .oversubscribe = true};
    struct model m = model_of(&o);
    struct planner_machine machine;
    const struct sw_planning_measurement how = {
        .options = &o, .workers = 2, .machine = &machine.model};
    struct sw_err err;
    char source[64];
    planner_machine(&machine, &(struct planner_machine_terms){.hosts = 1,
                                                              .per_host = 2,
                                                              .flops_per_s = 1e12,
                                                              .bytes_per_s = 1e12,
                                                              .device_bytes_per_s = 1e12});
    if (sw_planning_measure(m.net, &how, source, &err) != SW_OK)
        fail_msg("%s", err.text);
    const struct sw_layer_sample *s = m.net->layer[layer_at(m.net, "conv1")].samples;
    assert_true(s->threads == 0 && s->forward_s > 0 && s->backward_s > 0 && s->update_s > 0);
    assert_true(s->part == 0);
    assert_int_equal(m.net->rest_count, 1);
    assert_true(m.net->rest[0].seconds >= 0);

    assert_int_equal(sw_planning_add_rest(m.net, &how, 3600, &err), SW_OK);
    assert_int_equal(m.net->rest_count, 2);
    const struct sw_rest_sample *r = &m.net->rest[1];
    assert_true(r->workers == 2 && r->threads == 0 && r->kind == SW_STEP_GRADIENTS);
    assert_true(r->seconds > 3500 && r->seconds < 3600);
    assert_int_equal(sw_planning_add_rest(m.net, &how, 1e-12, &err), SW_OK);
    assert_true(m.net->rest_count == 3 && m.net->rest[2].seconds == 0);
    model_free(&m);
}

/* Layers that can be split by columns are measured like that, too. */
static void columns_are_measured(void **state)
{
    const struct sw_job_options o = {.recipe_path = write_recipe("m.ini", workers_recipe),
                                     .device = "cpu",
                                     .oversubscribe = true};
    struct model m = model_of(&o);
    struct sw_planning_measurement how = {.options = &o, .workers = 2, .kind = SW_STEP_MOVES};
    struct sw_err err;
    char source[64];
    if (sw_planning_measure(m.net, &how, source, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_string_not_equal(source, "");
    const struct sw_layer_model *l = &m.net->layer[layer_at(m.net, "fc2")];
    assert_int_equal(l->sample_count, 1);
    assert_true(l->samples[0].part == 0.5 && l->samples[0].rows == m.net->batch);
    assert_true(l->samples[0].forward_s > 0 && l->samples[0].backward_s > 0);
    assert_int_equal(m.net->layer[layer_at(m.net, "image")].sample_count, 0);

    how.workers = 1; /* has nobody to split with */
    assert_int_equal(sw_planning_measure(m.net, &how, source, &err), SW_OK);
    assert_string_equal(source, "");
    model_free(&m);
}

static const char machine_recipe[] =
    "[job]\nsteps = 20\nbatch = 24\nalgorithm = cd\n[data train]\nformat = synthetic\n"
    "classes = 4\nrecords = 100\nheight = 6\nwidth = 6\nstd = 255\n" UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer vis]\ntype = rbm_visible\nsrc = image\n"
    "[layer hid]\ntype = rbm_hidden\nsrc = vis\nhidden = 8\nk = 2\n"
    "weight.init = gaussian\nweight.std = 0.1\n";

static void turns_of_chains_are_measured(void **state)
{
    struct model m;
    char logged[512];
    assert_string_not_equal(measured(machine_recipe, NULL, 1, false, &m, logged), "");
    const struct sw_layer_sample *s = m.net->layer[layer_at(m.net, "hid")].samples;
    assert_true(s->forward_s > 0 && s->backward_s > 0);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_what_check_says),
        cmocka_unit_test(bytes_and_factors_follow_from_the_shapes),
        cmocka_unit_test(time_steps_are_one_layer_in_rows),
        cmocka_unit_test(a_model_has_one_worker),
        cmocka_unit_test(joins_and_controls_are_known),
        cmocka_unit_test(a_job_follows_the_settings_of_a_plan),
        cmocka_unit_test(settings_are_those_that_the_recipe_lacks),
        cmocka_unit_test(a_job_has_the_shape_of_a_plan),
        cmocka_unit_test(a_bound_of_the_recipe_is_taken_back_only_for_bsp),
        cmocka_unit_test(a_location_of_the_recipe_must_be_that_of_the_plan),
        cmocka_unit_test(memory_is_that_of_the_job),
        cmocka_unit_test(times_of_a_run_are_samples),
        cmocka_unit_test(measurements_are_kept),
        cmocka_unit_test(damaged_measurements_are_ignored_with_a_message),
        cmocka_unit_test(devices_are_measured),
        cmocka_unit_test(columns_are_measured),
        cmocka_unit_test(turns_of_chains_are_measured),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
