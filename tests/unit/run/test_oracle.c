/* ctest-labels: threads
 * ctest-timeout: 600
 * Random nets, random ways to train them with several workers: the same parameters as with one, and
 * the same bits again. Sanitizers make it slow, and get fewer cases; test_oracle_sweep.c has more.
 */
#include "oracle_support.h"

enum { ALL = 84 };
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { CASES = 24, SPOILT = 6 };
#else
enum { CASES = ALL, SPOILT = 9 };
#endif

static void random_jobs_train_to_what_one_worker_trains(void **state)
{
    struct oracle_coverage v = {0};
    oracle_sweep(0, CASES, &v);
    oracle_print_coverage(&v);
#if !defined __SANITIZE_THREAD__ && !defined __SANITIZE_ADDRESS__
    assert_true(v.graphs > 0 && v.branching > 0 && v.away > 0);
#endif
}

/* Of the cases that run without sanitizers. */
static void the_cases_cover_what_they_claim(void **state)
{
    struct oracle_coverage v = {0};
    for (uint64_t seed = 0; seed < ALL; seed++) {
        struct oracle_case c = oracle_draw(seed);
        oracle_note(&v, &c);
        sw_free(c.recipe);
    }
    oracle_check_coverage(&v);
}

/* Cases of test_oracle_sweep.c that failed once, and what was wrong. */
static void cases_that_failed_once_pass(void **state)
{
    static const struct {
        uint64_t seed;
        const char *what;
    } cases[] = {
        {1041, "graphs and plain pieces of one step, where features are away for a while"},
        {1073, "likewise, in an unrolled net that is split"},
        {1279, "factors, of a layer before one whose weight is shared"},
        {1292, "likewise, with an update that looks at all gradients"},
        {1891,
         "two workers, one waits for factors, the other for a server that the first one runs"},
        {3451, "a gradient that lies with another worker, to which somebody else adds"},
        {1737, "gradients out of factors, which were not rounded to fp16, and never overflowed"},
    };
    struct oracle_coverage v = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!oracle_try(cases[i].seed, &v))
            fail_msg("again: %s", cases[i].what);
}

/* What a mistake in weights, order or chance would do, made by a setting that one worker has not:
 * the oracle is to say no, and when it began. A net may be blind to a mirrored picture; others than
 * those of pictures are, and to products that round more is allowed. */
static void a_wrong_value_is_detected_at_its_first_step(void **state)
{
    static const char *const mistakes[] = {"updater.lr=0.0031", "data.train.mirror=no",
                                           "data.train.shuffle=no"};
    int noticed = 0, tried = 0;
    for (uint64_t seed = 0; tried < SPOILT; seed++) {
        struct oracle_verdict v = {.text = ""};
        struct oracle_case c = oracle_draw(seed);
        if (c.kind == ORACLE_PICTURES && !c.precision) {
            c.spoilt = mistakes[tried++ % 3];
            if (!oracle_judge(&c, &v) && strstr(v.text, "differs by") &&
                strstr(v.text, "first after step"))
                noticed++;
            else
                print_message("case %d, %d steps, is blind to %s\n%s", (int)seed, c.steps, c.spoilt,
                              v.text);
        }
        sw_free(c.recipe);
    }
    assert_true(noticed >= SPOILT - SPOILT / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cases_cover_what_they_claim),
        cmocka_unit_test(a_wrong_value_is_detected_at_its_first_step),
        cmocka_unit_test(random_jobs_train_to_what_one_worker_trains),
        cmocka_unit_test(cases_that_failed_once_pass),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
