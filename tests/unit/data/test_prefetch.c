/* ctest-labels: threads */
/* Prefetch: order, parts of a batch, the padded tail, rewinding, closing, and a read that fails. */
#include "data/prefetch.h"
#include "data_support.h"
#include <errno.h>
#include <stdatomic.h>

enum { RECORDS = 107, PIXELS = SUPPORT_PIXELS };

static struct sw_source *open_source(bool training)
{
    struct support_conf c;
    struct sw_data_conf conf = support_plain();
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    support_idx(&c, RECORDS);
    conf.shuffle = true;
    ASSERT_OK(support_open(&c, &conf, training, 1, &s, &err));
    return s;
}

static struct sw_prefetch_args whole_batches(const struct sw_source *s, int64_t rows)
{
    return (struct sw_prefetch_args){.source = s,
                                     .batch_rows = rows,
                                     .row_count = rows,
                                     .batch_stride = 1,
                                     .batch_limit = -1,
                                     .slots = 3,
                                     .threads = 1,
                                     .fields = 3};
}

static struct sw_prefetch *start(const struct sw_prefetch_args *args)
{
    struct sw_prefetch *p = NULL;
    struct sw_err err = {0};
    ASSERT_OK(sw_prefetch_start(args, &p, &err));
    return p;
}

/* Demands that the rows of a batch are those that the source gives for the same samples. */
static void check_batch(const struct sw_source *s, const struct sw_prefetch_args *a,
                        const struct sw_batch *b)
{
    struct sw_reader r;
    struct sw_err err = {0};
    const float *image = b->field[0];
    const int32_t *label = b->field[1];
    ASSERT_OK(sw_reader_init(&r, s, &err));
    for (int64_t i = 0; i < b->valid_rows; i++) {
        const int64_t record = sw_source_record(&r, b->index * a->batch_rows + a->first_row + i);
        assert_int_equal(support_record(image + i * PIXELS), record);
        assert_int_equal(label[i], record % 10);
    }
    for (int64_t i = b->valid_rows; i < b->rows; i++) {
        assert_int_equal(label[i], 0);
        for (int k = 0; k < PIXELS; k++)
            assert_true(image[i * PIXELS + k] == 0);
    }
    sw_reader_fini(&r);
}

static void prefetch_returns_batches_in_order(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_err err = {0};
    for (int threads = 1; threads <= 4; threads++) {
        struct sw_prefetch_args args = whole_batches(s, 10);
        args.threads = threads;
        args.first_batch = 5;
        args.batch_stride = 3;
        struct sw_prefetch *p = start(&args);
        for (int64_t i = 0; i < 40; i++) {
            struct sw_batch b;
            ASSERT_OK(sw_prefetch_next(p, &b, &err));
            assert_int_equal(b.index, 5 + 3 * i);
            assert_int_equal(b.rows, 10);
            assert_int_equal(b.valid_rows, 10);
            assert_true(b.read_ms >= 0 && b.decode_ms >= 0);
            for (int f = 0; f < 2; f++)
                assert_int_equal((uintptr_t)b.field[f] % 64, 0);
            check_batch(s, &args, &b);
            sw_prefetch_release(p, &b);
        }
        sw_prefetch_free(p);
    }
    sw_source_close(s);
}

/* A reader that has the first batches for itself, and then every third. */
static void prefetch_lead_batches_are_consecutive(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_err err = {0};
    for (int lead = 0; lead <= 7; lead++) {
        struct sw_prefetch_args args = whole_batches(s, 10);
        args.first_batch = 4;
        args.lead = lead;
        args.batch_stride = 3;
        struct sw_prefetch *p = start(&args);
        for (int64_t i = 0; i < 20; i++) {
            struct sw_batch b;
            ASSERT_OK(sw_prefetch_next(p, &b, &err));
            assert_int_equal(b.index, i < lead ? 4 + i : 4 + lead + 3 * (i - lead));
            check_batch(s, &args, &b);
            sw_prefetch_release(p, &b);
        }
        sw_prefetch_free(p);
    }
    sw_source_close(s);
}

/* Augmented images, larger than one claim, so that threads really share a batch. */
static void prefetched_data_do_not_depend_on_threads(void **state)
{
    enum { ROWS = 40 };
    struct sw_data_conf conf = support_plain();
    struct support_conf c;
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    float *first = NULL;
    support_init(&c, "synthetic");
    support_int(&c, "height", 70);
    support_int(&c, "width", 80);
    conf.crop = 64;
    conf.mirror = conf.shuffle = true;
    ASSERT_OK(support_open(&c, &conf, true, 3, &s, &err));
    const size_t bytes = ROWS * sw_field_bytes(&s->field[0]);
    first = malloc(3 * bytes);
    assert_non_null(first);
    for (int threads = 1; threads <= 4; threads++) {
        struct sw_prefetch_args args = whole_batches(s, ROWS);
        args.threads = threads;
        struct sw_prefetch *p = start(&args);
        for (size_t i = 0; i < 3; i++) {
            struct sw_batch b;
            ASSERT_OK(sw_prefetch_next(p, &b, &err));
            if (threads == 1)
                memcpy((char *)first + i * bytes, b.field[0], bytes);
            else
                assert_memory_equal((char *)first + i * bytes, b.field[0], bytes);
            sw_prefetch_release(p, &b);
        }
        sw_prefetch_free(p);
    }
    free(first);
    sw_source_close(s);
}

static void prefetch_fills_only_its_own_rows(void **state)
{
    static const int64_t parts[][2] = {{0, 4}, {4, 3}, {7, 3}};
    struct sw_source *train = open_source(true), *test = open_source(false);
    struct sw_err err = {0};
    int seen[RECORDS] = {0};
    for (int k = 0; k < 3; k++) {
        struct sw_prefetch_args args = whole_batches(train, 10);
        args.first_row = parts[k][0];
        args.row_count = parts[k][1];
        struct sw_prefetch *p = start(&args);
        struct sw_batch b;
        ASSERT_OK(sw_prefetch_next(p, &b, &err));
        assert_int_equal(b.rows, parts[k][1]);
        check_batch(train, &args, &b);
        sw_prefetch_free(p); /* with a batch still in use */

        args.source = test;
        args.batch_limit = sw_source_batches(test, 10);
        p = start(&args);
        for (int64_t i = 0; i < args.batch_limit; i++) {
            ASSERT_OK(sw_prefetch_next(p, &b, &err));
            check_batch(test, &args, &b);
            /* 107 records: batch 10 has 7 rows, which end where the third part begins. */
            assert_int_equal(b.valid_rows, i == 10 && k == 2 ? 0 : args.row_count);
            for (int64_t r = 0; r < b.valid_rows; r++)
                seen[support_record((const float *)b.field[0] + r * PIXELS)]++;
            sw_prefetch_release(p, &b);
        }
        sw_prefetch_free(p);
    }
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(seen[i], 1);
    sw_source_close(train);
    sw_source_close(test);
}

/* Rows in microbatches: each is laid out as if it were alone, including the zeros of the tail. */
static void prefetch_aligns_every_microbatch(void **state)
{
    enum { PARTS = 4, ROWS = 12 };
    static const int64_t rows[PARTS] = {3, 5, 1, 3};
    struct sw_source *s = open_source(false);
    struct sw_err err = {0};
    for (int threads = 1; threads <= 4; threads++) {
        struct sw_prefetch_args args = whole_batches(s, 20);
        args.first_row = 5;
        args.row_count = ROWS;
        args.part_rows = rows;
        args.parts = PARTS;
        args.threads = threads;
        args.batch_limit = 6;
        struct sw_prefetch *p = start(&args);
        for (int64_t i = 0; i < 6; i++) {
            struct sw_batch b;
            struct sw_prefetch_args part = args;
            ASSERT_OK(sw_prefetch_next(p, &b, &err));
            struct sw_batch own = b;
            int64_t row = 0;
            for (int k = 0; k < PARTS; k++) {
                int64_t left = b.valid_rows - row;
                part.first_row = args.first_row + row;
                own.rows = rows[k];
                own.valid_rows = left < 0 ? 0 : left < rows[k] ? left : rows[k];
                check_batch(s, &part, &own);
                const size_t bytes[2] = {sizeof(float) * PIXELS, sizeof(int32_t)};
                for (int f = 0; f < 2; f++)
                    own.field[f] =
                        (char *)own.field[f] + ((size_t)rows[k] * bytes[f] + SW_BATCH_ALIGN - 1) /
                                                   SW_BATCH_ALIGN * SW_BATCH_ALIGN;
                row += rows[k];
            }
            sw_prefetch_release(p, &b);
        }
        sw_prefetch_free(p);
    }
    sw_source_close(s);
}

static void prefetch_pads_the_tail_and_rewinds(void **state)
{
    struct sw_source *s = open_source(false);
    struct sw_prefetch_args args = whole_batches(s, 25);
    struct sw_err err = {0};
    struct sw_batch b;
    args.batch_limit = sw_source_batches(s, 25);
    args.threads = 2;
    assert_int_equal(args.batch_limit, 5);
    struct sw_prefetch *p = start(&args);
    for (int pass = 0; pass < 4; pass++) {
        int64_t valid = 0;
        /* The third pass is left in its middle. */
        const int64_t batches = pass == 2 ? 2 : 5;
        for (int64_t i = 0; i < batches; i++) {
            ASSERT_OK(sw_prefetch_next(p, &b, &err));
            assert_int_equal(b.index, i);
            check_batch(s, &args, &b);
            valid += b.valid_rows;
            sw_prefetch_release(p, &b);
        }
        assert_int_equal(valid, pass == 2 ? 50 : RECORDS);
        if (pass != 2) {
            assert_int_equal(b.valid_rows, 7);
            assert_int_equal(sw_prefetch_next(p, &b, &err), SW_ERR_NOTFOUND);
        }
        ASSERT_OK(sw_prefetch_rewind(p, 0, &err));
        ASSERT_OK(sw_prefetch_rewind(p, 0, &err)); /* twice is once */
    }
    ASSERT_OK(sw_prefetch_rewind(p, 3, &err));
    ASSERT_OK(sw_prefetch_next(p, &b, &err));
    assert_int_equal(b.index, 3);
    check_batch(s, &args, &b);
    sw_prefetch_free(p);
    sw_source_close(s);
}

/* Other rows of the same batches, from some batch on: more, fewer, elsewhere. */
static void prefetch_reshape_changes_the_rows(void **state)
{
    static const int64_t rows[][2] = {{0, 5}, {3, 16}, {19, 1}, {4, 4}};
    struct sw_source *s = open_source(true);
    struct sw_err err = {0};
    for (int threads = 1; threads <= 3; threads++) {
        struct sw_prefetch_args args = whole_batches(s, 20);
        int64_t part = 10;
        args.row_count = part;
        args.part_rows = &part;
        args.parts = 1;
        args.threads = threads;
        struct sw_prefetch *p = start(&args);
        for (int i = 0; i < 4; i++) {
            struct sw_batch b;
            ASSERT_OK(sw_prefetch_next(p, &b, &err)); /* some are ahead of it */
            sw_prefetch_release(p, &b);
            args.first_row = rows[i][0];
            args.row_count = part = rows[i][1];
            ASSERT_OK(sw_prefetch_reshape(p, &args, 7 * i, &err));
            for (int64_t n = 0; n < 9; n++) {
                ASSERT_OK(sw_prefetch_next(p, &b, &err));
                assert_int_equal(b.index, 7 * i + n);
                assert_int_equal(b.rows, rows[i][1]);
                check_batch(s, &args, &b);
                sw_prefetch_release(p, &b);
            }
        }
        sw_prefetch_close(p);
        assert_int_equal(sw_prefetch_reshape(p, &args, 0, &err), SW_ERR_CANCELLED);
        sw_prefetch_free(p);
    }
    sw_source_close(s);
}

static void prefetch_refuses_more_batches_than_slots(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_prefetch_args args = whole_batches(s, 10);
    struct sw_err err = {0};
    struct sw_batch b[4];
    struct sw_prefetch *p = start(&args);
    for (int i = 0; i < 3; i++)
        ASSERT_OK(sw_prefetch_next(p, &b[i], &err));
    assert_int_equal(sw_prefetch_next(p, &b[3], &err), SW_ERR_BUSY);
    for (int i = 0; i < 3; i++)
        check_batch(s, &args, &b[i]);
    sw_prefetch_release(p, &b[0]);
    sw_prefetch_release(p, &b[0]); /* given back twice: nothing happens */
    ASSERT_OK(sw_prefetch_next(p, &b[3], &err));
    assert_int_equal(b[3].index, 3);
    check_batch(s, &args, &b[1]);
    check_batch(s, &args, &b[2]);
    check_batch(s, &args, &b[3]);
    sw_prefetch_free(p);

    args.row_count = 11;
    assert_int_equal(sw_prefetch_start(&args, &p, &err), SW_ERR_INVALID);
    sw_source_close(s);
}

/* ---- Reads that fail or wait ---- */

static atomic_int reads_left = -1; /* -1: no limit */
static atomic_bool reads_wait;
static atomic_int reads_held; /* so many have come to wait */

static ssize_t scripted_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    if (atomic_load(&reads_wait))
        atomic_fetch_add(&reads_held, 1);
    while (atomic_load(&reads_wait))
        usleep(1000);
    if (atomic_load(&reads_left) >= 0 && atomic_fetch_sub(&reads_left, 1) <= 0) {
        atomic_store(&reads_left, 0);
        errno = EIO;
        return -1;
    }
    return sw_os_posix.pread(fd, buf, bytes, offset);
}

static void script_reads(void)
{
    static struct sw_os os;
    os = sw_os_posix;
    os.pread = scripted_pread;
    sw_os_set(&os);
}

static void failing_read_sets_a_fault_that_names_the_thread(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_fault fault;
    struct sw_err err = {0};
    script_reads();
    for (int threads = 1; threads <= 3; threads++) {
        struct sw_prefetch_args args = whole_batches(s, 10);
        struct sw_batch b;
        int code = SW_OK, batches = 0;
        sw_fault_init(&fault);
        args.fault = &fault;
        args.threads = threads;
        atomic_store(&reads_left, 45);
        struct sw_prefetch *p = start(&args);
        while ((code = sw_prefetch_next(p, &b, &err)) == SW_OK) {
            check_batch(s, &args, &b);
            sw_prefetch_release(p, &b);
            batches++;
        }
        assert_int_equal(code, SW_ERR_CANCELLED);
        assert_true(batches <= 4);
        assert_int_equal(sw_fault_get(&fault, &err), SW_ERR_IO);
        ASSERT_CONTAINS(err.text, "prefetch train: ");
        ASSERT_CONTAINS(err.text, "record ");
        ASSERT_CONTAINS(err.text, "/images");
        assert_int_equal(sw_prefetch_rewind(p, 0, &err), SW_ERR_CANCELLED);
        sw_prefetch_free(p);
        sw_fault_fini(&fault);
        atomic_store(&reads_left, -1);
    }
    sw_os_set(NULL);
    sw_source_close(s);
}

static void failing_read_without_a_fault_is_returned_by_next(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_prefetch_args args = whole_batches(s, 10);
    struct sw_err err = {0};
    struct sw_batch b;
    script_reads();
    atomic_store(&reads_left, 0);
    struct sw_prefetch *p = start(&args);
    assert_int_equal(sw_prefetch_next(p, &b, &err), SW_ERR_IO);
    ASSERT_CONTAINS(err.text, "prefetch train: data train: record ");
    sw_prefetch_free(p);
    atomic_store(&reads_left, -1);
    sw_os_set(NULL);
    sw_source_close(s);
}

struct waiter {
    struct sw_prefetch *prefetch;
    int code;
    struct sw_batch batch;
};

static void wait_for_batch(void *arg)
{
    struct waiter *w = arg;
    struct sw_batch b;
    w->code = sw_prefetch_next(w->prefetch, &b, NULL);
}

static void prefetch_close_wakes_the_waiter(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_fault fault;
    struct sw_err err = {0};
    script_reads();
    for (int by_fault = 0; by_fault < 2; by_fault++) {
        struct sw_prefetch_args args = whole_batches(s, 10);
        struct sw_thread thread = {0};
        atomic_store(&reads_wait, true); /* no batch can become ready */
        sw_fault_init(&fault);
        args.fault = by_fault ? &fault : NULL;
        struct waiter w = {.prefetch = start(&args)};
        ASSERT_OK(sw_thread_start(&thread, "waiter", wait_for_batch, &w, &err));
        usleep(20000);
        sw_err_set(&err, SW_ERR_LIBRARY, "somebody else failed");
        if (by_fault)
            sw_fault_set(&fault, "server0.0", &err);
        else
            sw_prefetch_close(w.prefetch);
        assert_true(sw_thread_join_timed(&thread, 60000));
        assert_int_equal(w.code, SW_ERR_CANCELLED);
        atomic_store(&reads_wait, false);
        sw_prefetch_free(w.prefetch);
        sw_fault_fini(&fault);
    }
    sw_os_set(NULL);
    sw_source_close(s);
}

static atomic_bool finished;

static void rewind_to_three(void *arg)
{
    struct waiter *w = arg;
    w->code = sw_prefetch_rewind(w->prefetch, 3, NULL);
    atomic_store(&finished, true);
}

static void next_of_three(void *arg)
{
    struct waiter *w = arg;
    w->code = sw_prefetch_next(w->prefetch, &w->batch, NULL);
    atomic_store(&finished, true);
}

/* Runs main(w) while reading is held up, demands that it waits, and lets reading go on. */
static void run_against_slow_reads(void (*main_function)(void *), struct waiter *w)
{
    struct sw_thread thread = {0};
    struct sw_err err = {0};
    atomic_store(&finished, false);
    ASSERT_OK(sw_thread_start(&thread, "waiter", main_function, w, &err));
    usleep(50000);
    assert_false(atomic_load(&finished));
    atomic_store(&reads_wait, false);
    assert_true(sw_thread_join_timed(&thread, 60000));
    assert_int_equal(w->code, SW_OK);
}

static void rewind_waits_for_rows_that_are_being_read(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_prefetch_args args = whole_batches(s, 10);
    script_reads();
    atomic_store(&reads_held, 0);
    atomic_store(&reads_wait, true);
    struct waiter w = {.prefetch = start(&args)};
    while (atomic_load(&reads_held) == 0) /* until the thread is inside batch 0 */
        usleep(1000);
    run_against_slow_reads(rewind_to_three, &w);
    next_of_three(&w);
    assert_int_equal(w.code, SW_OK);
    assert_int_equal(w.batch.index, 3);
    check_batch(s, &args, &w.batch);
    sw_prefetch_free(w.prefetch);
    sw_os_set(NULL);
    sw_source_close(s);
}

static void rewind_discards_prefetched_batches(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_prefetch_args args = whole_batches(s, 10);
    struct sw_err err = {0};
    struct sw_batch b[3];
    script_reads();
    struct waiter w = {.prefetch = start(&args)};
    for (int i = 0; i < 3; i++) /* all slots are full, the thread has nothing to do */
        ASSERT_OK(sw_prefetch_next(w.prefetch, &b[i], &err));
    atomic_store(&reads_wait, true);
    ASSERT_OK(sw_prefetch_rewind(w.prefetch, 3, &err));
    run_against_slow_reads(next_of_three, &w);
    assert_int_equal(w.batch.index, 3);
    check_batch(s, &args, &w.batch);
    sw_prefetch_free(w.prefetch);
    sw_os_set(NULL);
    sw_source_close(s);
}

/* ---- Memory ---- */

struct pool {
    size_t taken, given;
    bool full;
};

static int pool_alloc(void *user, size_t bytes, const char *what, void **out, struct sw_err *err)
{
    struct pool *pool = user;
    if (pool->full)
        return sw_err_nomem(err, what, bytes);
    pool->taken += bytes;
    *out = aligned_alloc(64, bytes);
    return *out ? SW_OK : sw_err_nomem(err, what, bytes);
}

static void pool_free(void *user, void *p, size_t bytes)
{
    ((struct pool *)user)->given += bytes;
    free(p);
}

static void prefetch_uses_the_allocator_of_the_caller(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_prefetch_args args = whole_batches(s, 10);
    struct pool pool = {0};
    struct sw_err err = {0};
    struct sw_batch b;
    args.alloc = pool_alloc;
    args.free = pool_free;
    args.user = &pool;
    args.fields = 1; /* images only */
    struct sw_prefetch *p = start(&args);
    ASSERT_OK(sw_prefetch_next(p, &b, &err));
    assert_non_null(b.field[0]);
    assert_null(b.field[1]);
    assert_int_equal(pool.taken, 3 * 10 * PIXELS * sizeof(float));
    assert_int_equal(pool.taken, sw_prefetch_bytes(&args));
    sw_prefetch_free(p);
    assert_int_equal(pool.given, pool.taken);
    pool.full = true;
    assert_int_equal(sw_prefetch_start(&args, &p, &err), SW_ERR_NOMEM);
    ASSERT_CONTAINS(err.text, "prefetch train");
    sw_source_close(s);
}

static atomic_long calls;

static void *counting_alloc(size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return sw_os_posix.alloc(bytes);
}

static void prefetch_allocates_nothing_per_batch(void **state)
{
    struct sw_source *s = open_source(true);
    struct sw_prefetch_args args = whole_batches(s, 10);
    struct sw_err err = {0};
    struct sw_batch b;
    static struct sw_os os;
    long before = 0;
    os = sw_os_posix;
    os.alloc = counting_alloc;
    sw_os_set(&os);
    struct sw_prefetch *p = start(&args);
    for (int i = 0; i < 100; i++) {
        ASSERT_OK(sw_prefetch_next(p, &b, &err));
        if (i == 0)
            before = atomic_load(&calls);
        sw_prefetch_release(p, &b);
    }
    assert_true(before > 0);
    assert_int_equal(atomic_load(&calls), before);
    sw_prefetch_free(p);
    sw_os_set(NULL);
    sw_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefetch_returns_batches_in_order),
        cmocka_unit_test(prefetch_lead_batches_are_consecutive),
        cmocka_unit_test(prefetched_data_do_not_depend_on_threads),
        cmocka_unit_test(prefetch_fills_only_its_own_rows),
        cmocka_unit_test(prefetch_aligns_every_microbatch),
        cmocka_unit_test(prefetch_pads_the_tail_and_rewinds),
        cmocka_unit_test(prefetch_reshape_changes_the_rows),
        cmocka_unit_test(prefetch_refuses_more_batches_than_slots),
        cmocka_unit_test(failing_read_sets_a_fault_that_names_the_thread),
        cmocka_unit_test(failing_read_without_a_fault_is_returned_by_next),
        cmocka_unit_test(prefetch_close_wakes_the_waiter),
        cmocka_unit_test(rewind_waits_for_rows_that_are_being_read),
        cmocka_unit_test(rewind_discards_prefetched_batches),
        cmocka_unit_test(prefetch_uses_the_allocator_of_the_caller),
        cmocka_unit_test(prefetch_allocates_nothing_per_batch),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
