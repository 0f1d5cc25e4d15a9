/* The message for `singa-ws join`: what is written is read, every damage is refused, and no byte
 * behind the message is taken. */
#include "base/os.h"
#include "run/join.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const unsigned char key[SW_FABRIC_KEY_BYTES] = {0, '\n', 7, 255};

#define SUM "00112233445566778899aabbccddeeff"

static const struct sw_join example = {.own = 1,
                                       .names = {"ada", "b"},
                                       .count = 2,
                                       .address = "10.0.0.1",
                                       .port = 4711,
                                       .key = key,
                                       .folder = "/home/ada",
                                       .recipe_path = "/home/ada/r.ini",
                                       .recipe = "[job]\nname = x\n\n",
                                       .overrides = "",
                                       .fallback = "",
                                       .init_from = "/home/ada/with blank",
                                       .steps = 12,
                                       .uid = "0123456789abcdef",
                                       .checkpoint = "/home/ada/c 1",
                                       .files = {{"/home/ada/c 1", 77, SUM}, {"w", 0, SUM}},
                                       .file_count = 2,
                                       .verbose = true};

static void write_to(int fd, const struct sw_join *j, const char *more)
{
    struct sw_bytes out = {0};
    struct sw_err err;
    sw_join_write(j, &out);
    sw_bytes_add(&out, more);
    assert_false(out.failed);
    assert_int_equal(sw_os_write_all(fd, out.text, out.length, "pipe", &err), SW_OK);
    sw_bytes_fini(&out);
}

static void what_is_written_is_read(void **state)
{
    int ends[2];
    char *fields, next;
    struct sw_join j;
    struct sw_err err;

    assert_int_equal(pipe(ends), 0);
    write_to(ends[1], &example, "X");
    assert_int_equal(sw_join_read(ends[0], &j, &fields, &err), SW_OK);
    assert_int_equal(read(ends[0], &next, 1), 1);
    assert_int_equal(next, 'X');
    close(ends[0]);
    close(ends[1]);

    assert_int_equal(j.own, 1);
    assert_int_equal(j.count, 2);
    assert_string_equal(j.names[0], "ada");
    assert_string_equal(j.names[1], "b");
    assert_string_equal(j.address, "10.0.0.1");
    assert_int_equal(j.port, 4711);
    assert_memory_equal(j.key, key, sizeof key);
    assert_string_equal(j.folder, "/home/ada");
    assert_string_equal(j.recipe, "[job]\nname = x\n\n");
    assert_string_equal(j.overrides, "");
    assert_string_equal(j.init_from, "/home/ada/with blank");
    assert_null(j.name);
    assert_int_equal(j.steps, 12);
    assert_string_equal(j.uid, "0123456789abcdef");
    assert_string_equal(j.checkpoint, "/home/ada/c 1");
    assert_int_equal(j.file_count, 2);
    assert_ptr_equal(sw_join_file(&j, j.checkpoint), &j.files[0]);
    assert_int_equal(j.files[0].bytes, 77);
    assert_string_equal(j.files[0].sum, SUM);
    assert_string_equal(j.files[1].path, "w");
    assert_true(j.verbose);
    assert_false(j.share_machine);
    sw_free(fields);
}

/* Reads a text as standard input; returns the code. */
static int code_of(const char *text, size_t bytes)
{
    int ends[2];
    char *fields = NULL;
    struct sw_join j;
    struct sw_err err;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(sw_os_write_all(ends[1], text, bytes, "pipe", &err), SW_OK);
    close(ends[1]);
    int rc = sw_join_read(ends[0], &j, &fields, &err);
    close(ends[0]);
    sw_free(fields);
    return rc;
}

static void what_is_cut_is_refused(void **state)
{
    struct sw_bytes out = {0};

    sw_join_write(&example, &out);
    assert_int_equal(code_of(out.text, out.length), SW_OK);
    for (size_t n = 0; n < out.length; n++)
        assert_int_not_equal(code_of(out.text, n), SW_OK);
    sw_bytes_fini(&out);
}

/* Fields that are not followed by a first line of the right length are for sw_join_parse. */
static int parse(const char *text)
{
    char *copy = strdup(text);
    struct sw_join j;
    struct sw_err err = {0};

    assert_non_null(copy);
    int rc = sw_join_parse(copy, strlen(copy), &j, &err);
    free(copy);
    return rc;
}

#define FIELDS                                                                                     \
    "host 1\na\nhost 1\nb\ntask 1\n0\nown 1\n1\nport 1\n9\nshare_machine 1\n0\nfolder 1\n/\n"      \
    "recipe_path 1\nr\noverrides 0\n\nfallback 0\n\nsteps 1\n0\noversubscribe 1\n0\n"              \
    "verbose 1\n0\nsteps_at_most 1\n0\nuid 16\n0123456789abcdef\n"
#define RECIPE "recipe 1\nx\n"

static void wrong_fields_are_refused(void **state)
{
    assert_int_equal(parse(FIELDS RECIPE), SW_OK);
    assert_int_equal(parse(FIELDS), SW_ERR_FORMAT);               /* a text is missing */
    assert_int_equal(parse(FIELDS RECIPE RECIPE), SW_ERR_FORMAT); /* and comes twice */
    assert_int_equal(parse(FIELDS RECIPE "color 3\nred\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "host 1\nb\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "host 0\n\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "key 3\nabc\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "name -1\n\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "name 01\nx\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "name 9\nx\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "name 999999999999999999999\nx\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "file 36\n5 " SUM " f\n"), SW_OK);
    assert_int_equal(parse(FIELDS RECIPE "file 36\n5 " SUM " f\ncheckpoint 1\nf\n"), SW_OK);
    assert_int_equal(parse(FIELDS RECIPE "checkpoint 1\nf\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "file 35\n5 " SUM " \n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "file 36\n-5" SUM " f\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "file 36\nx " SUM " f\n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "file 6\n5 abc \n"), SW_ERR_FORMAT);
    assert_int_equal(parse(FIELDS RECIPE "file 1\n5\n"), SW_ERR_FORMAT);
    assert_int_equal(parse("host 1\na\n" RECIPE), SW_ERR_FORMAT);
    assert_int_equal(parse(""), SW_ERR_FORMAT);
}

static void wrong_first_lines_are_refused(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } lines[] = {{"hello\n", SW_ERR_FORMAT},
                 {"\n", SW_ERR_FORMAT},
                 {"singa-ws join 1\n", SW_ERR_FORMAT},
                 {"singa-ws join 1 \n", SW_ERR_FORMAT},
                 {"singa-ws join 1 5x\n", SW_ERR_FORMAT},
                 {"singa-ws join 2 5\n", SW_ERR_UNSUPPORTED},
                 {"singa-ws join 1 99999999999\n", SW_ERR_FORMAT},
                 {"singa-ws join 1 000000000000000000000000000000000000000000000000000000000000005",
                  SW_ERR_FORMAT},
                 {"singa-ws join 1 5", SW_ERR_NOTFOUND}};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(code_of(lines[i].text, strlen(lines[i].text)), lines[i].rc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_cut_is_refused),
        cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(wrong_first_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
