/* A history with untrusted rows: all tables have the real schema, and every column has a value of
 * any type from the input. All readers must end with rows or an error, and must not return NULL for
 * a text that their headers promise. Input: a byte, whose lowest bit selects whether summaries are
 * built before reading and whose next two bits select the readers (0: all), then rows, each a byte
 * for the table and a value per column (take_value). The database is in memory. */
#include "base/os.h"
#include "base/str.h"
#include "history/reader_open.h"
#include "history/reader_rows.h"
#include "history/schema.h"
#include "history/summary.h"
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_TABLES = 24, MAX_ROWS = 64, MAX_BYTES = 4096 };

static struct sw_history_reader reader; /* used for all inputs; the rows of each are rolled back */
static sqlite3_stmt *inserts[MAX_TABLES];
static int tables;

struct input {
    const uint8_t *at, *end;
};

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void execute(const char *sql)
{
    struct sw_err err;
    demand(sw_sqlite_exec(reader.db, sql, "memory", &err) == SW_OK);
}

/* ---- the database ---- */

/* INSERT INTO TABLE VALUES (?, ...) with the number of columns of PRAGMA table_info, which excludes
 * generated columns. */
static void prepare_insert(const char *table)
{
    struct sw_bytes names = {0}, marks = {0};
    sqlite3_stmt *st = NULL;
    char *sql = sw_format("SELECT name FROM pragma_table_info('%s')", table);
    demand(sql && sqlite3_prepare_v2(reader.db, sql, -1, &st, NULL) == SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW) {
        sw_bytes_printf(&names, "%s%s", names.length ? ", " : "",
                        (const char *)sqlite3_column_text(st, 0));
        sw_bytes_add(&marks, marks.length ? ", ?" : "?");
    }
    sqlite3_finalize(st);
    sw_free(sql);
    sql = sw_format("INSERT OR REPLACE INTO %s(%s) VALUES (%s)", table, sw_bytes_text(&names),
                    sw_bytes_text(&marks));
    demand(sql && sqlite3_prepare_v2(reader.db, sql, -1, &inserts[tables++], NULL) == SQLITE_OK);
    sw_free(sql);
    sw_bytes_fini(&names);
    sw_bytes_fini(&marks);
}

static void make_database(void)
{
    static char path[] = "memory";
    struct sw_err err;
    sqlite3_stmt *st = NULL;
    reader = (struct sw_history_reader){.path = path, .version = SW_SCHEMA_VERSION};
    sw_process_self(&reader.self);
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    demand(sqlite3_open_v2(":memory:", &reader.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                           NULL) == SQLITE_OK);
    demand(sw_schema_migrate(reader.db, path, &err) == SW_OK);
    sqlite3_db_config(reader.db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 1024, 1000);
    execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF");
    demand(sqlite3_prepare_v2(reader.db,
                              "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT"
                              " LIKE 'sqlite_%' ORDER BY name",
                              -1, &st, NULL) == SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW && tables < MAX_TABLES)
        prepare_insert((const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
}

/* ---- writing ---- */

static uint64_t take_bytes(struct input *in, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n && in->at < in->end; i++)
        v |= (uint64_t)*in->at++ << 8 * i;
    return v;
}

/* A byte for the type, then the value: words that queries look for, small and any integers, any
 * doubles, texts and blobs with a byte for their length. */
static void take_value(struct input *in, sqlite3_stmt *st, int column)
{
    static const char *const words[] = {"train", "test",    "loss", "accuracy", "samples_per_s",
                                        "done",  "running", "",     "server0",  "@last"};
    enum { WORDS = sizeof words / sizeof *words };
    const uint8_t type = (uint8_t)take_bytes(in, 1);
    union {
        uint64_t bits;
        double value;
    } real;
    size_t n;
    switch (type % 8) {
    case 0:
        sqlite3_bind_null(st, column);
        return;
    case 1:
        sqlite3_bind_text(st, column, words[type / 8 % WORDS], -1, SQLITE_STATIC);
        return;
    case 2:
        sqlite3_bind_int64(st, column, (int64_t)take_bytes(in, 8));
        return;
    case 3:
        real.bits = take_bytes(in, 8);
        sqlite3_bind_double(st, column, real.value);
        return;
    case 4:
    case 5:
        n = (size_t)take_bytes(in, 1);
        n = n < (size_t)(in->end - in->at) ? n : (size_t)(in->end - in->at);
        if (type % 8 == 4)
            sqlite3_bind_text(st, column, (const char *)in->at, (int)n, SQLITE_TRANSIENT);
        else
            sqlite3_bind_blob(st, column, n ? in->at : (const uint8_t *)"", (int)n,
                              SQLITE_TRANSIENT);
        in->at += n;
        return;
    default:
        sqlite3_bind_int64(st, column, type / 8);
    }
}

static void write_rows(struct input *in)
{
    for (int rows = 0; in->at < in->end && rows < MAX_ROWS; rows++) {
        sqlite3_stmt *st = inserts[take_bytes(in, 1) % (uint64_t)tables];
        for (int i = 1; i <= sqlite3_bind_parameter_count(st); i++)
            take_value(in, st, i);
        sqlite3_step(st); /* a constraint may refuse it */
        sqlite3_reset(st);
    }
}

/* ---- reading ---- */

static size_t touched; /* so that returned texts are actually read */

static void touch(const char *text)
{
    demand(text != NULL);
    touched += strlen(text);
}

static int on_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    for (int i = 0; i < columns; i++)
        if (cells[i].text || row < 0)
            touch(cells[i].text);
    return 0;
}

/* Checks that an error has a text. */
static void judge(int rc, struct sw_err *err)
{
    demand(rc == SW_OK || err->text[0]);
    err->text[0] = '\0';
}

/* Checks that steps ascend; several step times may have the same step. */
static void read_steps(int64_t id, int64_t series)
{
    struct sw_err err = {0};
    struct sw_run_point p;
    struct sw_step_time t;
    int64_t last = INT64_MIN;

    struct sw_rows rows = sw_rows_begin(&reader, SW_ROWS_POINT, series, INT64_MIN, INT64_MAX, &err);
    for (; sw_rows_next(&rows, &p); last = p.step)
        demand(p.step > last);
    judge(sw_rows_end(&rows), &err);

    last = INT64_MIN;
    rows = sw_rows_begin(&reader, SW_ROWS_STEP_TIME, id, INT64_MIN, 0, &err);
    for (; sw_rows_next(&rows, &t); last = t.step)
        demand(t.step >= last);
    judge(sw_rows_end(&rows), &err);
}

/* Checks that all texts of rows are non-NULL, except those that reader_rows.h allows. */
static void read_texts(int64_t id)
{
    struct sw_err err = {0};
    struct sw_run_series s;
    struct sw_run_layer l;
    struct sw_run_traffic t;
    struct sw_run_placement u;
    struct sw_run_event e;
    struct sw_run_segment g;
    struct sw_run_stage stage;
    struct sw_run_hardware h;
    struct sw_run_checkpoint c;
    struct sw_run_metric m;
    struct sw_run_time time;
    struct sw_run_tag tag;
    struct sw_run_plan_text plan;

    struct sw_rows rows = sw_rows_begin(&reader, SW_ROWS_SERIES, id, 0, 0, &err);
    while (sw_rows_next(&rows, &s)) {
        touch(s.split);
        touch(s.name);
        read_steps(id, s.id);
    }
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_LAYER, id, 0, 0, &err);
    while (sw_rows_next(&rows, &l))
        touch(l.name);
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_PLAN_TEXT, id, 0, 0, &err);
    while (sw_rows_next(&rows, &plan))
        touch(plan.json);
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_TRAFFIC, id, -1, 0, &err);
    while (sw_rows_next(&rows, &t)) {
        touch(t.from);
        touch(t.to);
        touch(t.kind);
    }
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_PLACEMENT, id, 0, 0, &err);
    while (sw_rows_next(&rows, &u)) {
        touch(u.unit);
        touch(u.device);
        touch(u.cores);
        touch(u.reason);
    }
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_EVENT, id, 0, 3, &err);
    while (sw_rows_next(&rows, &e)) {
        touch(e.level);
        touch(e.source);
        touch(e.text);
    }
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_SEGMENT, id, 0, 0, &err);
    while (sw_rows_next(&rows, &g))
        touch(g.command ? g.command : "");
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_STAGE, id, 0, 0, &err);
    while (sw_rows_next(&rows, &stage))
        touch(stage.name ? stage.name : "");
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_HARDWARE, id, 0, 0, &err);
    while (sw_rows_next(&rows, &h))
        touch(h.device);
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_CHECKPOINT, id, 0, 0, &err);
    while (sw_rows_next(&rows, &c)) {
        touch(c.path);
        touch(c.checksum ? c.checksum : "");
    }
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_METRIC, id, 0, 0, &err);
    while (sw_rows_next(&rows, &m)) {
        touch(m.split);
        touch(m.name);
    }
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_TIME, id, 0, 0, &err);
    while (sw_rows_next(&rows, &time))
        touch(time.part);
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_TAG, id, 0, 0, &err);
    while (sw_rows_next(&rows, &tag)) {
        touch(tag.key ? tag.key : "");
        touch(tag.value ? tag.value : "");
    }
    judge(sw_rows_end(&rows), &err);

    rows = sw_rows_begin(&reader, SW_ROWS_LAST_EVENT, id, 0, 3, &err);
    while (sw_rows_next(&rows, &e))
        touch(e.text ? e.text : "");
    judge(sw_rows_end(&rows), &err);
}

static void read_run(int64_t id)
{
    struct sw_history_reader *r = &reader;
    struct sw_err err = {0};
    int64_t step;

    judge(sw_history_newest_step_time(r, id, &step, &err), &err);
    read_texts(id);
}

static int on_run(void *user, const struct sw_run *run)
{
    int64_t *id = user;
    *id = run->id;
    return 0;
}

static void find_run(const char *text)
{
    struct sw_run run = {0};
    struct sw_err err = {0};
    judge(sw_history_find(&reader, text, &run, &err), &err);
    sw_run_fini(&run);
}

/* Lists runs and finds them; *id is one of them. */
static void read_runs(int64_t *id)
{
    static const char *const names[] = {"@last", "1", "lo", "tarin", "trainn", "9", "x"};
    struct sw_err err = {0};
    struct sw_run run = {0};
    for (int order = SW_RUNS_BY_ID; order <= SW_RUNS_BY_SPEED; order++) {
        const struct sw_run_filter filter = {.order = (enum sw_run_order)order};
        judge(sw_history_list(&reader, &filter, on_run, id, &err), &err);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        find_run(names[i]);
    judge(sw_history_find_recipe(&reader, "train", &run, &err), &err);
    sw_run_fini(&run);
}

static void read_views(void)
{
    static const char *const queries[] = {
        "SELECT * FROM metrics",        "SELECT * FROM series_stats",
        "SELECT * FROM run_summary",    "SELECT * FROM epoch_metrics",
        "SELECT * FROM slowest_layers", "SELECT * FROM where_time_went",
        "SELECT * FROM traffic"};
    struct sw_err err = {0};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        judge(sw_history_sql(&reader, queries[i], on_row, NULL, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input in = {data, data + (bytes < MAX_BYTES ? bytes : MAX_BYTES)};
    struct sw_err err = {0};
    if (!reader.db)
        make_database();
    const unsigned what = (unsigned)take_bytes(&in, 1), part = what >> 1 & 3;
    int64_t id = 1;
    execute("BEGIN");
    write_rows(&in);
    if (what & 1)
        judge(sw_summary_add_all(reader.db, reader.path, 1, &err), &err);
    if (part < 2)
        read_runs(&id);
    if (part % 2 == 0)
        read_run(1);
    if (part % 2 == 0 && id != 1)
        read_run(id);
    if (part == 0 || part == 3)
        read_views();
    execute("ROLLBACK");
    __asm__ volatile("" : : "r"(touched));
    return 0;
}
