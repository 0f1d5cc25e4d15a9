/* Watched mappings: a truncated file reads as zeros and is reported; other faults kill the process.
 */
/* ctest-labels: threads */
#include "base/mapped.h"
#include "base/os.h"
#include "unit/scratch.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { PAGES = 4 };

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Creates a file of PAGES pages of the letter x; returns its descriptor. */
static int make_file(const char *path)
{
    const size_t bytes = PAGES * page_bytes();
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, 'x', bytes);
    assert_int_equal(sw_os_replace_file(path, text, bytes, 0600, NULL), SW_OK);
    free(text);
    int fd = sw_os()->open(path, O_RDWR, 0);
    assert_true(fd >= 0);
    return fd;
}

/* Reads a byte that the compiler must not assume to be known. */
static char at(const char *map, size_t offset)
{
    return ((const volatile char *)map)[offset];
}

static void truncated_page_reads_as_zeros_and_is_reported(void **state)
{
    struct sw_err err = {0};
    struct sw_mapped *m;
    const char *path = scratch_path("a");
    const size_t page = page_bytes(), bytes = PAGES * page;
    int fd = make_file(path);
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(sw_mapped_watch(&m, map, bytes, &err), SW_OK);
    assert_int_equal(at(map, bytes - 1), 'x');
    assert_int_equal(sw_mapped_check(m, fd, bytes, path, &err), SW_OK);

    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    assert_false(sw_mapped_lost(m));
    assert_int_equal(sw_mapped_check(m, fd, bytes, path, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "was truncated from"));
    assert_int_equal(at(map, bytes - 1), 0);
    map[2 * page] = 'y'; /* a write, too */
    assert_int_equal(at(map, 2 * page), 'y');
    assert_int_equal(at(map, 0), 'x');
    assert_true(sw_mapped_lost(m));

    assert_int_equal(ftruncate(fd, (off_t)bytes), 0); /* the old size again, but the page is lost */
    assert_int_equal(sw_mapped_check(m, fd, bytes, path, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "a page could not be read"));
    sw_mapped_unwatch(m);
    munmap(map, bytes);
    close(fd);
}

static void mapping_is_found_by_an_inner_address(void **state)
{
    struct sw_err err = {0};
    struct sw_mapped *m;
    const char *path = scratch_path("b");
    const size_t page = page_bytes(), bytes = PAGES * page;
    int fd = make_file(path);
    char *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(sw_mapped_watch_around(&m, map + 2 * page + 5, &err), SW_OK);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(at(map, 0), 0);
    assert_int_equal(at(map, bytes - 1), 0);
    assert_true(sw_mapped_lost(m));
    sw_mapped_unwatch(m);
    munmap(map, bytes);
    assert_int_equal(sw_mapped_watch_around(&m, map, &err), SW_ERR_NOTFOUND);
    close(fd);
}

/* A child process that touches a lost page of an unwatched mapping is killed by SIGBUS. */
static void faults_outside_mappings_kill_the_process(void **state)
{
    struct sw_err err = {0};
    struct sw_mapped *m;
    const size_t bytes = PAGES * page_bytes();
    int fd = make_file(scratch_path("c")), status = 0;
    char *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    signal(SIGBUS, SIG_DFL); /* cmocka's own */
    assert_int_equal(sw_mapped_watch(&m, map, bytes, &err), SW_OK);
    sw_mapped_unwatch(m);
    assert_int_equal(ftruncate(fd, 0), 0);
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        _exit(at(map, 0));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they report and exit */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
#else
    assert_true(status != 0);
#endif
    munmap(map, bytes);
    close(fd);
}

static void table_is_limited_and_entries_are_reused(void **state)
{
    enum { LIMIT = 1 << 14 };
    static struct sw_mapped *m[LIMIT + 1];
    struct sw_err err = {0};
    int count = 0;
    while (count <= LIMIT && sw_mapped_watch(&m[count], m, 1, &err) == SW_OK)
        count++;
    assert_int_equal(count, LIMIT);
    assert_int_equal(err.code, SW_ERR_NOMEM);
    sw_mapped_unwatch(m[7]);
    assert_int_equal(sw_mapped_watch(&m[7], m, 1, &err), SW_OK);
    while (count > 0)
        sw_mapped_unwatch(m[--count]);
    sw_mapped_unwatch(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_page_reads_as_zeros_and_is_reported),
        cmocka_unit_test(mapping_is_found_by_an_inner_address),
        cmocka_unit_test(faults_outside_mappings_kill_the_process),
        cmocka_unit_test(table_is_limited_and_entries_are_reused),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
