#include "recipe/explain.h"
#include "recipe/value.h"
#include "recipe_support.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const char text[] =
    "[vars]\nn = 5\n" TOY_JOB
    "[data train]\nformat = idx\npaths = a , b\nlabels = l\nmean = 1, 2.5\n"
    "[updater]\ntype = sgd\nlr = 1\n[layer fc1]\ntype = inner_product\noutputs = ${n}\n"
    "[layer p]\ntype = pooling\n";

/* "layer.fc1.outputs=5 recipe x.ini:14;" for each value. */
static void write_down(void *user, const struct sw_explained *e)
{
    struct sw_explained below = *e;
    struct sw_bytes *out = user;
    sw_bytes_printf(out, "%s%s%s.%s=%s ", e->kind, e->name ? "." : "", e->name ? e->name : "",
                    e->key, e->value ? e->value : "-");
    sw_explained_from(e, out);
    while (sw_explained_replaced(&below)) {
        sw_bytes_printf(out, " < %s ", below.value);
        sw_explained_from(&below, out);
    }
    sw_bytes_add(out, ";\n");
}

static void explain(struct sw_bytes *out, const char *const *sets)
{
    struct sw_recipe *r;
    struct sw_err err;
    const struct sw_job_conf *job;
    assert_int_equal(toy_load(text, sets, &r), SW_OK);
    assert_int_equal(sw_job_apply_rules(r, &job, &err), SW_OK);
    assert_int_equal(sw_recipe_explain(r, write_down, out, &err), SW_OK);
    sw_recipe_free(r);
}

static void has(const struct sw_bytes *out, const char *line)
{
    if (!strstr(sw_bytes_text(out), line))
        fail_msg("no '%s' in\n%s", line, sw_bytes_text(out));
}

static void explain_visits_every_row_with_its_origin(void **state)
{
    const char *const sets[] = {"layer.fc1.outputs=7", "layer.fc1.outputs=8", "vars.n=6", NULL};
    struct sw_bytes out = {0};
    explain(&out, sets);
    has(&out, "vars.n=6 --set vars.n=6;\n");
    has(&out, "job.batch=10 x.ini:4;\n");
    has(&out, "job.eval_batch=10 default;\n"); /* it follows batch */
    has(&out, "job.name=x default;\n");        /* the file's */
    has(&out, "job.epochs=- default;\n");
    has(&out, "data.train.format=idx x.ini:7;\n");
    has(&out, "data.train.fallback=- default;\n");
    has(&out, "data.train.paths=a, b x.ini:8;\n");
    has(&out, "data.train.mean=1, 2.5 x.ini:10;\n");
    has(&out, "data.train.cache=64MiB default;\n"); /* as the table writes it */
    has(&out, "updater.policy=fixed default;\n");
    has(&out, "layer.fc1.outputs=8 --set layer.fc1.outputs=8 < 7 --set layer.fc1.outputs=7 < "
              "${n} x.ini:16;\n");
    has(&out, "layer.fc1.bias.lr_mult=1 default;\n");
    has(&out, "layer.fc1.weight.init=constant default;\n");
    has(&out, "layer.p.method=max default;\n");
    has(&out, "layer.p.kernel_x=- default;\n"); /* outside its range: not given */
    sw_bytes_fini(&out);
}

static void explain_every_allocation_may_fail(void **state)
{
    struct sw_recipe *r;
    struct sw_err err;
    assert_int_equal(toy_load(text, NULL, &r), SW_OK);
    for (int at = 1;; at++) {
        struct sw_bytes out = {0};
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        int rc = sw_recipe_explain(r, write_down, &out, &err);
        bool lost = out.failed;
        sw_bytes_fini(&out);
        if (faulty_end() < at) {
            assert_int_equal(rc, SW_OK);
            assert_false(lost);
            assert_true(at > 10);
            break;
        }
        assert_true(rc == SW_ERR_NOMEM || lost);
    }
    sw_recipe_free(r);
}

/* What is written is read back as the same. */
static void values_are_written_as_they_are_read(void **state)
{
    static const char *const choices[] = {"a", "b", NULL};
    static const struct {
        enum sw_opt_type type;
        const char *text;
    } values[] = {{SW_OPT_INT, "-7"},         {SW_OPT_REAL, "0.1"},     {SW_OPT_REAL, "1e-05"},
                  {SW_OPT_BOOL, "yes"},       {SW_OPT_STRING, "x y"},   {SW_OPT_ENUM, "b"},
                  {SW_OPT_BYTES, "67108864"}, {SW_OPT_STRINGS, "a, b"}, {SW_OPT_REALS, "1, 0.25"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct sw_opt row = {.key = "k", .type = values[i].type, .choices = choices};
        union sw_opt_field field;
        struct sw_opt_problem problem;
        struct sw_pool pool = {0};
        struct sw_bytes out = {0};
        assert_true(sw_opt_read(&row, values[i].text, &pool, &field, &problem));
        assert_true(sw_opt_write(&row, &field, &out));
        assert_string_equal(sw_bytes_text(&out), values[i].text);
        sw_bytes_fini(&out);
        sw_pool_fini(&pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explain_visits_every_row_with_its_origin),
        cmocka_unit_test(explain_every_allocation_may_fail),
        cmocka_unit_test(values_are_written_as_they_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
