/* The file helpers and allocation helpers, with short and failing system calls. */
#include "base/os.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static void assert_content(const char *path, const char *want)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(sw_os_read_file(path, 1 << 20, &text, &bytes, NULL), SW_OK);
    assert_int_equal(bytes, strlen(want));
    assert_string_equal(text, want);
    sw_free(text);
}

static void put(const char *path, const char *text)
{
    assert_int_equal(sw_os_replace_file(path, text, strlen(text), 0600, NULL), SW_OK);
}

static void overflowing_size_returns_null(void **state)
{
    assert_null(sw_calloc(SIZE_MAX / 2, 3));
    assert_null(sw_realloc_array(NULL, SIZE_MAX / 4, 8));
    sw_free(NULL);
    unsigned char *p = sw_calloc(100, 3);
    for (int i = 0; i < 300; i++)
        assert_int_equal(p[i], 0);
    sw_free(p);
    p = sw_calloc(0, 8);
    assert_non_null(p);
    sw_free(p);
}

static void short_and_interrupted_io_is_retried(void **state)
{
    const char *path = scratch_path("short");
    char text[1000], back[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    faulty_begin((struct faulty_plan){.io_bytes = 7, .interrupts = true});
    assert_int_equal(sw_os_replace_file(path, text, sizeof text, 0600, NULL), SW_OK);
    char *all = NULL;
    size_t bytes = 0;
    assert_int_equal(sw_os_read_file(path, 1000, &all, &bytes, NULL), SW_OK);
    assert_int_equal(bytes, sizeof text);
    assert_memory_equal(all, text, sizeof text);
    sw_free(all);
    int fd = sw_os()->open(path, O_RDONLY, 0);
    assert_int_equal(sw_os_pread_all(fd, back, 900, 100, "file", NULL), SW_OK);
    assert_memory_equal(back, text + 100, 900);
    assert_int_equal(faulty.live_allocations, 0);
    sw_os()->close(fd);
    faulty_end();
}

static void pwrite_does_not_move_the_file_position(void **state)
{
    const char *path = scratch_path("at");
    int fd = sw_os()->open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    faulty_begin((struct faulty_plan){.io_bytes = 3, .interrupts = true});
    assert_int_equal(sw_os_write_all(fd, "0123456789", 10, "file", NULL), SW_OK);
    assert_int_equal(sw_os_pwrite_all(fd, "abcdefg", 7, 1, "file", NULL), SW_OK);
    assert_int_equal(sw_os_write_all(fd, "!", 1, "file", NULL), SW_OK);
    faulty_end();
    assert_content(path, "0abcdefg89!");

    const char *mapped = sw_os()->map_file(fd, 11);
    assert_non_null(mapped);
    assert_memory_equal(mapped, "0abcdefg89!", 11);
    assert_int_equal(sw_os()->unmap_pages((void *)(uintptr_t)mapped, 11), 0);
    struct sw_err err = {0};
    faulty_begin((struct faulty_plan){.kinds = FAULTY_WRITE, .at = 1, .error = ENOSPC});
    assert_int_equal(sw_os_pwrite_all(fd, "x", 1, 0, "the file", &err), SW_ERR_IO);
    faulty_end();
    assert_non_null(strstr(err.text, "cannot write the file"));
    sw_os()->close(fd);
}

static void reading_past_the_end_is_a_format_error(void **state)
{
    struct sw_err err = {0};
    char back[10];
    put(scratch_path("few"), "12345");
    int fd = sw_os()->open(scratch_path("few"), O_RDONLY, 0);
    assert_int_equal(sw_os_pread_all(fd, back, 6, 0, "the index", &err), SW_ERR_FORMAT);
    assert_string_equal(err.text, "the index is truncated: it ends at byte 5, 1 bytes are missing");
    sw_os()->close(fd);
}

static void read_file_enforces_max_bytes(void **state)
{
    struct sw_err err = {0};
    char *text = NULL;
    size_t bytes = 0;
    put(scratch_path("limit"), "0123456789");
    assert_int_equal(sw_os_read_file(scratch_path("limit"), 9, &text, &bytes, &err),
                     SW_ERR_INVALID);
    assert_int_equal(sw_os_read_file(scratch_path("limit"), 10, &text, &bytes, &err), SW_OK);
    assert_int_equal(bytes, 10);
    sw_free(text);
    assert_int_equal(sw_os_read_file(scratch_path("none"), 9, &text, &bytes, &err),
                     SW_ERR_NOTFOUND);
    assert_int_equal(sw_os_read_file(scratch_dir, 9, &text, &bytes, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "is a directory, not a regular file"));
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0); /* nobody waits for a writer */
    assert_int_equal(sw_os_read_file(scratch_path("fifo"), 9, &text, &bytes, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "is a pipe, not a regular file"));
    /* A file whose size fstat does not know. */
    assert_int_equal(sw_os_read_file("/proc/self/status", 1 << 20, &text, &bytes, &err), SW_OK);
    assert_true(bytes > 100 && strlen(text) == bytes);
    sw_free(text);
    assert_int_equal(sw_os_read_file("/proc/self/status", 100, &text, &bytes, &err),
                     SW_ERR_INVALID);
}

static void mkdirs_creates_parents_and_accepts_existing(void **state)
{
    struct sw_err err = {0};
    struct stat st;
    assert_int_equal(sw_os_mkdirs(scratch_path("a/b//c/"), 0700, &err), SW_OK);
    assert_int_equal(sw_os_mkdirs(scratch_path("a/b/c"), 0700, &err), SW_OK);
    assert_int_equal(stat(scratch_path("a/b/c"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    put(scratch_path("a/file"), "x");
    assert_int_equal(sw_os_mkdirs(scratch_path("a/file/d"), 0700, &err), SW_ERR_IO);
    assert_non_null(strstr(err.text, "Not a directory"));
    assert_int_equal(sw_os_mkdirs("/", 0700, &err), SW_OK);
    assert_int_equal(sw_os_mkdirs("/proc/none/x", 0700, &err), SW_ERR_NOTFOUND);
    unlink(scratch_path("a/file"));
    rmdir(scratch_path("a/b/c"));
    rmdir(scratch_path("a/b"));
    rmdir(scratch_path("a"));
}

static void replace_file_works_with_every_kind_of_path(void **state)
{
    struct stat st;
    put(scratch_path("new"), "one");
    put(scratch_path("new"), "two, longer");
    assert_content(scratch_path("new"), "two, longer");
    assert_int_equal(stat(scratch_path("new"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(scratch_dir), 0);
    put("relative", "three");
    assert_content("relative", "three");
    assert_int_equal(chdir(before), 0);
    free(before);
}

/* After a failure of any call, once or permanently, the file is the old or the new one, and no
 * temporary file remains. */
static void replace_file_keeps_the_old_file_when_any_call_fails(void **state)
{
    scratch_clear();
    const char *path = scratch_path("kept");
    put(path, "old");
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL, .io_bytes = 2});
    assert_int_equal(sw_os_replace_file(path, "new", 3, 0600, NULL), SW_OK);
    int calls = faulty_end(), kept = 0;
    assert_true(calls >= 9);
    for (int at = 1; at <= 2 * calls; at++) {
        struct sw_err err = {0};
        put(path, "old");
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL,
                                          .at = (at + 1) / 2,
                                          .forever = at % 2,
                                          .error = ENOSPC,
                                          .io_bytes = 2});
        int rc = sw_os_replace_file(path, "new", 3, 0600, &err);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
        char *text = NULL;
        size_t bytes;
        assert_int_equal(sw_os_read_file(path, 100, &text, &bytes, NULL), SW_OK);
        bool is_new = strcmp(text, "new") == 0;
        assert_true(is_new || strcmp(text, "old") == 0);
        if (rc == SW_OK)
            assert_true(is_new);
        else
            assert_true(err.code == rc && err.text[0]);
        kept += !is_new;
        sw_free(text);
        assert_int_equal(scratch_count(), 1);
    }
    /* Only what comes after the rename (opening, syncing and closing the folder) leaves the new
     * file. */
    assert_true(kept >= 2 * (calls - 6));
}

static void replace_file_survives_a_kill_at_any_call(void **state)
{
    const char *path = scratch_path("kill");
    bool finished = false;
    for (int at = 1; !finished; at++) {
        int status;
        put(path, "old");
        pid_t child = fork();
        if (child == 0) {
            faulty_begin((struct faulty_plan){.kinds = FAULTY_FILES, .at = at, .dies = true});
            _exit(sw_os_replace_file(path, "new", 3, 0600, NULL) == SW_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        finished = WEXITSTATUS(status) == 0;
        assert_true(finished || WEXITSTATUS(status) == 9);
        char *text = NULL;
        size_t bytes;
        assert_int_equal(sw_os_read_file(path, 100, &text, &bytes, NULL), SW_OK);
        assert_true(strcmp(text, "new") == 0 || (!finished && strcmp(text, "old") == 0));
        sw_free(text);
        assert_true(at < 100);
    }
}

static void close_errors_are_not_lost(void **state)
{
    struct sw_err err = {0};
    put(scratch_path("closed"), "old");
    faulty_begin((struct faulty_plan){.kinds = FAULTY_CLOSE, .at = 1, .error = EDQUOT});
    assert_int_equal(sw_os_replace_file(scratch_path("closed"), "new", 3, 0600, &err), SW_ERR_IO);
    faulty_end();
    assert_non_null(strstr(err.text, "cannot close"));
    assert_content(scratch_path("closed"), "old");
}

static void abandon_accepts_every_state(void **state)
{
    struct sw_new_file f = {.fd = -1};
    scratch_clear();
    sw_os_new_file_abandon(&f);
    assert_int_equal(sw_os_new_file_begin(&f, scratch_path("left"), 0600, NULL), SW_OK);
    assert_int_equal(scratch_count(), 1);
    sw_os_new_file_abandon(&f);
    sw_os_new_file_abandon(&f);
    assert_int_equal(scratch_count(), 0);
    struct sw_err err = {0};
    assert_int_equal(sw_os_new_file_begin(&f, scratch_path("no/folder"), 0600, &err),
                     SW_ERR_NOTFOUND);
    sw_os_new_file_abandon(&f);
}

static void clocks_and_random_bytes_work(void **state)
{
    int64_t a = sw_os()->monotonic_ns(), b = sw_os()->monotonic_ns();
    assert_true(a > 0 && b >= a);
    assert_true(sw_os()->unix_time() > 1.6e9);
    uint64_t x = 0, y = 0;
    assert_int_equal(sw_os()->random_bytes(&x, sizeof x), 0);
    assert_int_equal(sw_os()->random_bytes(&y, sizeof y), 0);
    assert_true(x != y);
    unsigned char *pages = sw_os()->map_pages(10000);
    assert_non_null(pages);
    assert_int_equal(pages[9999], 0);
    assert_int_equal(sw_os()->unmap_pages(pages, 10000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overflowing_size_returns_null),
        cmocka_unit_test(short_and_interrupted_io_is_retried),
        cmocka_unit_test(pwrite_does_not_move_the_file_position),
        cmocka_unit_test(reading_past_the_end_is_a_format_error),
        cmocka_unit_test(read_file_enforces_max_bytes),
        cmocka_unit_test(mkdirs_creates_parents_and_accepts_existing),
        cmocka_unit_test(replace_file_works_with_every_kind_of_path),
        cmocka_unit_test(replace_file_keeps_the_old_file_when_any_call_fails),
        cmocka_unit_test(replace_file_survives_a_kill_at_any_call),
        cmocka_unit_test(close_errors_are_not_lost),
        cmocka_unit_test(abandon_accepts_every_state),
        cmocka_unit_test(clocks_and_random_bytes_work),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
