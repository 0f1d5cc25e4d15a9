/* Texts of given figures: units, limits, lists, and hostile texts. */
#include "planner/figures.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void units_are_read(void **state)
{
    static const struct {
        const char *key, *text;
        size_t offset;
        double value;
    } rows[] = {
#define ROW(key, text, member, value) {key, text, offsetof(struct sw_given_figures, member), value}
        ROW("gflops", "9000", flops_per_s, 9e12),
        ROW("gflops", "9.3e3", flops_per_s, 9.3e12),
        ROW("gflops", "9T", flops_per_s, 9e12),
        ROW("gflops", "500G", flops_per_s, 5e11),
        ROW("memory-rate", "20GB/s", memory_bytes_per_s, 2e10),
        ROW("gpu-memory", "16GiB", gpu_memory_bytes, 0x1p34),
        ROW("pcie", "12GB/s", pcie_bytes_per_s, 12e9),
        ROW("net", "1Gbit", net_bytes_per_s, 125e6),
        ROW("net", "10Gbit/s", net_bytes_per_s, 1.25e9),
        ROW("net", "900Mbit", net_bytes_per_s, 112.5e6),
        ROW("net", "500MB/s", net_bytes_per_s, 5e8),
        ROW("net", "10Tbit", net_bytes_per_s, 1.25e12),
        ROW("net-latency", "50us", net_latency_s, 50e-6),
        ROW("hosts", "1024", hosts, 1024),
        ROW("gpus", "8", gpus, 8),
        ROW("gpus-per-host", "4", gpus_per_host, 4),
        ROW("server-hosts", "7", server_hosts, 7),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sw_given_figures g = {0};
        struct sw_err err = {0};
        if (sw_given_set(&g, rows[i].key, rows[i].text, "--option", &err) != SW_OK)
            fail_msg("%s", err.text);
        const struct sw_figure *f = (const void *)((const char *)&g + rows[i].offset);
        assert_float_equal(f->value, rows[i].value, rows[i].value * 1e-12);
        assert_string_equal(f->source, "given by --option");
    }
}

static void refuse(const char *key, const char *text)
{
    struct sw_given_figures g = {0};
    const struct sw_given_figures before = {0};
    struct sw_err err = {0};
    char option[32], start[96];
    snprintf(option, sizeof option, "--%s", key);
    snprintf(start, sizeof start, "%s is '%.32s", option, text);
    if (sw_given_set(&g, key, text, option, &err) != SW_ERR_INVALID)
        fail_msg("%s %s is accepted", key, text);
    assert_int_equal(strncmp(err.text, start, strlen(start)), 0);
    assert_non_null(strstr(err.text, "it must be "));
    assert_memory_equal(&g, &before, sizeof g);
}

static void values_have_limits(void **state)
{
    static const char *const never[] = {"",     "0",      "-1",    "nan",        "NaN",  "inf",
                                        "-inf", "1e999",  "0x10",  " ",          "1e",   "--1",
                                        "Gbit", "1 2",    "1,5",   "\x01",       "\xff", "%s%n",
                                        "T",    "-1Gbit", "0GB/s", "9999999TB/s"};
    for (int row = 0; sw_given_key(row); row++) {
        assert_non_null(strstr(sw_given_expects(row), "from"));
        for (size_t i = 0; i < sizeof never / sizeof *never; i++)
            refuse(sw_given_key(row), never[i]);
        char longest[5000];
        memset(longest, '9', sizeof longest - 1);
        longest[sizeof longest - 1] = '\0';
        refuse(sw_given_key(row), longest);
    }
    refuse("net", "10.1Tbit");
    refuse("net", "10");
    refuse("gflops", "10000001");
    refuse("gflops", "11000T");
    refuse("gflops", "0.0001");
    refuse("hosts", "1025");
    refuse("gpus", "1025");
    refuse("gpus", "2.5");
    refuse("gpus-per-host", "99999999999999999999");
    refuse("net-latency", "11s");
    refuse("net-latency", "50");
    assert_null(sw_given_key(-1));
    assert_null(sw_given_expects(99));
}

static void lists_are_read(void **state)
{
    struct sw_given_figures g = {.pcie_bytes_per_s = {1e9, "kept"}};
    struct sw_err err = {0};
    assert_int_equal(
        sw_given_parse(&g, "gpus=4, net = 10Gbit,\n\n\tgflops=9000 \n", "--what-if", &err), SW_OK);
    assert_true(g.gpus.value == 4 && g.net_bytes_per_s.value == 1.25e9);
    assert_true(g.flops_per_s.value == 9e12 && g.hosts.value == 0);
    assert_string_equal(g.net_bytes_per_s.source, "given by --what-if");
    assert_string_equal(g.pcie_bytes_per_s.source, "kept");
}

static void errors_of_lists_have_a_place(void **state)
{
    static const struct {
        const char *list, *says;
    } wrong[] = {
        {"gpus=4, net=0", "--what-if, line 1, column 9: net is '0'; it must be a rate from 1kB/s"},
        {"gpus=4,\n  nett=1Gbit", "line 2, column 3: unknown key 'nett'"},
        {"gpus=4,,\n  net=1Gbit", "line 1, column 8: expected KEY=VALUE"},
        {"\n,", "line 2, column 1: expected KEY=VALUE"},
        {"gpus=4\n  nett=1Gbit", "line 2, column 3: unknown key 'nett'; did you mean 'net'?"},
        {"colour=red", "column 1: unknown key 'colour'; known keys are gflops, memory-rate"},
        {"gpus_per_host=1", "did you mean 'gpus-per-host'?"},
        {"gpus=4, gpus=4", "column 9: gpus is given twice"},
        {"", "column 1: expected KEY=VALUE"},
        {"gpus=4,", "column 8: expected KEY=VALUE"},
        {"gpus", "column 1: expected KEY=VALUE"},
        {"gpus=", "column 1: expected KEY=VALUE"},
        {"=4", "column 1: expected KEY=VALUE"},
        {"gpus==4", "gpus is '=4'"},
        {"gpus=nan", "a whole number from 1 to 1024"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sw_given_figures g = {.hosts = {2, "kept"}};
        const struct sw_given_figures before = g;
        struct sw_err err = {0};
        assert_int_equal(sw_given_parse(&g, wrong[i].list, "--what-if", &err), SW_ERR_INVALID);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("'%s': %s", wrong[i].list, err.text);
        assert_memory_equal(&g, &before, sizeof g);
    }
}

static void counts_agree(void **state)
{
    static const struct {
        double hosts, gpus, each;
        int expect; /* GPUs of each host; -1: refused */
        const char *says;
    } rows[] = {
        {0, 0, 0, 0, NULL},
        {4, 0, 0, 0, NULL},
        {0, 8, 0, 8, NULL},
        {0, 0, 8, 8, NULL},
        {4, 8, 0, 2, NULL},
        {4, 0, 2, 2, NULL},
        {4, 8, 2, 2, NULL},
        {1024, 0, 1, 1, NULL},
        {3, 8, 0, -1, "8 GPUs cannot be shared equally by 3 hosts"},
        {0, 8, 4, -1, "gpus=8 and gpus-per-host=4 need hosts=2"},
        {0, 8, 3, -1, "gpus=8 contradicts gpus-per-host=3 on 1 host"},
        {4, 8, 1, -1, "gpus=8 contradicts gpus-per-host=1 on 4 hosts"},
        {1024, 0, 1024, -1, "1048576 GPUs; the planner knows at most 1024"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sw_given_figures g = {.hosts.value = rows[i].hosts,
                                           .gpus.value = rows[i].gpus,
                                           .gpus_per_host.value = rows[i].each};
        struct sw_err err = {0};
        int hosts, gpus;
        const int rc = sw_given_counts(&g, &hosts, &gpus, &err);
        assert_int_equal(rc, rows[i].expect < 0 ? SW_ERR_INVALID : SW_OK);
        if (rc != SW_OK)
            assert_non_null(strstr(err.text, rows[i].says));
        else
            assert_true(hosts == (int)rows[i].hosts && gpus == rows[i].expect);
    }
}

/* Each figure alone, by an option and in a list, in scopes where it means something or nothing. */
static void figures_without_effect_are_refused(void **state)
{
    static const struct sw_given_scope cores = {0}, hosts = {.network = true},
                                       gpus = {.gpus = true}, asked = {.cores_only = true};
    static const struct {
        const char *key, *text;
        const struct sw_given_scope *scope;
        const char *option, *item; /* what messages say; NULL: it applies */
    } rows[] = {
        {"net", "1Gbit", &gpus, "--net needs --hosts", "net needs hosts"},
        {"net", "1Gbit", &hosts, NULL, NULL},
        {"net-latency", "50us", &cores, "--net-latency needs --hosts", "net-latency needs hosts"},
        {"pcie", "12GB/s", &hosts, "--pcie needs --gpus or", "pcie needs gpus or"},
        {"pcie", "12GB/s", &gpus, NULL, NULL},
        {"gpu-memory", "16GB", &cores, "--gpu-memory needs --gpus", "gpu-memory needs gpus"},
        {"gpu-memory", "16GB", &gpus, NULL, NULL},
        {"gpus", "4", &asked, "--gpus contradicts --device", "gpus contradicts --device"},
        {"gpus-per-host", "4", &asked, "--gpus-per-host contradicts", "gpus-per-host contradicts"},
        {"gpus", "4", &gpus, NULL, NULL},
        {"gflops", "100", &cores, NULL, NULL},
        {"memory-rate", "20GB/s", &cores, NULL, NULL},
        {"hosts", "1", &cores, NULL, NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sw_given_figures option = {0}, list = {0};
        struct sw_err err = {0};
        char name[32], item[64], place[128];

        snprintf(name, sizeof name, "--%s", rows[i].key);
        snprintf(item, sizeof item, "\n  %s=%s", rows[i].key, rows[i].text);
        assert_int_equal(sw_given_set(&option, rows[i].key, rows[i].text, name, &err), SW_OK);
        assert_int_equal(sw_given_parse(&list, item, "--what-if", &err), SW_OK);

        const int rc = sw_given_check(&option, rows[i].scope, &err);
        assert_int_equal(rc, rows[i].option ? SW_ERR_INVALID : SW_OK);
        if (rc != SW_OK && strncmp(err.text, rows[i].option, strlen(rows[i].option)) != 0)
            fail_msg("%s", err.text);

        assert_int_equal(sw_given_check(&list, rows[i].scope, &err), rc);
        snprintf(place, sizeof place, "--what-if, line 2, column 3: %s", rows[i].item);
        if (rc != SW_OK && strncmp(err.text, place, strlen(place)) != 0)
            fail_msg("%s", err.text);

        /* An option after the list is what the message names. */
        assert_int_equal(sw_given_set(&list, rows[i].key, rows[i].text, name, &err), SW_OK);
        if (sw_given_check(&list, rows[i].scope, &err) != SW_OK)
            assert_int_equal(strncmp(err.text, "--", 2) || strncmp(err.text, name, strlen(name)),
                             0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_read), cmocka_unit_test(values_have_limits),
        cmocka_unit_test(lists_are_read), cmocka_unit_test(errors_of_lists_have_a_place),
        cmocka_unit_test(counts_agree),   cmocka_unit_test(figures_without_effect_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
