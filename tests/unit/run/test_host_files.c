/* Files that host 0 sends: the same file is recognized by its sum, a copy is whole or not there,
 * and nothing behind it is read. */
#include "base/os.h"
#include "run/host_files.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/faulty_os.h"
#include "unit/home.h"

enum { BYTES = 3000001 };

static char *bytes;

static void write_file(const char *path, size_t n)
{
    struct sw_err err;
    if (sw_os_replace_file(path, bytes, n, 0600, &err) != SW_OK)
        fail_msg("%s", err.text);
}

static struct sw_host_file read_file(const char *path)
{
    struct sw_host_file f = {.path = path};
    struct sw_err err;
    if (sw_host_file_read(path, &f, &err) != SW_OK)
        fail_msg("%s", err.text);
    return f;
}

/* A pipe into which a child writes n bytes and `more`. */
static int sender(size_t n, const char *more)
{
    struct sw_err err;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        int rc = sw_os_write_all(ends[1], bytes, n, "pipe", &err);
        if (rc == SW_OK)
            rc = sw_os_write_all(ends[1], more, strlen(more), "pipe", &err);
        _exit(rc != SW_OK);
    }

    close(ends[1]);
    return ends[0];
}

static int receive(const struct sw_host_file *f, size_t n, const char *path, struct sw_err *err)
{
    int fd = sender(n, "X");
    int rc = sw_host_file_receive(f, fd, path, err);

    close(fd);
    assert_true(wait(NULL) > 0);
    return rc;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void a_file_is_known_by_its_sum(void **state)
{
    char path[512];

    snprintf(path, sizeof path, "%s", in_home("a"));
    write_file(path, BYTES);
    struct sw_host_file f = read_file(path);
    assert_int_equal(f.bytes, BYTES);
    assert_int_equal(strlen(f.sum), SW_HOST_FILE_SUM - 1);
    assert_true(sw_host_file_is_here(&f));

    write_file(path, BYTES - 1);
    assert_false(sw_host_file_is_here(&f));
    bytes[5] ^= 1;
    write_file(path, BYTES);
    bytes[5] ^= 1;
    assert_false(sw_host_file_is_here(&f));
    unlink(path);
    assert_false(sw_host_file_is_here(&f));
}

static void a_copy_is_the_same_file(void **state)
{
    static const size_t sizes[] = {0, 1, BYTES};
    char path[512], copy[512], next;
    struct sw_err err;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(path, sizeof path, "%s", in_home("a"));
        snprintf(copy, sizeof copy, "%s", in_home("b"));
        write_file(path, sizes[i]);
        struct sw_host_file f = read_file(path);

        int fd = sender(sizes[i], "X");
        assert_int_equal(sw_host_file_receive(&f, fd, copy, &err), SW_OK);
        assert_int_equal(read(fd, &next, 1), 1);
        assert_int_equal(next, 'X');
        close(fd);
        assert_true(wait(NULL) > 0);
        f.path = copy;
        assert_true(sw_host_file_is_here(&f));
        unlink(copy);
    }
}

static void a_copy_is_whole_or_not_there(void **state)
{
    char path[512], copy[512];
    struct sw_err err;

    snprintf(path, sizeof path, "%s", in_home("a"));
    snprintf(copy, sizeof copy, "%s", in_home("folder"));
    assert_int_equal(sw_os_mkdirs(copy, 0700, &err), SW_OK);
    snprintf(copy, sizeof copy, "%s", in_home("folder/b"));
    write_file(path, BYTES);
    struct sw_host_file f = read_file(path);

    assert_int_equal(receive(&f, BYTES - 2, copy, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "before the file was complete"));
    f.sum[0] = f.sum[0] == '0' ? '1' : '0';
    assert_int_equal(receive(&f, BYTES, copy, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "damaged on its way"));
    assert_false(exists(copy));

    /* and nothing else is left */
    assert_int_equal(rmdir(in_home("folder")), 0);
}

/* A full disk, or no memory, at any moment: an error, which names the copy, and nothing is left. */
static void every_failure_leaves_nothing(void **state)
{
    char path[512], copy[512];
    struct sw_err err;
    int failures = 0, rc = SW_ERR_IO;

    snprintf(path, sizeof path, "%s", in_home("a"));
    snprintf(copy, sizeof copy, "%s", in_home("full"));
    assert_int_equal(sw_os_mkdirs(copy, 0700, &err), SW_OK);
    snprintf(copy, sizeof copy, "%s", in_home("full/b"));
    write_file(path, 5000);
    struct sw_host_file f = read_file(path);

    for (int at = 1; rc != SW_OK; at++) {
        int fd = sender(5000, "");

        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC | FAULTY_OPEN | FAULTY_WRITE,
                                          .at = at,
                                          .error = ENOSPC,
                                          .io_bytes = 1000,
                                          .interrupts = true});
        rc = sw_host_file_receive(&f, fd, copy, &err);
        faulty_end();
        close(fd);
        assert_true(wait(NULL) > 0);
        failures += rc != SW_OK;
        assert_true(rc == SW_OK || rc == SW_ERR_IO || rc == SW_ERR_NOMEM);
        if (rc == SW_ERR_IO)
            assert_non_null(strstr(err.text, "full"));
    }

    assert_true(failures > 5);
    assert_int_equal(unlink(copy), 0);
    assert_int_equal(rmdir(in_home("full")), 0);
}

static void copies_of_a_run_are_removed(void **state)
{
    char path[600];
    struct sw_err err;
    char *folder = NULL;

    assert_int_equal(sw_host_files_folder("0123456789abcdef.1", &folder, &err), SW_OK);
    snprintf(path, sizeof path, "%s/0.safetensors", folder);
    write_file(path, 10);
    sw_host_files_remove(folder);
    assert_false(exists(folder));
    sw_host_files_remove(folder);
    sw_host_files_remove(NULL);
    sw_free(folder);
}

static int set_up(void **state)
{
    bytes = malloc(BYTES);
    for (int i = 0; bytes && i < BYTES; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    return bytes ? home_begin(state) : -1;
}

static int tear_down(void **state)
{
    free(bytes);
    return home_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_known_by_its_sum),
        cmocka_unit_test(a_copy_is_the_same_file),
        cmocka_unit_test(a_copy_is_whole_or_not_there),
        cmocka_unit_test(every_failure_leaves_nothing),
        cmocka_unit_test(copies_of_a_run_are_removed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
