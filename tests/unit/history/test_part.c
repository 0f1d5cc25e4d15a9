/* ctest-labels: threads
 * ctest-timeout: 240
 * The history of a host other than the first: its rows reach the run with the name of the host in
 * front, in chunks of whole lines, one at a time; what cannot be sent is spooled and merged; and
 * the host that stores the run refuses what another one may not record. */
#include "history_support.h"

#include "history/part.h"

enum { FIRST_WORKER = 2, WORKERS = 2, LAST_STEP = 1000 };

/* The connection between a part and the run. */
struct wire {
    struct sw_history *run, *part;
    struct sw_history_source source;
    struct sw_mutex lock; /* guards the rest */
    int rc;               /* of `send` */
    bool held;            /* chunks stay on the way */
    int under_way, sends, most_under_way;
    size_t most_bytes;
    bool cut;   /* a chunk did not end with a line */
    int events; /* warnings that host 0 was told */
    bool clock_known;
    int64_t offset_ns;
};

static int send_lines(void *user, const char *lines, size_t bytes, struct sw_err *err)
{
    struct wire *w = user;

    sw_mutex_lock(&w->lock);
    int rc = w->rc;
    bool held = w->held;
    if (rc == SW_OK) {
        w->sends++;
        w->under_way++;
        if (w->under_way > w->most_under_way)
            w->most_under_way = w->under_way;
        if (bytes > w->most_bytes)
            w->most_bytes = bytes;
        w->cut = w->cut || lines[bytes - 1] != '\n';
        w->under_way -= !held;
    }
    sw_mutex_unlock(&w->lock);

    if (rc != SW_OK)
        return sw_err_set(err, rc, "not sent");
    if (!held) {
        ok(sw_history_take(w->run, &w->source, lines, bytes, err), err);
        sw_history_part_sent(w->part, SW_OK);
    }
    return SW_OK;
}

static bool offset(void *user, int64_t *ns)
{
    struct wire *w = user;

    sw_mutex_lock(&w->lock);
    *ns = w->offset_ns;
    bool known = w->clock_known;
    sw_mutex_unlock(&w->lock);
    return known;
}

static void count_event(void *user, enum sw_log_level level, const char *source, const char *text)
{
    struct wire *w = user;

    assert_true(level >= SW_LOG_WARN);
    assert_string_equal(source, "b/worker0.1");
    sw_mutex_lock(&w->lock);
    w->events++;
    sw_mutex_unlock(&w->lock);
}

static void set_wire(struct wire *w, int rc, bool held)
{
    sw_mutex_lock(&w->lock);
    w->rc = rc;
    w->held = held;
    sw_mutex_unlock(&w->lock);
}

static int sends_of(struct wire *w)
{
    sw_mutex_lock(&w->lock);
    int n = w->sends;
    sw_mutex_unlock(&w->lock);
    return n;
}

static void await_sends(struct wire *w, int count)
{
    for (int ms = 0; sends_of(w) < count; ms += 10) {
        assert_true(ms < PATIENCE_MS);
        sleep_ms(10);
    }
}

/* Begins the run, and its part on host b in the folder `out`. */
static void begin_both(struct wire *w)
{
    struct sw_run_info info = info_of("both");
    struct sw_err err;

    *w = (struct wire){.run = begin("both"),
                       .source = {.host = "b",
                                  .number = 1,
                                  .first_worker = FIRST_WORKER,
                                  .workers = WORKERS,
                                  .last_step = LAST_STEP,
                                  .event = count_event,
                                  .user = w}};
    sw_mutex_init(&w->lock);
    info.out_dir = in_home("out");
    const struct sw_history_part part = {.uid = sw_history_run_uid(w->run),
                                         .host = "b",
                                         .number = 1,
                                         .first_worker = FIRST_WORKER,
                                         .send = send_lines,
                                         .clock_offset = offset,
                                         .user = w};
    ok(sw_history_open(&w->part, db_path(), NULL, &err), &err);
    ok(sw_history_begin_part(w->part, &info, &part, &err), &err);
    assert_int_equal(sw_history_run_id(w->part), 0);
}

static void end_both(struct wire *w)
{
    sw_history_close(w->part);
    if (w->run)
        finish(w->run, SW_RUN_DONE);
    sw_mutex_fini(&w->lock);
}

static void rows_have_the_name_of_their_host(void **state)
{
    struct wire w;
    struct sw_err err;
    int link;

    begin_both(&w);
    struct sw_history_producer *p = producer(w.part);
    ok(sw_history_link(w.part, "worker0.0", "server0.0", "shared", &link, &err), &err);
    sw_history_placement(w.run, "worker0.0", "cpu", 0, "0", "first");
    assert_true(sw_history_flush(w.run, PATIENCE_MS));

    sw_history_placement_removed(w.part);
    sw_history_placement(w.part, "worker0.0", "cpu", 0, "1", "only");
    sw_history_step_time(p, &(struct sw_step_time){.step = 7, .worker = 1, .forward_ms = 3});
    sw_history_traffic(p, link, 7, 100, 2);
    sw_history_point(p, series(w.part, "train", "loss"), 7, 1.5);
    sw_history_layer_time(w.part, "fc", 0, 1, 2, 10);
    sw_history_hardware(w.part, &(struct sw_hardware){.device = "cpu", .util = 0.5});
    sw_history_event(w.part, SW_LOG_WARN, "worker0.1", "too hot");
    sw_history_event(w.part, SW_LOG_INFO, "job", "note");
    sw_history_tag(w.part, "copy", "async");
    sw_history_tag(w.part, "stage", "one (1 of 2)");
    sw_history_stage(w.part, &(struct sw_history_stage){.name = "one", .from_step = 5, .batch = 3});
    sw_history_checkpoint(w.part, 0, "/x/checkpoint-0.safetensors", 5, "00", false);
    sw_history_checkpoint_best(w.part, -1);
    sw_history_net(w.part, "b", "a", 7, 1000, 20);
    sw_history_host(w.run, &(struct sw_history_host){.number = 1,
                                                     .name = "b",
                                                     .clock_offset_ms = NAN,
                                                     .clock_error_ms = NAN,
                                                     .joined_at = 5,
                                                     .left_at = NAN});
    assert_true(sw_history_flush(w.run, PATIENCE_MS));
    sw_history_host(w.part, &(struct sw_history_host){.number = 1,
                                                      .cpu = "Z80",
                                                      .clock_offset_ms = NAN,
                                                      .clock_error_ms = NAN,
                                                      .joined_at = NAN,
                                                      .left_at = NAN});
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    sw_history_finish_run(w.part, SW_RUN_FAILED);
    assert_int_equal(w.events, 1);
    end_both(&w);

    assert_string_equal(ask_text("SELECT group_concat(unit) FROM placement"),
                        "b/worker0.0,worker0.0");
    assert_int_equal(ask("SELECT worker FROM step_time WHERE step = 7 AND forward_ms = 3"), 3);
    assert_string_equal(ask_text("SELECT from_unit || to_unit FROM link_traffic"
                                 " WHERE kind = 'shared' AND bytes = 100"),
                        "b/worker0.0b/server0.0");
    assert_int_equal(ask("SELECT bytes FROM link_traffic WHERE from_unit = 'b' AND to_unit = 'a'"
                         " AND kind = 'net' AND ms = 20"),
                     1000);
    assert_int_equal(ask("SELECT count(*) FROM point"), 0);
    assert_int_equal(ask("SELECT count(*) FROM stages"), 1);
    assert_int_equal(ask("SELECT count(*) FROM checkpoints"), 0);
    assert_int_equal(ask("SELECT worker FROM layer_time WHERE layer = 'fc'"), FIRST_WORKER);
    assert_string_equal(ask_text("SELECT device FROM hardware WHERE util = 0.5"), "b/cpu");
    assert_string_equal(ask_text("SELECT source FROM events WHERE text = 'note'"), "b/job");
    assert_string_equal(ask_text("SELECT group_concat(key || value) FROM tags"), "b/copyasync");
    assert_string_equal(ask_text("SELECT name || cpu || joined_at FROM hosts WHERE host = 1"),
                        "bZ805.0");
    assert_string_equal(ask_text("SELECT status FROM runs"), "done");
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
    assert_false(access(in_home("out/hosts"), F_OK) == 0);
    assert_sound();
}

/* Events of half a kilobyte. */
static void add_events(struct sw_history *h, int count)
{
    char text[512];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < count; i++)
        sw_history_event(h, SW_LOG_INFO, "job", "%s", text);
}

static void one_chunk_of_whole_lines_is_on_the_way(void **state)
{
    struct wire w;

    begin_both(&w);
    add_events(w.part, 1000);
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    assert_true(w.sends >= 8);
    assert_int_equal(w.most_under_way, 1);
    assert_true(w.most_bytes <= SW_HISTORY_CHUNK);
    assert_false(w.cut);
    end_both(&w);
    assert_int_equal(ask("SELECT count(*) FROM events WHERE source = 'b/job'"), 1000);
}

static void merge(void)
{
    struct sw_err err;
    uint64_t rows;
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
}

/* A connection that takes nothing: all beyond the bound is spooled; the rest is sent when it works
 * again. */
static void what_waits_is_bounded(void **state)
{
    enum { EVENTS = 20000 };

    struct wire w;

    begin_both(&w);
    set_wire(&w, SW_OK, true);
    for (int i = 0; i < EVENTS / 1000; i++) {
        add_events(w.part, 1000);
        await_sends(&w, 1);
        sleep_ms(20);
    }

    for (int ms = 0; stats_of(w.part).spooled == 0; ms += 10) {
        assert_true(ms < PATIENCE_MS);
        sleep_ms(10);
    }

    assert_int_equal(w.sends, 1);
    set_wire(&w, SW_ERR_LOST, false);
    sw_history_part_sent(w.part, SW_ERR_CANCELLED); /* the chunk that was on the way */
    sw_history_close(w.part);
    w.part = NULL;
    finish(w.run, SW_RUN_DONE);
    w.run = NULL;
    assert_int_equal(ask("SELECT count(*) FROM events WHERE source = 'b/job'"), 0);
    assert_int_equal(sw_history_waiting(db_path()), 1);
    merge();
    assert_int_equal(sw_history_waiting(db_path()), 0);
    assert_int_equal(ask("SELECT count(*) FROM events WHERE source = 'b/job'"), EVENTS);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
    assert_int_equal(ask("SELECT count(*) FROM segments"), 1);
    end_both(&w);
}

static void lines_wait_while_hosts_are_not_connected(void **state)
{
    struct wire w;

    begin_both(&w);
    set_wire(&w, SW_ERR_BUSY, false);
    sw_history_event(w.part, SW_LOG_INFO, "job", "early");
    assert_false(sw_history_flush(w.part, 300));
    set_wire(&w, SW_OK, false);
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    assert_int_equal(stats_of(w.part).spooled, 0);
    end_both(&w);
    assert_int_equal(ask("SELECT count(*) FROM events WHERE text = 'early'"), 1);
}

/* Host 0 is killed: the rest is merged later. A checkpoint that this host wrote is known then. */
static void rows_after_the_loss_of_host_0_are_merged(void **state)
{
    struct wire w;

    begin_both(&w);
    sw_history_event(w.part, SW_LOG_INFO, "job", "before");
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    set_wire(&w, SW_ERR_LOST, false);
    sw_history_part_gone(w.part);
    struct sw_history_producer *p = producer(w.part);
    sw_history_step_time(p, &(struct sw_step_time){.step = 9, .worker = 0});
    sw_history_checkpoint(w.part, 9, "/x/checkpoint-9.safetensors", 5, "00", false);
    sw_history_host(w.part, &(struct sw_history_host){.number = 0,
                                                      .clock_offset_ms = NAN,
                                                      .clock_error_ms = NAN,
                                                      .joined_at = NAN,
                                                      .left_at = 77,
                                                      .why = "cable"});
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    end_both(&w);

    assert_int_equal(access(in_home("out/hosts/b/metrics.jsonl"), F_OK), 0);
    assert_int_equal(ask("SELECT count(*) FROM step_time"), 0);
    merge();
    assert_int_equal(ask("SELECT worker FROM step_time WHERE step = 9"), FIRST_WORKER);
    assert_int_equal(ask("SELECT count(*) FROM checkpoints WHERE step = 9"), 1);
    assert_string_equal(ask_text("SELECT why FROM hosts WHERE host = 0 AND left_at = 77"), "cable");
    assert_int_equal(ask("SELECT count(*) FROM events WHERE text = 'before'"), 1);
    merge();
    assert_int_equal(ask("SELECT count(*) FROM step_time"), 1);
}

static void times_are_those_of_host_0_and_do_not_go_back(void **state)
{
    struct wire w;
    double before = sw_os()->unix_time();

    begin_both(&w);
    sw_history_event(w.part, SW_LOG_INFO, "job", "zero");
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    sw_mutex_lock(&w.lock);
    w.clock_known = true;
    w.offset_ns = 1000 * 1000000000ll;
    sw_mutex_unlock(&w.lock);
    sw_history_event(w.part, SW_LOG_INFO, "job", "one");
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    sw_mutex_lock(&w.lock);
    w.offset_ns = 5000 * 1000000000ll;
    sw_mutex_unlock(&w.lock);
    sw_history_event(w.part, SW_LOG_INFO, "job", "two");
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    double after = sw_os()->unix_time();
    end_both(&w);

    double zero = ask("SELECT time FROM events WHERE text = 'zero'");
    double one = ask("SELECT time FROM events WHERE text = 'one'");
    assert_true(zero > before - 1 && zero < after + 1);
    assert_true(one > before - 1001 && one < after - 999);
    assert_true(one == ask("SELECT time FROM events WHERE text = 'two'"));
}

/* Without --out the folder has the name of the run, and does not stay if nothing is in it. */
static void a_part_has_a_folder_of_its_own(void **state)
{
    struct wire w;
    struct sw_run_info info = info_of("x");
    struct sw_err err;
    char dir[512];

    begin_both(&w);
    sw_history_close(w.part);
    const struct sw_history_part part = {.uid = sw_history_run_uid(w.run),
                                         .host = "b",
                                         .number = 1,
                                         .send = send_lines,
                                         .clock_offset = offset,
                                         .user = &w};
    ok(sw_history_open(&w.part, db_path(), NULL, &err), &err);
    ok(sw_history_begin_part(w.part, &info, &part, &err), &err);
    snprintf(dir, sizeof dir, "%s", sw_history_out_dir(w.part));
    assert_true(sw_str_ends(dir, sw_history_run_uid(w.run)));
    assert_int_equal(access(dir, F_OK), 0);
    end_both(&w);
    assert_int_not_equal(access(dir, F_OK), 0);
}

/* ---- What host 0 refuses ---- */

static void refuse(struct wire *w, const char *format)
{
    char line[1024];
    struct sw_err err;

    int n =
        snprintf(line, sizeof line, "{\"run\":\"%s\",%s}\n", sw_history_run_uid(w->run), format);
    if (sw_history_take(w->run, &w->source, line, (size_t)n, &err) != SW_ERR_FORMAT)
        fail_msg("%s is taken", line);
}

static void hostile_lines_are_refused(void **state)
{
    static const char *const rows[] = {
        "\"row\":\"finish\",\"status\":\"done\",\"ended_at\":1",
        "\"row\":\"segment\",\"from_step\":0,\"started_at\":1",
        "\"row\":\"run\",\"name\":\"x\"",
        "\"row\":\"checkpoint\",\"step\":1,\"path\":\"/etc/passwd\"",
        "\"row\":\"checkpoint_removed\",\"step\":1",
        "\"row\":\"checkpoint_best\",\"step\":1",
        "\"row\":\"stage\",\"from_step\":1",
        "\"row\":\"point\",\"split\":\"train\",\"name\":\"loss\",\"step\":1,\"time\":1,\"value\":0",
        "\"row\":\"placement_removed\"",
        "\"row\":\"placement_removed\",\"host\":\"c\"",
        "\"row\":\"placement\",\"unit\":\"worker0.0\"",
        "\"row\":\"placement\",\"unit\":\"bb/worker0.0\"",
        "\"row\":\"step_time\",\"step\":1,\"worker\":0,\"staleness\":0",
        "\"row\":\"step_time\",\"step\":1,\"worker\":4,\"staleness\":0",
        "\"row\":\"step_time\",\"step\":1001,\"worker\":2,\"staleness\":0",
        "\"row\":\"step_time\",\"step\":-1,\"worker\":2,\"staleness\":0",
        "\"row\":\"step_time\",\"worker\":2,\"staleness\":0",
        "\"row\":\"step_time\",\"step\":1,\"worker\":2,\"staleness\":0,\"read_ms\":\"inf\"",
        "\"row\":\"layer_time\",\"layer\":\"fc\",\"worker\":2,\"samples\":-1",
        "\"row\":\"link_traffic\",\"step\":1,\"from_unit\":\"b/"
        "x\",\"to_unit\":\"y\",\"kind\":\"sync\","
        "\"bytes\":1",
        "\"row\":\"link_traffic\",\"step\":1,\"from_unit\":\"a\",\"to_unit\":\"b\",\"kind\":"
        "\"net\","
        "\"bytes\":1",
        "\"row\":\"link_traffic\",\"step\":1,\"from_unit\":\"b\",\"to_unit\":\"a\",\"kind\":"
        "\"net\","
        "\"bytes\":-1",
        "\"row\":\"hardware\",\"time\":1,\"device\":\"cpu\"",
        "\"row\":\"hardware\",\"time\":\"-inf\",\"device\":\"b/cpu\"",
        "\"row\":\"event\",\"time\":1,\"level\":\"fatal\",\"source\":\"b/x\",\"text\":\"t\"",
        "\"row\":\"event\",\"time\":1,\"level\":\"error\",\"source\":\"job\",\"text\":\"t\"",
        "\"row\":\"event\",\"time\":1,\"level\":\"error\",\"source\":\"b/x\"",
        "\"row\":\"tag\",\"key\":\"keep\",\"value\":\"x\"",
        "\"row\":\"host\",\"host\":0,\"cpu\":\"x\"",
        "\"row\":\"host\",\"host\":1,\"name\":\"x\"",
        "\"row\":\"host\",\"host\":1,\"joined_at\":1",
        "\"row\":\"unknown\"",
        "\"row\":7",
    };
    struct wire w;
    struct sw_err err;

    begin_both(&w);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse(&w, rows[i]);

    static const char *const lines[] = {
        "\n",
        "{}\n",
        "x\n",
        "[[[[\n",
        "",
        "{\"run\":\"0123456789abcdef\"",
        "{\"run\":\"0123456789abcdef\",\"row\":\"tag\",\"key\":\"b/x\"}\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(sw_history_take(w.run, &w.source, lines[i], strlen(lines[i]), &err),
                         SW_ERR_FORMAT);
    assert_int_equal(w.events, 0);
    end_both(&w);

    assert_int_equal(ask("SELECT count(*) FROM runs WHERE status = 'done'"), 1);
    static const char *const tables[] = {"checkpoints", "step_time", "layer_time",   "placement",
                                         "hosts",       "events",    "link_traffic", "tags",
                                         "hardware",    "point"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", tables[i]);
        assert_int_equal(ask(sql), 0);
    }
}

static void memory_for_rows_of_other_hosts_is_bounded(void **state)
{
    struct wire w;

    begin_both(&w);
    atomic_fetch_add(&w.run->taken_bytes, SW_HISTORY_TAKEN_WAITING);
    sw_history_event(w.part, SW_LOG_INFO, "job", "too much");
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    assert_int_equal(stats_of(w.run).lost, 1);
    atomic_fetch_sub(&w.run->taken_bytes, SW_HISTORY_TAKEN_WAITING);
    sw_history_event(w.part, SW_LOG_INFO, "job", "fits");
    assert_true(sw_history_flush(w.part, PATIENCE_MS));
    assert_true(sw_history_flush(w.run, PATIENCE_MS));
    assert_int_equal(atomic_load(&w.run->taken_bytes), 0);
    end_both(&w);
    assert_int_equal(ask("SELECT count(*) FROM events WHERE text = 'fits'"), 1);
}

static void a_host_that_joins_again_is_new(void **state)
{
    struct sw_history *h = begin("again");
    struct sw_history_host host = {.number = 1,
                                   .name = "b",
                                   .cpu = "Z80",
                                   .clock_offset_ms = 2,
                                   .clock_error_ms = 1,
                                   .joined_at = 10,
                                   .left_at = NAN};

    sw_history_host(h, &host);
    sw_history_host(h, &(struct sw_history_host){.number = 1,
                                                 .clock_offset_ms = NAN,
                                                 .clock_error_ms = NAN,
                                                 .joined_at = NAN,
                                                 .left_at = 20,
                                                 .why = "cable"});
    assert_true(sw_history_flush(h, PATIENCE_MS));
    assert_string_equal(ask_text("SELECT name || why || left_at || clock_offset_ms FROM hosts"),
                        "bcable20.02.0");
    host.name = "c";
    host.joined_at = 30;
    sw_history_host(h, &host);
    finish(h, SW_RUN_DONE);
    assert_string_equal(ask_text("SELECT name || joined_at || (why IS NULL) || (left_at IS NULL)"
                                 " FROM hosts"),
                        "c30.011");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_have_the_name_of_their_host, home_begin, home_end),
        cmocka_unit_test_setup_teardown(one_chunk_of_whole_lines_is_on_the_way, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(what_waits_is_bounded, home_begin, home_end),
        cmocka_unit_test_setup_teardown(lines_wait_while_hosts_are_not_connected, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(rows_after_the_loss_of_host_0_are_merged, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(times_are_those_of_host_0_and_do_not_go_back, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(a_part_has_a_folder_of_its_own, home_begin, home_end),
        cmocka_unit_test_setup_teardown(hostile_lines_are_refused, home_begin, home_end),
        cmocka_unit_test_setup_teardown(memory_for_rows_of_other_hosts_is_bounded, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(a_host_that_joins_again_is_new, home_begin, home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
