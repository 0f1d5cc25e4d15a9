/* Helpers of the history tests: a temporary folder with state and database, a run to begin,
 * queries, and a lock held by another connection. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "base/str.h"
#include "history/history.h"
#include "history/reader.h"
#include "history/writer.h"
#include "unit/home.h"
#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline char *db_path(void)
{
    return in_home("db/history.db");
}

/* Timeout for expected events; long, since a busy disk is slow. */
enum { PATIENCE_MS = 120000 };

static inline void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static inline struct sw_run_info info_of(const char *name)
{
    return (struct sw_run_info){
        .name = name,
        .recipe = "recipes/x.ini",
        .recipe_text = "[job]\nname = x\n",
        .recipe_hash = "0123456789abcdef0123456789abcdef",
        .command = "singa-ws run recipes/x.ini",
        .framework = "sandblaster",
        .device = "cpu",
        .version = "0",
        .workers = 1,
        .seed = 1,
        .batch = 10,
        .steps = 100,
        .epoch_records = 50,
        .params = 1234,
        .flops_per_sample = 5e6,
    };
}

#define ok(call, err) assert_ok_(call, err, __FILE__, __LINE__)
static inline void assert_ok_(int code, const struct sw_err *err, const char *file, int line)
{
    if (code != SW_OK) {
        print_error("%s\n", err->text);
        _assert_int_equal((uintmax_t)code, 0, file, line);
    }
}

/* Opens the database and begins a run, with shorter lock timeouts than a job has. */
static inline struct sw_history *begin(const char *name)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = info_of(name);
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    h->timeouts.setup_ms = 1500;
    h->timeouts.busy_ms = 500;
    h->timeouts.ring_ms = PATIENCE_MS;
    ok(sw_history_begin_run(h, &info, &err), &err);
    return h;
}

static inline struct sw_history_producer *producer(struct sw_history *h)
{
    struct sw_err err;
    struct sw_history_producer *p;
    ok(sw_history_producer_new(h, &p, &err), &err);
    return p;
}

static inline int series(struct sw_history *h, const char *split, const char *name)
{
    struct sw_err err;
    int id;
    ok(sw_history_series(h, split, name, &id, &err), &err);
    return id;
}

static inline void finish(struct sw_history *h, enum sw_run_status status)
{
    sw_history_finish_run(h, status);
    sw_history_close(h);
}

/* The first value of a query as text, "" for NULL or no row; valid until the next call. */
static inline const char *ask_text(const char *sql)
{
    static char text[1024];
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    text[0] = 0;
    assert_int_equal(sqlite3_open_v2(db_path(), &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    if (rc == SQLITE_ROW && sqlite3_column_text(st, 0))
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    sqlite3_close(db);
    return text;
}

static inline double ask(const char *sql)
{
    return atof(ask_text(sql));
}

static inline void assert_sound(void)
{
    assert_string_equal(ask_text("PRAGMA integrity_check"), "ok");
    assert_string_equal(ask_text("SELECT count(*) FROM pragma_foreign_key_check"), "0");
}

/* A write transaction of another connection. */
static inline sqlite3 *lock_database(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(db_path(), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(
        sqlite3_exec(db, "PRAGMA wal_autocheckpoint = 0; BEGIN IMMEDIATE", NULL, NULL, NULL),
        SQLITE_OK);
    return db;
}

static inline void unlock_database(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static inline struct sw_history_stats stats_of(struct sw_history *h)
{
    struct sw_history_stats s;
    sw_history_stats(h, &s);
    return s;
}
