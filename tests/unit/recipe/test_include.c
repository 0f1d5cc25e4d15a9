#include "recipe_support.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A folder with files, and what came of reading one of them. */
struct case_ {
    char folder[256];
    struct sw_recipe *r;
    struct sw_bytes printed;
    int rc;
};

static void begin(struct case_ *c)
{
    *c = (struct case_){0};
    scratch_clear();
    snprintf(c->folder, sizeof c->folder, "%s", scratch_dir);
}

static void put(const struct case_ *c, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void load_sets(struct case_ *c, const char *name, const char *const *sets)
{
    char path[512];
    struct sw_err err;
    struct sw_recipe_source s = {.path = path, .sets = sets, .env = toy_env};
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    while (sets && sets[s.set_count])
        s.set_count++;
    sw_recipe_free(c->r);
    sw_bytes_clear(&c->printed);
    c->rc = sw_recipe_load(&s, &toy_schema, &c->r, &err);
    if (c->r)
        sw_diags_print(sw_recipe_diags(c->r), &c->printed);
}

static void load(struct case_ *c, const char *name)
{
    load_sets(c, name, NULL);
}

/* The messages without the folder's name. */
static void expect(struct case_ *c, const char *printed)
{
    char want[4096];
    size_t at = 0;
    for (const char *p = printed; *p; p++) {
        if (*p == '@')
            at += (size_t)snprintf(want + at, sizeof want - at, "%s/", c->folder);
        else
            want[at++] = *p;
    }
    want[at] = '\0';
    assert_string_equal(sw_bytes_text(&c->printed), want);
}

static void end(struct case_ *c)
{
    sw_recipe_free(c->r);
    sw_bytes_fini(&c->printed);
    scratch_clear();
}

static const struct sw_section *layer(const struct case_ *c, const char *name)
{
    return sw_recipe_find(c->r, "layer", name);
}

static const char base[] =
    "[vars]\nroot = /a\nall = ${root}/x\n" TOY_JOB "[layer image]\ntype = input\n"
    "[layer c]\ntype = convolution\nsrc = image\noutputs = 4\nkernel = 3\n"
    "[layer d]\ntype = dropout\nsrc = c\n";

static void include_is_read_first_and_later_keys_win(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "base.ini", base);
    put(&c, "x.ini",
        "; mine\ninclude = base.ini ; the net\n\n[job]\nseed = 5\nsteps = 7\n"
        "[layer c]\noutputs = 9\n[layer e]\ntype = dropout\nsrc = d\n");
    load(&c, "x.ini");
    assert_int_equal(c.rc, SW_OK);
    const struct sw_job_conf *job = sw_recipe_find(c.r, "job", NULL)->common;
    assert_int_equal(job->batch, 10);
    assert_int_equal(job->steps, 7);
    assert_int_equal(job->seed, 5);
    const struct toy_conv *conv = layer(&c, "c")->conf[0];
    assert_int_equal(conv->outputs, 9);
    assert_int_equal(conv->kernel, 3);
    assert_int_equal(sw_section_origin(layer(&c, "c"), "outputs"), SW_FROM_RECIPE);
    assert_int_equal(sw_section_origin(layer(&c, "c"), "kernel"), SW_FROM_INCLUDE);
    assert_true(sw_str_ends(sw_section_where(layer(&c, "c"), "kernel").origin, "/base.ini"));
    assert_int_equal(sw_section_where(layer(&c, "c"), "kernel").line, 13);
    assert_int_equal(sw_section_where(layer(&c, "c"), "outputs").line, 8);
    /* The order of sections is that of their first appearance. */
    const struct sw_section *s = sw_recipe_first(c.r, "layer");
    assert_string_equal(s->name, "image");
    s = sw_section_next(sw_section_next(sw_section_next(s)));
    assert_string_equal(s->name, "e");
    end(&c);
}

static void include_replaces_a_variable_where_it_stood(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "base.ini",
        "[vars]\nroot = /a\nall = ${root}/x\n" TOY_JOB TOY_LAYER
        "[data train]\nformat = idx\npaths = ${all}\nlabels = l\n");
    put(&c, "x.ini", "include = base.ini\n[vars]\nroot = /b\n");
    load(&c, "x.ini");
    assert_int_equal(c.rc, SW_OK);
    assert_string_equal(sw_section_text(sw_recipe_find(c.r, "data", "train"), "paths"), "/b/x");
    end(&c);
}

static void include_drops_the_keys_of_a_type_that_a_later_file_replaces(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "base.ini", base);
    put(&c, "x.ini", "include = base.ini\n[layer c]\ntype = inner_product\noutputs = 2\n");
    load(&c, "x.ini");
    expect(&c, "");
    assert_ptr_equal(layer(&c, "c")->type[0], &toy_fc_type);
    assert_false(sw_section_is_set(layer(&c, "c"), "kernel"));
    end(&c);
}

static void include_chooses_between_steps_and_epochs_by_file(void **state)
{
    struct case_ c;
    const struct sw_job_conf *job;
    struct sw_err err;
    begin(&c);
    put(&c, "a.ini", "[job]\nbatch = 10\nsteps = 100\n" TOY_LAYER);
    put(&c, "b.ini", "include = a.ini\n[job]\nepochs = 3\n");
    put(&c, "x.ini", "include = b.ini\n[job]\nseed = 3\n");
    load(&c, "x.ini");
    assert_int_equal(c.rc, SW_OK);
    assert_int_equal(sw_job_apply_rules(c.r, &job, &err), SW_OK);
    assert_int_equal(job->steps, 0);
    assert_true(job->epochs == 3);
    end(&c);
}

static void include_accepts_several_files_and_nested_folders(void **state)
{
    struct case_ c;
    char folder[300];
    begin(&c);
    snprintf(folder, sizeof folder, "%s/parts", c.folder);
    struct sw_err err;
    assert_int_equal(sw_os_mkdirs(folder, 0700, &err), SW_OK);
    put(&c, "parts/job.ini", TOY_JOB);
    put(&c, "parts/net.ini", "include = job.ini\n" TOY_LAYER "[job]\nseed = 2\n");
    put(&c, "parts/seed.ini", "[job]\nseed = 4\n");
    put(&c, "x.ini", "include = parts/net.ini\ninclude = parts/seed.ini");
    load(&c, "x.ini");
    assert_int_equal(c.rc, SW_OK);
    assert_int_equal(((const struct sw_job_conf *)sw_recipe_find(c.r, "job", NULL)->common)->seed,
                     4);
    const char *const made[] = {"job.ini", "net.ini", "seed.ini"};
    for (int i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, made[i]);
        assert_int_equal(unlink(path), 0);
    }
    end(&c);
}

static void include_errors_point_into_the_included_file(void **state)
{
    struct case_ c;
    const char *const sets[] = {"layer.c.kernel=0", NULL};
    begin(&c);
    put(&c, "base.ini",
        "[job]\nbatch = 10\nsteps = many\n[layer c]\ntype = convolution\n"
        "outputs = 4\nkernel = 3\nkernal = 4\n");
    put(&c, "x.ini", "include = base.ini\n[layer c]\noutputs = -1\n");
    load_sets(&c, "x.ini", sets);
    assert_int_equal(c.rc, SW_ERR_INVALID);
    expect(&c, "@x.ini:3:11: layer c: outputs = -1: must be 1 or more\n"
               "    outputs = -1\n              ^~\n"
               "@base.ini:3:9: job: steps = many: must be a whole number\n"
               "    steps = many\n            ^~~~\n"
               "@base.ini:8:1: layer c: unknown key 'kernal' for type convolution\n"
               "    kernal = 4\n    ^~~~~~\n    hint: did you mean 'kernel'?\n"
               "--set layer.c.kernel=0: layer c: kernel = 0: must be from 1 to 1000\n"
               "    --set layer.c.kernel=0\n                         ^\n");
    end(&c);
}

static void include_of_a_missing_file_or_a_cycle_is_an_error(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "a.ini", "include = b.ini\n");
    put(&c, "b.ini", "\ninclude = a.ini\n" TOY_JOB TOY_LAYER);
    load(&c, "a.ini");
    assert_int_equal(c.rc, SW_ERR_INVALID);
    expect(&c, "@b.ini:2:11: include = a.ini: the file includes itself\n"
               "    include = a.ini\n              ^~~~~\n"
               "    hint: @a.ini -> @b.ini -> @a.ini\n");
    put(&c, "x.ini", "include = no.ini\ninclude =\n" TOY_JOB TOY_LAYER "include = both\n");
    load(&c, "x.ini");
    assert_int_equal(c.rc, SW_ERR_INVALID);
    expect(&c, "@x.ini:1:11: include = no.ini: no such file\n"
               "    include = no.ini\n              ^~~~~~\n"
               "@x.ini:2:1: include: missing file name\n"
               "    include =\n    ^~~~~~~\n");
    put(&c, "x.ini", "include = .\n" TOY_JOB TOY_LAYER);
    load(&c, "x.ini");
    assert_true(strstr(sw_bytes_text(&c.printed), "include = .: not a regular file") != NULL);
    put(&c, "x.ini", TOY_JOB "include = a.ini\n" TOY_LAYER);
    load(&c, "x.ini");
    assert_true(strstr(sw_bytes_text(&c.printed),
                       "hint: put include = FILE before the first section") != NULL);
    end(&c);
}

static void include_has_a_limited_depth(void **state)
{
    struct case_ c;
    char name[32], text[64];
    begin(&c);
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "%d.ini", i);
        snprintf(text, sizeof text, "include = %d.ini\n", i + 1);
        put(&c, name, text);
    }
    put(&c, "12.ini", TOY_JOB TOY_LAYER);
    load(&c, "0.ini");
    assert_int_equal(c.rc, SW_ERR_INVALID);
    assert_true(strstr(sw_bytes_text(&c.printed),
                       "8.ini:1:11: include = 9.ini: includes are nested more than 8 deep") !=
                NULL);
    load(&c, "4.ini");
    assert_int_equal(c.rc, SW_OK);
    end(&c);
}

/* Two files that each include the next one twice would be read 2^n times. */
static void include_has_a_limited_number_of_files(void **state)
{
    struct case_ c;
    char name[32], text[64];
    begin(&c);
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "%d.ini", i);
        snprintf(text, sizeof text, "include = %d.ini\ninclude = %d.ini\n", i + 1, i + 1);
        put(&c, name, text);
    }
    put(&c, "7.ini", TOY_JOB TOY_LAYER);
    load(&c, "0.ini");
    assert_int_equal(c.rc, SW_ERR_INVALID);
    assert_true(strstr(sw_bytes_text(&c.printed), "the recipe has more than 64 files") != NULL);
    end(&c);
}

static char *copy(const char *text)
{
    char *out = sw_strdup(text);
    assert_non_null(out);
    return out;
}

/* Reads a kept text under the same path, with no file at hand. */
static void load_text(struct case_ *c, const char *name, const char *text)
{
    char path[512];
    struct sw_err err;
    struct sw_recipe_source s = {
        .path = path, .text = text, .text_bytes = strlen(text), .env = toy_env};
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    sw_recipe_free(c->r);
    sw_bytes_clear(&c->printed);
    c->rc = sw_recipe_load(&s, &toy_schema, &c->r, &err);
    assert_non_null(c->r);
    sw_diags_print(sw_recipe_diags(c->r), &c->printed);
}

static void stored_text_does_not_need_the_included_files(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "deep.ini", "[job]\nbatch = 20\nsteps = 3"); /* no newline at its end */
    put(&c, "base.ini", "; parts\r\ninclude = deep.ini\r\n\r\n" TOY_LAYER "[job]\nseed = 8\n");
    put(&c, "x.ini", "; mine\ninclude = base.ini\n[job]\nsteps = 5\n");
    load(&c, "x.ini");
    assert_int_equal(c.rc, SW_OK);
    char *text = copy(sw_recipe_text(c.r)), *hash = copy(sw_recipe_hash(c.r));
    assert_string_equal(text, "; mine\ninclude = base.ini\n"
                              ";| the next 12 lines are base.ini\n"
                              "; parts\r\ninclude = deep.ini\r\n"
                              ";| the next 3 lines are deep.ini\n"
                              "[job]\nbatch = 20\nsteps = 3\n"
                              ";| end of deep.ini\n"
                              "\r\n" TOY_LAYER "[job]\nseed = 8\n"
                              ";| end of base.ini\n"
                              "[job]\nsteps = 5\n");
    scratch_clear();
    load_text(&c, "x.ini", text);
    assert_int_equal(c.rc, SW_OK);
    const struct sw_section *job = sw_recipe_find(c.r, "job", NULL);
    assert_int_equal(((const struct sw_job_conf *)job->common)->batch, 20);
    assert_int_equal(((const struct sw_job_conf *)job->common)->steps, 5);
    assert_int_equal(((const struct sw_job_conf *)job->common)->seed, 8);
    /* Lines are those of the files. */
    assert_int_equal(sw_section_where(job, "steps").line, 4);
    assert_int_equal(sw_section_where(job, "seed").line, 7);
    assert_int_equal(sw_section_where(job, "batch").line, 2);
    assert_string_equal(sw_recipe_text(c.r), text);
    assert_string_equal(sw_recipe_hash(c.r), hash);
    sw_free(text);
    sw_free(hash);
    end(&c);
}

static void modified_stored_text_is_an_error(void **state)
{
    struct case_ c;
    begin(&c);
    load_text(&c, "x.ini",
              "include = b.ini\n;| the next 2 lines are b.ini\n[job]\nbatch = 1\n"
              "steps = 5\n;| end of b.ini\n" TOY_LAYER);
    assert_int_equal(c.rc, SW_ERR_INVALID);
    assert_true(
        strstr(
            sw_bytes_text(&c.printed),
            "x.ini:2:1: the embedded text of b.ini does not have the stated number of lines\n") !=
        NULL);
    assert_true(strstr(sw_bytes_text(&c.printed),
                       "hint: a line ';| end of b.ini' must follow the text\n") != NULL);
    load_text(&c, "x.ini", "include = b.ini\n;| the next 99 lines are b.ini\n[job]\n");
    assert_int_equal(c.rc, SW_ERR_INVALID);
    end(&c);
}

static void hash_equals_that_of_the_equivalent_single_file(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "base.ini", "[job]\nbatch = 10\nsteps = 100\n" TOY_LAYER);
    put(&c, "x.ini", "include = base.ini\n[job]\nsteps = 7\n");
    put(&c, "flat.ini", "[job]\nsteps = 7\nbatch = 10\n" TOY_LAYER);
    load(&c, "x.ini");
    char *hash = copy(sw_recipe_hash(c.r));
    load(&c, "flat.ini");
    assert_string_equal(sw_recipe_hash(c.r), hash);
    /* An included file counts as much as the recipe itself. */
    put(&c, "base.ini", "[job]\nbatch = 11\nsteps = 100\n" TOY_LAYER);
    load(&c, "x.ini");
    assert_string_not_equal(sw_recipe_hash(c.r), hash);
    sw_free(hash);
    end(&c);
}

static void include_every_allocation_may_fail(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "base.ini", base);
    put(&c, "a.ini", "include = x.ini\n[job]\nseed = 1\n");
    put(&c, "x.ini", "include = base.ini\ninclude = a.ini\n[layer c]\noutputs = 3\n");
    for (int at = 1;; at++) {
        struct sw_err err;
        struct sw_recipe *r;
        struct sw_recipe_source s = {.path = scratch_path("x.ini"), .env = toy_env};
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        int rc = sw_recipe_load(&s, &toy_schema, &r, &err);
        sw_recipe_free(r);
        int calls = faulty_end();
        assert_int_equal(faulty.live_allocations, 0);
        if (calls < at) {
            assert_int_equal(rc, SW_ERR_INVALID); /* the cycle */
            assert_true(at > 20);
            break;
        }
        assert_true(rc == SW_ERR_NOMEM || rc == SW_ERR_INVALID);
    }
    end(&c);
}

static void include_merges_the_lines_of_fallback(void **state)
{
    struct case_ c;
    begin(&c);
    put(&c, "base.ini",
        TOY_JOB TOY_LAYER
        "[data train]\nformat = idx\npaths = /no/such/file\nlabels = l\nfallback = synthetic\n"
        "[fallback]\njob.steps = 7\njob.seed = 9\n");
    put(&c, "x.ini", "include = base.ini\n[fallback]\njob.steps = 8\n");
    load(&c, "x.ini");
    assert_int_equal(c.rc, SW_OK);
    const struct sw_job_conf *job = sw_recipe_find(c.r, "job", NULL)->common;
    assert_int_equal(job->steps, 8);
    assert_int_equal(job->seed, 9);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(include_is_read_first_and_later_keys_win),
        cmocka_unit_test(include_replaces_a_variable_where_it_stood),
        cmocka_unit_test(include_drops_the_keys_of_a_type_that_a_later_file_replaces),
        cmocka_unit_test(include_chooses_between_steps_and_epochs_by_file),
        cmocka_unit_test(include_accepts_several_files_and_nested_folders),
        cmocka_unit_test(include_errors_point_into_the_included_file),
        cmocka_unit_test(include_of_a_missing_file_or_a_cycle_is_an_error),
        cmocka_unit_test(include_has_a_limited_depth),
        cmocka_unit_test(include_has_a_limited_number_of_files),
        cmocka_unit_test(stored_text_does_not_need_the_included_files),
        cmocka_unit_test(modified_stored_text_is_an_error),
        cmocka_unit_test(hash_equals_that_of_the_equivalent_single_file),
        cmocka_unit_test(include_every_allocation_may_fail),
        cmocka_unit_test(include_merges_the_lines_of_fallback),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
