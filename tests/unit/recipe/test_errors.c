/* Broken recipes: each message has the file, line, column, reason and hint, and all errors of a
 * recipe are reported together. */
#include "recipe_support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct broken {
    const char *line;  /* the mistake, inserted into a valid recipe */
    const char *after; /* the line of the valid recipe before it; "": at the top */
    const char *where; /* line:column, where the inserted line is line 1 */
    const char *text;
    const char *hint; /* NULL: none */
};

static const char sound[] = "[job]\nbatch = 64\nsteps = 1000\n"
                            "[data train]\nformat = idx\npaths = a, b\nlabels = l\n"
                            "[updater]\ntype = sgd\nlr = 0.1\n"
                            "[layer image]\ntype = input\n"
                            "[layer conv1]\ntype = convolution\noutputs = 20\nkernel = 5\n"
                            "[layer fc1]\ntype = inner_product\noutputs = 10\n"
                            "[layer pool1]\ntype = pooling\n"
                            "[layer drop]\ntype = dropout\n";

static const struct broken cases[] = {
    /* Syntax */
    {"include = other.ini", "", "1:11", "include = other.ini: no such file", NULL},
    {"seed = 5", "", "1:1", "'seed' is outside a section",
     "start the recipe with a section header such as [job]"},
    {"[layer x", "steps = 1000", "1:9", "missing ']' after '[layer x'", NULL},
    {"seed 5", "steps = 1000", "1:1", "missing '=' in 'seed 5'", "seed = 5"},
    {"= 5", "steps = 1000", "1:1", "missing key before '='", NULL},
    {"steps = 5", "steps = 1000", "1:1", "duplicate key 'steps'", "first defined in line 3"},
    {"[layer image]", "steps = 1000", "9:2", "duplicate section [layer image]",
     "first defined in line 4; put all keys there"},
    {"name = caf\xe9", "steps = 1000", "1:11", "byte 0xe9 is not UTF-8",
     "save the recipe as UTF-8 text"},
    /* Sections */
    {"[lyer fc2]", "steps = 1000", "1:2", "unknown section [lyer fc2]", "did you mean 'layer'?"},
    {"[cluster]", "steps = 1000", "1:2", "unknown section [cluster]",
     "kinds of sections: job, data, updater, layer, vars, fallback, stage"},
    {"[layer]", "steps = 1000", "1:2", "[layer] requires a name", "write [layer NAME]"},
    {"[job two]", "steps = 1000", "1:2", "[job] takes no name", NULL},
    {"[vars x]", "steps = 1000", "1:2", "[vars] takes no name", NULL},
    /* Keys */
    {"kernal = 5", "outputs = 20", "1:1", "layer conv1: unknown key 'kernal' for type convolution",
     "did you mean 'kernel'?"},
    {"sede = 5", "steps = 1000", "1:1", "job: unknown key 'sede'", "did you mean 'seed'?"},
    {"zzz = yes", "lr = 0.1", "1:1", "updater: unknown key 'zzz'",
     "its keys are: type, policy, lr, momentum"},
    {"kernel = 5", "[layer fc1]", "1:1", "layer fc1: unknown key 'kernel' for type inner_product",
     "kernel is a key of convolution, pooling; layer fc1 is inner_product"},
    {"gamma = 0.1", "lr = 0.1", "1:1", "updater: unknown key 'gamma'",
     "gamma is a key of policy step; updater has policy fixed"},
    {"records = 5", "labels = l", "1:1", "data train: unknown key 'records' for format idx",
     "records is a key of format synthetic; data train has format idx"},
    {"wieght.std = 1", "[layer fc1]", "1:1",
     "layer fc1: unknown key 'wieght.std' for type inner_product", "did you mean 'weight.std'?"},
    {"gate.std = 1", "[layer fc1]", "1:1",
     "layer fc1: unknown key 'gate.std' for type inner_product",
     "parameters of inner_product: weight, bias"},
    {"gate.std = 1", "[layer pool1]", "1:1", "layer pool1: unknown key 'gate.std' for type pooling",
     "pooling has no parameters"},
    {"weight.std = 1", "[layer pool1]", "1:1",
     "layer pool1: unknown key 'weight.std' for type pooling",
     "weight.std is a key of convolution, inner_product; layer pool1 is pooling"},
    /* Types */
    {"[layer c]\ntype = convolutoin\nkernel = 3", "steps = 1000", "2:8",
     "layer c: type = convolutoin: unknown type", "did you mean 'convolution'?"},
    {"[layer c]\ntype = conv", "steps = 1000", "2:8", "layer c: type = conv: unknown type",
     "'conv' is from other programs; use 'convolution'"},
    {"[layer c]\ntype = lstm", "steps = 1000", "2:8", "layer c: type = lstm: unknown type",
     "known: input, convolution, pooling, inner_product, dropout"},
    {"[layer c]\ntype =", "steps = 1000", "2:7", "layer c: type = : missing value",
     "known: input, convolution, pooling, inner_product, dropout"},
    {"[layer c]", "steps = 1000", "1:2", "layer c: type is missing",
     "known: input, convolution, pooling, inner_product, dropout"},
    {"policy = stpe", "lr = 0.1", "1:10", "updater: policy = stpe: unknown policy",
     "did you mean 'step'?"},
    {"[layer c]\ntype = inner_product", "steps = 1000", "1:2", "layer c: outputs is missing",
     "outputs: numbers to make"},
    {"policy = step", "lr = 0.1", "-2:2", "updater: gamma is missing", "gamma: a required key"},
    /* Values */
    {"seed = many", "steps = 1000", "1:8", "job: seed = many: must be a whole number", NULL},
    {"eval_batch = 1e2", "steps = 1000", "1:14",
     "job: eval_batch = 1e2: must be a whole number; write 100", NULL},
    {"eval_batch = 0", "steps = 1000", "1:14", "job: eval_batch = 0: must be from 1 to 16777216",
     NULL},
    {"seed = 99999999999999999999", "steps = 1000", "1:8",
     "job: seed = 99999999999999999999: must be a whole number", NULL},
    {"[layer z]\ntype = inner_product\noutputs = -3", "steps = 1000", "3:11",
     "layer z: outputs = -3: must be 1 or more", NULL},
    {"kernel_x = -1", "type = pooling", "1:12", "layer pool1: kernel_x = -1: must be 1 or more",
     NULL},
    {"seed =", "steps = 1000", "1:7", "job: seed = : missing value", NULL},
    {"seed = # later", "steps = 1000", "1:7", "job: seed = : missing value", NULL},
    {"partition = 2", "steps = 1000", "1:13", "job: partition = 2: must be 0, 1, 1in, none or auto",
     "did you mean '0'?"},
    {"bias = maybe", "kernel = 5", "1:8", "layer conv1: bias = maybe: must be yes or no", NULL},
    {"ratio = 1", "type = dropout", "1:9", "layer drop: ratio = 1: must be at least 0 and below 1",
     NULL},
    {"ratio = nan", "type = dropout", "1:9", "layer drop: ratio = nan: must be a number", NULL},
    {"momentum = 1.5", "lr = 0.1", "1:12", "updater: momentum = 1.5: must be from 0 to 1", NULL},
    {"[updater *.bias]\nlr_mult = x", "lr = 0.1", "2:11",
     "updater *.bias: lr_mult = x: must be a number", NULL},
    {"cache = 4 parsecs", "labels = l", "1:9",
     "data train: cache = 4 parsecs: must be a size such as 4GB, 512MB or 1024", NULL},
    {"mean = 1, 2x, 3", "labels = l", "1:11",
     "data train: mean = 1, 2x, 3: item 2 must be a number", NULL},
    {"mean = 1, 300", "labels = l", "1:11",
     "data train: mean = 1, 300: item 2 must be from -255 to 255", NULL},
    {"src = a,, b", "kernel = 5", "1:9", "layer conv1: src = a,, b: item 2 is empty", NULL},
    {"weight.init = xaver", "kernel = 5", "1:15",
     "layer conv1: weight.init = xaver: must be constant, gaussian or xavier",
     "did you mean 'xavier'?"},
    {"weight.std = -1", "kernel = 5", "1:14", "layer conv1: weight.std = -1: must be 0 or more",
     NULL},
    {"name = ${NOBODY}/x", "steps = 1000", "1:8", "job: name: unknown variable 'NOBODY'",
     "define it in [vars] or in the environment"},
    {"name = a${DATA", "steps = 1000", "1:9", "job: name: missing '}' after '${'", NULL},
    {"fallback = synth", "labels = l", "1:12", "data train: fallback = synth: unknown format",
     "did you mean 'synthetic'?"},
};

/* Puts the case's line into the sound recipe; returns the number of the line it has there. */
static int compose(const struct broken *b, struct sw_bytes *out)
{
    int line = 1;
    size_t at = 0;
    if (*b->after) {
        const char *found = strstr(sound, b->after);
        assert_non_null(found);
        at = (size_t)(found - sound) + strlen(b->after) + 1;
    }
    for (size_t i = 0; i < at; i++)
        line += sound[i] == '\n';
    sw_bytes_append(out, sound, at);
    sw_bytes_add(out, b->line);
    sw_bytes_add(out, "\n");
    sw_bytes_add(out, sound + at);
    return line;
}

/* "2:8" in the case's own lines -> "x.ini:6:8". */
static void place(const char *where, int line, char out[32])
{
    int own = 0, column = 0;
    assert_int_equal(sscanf(where, "%d:%d", &own, &column), 2);
    snprintf(out, 32, "x.ini:%d:%d", line + own - 1, column);
}

static void errors_name_place_reason_and_hint(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct broken *b = &cases[i];
        struct sw_bytes text = {0};
        struct sw_recipe *r;
        char where[32];
        place(b->where, compose(b, &text), where);
        assert_int_equal(toy_load(sw_bytes_text(&text), NULL, &r), SW_ERR_INVALID);
        const struct sw_diag *found = NULL;
        for (int d = 0; d < sw_recipe_diags(r)->count; d++)
            if (strcmp(sw_recipe_diags(r)->items[d].text, b->text) == 0)
                found = &sw_recipe_diags(r)->items[d];
        if (!found)
            print_error("case %zu: %s\n  says: %s\n", i, b->line,
                        sw_recipe_diags(r)->items[0].text);
        assert_non_null(found);
        assert_string_equal(found->where, where);
        assert_string_equal(found->hint ? found->hint : "none", b->hint ? b->hint : "none");
        sw_recipe_free(r);
        sw_bytes_fini(&text);
    }
}

/* A mistake causes no further messages except direct consequences. */
static void one_mistake_gives_one_message(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sw_bytes text = {0};
        struct sw_recipe *r;
        compose(&cases[i], &text);
        assert_int_equal(toy_load(sw_bytes_text(&text), NULL, &r), SW_ERR_INVALID);
        /* A header in the middle of a section takes the rest of that section with it, and an
         * unclosed one has no type. */
        bool header = cases[i].line[0] == '[';
        int count = sw_recipe_diags(r)->count;
        if (!header && count != 1)
            print_error("case %zu: %s: %d messages\n", i, cases[i].line, count);
        assert_true(header ? count <= 3 : count == 1);
        sw_recipe_free(r);
        sw_bytes_fini(&text);
    }
}

static void all_errors_of_a_recipe_are_reported_together(void **state)
{
    struct sw_recipe *r;
    struct sw_bytes out = {0};
    const char *const sets[] = {"job.seed=x", NULL};
    assert_int_equal(toy_load("[job]\nbatch = 0\nsteps = many\n"
                              "[layr a]\n"
                              "[layer conv1]\n  type = convolution\n  outputs = -3\n  kernal = 5\n"
                              "junk\n",
                              sets, &r),
                     SW_ERR_INVALID);
    sw_diags_print(sw_recipe_diags(r), &out);
    assert_string_equal(sw_bytes_text(&out),
                        "x.ini:2:9: job: batch = 0: must be from 1 to 16777216\n"
                        "    batch = 0\n"
                        "            ^\n"
                        "x.ini:3:9: job: steps = many: must be a whole number\n"
                        "    steps = many\n"
                        "            ^~~~\n"
                        "x.ini:4:2: unknown section [layr a]\n"
                        "    [layr a]\n"
                        "     ^~~~~~\n"
                        "    hint: did you mean 'layer'?\n"
                        "x.ini:7:13: layer conv1: outputs = -3: must be 1 or more\n"
                        "      outputs = -3\n"
                        "                ^~\n"
                        "x.ini:8:3: layer conv1: unknown key 'kernal' for type convolution\n"
                        "      kernal = 5\n"
                        "      ^~~~~~\n"
                        "    hint: did you mean 'kernel'?\n"
                        "x.ini:9:1: missing '=' in 'junk'\n"
                        "    junk\n"
                        "    ^~~~\n"
                        "    hint: expected [section], key = value or a comment\n"
                        "--set job.seed=x: job: seed = x: must be a whole number\n"
                        "    --set job.seed=x\n"
                        "                   ^\n");
    sw_bytes_fini(&out);
    sw_recipe_free(r);
}

static void errors_name_missing_sections(void **state)
{
    struct sw_recipe *r;
    struct sw_bytes out = {0};
    assert_int_equal(toy_load("", NULL, &r), SW_ERR_INVALID);
    sw_diags_print(sw_recipe_diags(r), &out);
    assert_string_equal(sw_bytes_text(&out), "x.ini: the recipe has no [job]\n"
                                             "x.ini: the recipe has no [layer NAME]\n");
    sw_bytes_fini(&out);
    sw_recipe_free(r);
    assert_int_equal(toy_load("\x7f\x45LF", NULL, &r), SW_ERR_INVALID);
    assert_int_equal(sw_recipe_diags(r)->count, 1);
    sw_recipe_free(r);
}

static void valid_sections_remain_usable_after_errors(void **state)
{
    struct sw_recipe *r;
    assert_int_equal(toy_load(TOY_JOB "[layer a]\ntype = pooling\nkernel = x\nmethod = avg\n"
                                      "[layer b]\ntype = nothing\nsrc = a\n"
                                      "[layer c]\ntype = dropout\nratio = 0.25\n",
                              NULL, &r),
                     SW_ERR_INVALID);
    const struct sw_section *a = sw_recipe_find(r, "layer", "a"), *b = sw_section_next(a),
                            *c = sw_section_next(b);
    const struct toy_pool *pool = a->conf[0];
    assert_int_equal(a->errors, 1);
    assert_int_equal(pool->kernel, 2);
    assert_string_equal(toy_methods[pool->method], "avg");
    assert_int_equal(b->errors, 1);
    assert_null(b->type[0]);
    assert_int_equal(((const struct toy_layer *)b->common)->src.count, 1);
    assert_int_equal(c->errors, 0);
    sw_recipe_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_place_reason_and_hint),
        cmocka_unit_test(one_mistake_gives_one_message),
        cmocka_unit_test(all_errors_of_a_recipe_are_reported_together),
        cmocka_unit_test(errors_name_missing_sections),
        cmocka_unit_test(valid_sections_remain_usable_after_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
