/* ctest-labels: threads
 * ctest-timeout: 300
 * Random nets, random ways to train them with several workers: the same parameters as with one, and
 * the same bits again. Sanitizers make it slow, and get fewer cases; test_oracle_sweep.c has more.
 */
#include "oracle_support.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { CASES = 24, SPOILT = 6 };
#else
enum { CASES = 96, SPOILT = 18 };
#endif

static void random_jobs_train_to_what_one_worker_trains(void **state)
{
    struct oracle_coverage v = {0};
    (void)state;
    oracle_sweep(0, CASES, &v);
    oracle_print_coverage(&v);
}

/* Of the cases that run without sanitizers. */
static void the_cases_cover_what_they_claim(void **state)
{
    struct oracle_coverage v = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 96; seed++) {
        struct oracle_case c = oracle_draw(seed);
        oracle_note(&v, &c);
        sw_free(c.recipe);
    }
    oracle_check_coverage(&v);
}

/* What a mistake in weights, order or chance would do, made by a setting that one worker has not:
 * the oracle is to say no, and when it began. A net may be blind to a mirrored picture. */
static void a_wrong_number_is_noticed_with_its_first_step(void **state)
{
    static const char *const mistakes[] = {"updater.lr=0.0031", "data.train.mirror=no",
                                           "data.train.shuffle=no"};
    int noticed = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SPOILT; seed++) {
        struct oracle_verdict v = {.text = ""};
        struct oracle_case c = oracle_draw(seed);
        c.spoilt = mistakes[seed % 3];
        if (!oracle_judge(&c, &v) && strstr(v.text, "differs by") &&
            strstr(v.text, "first after step"))
            noticed++;
        else
            print_message("case %d, %d steps, is blind to %s\n%s", (int)seed, c.steps, c.spoilt,
                          v.text);
        sw_free(c.recipe);
    }
    assert_true(noticed >= SPOILT - SPOILT / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_number_is_noticed_with_its_first_step),
        cmocka_unit_test(random_jobs_train_to_what_one_worker_trains),
        cmocka_unit_test(the_cases_cover_what_they_claim),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
