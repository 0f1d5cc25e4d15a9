/* The registry of cores and GPUs in use: locks that end with their process, atomic claims of
 * processes that start at the same moment, and files that nobody may trust. */
#include "base/os.h"
#include "machine/registry.h"
#include "machine/reserved.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/singa-registry-XXXXXX");
    return mkdtemp(folder) && setenv("SINGA_REGISTRY", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct sw_registry *open_registry(void)
{
    struct sw_registry *r = NULL;
    struct sw_err err = {0};
    if (sw_registry_open(&r, &err) != SW_OK)
        fail_msg("%s", err.text);
    return r;
}

static struct sw_reserved on_cores(const char *name, int first, int last)
{
    struct sw_reserved r = {.run_id = 12};
    snprintf(r.name, sizeof r.name, "%s", name);
    for (int core = first; core <= last; core++)
        sw_core_set_add(&r.cores, core);
    return r;
}

static struct sw_registration *add(struct sw_registry *r, struct sw_reserved *what)
{
    struct sw_registration *registration = NULL;
    struct sw_err err = {0};
    if (sw_registry_add(r, what, &registration, &err) != SW_OK)
        fail_msg("%s", err.text);
    return registration;
}

static int count_now(void)
{
    struct sw_registry *r = open_registry();
    int count = sw_registry_count(r);
    sw_registry_close(r);
    return count;
}

static void what_is_registered_is_read_back(void **state)
{
    struct sw_registry *r = open_registry();
    struct sw_reserved a = on_cores("first \"one\"", 3, 1000), b = on_cores("second", 0, 0);
    char title[96], text[64];

    assert_int_equal(sw_registry_count(r), 0);
    snprintf(a.gpus[a.gpu_count++], sizeof a.gpus[0], "0000:34:00.0");
    a.wants_cores = 7;
    struct sw_registration *ra = add(r, &a);
    sw_registry_close(r);

    r = open_registry();
    struct sw_registration *rb = add(r, &b);
    assert_int_equal(sw_registry_count(r), 1);
    const struct sw_reserved *found = sw_registry_at(r, 0);
    assert_string_equal(found->name, "first \"one\"");
    assert_string_equal(sw_core_set_text(&found->cores, text, sizeof text), "3-1000");
    assert_true(sw_reserved_has_gpu(found, "0000:34:00.0"));
    assert_false(sw_reserved_has_gpu(found, "0000:35:00.0"));
    assert_int_equal(found->pid, getpid());
    assert_int_equal(found->user, geteuid());
    assert_int_equal(found->wants_cores, 7);
    assert_true(sw_registration_is(ra, found));
    assert_false(sw_registration_is(rb, found));
    assert_false(sw_registration_is(NULL, found));
    sw_reserved_title(found, title, sizeof title);
    assert_non_null(strstr(title, "run 12 \"first \"one\"\" (pid "));
    sw_registry_close(r);

    /* In the order of arrival; the first has left nothing behind. */
    r = open_registry();
    assert_int_equal(sw_registry_count(r), 2);
    assert_true(sw_registration_is(rb, sw_registry_at(r, 1)));
    assert_true(sw_registry_at(r, 0)->ticket < sw_registry_at(r, 1)->ticket);
    sw_registry_close(r);
    sw_registration_free(ra);
    assert_int_equal(count_now(), 1);
    sw_registration_free(rb);
    assert_int_equal(count_now(), 0);
}

static void a_shorter_entry_replaces_a_longer_one(void **state)
{
    struct sw_registry *r = open_registry();
    struct sw_reserved a = on_cores("a name of some length", 0, 0);
    struct sw_err err;
    struct sw_registration *ra = add(r, &a);

    a = on_cores("a", 1, 1);
    a.state = SW_RESERVED_RELEASED;
    assert_int_equal(sw_registration_write(ra, &a, &err), SW_OK);
    sw_registry_close(r);
    r = open_registry();
    assert_int_equal(sw_registry_count(r), 1);
    assert_string_equal(sw_registry_at(r, 0)->name, "a");
    assert_int_equal(sw_registry_at(r, 0)->state, SW_RESERVED_RELEASED);
    sw_registry_close(r);
    sw_registration_free(ra);
}

/* ---- Processes ---- */

/* Starts a process that registers a core, says so by a byte, and sleeps. */
static pid_t start_holder(void)
{
    int ends[2];
    char byte;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sw_reserved mine = on_cores("held", 5, 5);
        struct sw_registry *r = open_registry();
        (void)add(r, &mine);
        sw_registry_close(r);
        (void)!write(ends[1], "x", 1);
        for (;;)
            pause();
    }

    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void a_killed_process_gives_back_what_it_had(void **state)
{
    pid_t pid = start_holder();
    struct sw_registry *r = open_registry();

    assert_int_equal(sw_registry_count(r), 1);
    assert_int_equal(sw_registry_at(r, 0)->pid, pid);
    assert_true(sw_core_set_has(&sw_registry_at(r, 0)->cores, 5));
    sw_registry_close(r);

    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(count_now(), 0);
}

static void a_process_killed_while_it_has_the_registry_open_blocks_nobody(void **state)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)open_registry();
        _exit(0);
    }

    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(count_now(), 0);
}

/* Takes the lowest free core of 16 and counts in shared memory who has it; the process ends when
 * the pipe is closed. */
static void take_a_core(int *users, int until_closed)
{
    struct sw_registry *r = open_registry();
    struct sw_core_set used = {0};
    int core = 0;
    char byte;

    for (int i = 0; i < sw_registry_count(r); i++)
        sw_core_set_add_all(&used, &sw_registry_at(r, i)->cores);
    while (core < 16 && sw_core_set_has(&used, core))
        core++;

    struct sw_reserved mine = on_cores("one of many", core, core);
    (void)add(r, &mine);
    __atomic_fetch_add(&users[core], 1, __ATOMIC_SEQ_CST);
    sw_registry_close(r);
    (void)!read(until_closed, &byte, 1);
    _exit(0);
}

static void processes_that_start_together_never_take_the_same_core(void **state)
{
    enum { PROCESSES = 20 };

    int *users = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    pid_t pid[PROCESSES];

    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            close(ends[1]);
            take_a_core(users, ends[0]);
        }
    }

    while (count_now() < PROCESSES)
        usleep(1000);
    for (int core = 0; core < 16; core++)
        assert_int_equal(users[core], 1);
    assert_int_equal(users[16], PROCESSES - 16); /* those that found no free core know it */
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < PROCESSES; i++)
        waitpid(pid[i], NULL, 0);
    assert_int_equal(count_now(), 0);
    munmap(users, 4096);
}

/* ---- Foreign files ---- */

static void put_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void files_without_a_lock_are_removed_and_others_stay(void **state)
{
    char path[128];

    put_file("0123456789abcdef.run", "{\"cores\":\"0\"}");
    put_file("a-name-that-is-longer-than-any-that-is-ever-written.run", "{\"cores\":\"0\"}");
    put_file("notes.txt", "mine");
    assert_int_equal(count_now(), 0);
    snprintf(path, sizeof path, "%s/0123456789abcdef.run", folder);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/notes.txt", folder);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(mkfifo(strcat(folder, "/x.run"), 0600), 0);
    folder[strlen(folder) - strlen("/x.run")] = '\0';
    assert_int_equal(count_now(), 0); /* and it did not wait for a writer */
}

static void entries_are_parsed_and_never_trusted(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"cores\":7}",
                                      "{\"cores\":\"7-\"}",
                                      "{\"cores\":\"3-1\"}",
                                      "{\"cores\":\"1024\"}",
                                      "{\"cores\":\"-1\"}",
                                      "{\"cores\":\"0,\"}",
                                      "{\"cores\":\"99999999999999999999\"}"};
    struct sw_reserved r;
    struct sw_err err;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sw_reserved_parse(bad[i], strlen(bad[i]), &r, &err), SW_ERR_FORMAT);

    const char *odd = "{\"cores\":\"0-1,1023\",\"pid\":-3,\"ticket\":\"x\",\"gpus\":[1,\"a\",null],"
                      "\"wants_cores\":1e15,\"name\":7,\"state\":\"none\"}";
    assert_int_equal(sw_reserved_parse(odd, strlen(odd), &r, &err), SW_OK);
    assert_int_equal(sw_core_set_count(&r.cores), 3);
    assert_int_equal(r.pid, 0);
    assert_int_equal(r.gpu_count, 1);
    assert_int_equal(r.wants_cores, SW_MAX_CORES);
    assert_string_equal(r.name, "");
}

static void a_folder_that_cannot_be_used_is_named(void **state)
{
    struct sw_registry *r = NULL;
    struct sw_err err = {0};
    char path[128];

    put_file("file", "");
    snprintf(path, sizeof path, "%s/file", folder);
    setenv("SINGA_REGISTRY", path, 1);
    assert_int_equal(sw_registry_open(&r, &err), SW_ERR_IO);
    assert_non_null(strstr(err.text, path));
    setenv("SINGA_REGISTRY", folder, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
        CASE(what_is_registered_is_read_back),
        CASE(a_shorter_entry_replaces_a_longer_one),
        CASE(a_killed_process_gives_back_what_it_had),
        CASE(a_process_killed_while_it_has_the_registry_open_blocks_nobody),
        CASE(processes_that_start_together_never_take_the_same_core),
        CASE(files_without_a_lock_are_removed_and_others_stay),
        CASE(entries_are_parsed_and_never_trusted),
        CASE(a_folder_that_cannot_be_used_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
