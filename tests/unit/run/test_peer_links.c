/* ctest-labels: threads
 * Peer links between devices: test results for links that work, corrupt data, hang or do not exist;
 * how results are stored and for which machine they are valid; probes that die or cannot be
 * started. */
#include "train_support.h"

#include "device/driver.h"
#include "plan/peer_links.h"
#include <sys/stat.h>

enum { GPUS = 3 };

static struct sw_peer_links *find_with(struct sw_peer_links_args args)
{
    struct sw_peer_links *w = NULL;
    struct sw_err err = {0};
    args.count = args.count ? args.count : GPUS;
    args.driver = sw_driver_find("sim");
    args.sums = true;
    if (sw_peer_links_find(&args, &w, &err) != SW_OK)
        fail_msg("%s", err.text);
    return w;
}
#define find(...) find_with((struct sw_peer_links_args){__VA_ARGS__})

/* All pairs are alike. */
static void assert_pairs(const struct sw_peer_links *w, enum sw_peer_link_state direct,
                         enum sw_peer_link_state staged)
{
    for (int a = 0; a < w->count; a++)
        for (int b = 0; b < w->count; b++) {
            if (a == b)
                continue;
            if (sw_peer_links_direct(w, a, b)->state != direct ||
                sw_peer_links_staged(w, a, b)->state != staged)
                fail_msg("%d to %d: direct %s (%s), staged %s (%s)", a, b,
                         sw_peer_link_state_name(sw_peer_links_direct(w, a, b)->state),
                         sw_peer_links_direct(w, a, b)->why,
                         sw_peer_link_state_name(sw_peer_links_staged(w, a, b)->state),
                         sw_peer_links_staged(w, a, b)->why);
            assert_int_equal(sw_peer_links_reach(w, a, b), direct == SW_PEER_LINK_SOUND);
        }
}

static char *ways_file(void)
{
    return in_home("singa-ws/ways");
}

/* Whoever tries now finds nobody who could. */
static void without_trials(void)
{
    setenv("SINGA_PROBE", "/none/such", 1);
}

static int begin(void **state)
{
    unsetenv("SINGA_PROBE");
    return home_begin(state);
}

static int end(void **state)
{
    unsetenv("SINGA_PROBE");
    return home_end(state);
}

static void sound_links_are_found_and_saved(void **state)
{
    struct sw_peer_links *w = find(.options = "gpus=3");
    assert_pairs(w, SW_PEER_LINK_SOUND, SW_PEER_LINK_UNKNOWN);
    assert_int_equal(w->sum.state, SW_PEER_LINK_SOUND);
    assert_true(sw_peer_links_direct(w, 2, 0)->gb_per_s > 0 && w->sum.latency_us > 0);
    assert_null(sw_peer_links_worst(w));
    assert_string_equal(w->name[2], "sim:2");
    double tried_at = sw_peer_links_direct(w, 2, 0)->tried_at;
    sw_peer_links_free(w);
    without_trials();
    w = find(.options = "gpus=3");
    assert_pairs(w, SW_PEER_LINK_SOUND, SW_PEER_LINK_UNKNOWN);
    assert_true(fabs(sw_peer_links_direct(w, 2, 0)->tried_at - tried_at) <= 0.5);
    sw_peer_links_free(w);
}

static void damaged_copies_are_found_and_direct_links_disabled(void **state)
{
    struct sw_peer_links *w = find(.options = "gpus=3,peer=corrupt");
    assert_pairs(w, SW_PEER_LINK_DAMAGED, SW_PEER_LINK_SOUND);
    assert_non_null(strstr(sw_peer_links_worst(w)->why, "from sim:0 to sim:1 was corrupted: byte"));
    assert_int_equal(w->sum.state, SW_PEER_LINK_UNKNOWN);
    assert_non_null(strstr(w->sum.why, "not tested"));
    sw_peer_links_free(w);
    without_trials();
    w = find(.options = "gpus=3,peer=corrupt");
    assert_pairs(w, SW_PEER_LINK_DAMAGED, SW_PEER_LINK_SOUND);
    assert_non_null(strstr(sw_peer_links_worst(w)->why, "was corrupted"));
    sw_peer_links_free(w);
}

/* Each that hangs takes its time and its process; the others are tried by another one. */
static void link_that_hangs_does_not_hang_the_tests(void **state)
{
    struct sw_peer_links *w =
        find(.options = "gpus=2,peer=hang", .count = 2, .timeout_ms = PATIENCE_MS);
    assert_pairs(w, SW_PEER_LINK_HANGS, SW_PEER_LINK_SOUND);
    assert_int_equal(strncmp(sw_peer_links_direct(w, 0, 1)->why, "not finished within ", 20), 0);
    sw_peer_links_free(w);
}

static void without_direct_links_copies_go_through_the_host(void **state)
{
    struct sw_peer_links *w = find(.options = "gpus=3,peer=no");
    assert_pairs(w, SW_PEER_LINK_NONE, SW_PEER_LINK_SOUND);
    assert_int_equal(w->sum.state, SW_PEER_LINK_SOUND); /* that is the library's affair */
    assert_null(sw_peer_links_worst(w));
    sw_peer_links_free(w);
}

static void saved_results_are_valid_for_these_devices_only(void **state)
{
    sw_peer_links_free(find(.options = "gpus=3"));
    without_trials();
    struct sw_peer_links *w = find(.options = "gpus=3,mem=64MiB");
    assert_pairs(w, SW_PEER_LINK_UNKNOWN, SW_PEER_LINK_UNKNOWN);
    assert_non_null(strstr(sw_peer_links_direct(w, 0, 1)->why, "SINGA_PROBE names /none/such"));
    sw_peer_links_free(w);
    w = find(.options = "gpus=3"); /* still there, and what could not be tried was not kept */
    assert_pairs(w, SW_PEER_LINK_SOUND, SW_PEER_LINK_UNKNOWN);
    sw_peer_links_free(w);
    w = find(.options = "gpus=3", .retest = true);
    assert_pairs(w, SW_PEER_LINK_UNKNOWN, SW_PEER_LINK_UNKNOWN);
    sw_peer_links_free(w);
}

static void reading_saved_results_tests_nothing(void **state)
{
    struct sw_peer_links *w = find(.options = "gpus=3", .saved_only = true);
    assert_pairs(w, SW_PEER_LINK_UNKNOWN, SW_PEER_LINK_UNKNOWN);
    assert_string_equal(sw_peer_links_direct(w, 0, 1)->why, "");
    assert_int_equal(access(ways_file(), F_OK), -1);
    sw_peer_links_free(w);
}

/* A planted program in place of the one that tries. */
static void plant(const char *script)
{
    char *path = in_home("trial");
    char text[256];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    write_file(path, text, strlen(text));
    assert_int_equal(chmod(path, 0700), 0);
    setenv("SINGA_PROBE", path, 1);
}

static void probe_process_that_dies_fails_its_test(void **state)
{
    plant("echo ready; [ $# = 3 ] || echo ok 1 2; exit 3");
    struct sw_peer_links *w = find(.options = "gpus=2", .count = 2);
    assert_int_equal(sw_peer_links_direct(w, 0, 1)->state, SW_PEER_LINK_FAILS);
    assert_string_equal(sw_peer_links_direct(w, 0, 1)->why, "the probe process died");
    sw_peer_links_free(w);
    plant("echo 'fails no GPU'; exit 1");
    w = find(.options = "gpus=2", .count = 2, .retest = true);
    assert_pairs(w, SW_PEER_LINK_UNKNOWN, SW_PEER_LINK_UNKNOWN);
    assert_string_equal(sw_peer_links_direct(w, 0, 1)->why, "no GPU");
    sw_peer_links_free(w);
    plant("echo ready; echo nonsense; echo ok 1 2; echo ok 3 4; echo ok 5 6");
    w = find(.options = "gpus=2", .count = 2, .retest = true);
    assert_int_equal(sw_peer_links_direct(w, 0, 1)->state, SW_PEER_LINK_FAILS);
    assert_string_equal(sw_peer_links_direct(w, 0, 1)->why, "nonsense");
    assert_int_equal(sw_peer_links_direct(w, 1, 0)->state, SW_PEER_LINK_SOUND);
    sw_peer_links_free(w);
}

static size_t read_ways(char text[4096])
{
    FILE *f = fopen(ways_file(), "r");
    assert_non_null(f);
    size_t n = fread(text, 1, 4095, f);
    fclose(f);
    text[n] = '\0';
    return n;
}

static void a_damaged_file_is_tested_again(void **state)
{
    char text[4096];
    sw_peer_links_free(find(.options = "gpus=2", .count = 2));
    size_t n = read_ways(text);
    for (char *at = text; (at = strstr(at, "\tsound\t"));)
        memcpy(at, "\tmaybe\t", 7);
    memcpy(text, "\t\t", 2);
    write_file(ways_file(), text, n);
    struct sw_peer_links *w = find(.options = "gpus=2", .count = 2);
    assert_pairs(w, SW_PEER_LINK_SOUND, SW_PEER_LINK_UNKNOWN);
    sw_peer_links_free(w);
}

/* The saved results, as if every test had hung with that limit. */
static void save_hangs(int limit_s)
{
    char text[4096], out[8192];
    size_t n = 0;
    read_ways(text);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
        n += (size_t)snprintf(out + n, sizeof out - n,
                              "%.*s\thangs\t0\t0\t1794000000\tnot finished within %d s\n",
                              (int)strcspn(line, "\t"), line, limit_s);
    assert_true(n > 0 && n < sizeof out);
    write_file(ways_file(), out, n);
}

/* What did not end within a shorter limit may only have been slow. */
static void a_link_that_hung_is_tested_again_with_more_time(void **state)
{
    sw_peer_links_free(find(.options = "gpus=2", .count = 2));
    save_hangs(30);
    without_trials();
    struct sw_peer_links *w = find(.options = "gpus=2", .count = 2);
    assert_int_equal(sw_peer_links_direct(w, 0, 1)->state, SW_PEER_LINK_HANGS);
    assert_string_equal(sw_peer_links_direct(w, 0, 1)->why, "not finished within 30 s");
    sw_peer_links_free(w);
    unsetenv("SINGA_PROBE");
    save_hangs(10);
    w = find(.options = "gpus=2", .count = 2);
    assert_pairs(w, SW_PEER_LINK_SOUND, SW_PEER_LINK_UNKNOWN);
    assert_int_equal(w->sum.state, SW_PEER_LINK_SOUND);
    sw_peer_links_free(w);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(sound_links_are_found_and_saved),
        FRESH(damaged_copies_are_found_and_direct_links_disabled),
        FRESH(link_that_hangs_does_not_hang_the_tests),
        FRESH(without_direct_links_copies_go_through_the_host),
        FRESH(saved_results_are_valid_for_these_devices_only),
        FRESH(reading_saved_results_tests_nothing),
        FRESH(probe_process_that_dies_fails_its_test),
        FRESH(a_damaged_file_is_tested_again),
        FRESH(a_link_that_hung_is_tested_again_with_more_time),
    };
    return cmocka_run_group_tests_name("ways", tests, NULL, NULL);
}
