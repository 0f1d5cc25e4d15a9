#include "recipe/ini.h"
#include "recipe/reference.h"
#include "recipe_support.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static const char whole[] =
    "# a recipe with everything\n"
    "[vars]\n"
    "width = 20\n"
    "where = ${DATA}/mnist\n"
    "[job]\nbatch = 64\nsteps = 1000\nname = lenet\ndevice = cpu\n"
    "[data train]\nformat = idx\npaths = ${where}/a.gz, ${where}/b.gz\nlabels = ${where}/l\n"
    "scale = 0.5\nshuffle = yes\nmean = 1, -2.5 ,3\ncache = 2MiB\n"
    "[updater]\ntype = sgd\nlr = 0.01\nmomentum = 0.9\npolicy = step\ngamma = 0.5\n"
    "[updater *.bias]\nlr_mult = 2\n"
    "[layer image]\ntype = input\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = ${width}\nkernel = 5\n"
    "weight.init = xavier\nbias.lr_mult = 2\n"
    "[layer pool1]\ntype = pooling\nsrc = conv1, image\nmethod = avg\ninclude = eval\n";

static struct sw_recipe *load(const char *text)
{
    struct sw_recipe *r;
    assert_int_equal(toy_load(text, NULL, &r), SW_OK);
    return r;
}

static void recipe_binds_every_type_of_key(void **state)
{
    struct sw_recipe *r = load(whole);
    const struct sw_section *s = sw_recipe_find(r, "data", "train");
    const struct toy_data *data = s->common;
    const struct toy_idx *idx = s->conf[0];
    assert_string_equal(s->title, "data train");
    assert_ptr_equal(s->type[0], &toy_idx_type);
    assert_true(data->shuffle);
    assert_true(data->scale == 0.5);
    assert_int_equal(data->mean.count, 3);
    assert_true(data->mean.items[0] == 1 && data->mean.items[1] == -2.5 &&
                data->mean.items[2] == 3);
    assert_int_equal(idx->paths.count, 2);
    assert_string_equal(idx->paths.items[0], "/data/mnist/a.gz");
    assert_string_equal(idx->paths.items[1], "/data/mnist/b.gz");
    assert_string_equal(idx->labels, "/data/mnist/l");
    assert_int_equal(idx->cache, 2 << 20);

    s = sw_recipe_find(r, "layer", "pool1");
    const struct toy_layer *layer = s->common;
    const struct toy_pool *pool = s->conf[0];
    assert_int_equal(layer->src.count, 2);
    assert_string_equal(layer->src.items[1], "image");
    assert_string_equal(toy_phases[layer->include], "eval");
    assert_string_equal(toy_methods[pool->method], "avg");
    sw_recipe_free(r);
}

static void recipe_fills_defaults(void **state)
{
    struct sw_recipe *r = load(whole);
    const struct sw_section *s = sw_recipe_find(r, "layer", "conv1");
    const struct toy_conv *conv = s->conf[0];
    assert_true(conv->bias);
    assert_false(sw_section_is_set(s, "bias"));
    s = sw_recipe_find(r, "layer", "pool1");
    assert_int_equal(((const struct toy_pool *)s->conf[0])->kernel, 2);
    assert_int_equal(((const struct toy_pool *)s->conf[0])->kernel_x, -1);
    s = sw_recipe_find(r, "updater", NULL);
    assert_int_equal(((const struct toy_step *)s->conf[1])->every, 100);
    sw_recipe_free(r);
}

static void recipe_binds_keys_of_parameters(void **state)
{
    struct sw_recipe *r = load(whole);
    const struct sw_section *s = sw_recipe_find(r, "layer", "conv1");
    assert_int_equal(s->param_count, 2);
    const struct toy_param *weight = s->param_conf[0], *bias = s->param_conf[1];
    assert_string_equal(toy_inits[weight->init], "xavier");
    assert_string_equal(toy_inits[bias->init], "constant");
    assert_true(weight->lr_mult == 1 && bias->lr_mult == 2 && bias->std == 0.01);
    assert_true(sw_section_is_set(s, "weight.init"));
    assert_false(sw_section_is_set(s, "bias.init"));
    assert_int_equal(sw_recipe_find(r, "layer", "pool1")->param_count, 0);
    sw_recipe_free(r);
}

static void recipe_binds_two_type_keys(void **state)
{
    struct sw_recipe *r = load(whole);
    const struct sw_section *s = sw_recipe_find(r, "updater", NULL);
    assert_ptr_equal(s->type[0], &toy_sgd_type);
    assert_ptr_equal(s->type[1], &toy_step_type);
    assert_true(((const struct toy_updater *)s->common)->lr == 0.01);
    assert_true(((const struct toy_sgd *)s->conf[0])->momentum == 0.9);
    assert_true(((const struct toy_step *)s->conf[1])->gamma == 0.5);
    sw_recipe_free(r);
    r = load(TOY_JOB "[updater]\ntype = plain\nlr = 1\n" TOY_LAYER);
    s = sw_recipe_find(r, "updater", NULL);
    assert_ptr_equal(s->type[1], &toy_fixed_type);
    assert_null(s->conf[0]);
    sw_recipe_free(r);
}

static void recipe_lists_sections_in_file_order(void **state)
{
    struct sw_recipe *r = load(whole);
    const struct sw_section *s = sw_recipe_first(r, "layer");
    assert_string_equal(s->name, "image");
    s = sw_section_next(s);
    assert_string_equal(s->name, "conv1");
    s = sw_section_next(s);
    assert_string_equal(s->name, "pool1");
    assert_null(sw_section_next(s));
    s = sw_recipe_first(r, "updater");
    assert_null(s->name);
    s = sw_section_next(s);
    assert_string_equal(s->name, "*.bias");
    assert_true(((const struct toy_match *)s->common)->lr_mult == 2);
    assert_string_equal(sw_recipe_first(r, NULL)->kind, "job");
    assert_null(sw_recipe_first(r, "cluster"));
    assert_null(sw_recipe_find(r, "layer", "conv2"));
    assert_null(sw_recipe_find(r, "layer", NULL));
    sw_recipe_free(r);
}

static void recipe_returns_the_position_of_a_key(void **state)
{
    struct sw_recipe *r = load(whole);
    const struct sw_section *s = sw_recipe_find(r, "layer", "conv1");
    struct sw_place at = sw_section_where(s, "kernel");
    assert_string_equal(at.origin, "x.ini");
    assert_int_equal(at.line, 32);
    assert_int_equal(at.column, 10);
    at = sw_section_where(s, "bias");
    assert_int_equal(at.line, 28);
    assert_int_equal(at.column, 2);
    assert_int_equal(sw_section_where(s, NULL).line, 28);
    assert_string_equal(sw_section_text(s, "outputs"), "20");
    assert_null(sw_section_text(s, "bias"));
    sw_recipe_free(r);
}

/* What net building says about a sound recipe. */
static void recipe_accepts_errors_of_later_checks(void **state)
{
    struct sw_err err;
    struct sw_bytes out = {0};
    struct sw_recipe *r = load("[job]\nbatch = 1\nsteps = 1\n"
                               "[layer a]\ntype = input\n"
                               "[layer b]\ntype = dropout\nsrc = a, lable\n");
    assert_int_equal(sw_recipe_status(r, &err), SW_OK);
    const struct sw_section *b = sw_recipe_find(r, "layer", "b");
    static const char *const names[] = {"a", "label"};
    assert_int_equal(sw_recipe_error(r, b, "ratio", "%d is odd", 3), SW_ERR_INVALID);
    assert_int_equal(sw_recipe_error(r, NULL, NULL, "no loss layer"), SW_ERR_INVALID);
    assert_int_equal(sw_recipe_error(r, b, "type", "is slow"), SW_ERR_INVALID);
    assert_int_equal(sw_recipe_error_item(r, b, "src", 1, "there is no layer lable"),
                     SW_ERR_INVALID);
    sw_recipe_hint_near(r, "lable", names, 2, "layers");
    assert_int_equal(b->errors, 3);
    assert_int_equal(sw_recipe_status(r, &err), SW_ERR_INVALID);
    sw_diags_print(sw_recipe_diags(r), &out);
    assert_string_equal(sw_bytes_text(&out),
                        "x.ini:6:2: layer b: 3 is odd\n"
                        "    [layer b]\n"
                        "     ^~~~~~~\n"
                        "x.ini:7:8: layer b: type = dropout: is slow\n"
                        "    type = dropout\n"
                        "           ^~~~~~~\n"
                        "x.ini:8:10: layer b: src = a, lable: there is no layer lable\n"
                        "    src = a, lable\n"
                        "             ^~~~~\n"
                        "    hint: did you mean 'label'?\n"
                        "x.ini: no loss layer\n");
    sw_bytes_fini(&out);
    sw_recipe_free(r);
}

static void recipe_adds_missing_unnamed_sections(void **state)
{
    struct sw_recipe *r = load(TOY_JOB TOY_LAYER);
    const struct sw_section *s = sw_recipe_find(r, "updater", NULL);
    assert_non_null(s);
    assert_null(s->type[0]);
    assert_ptr_equal(s->type[1], &toy_fixed_type);
    assert_int_equal(s->errors, 0);
    sw_recipe_free(r);
}

/* ---- Variables ---- */

static const char *name_of_job(struct sw_recipe *r)
{
    return ((const struct sw_job_conf *)sw_recipe_find(r, "job", NULL)->common)->name;
}

static void vars_expand_in_order_then_environment(void **state)
{
    struct sw_recipe *r = load("[vars]\na = 1\nb = ${a}${a}\nDATA = ${DATA}/sub\nnone =\n" TOY_JOB
                               "name = x${b}-${DATA}-${EMPTY}${none}-$a-${SINGA_DATA}\n" TOY_LAYER);
    assert_string_equal(name_of_job(r), "x11-/data/sub--$a-/singa");
    sw_recipe_free(r);
}

static void vars_unknown_and_broken_are_errors(void **state)
{
    struct sw_bytes out = {0};
    struct sw_recipe *r;
    assert_int_equal(toy_load("[vars]\nabc = ${later}\nlater = 1\nx-y = 1\nuse = ${abc}\n" TOY_JOB
                              "name = a ${ab} c\n[layer a]\ntype = input\nsrc = x, ${a b}, ${c\n",
                              NULL, &r),
                     SW_ERR_INVALID);
    sw_diags_print(sw_recipe_diags(r), &out);
    assert_string_equal(sw_bytes_text(&out),
                        "x.ini:2:7: vars: abc: unknown variable 'later'\n"
                        "    abc = ${later}\n"
                        "          ^~~~~~~~\n"
                        "    hint: define it in [vars] or in the environment\n"
                        "x.ini:4:1: vars: invalid variable name 'x-y'\n"
                        "    x-y = 1\n"
                        "    ^~~\n"
                        "    hint: a variable's name consists of letters, digits and _\n"
                        "x.ini:9:10: job: name: unknown variable 'ab'\n"
                        "    name = a ${ab} c\n"
                        "             ^~~~~\n"
                        "    hint: did you mean 'abc'?\n"
                        "x.ini:12:10: layer a: src: a variable's name consists of letters, digits "
                        "and _\n"
                        "    src = x, ${a b}, ${c\n"
                        "             ^~~~~~\n");
    sw_bytes_fini(&out);
    sw_recipe_free(r);
}

static void vars_expansion_is_limited_in_size(void **state)
{
    struct sw_bytes text = {0};
    struct sw_recipe *r;
    sw_bytes_add(&text, TOY_JOB TOY_LAYER "[vars]\nv0 = 0123456789\n");
    for (int i = 1; i < 40; i++)
        sw_bytes_printf(&text, "v%d = ${v%d}${v%d}\n", i, i - 1, i - 1);
    assert_int_equal(toy_load(sw_bytes_text(&text), NULL, &r), SW_ERR_INVALID);
    assert_int_equal(sw_recipe_diags(r)->count, 1);
    assert_non_null(strstr(sw_recipe_diags(r)->items[0].text, "64 KiB"));
    sw_recipe_free(r);
    sw_bytes_fini(&text);
}

static const char *env_without_data(void *user, const char *name)
{
    return strcmp(name, "HOME") == 0 ? user : NULL;
}

static int stat_data(const char *path, struct stat *st)
{
    int rc = toy_stat(path, st);
    st->st_mode = S_IFDIR | 0700;
    return rc;
}

static const char *data_folder_with(const char *folders, const char *home)
{
    static char found[64];
    static struct sw_os os;
    struct sw_err err;
    struct sw_recipe *r;
    struct sw_recipe_source s = toy_source(TOY_JOB "name = ${SINGA_DATA}\n" TOY_LAYER, NULL);
    s.env = env_without_data;
    s.env_user = (void *)home;
    os = sw_os_posix;
    os.stat = stat_data;
    toy_files = folders;
    sw_os_set(&os);
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    sw_os_set(NULL);
    snprintf(found, sizeof(found), "%s", name_of_job(r));
    sw_recipe_free(r);
    return found;
}

static void vars_singa_data_has_defaults(void **state)
{
    const char home[] = "/h/.local/share/singa-ws/data";
    char here[4200];
    assert_non_null(getcwd(here, 4096));
    strcat(here, "/data");
    assert_string_equal(data_folder_with("./data /h/.local/share/singa-ws/data", "/h"), here);
    assert_string_equal(data_folder_with(home, "/h"), home);
    assert_string_equal(data_folder_with("", "/h"), here);
    assert_string_equal(data_folder_with(home, NULL), here);
}

/* ---- Identity ---- */

static void hash_of(const char *text, const char *const *sets, char out[33])
{
    struct sw_recipe *r;
    assert_int_equal(toy_load(text, sets, &r), SW_OK);
    strcpy(out, sw_recipe_hash(r));
    assert_int_equal(strlen(out), 32);
    sw_recipe_free(r);
}

static void hash_ignores_form_overrides_and_environment(void **state)
{
    char a[33], b[33];
    const char *const sets[] = {"job.steps=5", "job.batch=3", "vars.w=7", "layer.c.kernel=9", NULL};
    hash_of("[vars]\nw = 2\n" TOY_JOB "name = ${DATA}\n"
            "[layer c]\ntype = convolution\noutputs = ${w}\nkernel = 3\n",
            sets, a);
    hash_of("\xef\xbb\xbf; remark\r\n[job]\r\nsteps=100\r\nname=${DATA}\r\nbatch=10  # x\r\n\r\n"
            "[layer c]\r\nkernel=3\r\noutputs=2\r\ntype=convolution",
            NULL, b);
    assert_string_equal(a, b);
}

static void hash_differs_for_another_recipe(void **state)
{
    static const char *const others[] = {
        TOY_JOB "[layer a]\ntype = input\n[layer b]\ntype = dropout\nratio = 0.25\n",
        TOY_JOB "[layer a]\ntype = input\n[layer c]\ntype = dropout\n",
        TOY_JOB "[layer b]\ntype = dropout\n[layer a]\ntype = input\n",
        TOY_JOB "name = x\n[layer a]\ntype = input\n[layer b]\ntype = dropout\n",
        TOY_JOB "[layer a]\ntype = input\n[layer b]\ntype = dropout\n[fallback]\njob.steps = 1\n",
    };
    char a[33], b[33];
    hash_of(TOY_JOB "[layer a]\ntype = input\n[layer b]\ntype = dropout\n", NULL, a);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        hash_of(others[i], NULL, b);
        assert_string_not_equal(a, b);
    }
}

/* ---- [job] ---- */

static void job_resolves_defaults_and_length(void **state)
{
    struct sw_err err;
    struct sw_recipe *r;
    const struct sw_job_conf *job;
    struct sw_recipe_source s = toy_source(TOY_JOB TOY_LAYER, NULL);
    s.path = "recipes/mnist-mlp.ini";
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    assert_int_equal(sw_job_apply_rules(r, &job, &err), SW_OK);
    assert_string_equal(job->name, "mnist-mlp");
    assert_int_equal(job->seed, 1);
    assert_int_equal(job->steps, 100);
    assert_int_equal(job->eval_batch, 10);
    assert_true(job->epochs == 0);
    assert_string_equal(job->device, "auto");
    assert_null(job->db);
    sw_recipe_free(r);

    /* What has precedence decides between steps and epochs. */
    static const char *const sets[] = {"job.epochs=2.5", NULL};
    assert_int_equal(toy_load(TOY_JOB TOY_LAYER, sets, &r), SW_OK);
    assert_int_equal(sw_job_apply_rules(r, &job, &err), SW_OK);
    assert_int_equal(job->steps, 0);
    assert_true(job->epochs == 2.5);
    sw_recipe_free(r);
}

static void job_requires_steps_or_epochs(void **state)
{
    struct sw_err err;
    struct sw_recipe *r = load("[job]\nbatch = 1\n" TOY_LAYER);
    const struct sw_job_conf *job;
    assert_int_equal(sw_job_apply_rules(r, &job, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "x.ini:1:2: job: steps is missing");
    sw_recipe_free(r);
    r = load(TOY_JOB "epochs = 2\n" TOY_LAYER);
    assert_int_equal(sw_job_apply_rules(r, &job, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "x.ini:4:10: job: epochs = 2: conflicts with steps");
    sw_recipe_free(r);
}

/* ---- Files, resume, memory ---- */

static void recipe_reads_a_file(void **state)
{
    struct sw_err err;
    struct sw_recipe *r;
    const char *path = scratch_path("r.ini");
    struct sw_recipe_source s = {.path = path, .env = toy_env};
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_ERR_NOTFOUND);
    assert_null(r);
    assert_int_equal(sw_os_replace_file(path, whole, strlen(whole), 0600, &err), SW_OK);
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    assert_string_equal(sw_recipe_text(r), whole);
    assert_string_equal(sw_recipe_path(r), path);
    sw_recipe_free(r);

    size_t bytes = SW_INI_MAX_BYTES + 1;
    char *big = test_calloc(bytes, 1);
    memset(big, '\n', bytes);
    assert_int_equal(sw_os_replace_file(path, big, bytes, 0600, &err), SW_OK);
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_ERR_INVALID);
    assert_null(r);
    test_free(big);
}

static void recipe_is_reloaded_from_its_stored_text_and_overrides(void **state)
{
    struct sw_err err;
    struct sw_recipe *first, *second;
    static const char *const sets[] = {"job.steps=7", " layer.conv1.kernel = 3 ", NULL};
    static const char *const more[] = {"job.steps=9"};
    assert_int_equal(toy_load(whole, sets, &first), SW_OK);
    struct sw_recipe_source s = {
        .path = sw_recipe_path(first),
        .text = sw_recipe_text(first),
        .text_bytes = strlen(sw_recipe_text(first)),
        .overrides = sw_recipe_overrides(first),
        .sets = more,
        .set_count = 1,
        .fallback = sw_recipe_fallback(first),
        .env = toy_env,
    };
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &second, &err), SW_OK);
    assert_string_equal(sw_recipe_hash(first), sw_recipe_hash(second));
    const struct sw_section *conv = sw_recipe_find(second, "layer", "conv1");
    assert_int_equal(((const struct toy_conv *)conv->conf[0])->kernel, 3);
    const struct sw_section *job = sw_recipe_find(second, "job", NULL);
    assert_int_equal(((const struct sw_job_conf *)job->common)->steps, 9);
    assert_string_equal(sw_recipe_overrides(second),
                        "job.steps=7\n layer.conv1.kernel = 3 \nenv.DATA=/data\njob.steps=9");
    sw_recipe_free(second);
    sw_recipe_free(first);
}

/* Loads with the n-th allocation failing, for every n; returns how many there were. */
static int load_with_faults(const char *text, const char *const *sets, int expected)
{
    for (int at = 1;; at++) {
        struct sw_recipe *r;
        struct sw_err err;
        const struct sw_job_conf *job;
        struct sw_recipe_source s = toy_source(text, sets);
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        int rc = sw_recipe_load(&s, &toy_schema, &r, &err);
        if (r)
            (void)!sw_job_apply_rules(r, &job, &err);
        sw_recipe_free(r);
        int calls = faulty_end();
        assert_int_equal(faulty.live_allocations, 0);
        if (calls < at) {
            assert_int_equal(rc, expected);
            return at;
        }
        assert_true(rc == SW_ERR_NOMEM || rc == expected);
        if (expected == SW_OK && rc == SW_ERR_NOMEM)
            assert_null(r);
    }
}

static void recipe_every_allocation_may_fail(void **state)
{
    static const char *const sets[] = {"layer.new.type=dropout", "vars.width=3",
                                       "fallback.job.steps=1", NULL};
    static const char *const wrong[] = {"layer.fc1.kernel=1", "steps=1", "lyer.x.y=1", "\x01",
                                        NULL};
    assert_true(load_with_faults(whole, sets, SW_OK) > 10);
    assert_true(load_with_faults("[job]\nbatch = x\nfoo = ${a}\n[layr a]\n[layer b]\ntype = pol\n"
                                 "[layer fc1]\ntype = inner_product\nweight.int = 1\nzz.init = 2\n"
                                 "[layer c]\ntype = pooling\nmethod = mux\nqqqq = 1\njunk\n"
                                 "[fallback]\njob.stps = 1\n[data d]\nformat = idx\n"
                                 "fallback = synthtic\n",
                                 wrong, SW_ERR_INVALID) > 20);
}

/* ---- Reference ---- */

static void reference_prints_columns_of_a_page(void **state)
{
    struct sw_bytes out = {0};
    sw_print_type(&out, &toy_conv_type, toy_layer_opts, toy_param_opts);
    const char *text = sw_bytes_text(&out);
    assert_non_null(strstr(text, "convolution\n  filters slid over an image\n"));
    assert_non_null(strstr(text, "\n  outputs  int >=1      required  feature maps to make\n"));
    assert_non_null(strstr(text, "\n  kernel   int 1..1000  required\n"));
    assert_non_null(strstr(text, "\n  bias     yes|no       yes\n"));
    assert_non_null(strstr(text, "as in weight.init (weight, bias)"));
    sw_bytes_fini(&out);
    sw_print_opts(&out, "[job]", sw_job_opts);
    for (const char *p = sw_bytes_text(&out); *p; p += strcspn(p, "\n") + 1)
        assert_true(strcspn(p, "\n") <= 80);
    const char *row = strstr(sw_bytes_text(&out), "\n  partition ");
    assert_non_null(row);
    row += strlen("\n  partition ");
    row += strspn(row, " ");
    assert_memory_equal(row, "0|1|1in|none|auto ", strlen("0|1|1in|none|auto "));
    sw_bytes_fini(&out);
}

static void reference_writes_json(void **state)
{
    struct sw_bytes out = {0};
    struct sw_json_writer w;
    struct sw_json *root;
    struct sw_err err;
    sw_json_begin(&w, &out);
    sw_json_type(&w, NULL, &toy_pool_type, toy_layer_opts, toy_param_opts);
    assert_int_equal(sw_json_parse(sw_bytes_text(&out), out.length, &root, &err), SW_OK);
    assert_string_equal(sw_json_get(root, "name")->string, "pooling");
    const struct sw_json *method = sw_json_get(root, "keys")->first;
    assert_string_equal(sw_json_get(method, "key")->string, "method");
    assert_string_equal(sw_json_get(method, "type")->string, "choice");
    assert_string_equal(sw_json_get(method, "choices")->first->next->string, "avg");
    assert_string_equal(sw_json_get(method, "default")->string, "max");
    assert_true(sw_json_get(method->next, "min")->number == 1);
    assert_null(sw_json_get(method->next, "max"));
    assert_int_equal(sw_json_get(method->next->next, "default")->type, SW_JSON_NULL);
    assert_string_equal(sw_json_get(sw_json_get(root, "common")->first, "key")->string, "src");
    assert_null(sw_json_get(root, "params")->first);
    sw_json_free(root);
    sw_bytes_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recipe_binds_every_type_of_key),
        cmocka_unit_test(recipe_fills_defaults),
        cmocka_unit_test(recipe_binds_keys_of_parameters),
        cmocka_unit_test(recipe_binds_two_type_keys),
        cmocka_unit_test(recipe_lists_sections_in_file_order),
        cmocka_unit_test(recipe_returns_the_position_of_a_key),
        cmocka_unit_test(recipe_accepts_errors_of_later_checks),
        cmocka_unit_test(recipe_adds_missing_unnamed_sections),
        cmocka_unit_test(vars_expand_in_order_then_environment),
        cmocka_unit_test(vars_unknown_and_broken_are_errors),
        cmocka_unit_test(vars_expansion_is_limited_in_size),
        cmocka_unit_test(vars_singa_data_has_defaults),
        cmocka_unit_test(hash_ignores_form_overrides_and_environment),
        cmocka_unit_test(hash_differs_for_another_recipe),
        cmocka_unit_test(job_resolves_defaults_and_length),
        cmocka_unit_test(job_requires_steps_or_epochs),
        cmocka_unit_test(recipe_reads_a_file),
        cmocka_unit_test(recipe_is_reloaded_from_its_stored_text_and_overrides),
        cmocka_unit_test(recipe_every_allocation_may_fail),
        cmocka_unit_test(reference_prints_columns_of_a_page),
        cmocka_unit_test(reference_writes_json),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
