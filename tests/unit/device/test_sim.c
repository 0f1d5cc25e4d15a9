/* ctest-labels: threads
 * The sim device: its memory, its pointer checks, and that its results are those of the CPU. */
#include "device/ops/elementwise.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/classes.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/label_count.h"
#include "kernels/ops/softmax_loss.h"
#include "plan_support.h"
#include "sim_support.h"
#include "unit/faulty_os.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- The option text ---- */

static void options_override_the_defaults(void **state)
{
    struct sw_sim_conf conf;
    struct sw_err err;
    ASSERT_OK(sw_sim_parse("", &conf, &err));
    assert_int_equal(conf.gpus, 1);
    assert_int_equal(conf.memory_bytes, (int64_t)4 << 30);
    ASSERT_OK(sw_sim_parse("gpus=4,mem=2GiB", &conf, &err));
    assert_int_equal(conf.gpus, 4);
    assert_int_equal(conf.memory_bytes, (int64_t)2 << 30);
    ASSERT_OK(sw_sim_parse("mem=1MB", &conf, &err));
    assert_int_equal(conf.gpus, 1);
    assert_int_equal(conf.memory_bytes, 1000000);
    assert_int_equal(conf.link_bytes_per_s, 0);
    assert_true(conf.peer == SW_SIM_PEER_YES && conf.slow == 1 && conf.fault == SW_SIM_NO_FAULT);
    ASSERT_OK(sw_sim_parse("pcie=12GB/s,latency=10us,peer=no,gpus=3,slow=2.5,fault=lost@7,faulty=1",
                           &conf, &err));
    assert_int_equal(conf.link_bytes_per_s, (int64_t)12000000000);
    assert_int_equal(conf.latency_us, 10);
    assert_true(conf.peer == SW_SIM_PEER_NO && conf.slow == 2.5 && conf.faulty == 1);
    assert_true(conf.fault == SW_SIM_LOST && conf.fault_at == 7);
    ASSERT_OK(sw_sim_parse("peer=corrupt", &conf, &err));
    assert_int_equal(conf.peer, SW_SIM_PEER_CORRUPT);
    ASSERT_OK(sw_sim_parse("peer=hang", &conf, &err));
    assert_int_equal(conf.peer, SW_SIM_PEER_HANG);
    ASSERT_OK(sw_sim_parse("latency=2ms", &conf, &err));
    assert_int_equal(conf.latency_us, 2000);
}

static void wrong_options_are_named(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"gpus=0", "gpus is '0'; it must be a whole number from 1 to 64"},
        {"gpus=65", "gpus is '65'"},
        {"gpus=two", "gpus is 'two'"},
        {"gpu=2", "did you mean 'gpus'"},
        {"colour=red", "unknown key 'colour'; known keys are gpus, mem, pcie"},
        {"peer=maybe", "peer is 'maybe'; it must be yes, no, corrupt or hang"},
        {"pcie=12GB", "pcie is '12GB'; it must be a rate"},
        {"pcie=0GB/s", "pcie is '0GB/s'"},
        {"latency=10", "latency is '10'; it must be a time"},
        {"latency=11s", "at most 10s"},
        {"latency=us", "latency is 'us'"},
        {"slow=0.5", "a factor from 1 to 1000"},
        {"fault=hang", "as in hang@500"},
        {"fault=hang@0", "fault is 'hang@0'"},
        {"fault=hangs@1", "hang, lost, nomem or wrong"},
        {"gpus=2,faulty=2", "faulty is 2, but with 2 GPUs it must be at most 1"},
        {"mem=4", "mem is '4'"},
        {"mem=lots", "mem is 'lots'"},
        {"mem=2TiB", "from 64KiB to 1TiB"},
        {"gpus=2,gpus=2", "gpus is given twice"},
        {"gpus", "KEY=VALUE"},
        {"gpus=", "KEY=VALUE"},
        {"=2", "KEY=VALUE"},
        {",", "KEY=VALUE"},
        {"gpus=2,", "KEY=VALUE"},
        {"gpus=2,,mem=1MB", "KEY=VALUE"},
        {"gpus=222222222222222222222222222222222222222222222222222222222222222222222222222222222",
         "KEY=VALUE"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sw_sim_conf conf = {.gpus = 77};
        struct sw_err err;
        assert_int_equal(sw_sim_parse(wrong[i].text, &conf, &err), SW_ERR_INVALID);
        assert_says(&err, wrong[i].says);
        assert_int_equal(conf.gpus, 77);
    }
}

static void devices_know_their_names(void **state)
{
    struct sw_device *dev = open_sim(3), *none;
    struct sw_sim_conf conf = small_conf();
    struct sw_err err;
    assert_true(dev->caps->simulated && !dev->caps->own_processor);
    assert_string_equal(dev->name, "sim:3");
    assert_int_equal(dev->index, 3);
    assert_false(dev->host_memory);
    sw_device_close(dev);
    assert_int_equal(sw_sim_open(&conf, 1, &none, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:1");
}

static void four_devices_of_default_size_can_be_open(void **state)
{
    struct sw_sim_conf conf = sw_sim_defaults();
    struct sw_device *dev[4];
    struct sw_stream *s[4];
    float host[4] = {1, 2, 3, 4}, back[4];
    for (int i = 0; i < 4; i++) {
        dev[i] = open_sim_with(i, conf);
        s[i] = new_stream(dev[i]);
        assert_int_equal(sw_device_bytes_of(dev[i]).capacity, (int64_t)4 << 30);
    }
    for (int i = 0; i < 4; i++) {
        to_host(s[i], back, to_device(s[i], host, sizeof host), sizeof back);
        assert_same_bits("round trip", back, host, sizeof back);
        sw_stream_free(s[i]);
        sw_device_close(dev[i]);
    }
}

/* An operation that is added to the table but not to sim would be a NULL call, except those that
 * may be NULL. */
static void sim_implements_every_operation(void **state)
{
    enum { MEMBERS = sizeof(struct sw_device_ops) / sizeof(void *) };
    struct fixture cpu = open_cpu(true, 1);
    struct sw_device *dev = open_sim(0);
    uintptr_t want[MEMBERS], got[MEMBERS];
    struct sw_device_ops needed = *cpu.dev->ops;
    needed.place = NULL;
    needed.stream_attach = NULL;
    memcpy(want, &needed, sizeof want);
    memcpy(got, dev->ops, sizeof got);
    for (int i = 0; i < MEMBERS; i++)
        if (want[i] && !got[i])
            fail_msg("member %d of the table is missing", i);
    sw_device_close(dev);
    close_cpu(&cpu);
}

/* ---- Memory ---- */

static void host_code_cannot_touch_device_memory(void **state)
{
    struct sw_device *dev = open_sim(0);
    float *p = device_bytes(dev, 4096);
    for (int writes = 0; writes <= 1; writes++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            volatile float *touched = p;
            signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own handler */
            setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
            if (writes)
                *touched = 1;
            else
                (void)*touched;
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
    sw_device_free(dev, p, 4096);
    sw_device_close(dev);
}

static void memory_is_zero_aligned_and_counted(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 4097, 1 << 20};
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    unsigned char *host = get_bytes(1 << 20);
    struct sw_err err;
    /* Twice: the second time in memory that was written before. */
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            void *p = device_bytes(dev, sizes[i]);
            assert_int_equal((uintptr_t)p % 64, 0);
            assert_int_equal(sw_device_bytes_of(dev).in_use, sizes[i]);
            to_host(s, host, p, sizes[i]);
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(host[j], 0);
            memset(host, 1, sizes[i]);
            ASSERT_OK(sw_copy(s, p, host, sizes[i], &err));
            ASSERT_OK(sw_stream_wait(s, &err));
            sw_device_free(dev, p, sizes[i]);
        }
    struct sw_device_bytes b = sw_device_bytes_of(dev);
    assert_int_equal(b.in_use, 0);
    assert_int_equal(b.peak, 1 << 20);
    assert_int_equal(b.capacity, 64 << 20);
    free(host);
    sw_stream_free(s);
    sw_device_close(dev);
}

/* A copy still runs while its memory is freed; the next allocation of that memory is zeroed
 * nevertheless. */
static void memory_freed_too_early_is_zeroed_for_its_next_owner(void **state)
{
    struct sw_sim_conf conf = small_conf();
    unsigned char host[100], back[100];
    struct sw_err err;
    conf.copy_delay_us = 200000;
    struct sw_device *dev = open_sim_with(0, conf);
    struct sw_stream *s = new_stream(dev);
    void *p = device_bytes(dev, sizeof host);
    memset(host, 1, sizeof host);
    ASSERT_OK(sw_copy(s, p, host, sizeof host, &err));
    while (sw_sim_operations(dev) < 1)
        sleep_ms(1);
    sleep_ms(50);
    sw_device_free(dev, p, sizeof host);
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: test memory was freed while copy of stream sim:0/0 might still use");
    sw_stream_free(s);
    s = new_stream(dev);
    assert_ptr_equal(device_bytes(dev, sizeof host), p);
    to_host(s, back, p, sizeof back);
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], 0);
    sw_stream_free(s);
    sw_device_close(dev);
}

/* Blocks never overlap, and freed memory is reused. */
static void freed_memory_is_reused(void **state)
{
    enum { BLOCKS = 200, ROUNDS = 2000 };
    struct sw_device *dev = open_sim(0);
    struct rng r = rng_of(5);
    char *at[BLOCKS] = {NULL};
    size_t bytes[BLOCKS], used = 0;
    for (int n = 0; n < ROUNDS; n++) {
        int i = (int)rng_int(&r, 0, BLOCKS - 1);
        if (at[i]) {
            sw_device_free(dev, at[i], bytes[i]);
            used -= bytes[i];
            at[i] = NULL;
            continue;
        }
        bytes[i] = (size_t)rng_int(&r, 0, 200000);
        at[i] = device_bytes(dev, bytes[i]);
        used += bytes[i];
        for (int j = 0; j < BLOCKS; j++)
            if (j != i && at[j])
                assert_true(at[i] + bytes[i] <= at[j] || at[j] + bytes[j] <= at[i]);
        assert_int_equal(sw_device_bytes_of(dev).in_use, used);
    }
    for (int i = 0; i < BLOCKS; i++)
        sw_device_free(dev, at[i], bytes[i]);
    sw_device_free(dev, device_bytes(dev, 64 << 20), 64 << 20);
    sw_device_close(dev);
}

static void out_of_memory_names_the_blob_and_what_is_left(void **state)
{
    struct sw_sim_conf conf = small_conf();
    struct sw_err err;
    char *a, *b, *c;
    void *p = &err;
    conf.memory_bytes = 1 << 20;
    struct sw_device *dev = open_sim_with(0, conf);
    a = device_bytes(dev, 400 << 10);
    b = device_bytes(dev, 200 << 10);
    c = device_bytes(dev, 400 << 10);
    sw_device_free(dev, b, 200 << 10);
    int rc = sw_device_alloc(dev, 300 << 10, "the weights of fc6", &p, &err);
    assert_int_equal(rc, SW_ERR_NOMEM);
    assert_ptr_equal(p, &err);
    assert_string_equal(err.text,
                        "out of memory: the weights of fc6 (307200 bytes): sim:0 has 229376 of its "
                        "1048576 bytes free, at most 204800 in one block");
    assert_int_equal(sw_device_alloc(dev, SIZE_MAX, "too much", &p, &err), SW_ERR_NOMEM);
    assert_int_equal(sw_device_bytes_of(dev).in_use, 800 << 10);
    sw_device_free(dev, a, 400 << 10);
    sw_device_free(dev, c, 400 << 10);
    sw_device_close(dev);
}

static void an_allocation_fails_where_a_test_asks_for_it(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_err err;
    void *p[3];
    sw_sim_inject(dev, SW_SIM_NOMEM, 1);
    p[0] = device_bytes(dev, 10);
    assert_int_equal(sw_device_alloc(dev, 10, "second", &p[1], &err), SW_ERR_NOMEM);
    assert_says(&err, "second (10 bytes)");
    p[2] = device_bytes(dev, 10);
    sw_device_free(dev, p[0], 10);
    sw_device_free(dev, p[2], 10);
    sw_device_close(dev);
}

/* ---- Wrong pointers ---- */

static void foreign_pointers_are_reported(void **state)
{
    struct sw_device *dev = open_sim(0), *other = open_sim(1);
    struct sw_stream *s = new_stream(dev);
    float *y = device_bytes(dev, 64), *foreign = device_bytes(other, 64), host[16] = {0};
    const struct sw_step *step = device_bytes(dev, sizeof *step);
    struct sw_desc d = sw_desc_plain(SW_F32, 2, (const int64_t[]){4, 4});
    struct sw_dropout dropout = {.scale = 1};
    struct sw_err err;
    assert_int_equal(sw_op_add(s, y, host, 16, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: add: x (");
    assert_says(&err, "is not memory of sim:0");
    assert_int_equal(sw_op_add(s, foreign, y, 16, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: add: y (");
    assert_int_equal(sw_fill_zero(s, host, 64, &err), SW_ERR_INVALID);
    assert_says(&err, "fill_zero: dst (");
    assert_int_equal(
        sw_op_run(s, &sw_op_dropout,
                  &(const struct sw_dropout_args){.desc = d,
                                                  .dropout = dropout,
                                                  .step = (const struct sw_step *)(void *)host,
                                                  .x = y,
                                                  .y = y},
                  &err),
        SW_ERR_INVALID);
    assert_says(&err, "dropout: step (");
    assert_int_equal(sw_op_run(s, &sw_op_dropout,
                               &(const struct sw_dropout_args){
                                   .desc = d, .dropout = dropout, .step = step, .x = y},
                               &err),
                     SW_ERR_INVALID);
    assert_says(&err, "dropout: y (");
    assert_int_equal(sw_copy(s, host, foreign, 64, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: copy: neither dst");
    assert_int_equal(sw_copy(s, y, y + 8, 48, &err), SW_ERR_INVALID);
    /* None of this was queued, and the stream has no error. */
    ASSERT_OK(sw_op_add(s, y, y, 16, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    assert_int_equal(sw_sim_operations(dev), 1);
    sw_stream_free(s);
    sw_device_close(other);
    sw_device_close(dev);
}

static void copy_from_unmapped_memory_fails_the_stream_and_names_the_pointer(void **state)
{
    struct sw_device *dev = open_sim(0), *other = open_sim(1);
    float *y = device_bytes(dev, 64), *foreign = device_bytes(other, 64);
    struct sw_err err;
    for (int outwards = 0; outwards <= 1; outwards++) {
        struct sw_stream *s = new_stream(dev);
        ASSERT_OK(outwards ? sw_copy(s, foreign, y, 64, &err) : sw_copy(s, y, foreign, 64, &err));
        assert_int_equal(sw_stream_wait(s, &err), SW_ERR_INVALID);
        assert_says(&err, outwards ? "sim:0: copy: dst (" : "sim:0: copy: src (");
        assert_says(&err, "sw_copy_peer");
        sw_stream_free(s);
    }
    sw_device_close(other);
    sw_device_close(dev);
}

static void accesses_outside_an_allocation_are_refused(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float *x = device_bytes(dev, 100), *y = device_bytes(dev, 100);
    struct sw_err err;
    ASSERT_OK(sw_op_add(s, y, x, 25, &err));
    ASSERT_OK(sw_op_add(s, y + 25, x, 0, &err));
    assert_int_equal(sw_op_add(s, y, x, 26, &err), SW_ERR_INVALID);
    assert_says(&err, "add: y: 104 bytes at byte 0 extend beyond test memory (100 bytes)");
    assert_int_equal(sw_op_add(s, y, x + 20, 6, &err), SW_ERR_INVALID);
    assert_says(&err, "add: x: 24 bytes at byte 80");
    ASSERT_OK(sw_stream_wait(s, &err));
    sw_device_free(dev, x, 100);
    assert_int_equal(sw_op_add(s, y, x, 25, &err), SW_ERR_INVALID);
    assert_says(&err, "was test memory of sim:0, which has been freed");
    ASSERT_OK(sw_stream_wait(s, &err));
    sw_stream_free(s);
    sw_device_close(dev);
}

static void memory_freed_while_its_operation_is_queued_is_found(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float *x = device_bytes(dev, 100);
    struct gate g;
    struct sw_err err;
    hold(s, &g);
    ASSERT_OK(sw_op_add(s, x, x, 25, &err));
    sw_device_free(dev, x, 100);
    gate_open(&g);
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_INVALID);
    assert_says(&err, "test memory was freed while add of stream sim:0/0 might still use it");
    sw_stream_free(s);
    gate_fini(&g);
    sw_device_close(dev);
}

/* ---- The same bits as the CPU ---- */

enum { ROWS = 6, CLASSES = 20, FLOATS = ROWS * CLASSES, PIECE = 1024, PIECES = 32 };

/* Piece i of the memory that an operation may work on. */
static float *piece(char *base, int i)
{
    return (float *)(void *)(base + (size_t)i * PIECE);
}

/* Random numbers, and in pieces 1 and 2 labels and the step. */
static void fill_image(char *image)
{
    struct rng r = rng_of(77);
    for (int i = 0; i < PIECES * PIECE / 4; i++)
        piece(image, 0)[i] = rng_real(&r, -2, 2);
    int32_t *label = (int32_t *)(void *)piece(image, 1);
    for (int i = 0; i < ROWS; i++)
        label[i] = (int32_t)rng_int(&r, 0, CLASSES - 1);
    struct sw_step step = {
        .step = 12, .first_row = 3, .valid_rows = ROWS - 1, .backward_scale = 0.125f};
    memcpy(piece(image, 2), &step, sizeof step);
}

static void run_activations(struct sw_stream *s, char *base)
{
    struct sw_err err;
    for (int f = 0; f < SW_ACT_COUNT; f++) {
        float *x = piece(base, 0), *y = piece(base, 10 + f);
        ASSERT_OK(sw_op_activation(s, (enum sw_activation)f, 0.1f, x, y, FLOATS, &err));
        ASSERT_OK(
            sw_op_run(s, &sw_op_activation_gradient,
                      &(const struct sw_activation_gradient_args){.function = (enum sw_activation)f,
                                                                  .alpha = 0.1f,
                                                                  .x = f == SW_ACT_GELU ? x : NULL,
                                                                  .y = f == SW_ACT_GELU ? NULL : y,
                                                                  .dy = piece(base, 3),
                                                                  .dx = piece(base, 18 + f),
                                                                  .n = FLOATS},
                      &err));
    }
}

enum { LABEL_LEFT_OUT = 1 };

static void run_losses(struct sw_stream *s, char *base)
{
    struct sw_err err;
    const int32_t *label = (const int32_t *)(void *)piece(base, 1);
    const struct sw_step *step = (const struct sw_step *)(void *)piece(base, 2);
    struct sw_result *result = (struct sw_result *)(void *)piece(base, 5);
    float *x = piece(base, 0), *prob = piece(base, 4);
    struct sw_labels labels = {.label = label, .ignores = true, .ignored = LABEL_LEFT_OUT};
    struct sw_softmax_loss_args forward = {.rows = ROWS,
                                           .classes = CLASSES,
                                           .weight = 0.5f,
                                           .x = x,
                                           .labels = labels,
                                           .step = step,
                                           .prob = prob,
                                           .result = &result[0]};
    struct sw_label_count_args count = {
        .rows = ROWS, .labels = labels, .step = step, .count = &result[2].sum};
    struct sw_softmax_gradient_args gradient = {.rows = ROWS,
                                                .classes = CLASSES,
                                                .batch_rows = ROWS,
                                                .weight = 0.5f,
                                                .prob = prob,
                                                .labels = labels,
                                                .step = step,
                                                .counted = &result[2].sum,
                                                .dx = piece(base, 6)};
    struct sw_top_k_args top = {.rows = ROWS,
                                .classes = CLASSES,
                                .top_k = 3,
                                .x = x,
                                .labels = labels,
                                .step = step,
                                .result = &result[1]};
    ASSERT_OK(sw_op_run(s, &sw_op_softmax_loss, &forward, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_label_count, &count, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_softmax_loss_gradient, &gradient, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_top_k, &top, &err));
}

static void run_batch_norm(struct sw_stream *s, char *base)
{
    struct sw_err err;
    struct sw_batch_norm b = {.desc = sw_desc_plain(SW_F32, 4, (const int64_t[]){3, 2, 4, 5}),
                              .eps = 1e-5f};
    float *x = piece(base, 0), *y = piece(base, 26), *channels = piece(base, 27);
    b.momentum = 0.9f;
    b.sums = (double *)(void *)piece(base, 28);
    b.scratch = piece(base, 29);
    b.scale = channels;
    b.bias = channels + 2;
    b.mean = channels + 4;
    b.inv_std = channels + 6;
    b.running_mean = b.update_mean = channels + 8;
    b.running_variance = b.update_variance = channels + 10;
    assert_true(sw_channel_scratch_bytes(&b.desc) <= PIECE);
    ASSERT_OK(sw_op_run(s, &sw_op_batch_norm_sums,
                        &(const struct sw_batch_norm_args){.b = b, .x = x}, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_batch_norm,
                        &(const struct sw_batch_norm_args){.b = b, .x = x, .y = y}, &err));
    ASSERT_OK(
        sw_op_run(s, &sw_op_batch_norm_sums_gradient,
                  &(const struct sw_batch_norm_args){
                      .b = b, .x = x, .dy = y, .dscale = channels + 12, .dbias = channels + 14},
                  &err));
    ASSERT_OK(sw_op_run(
        s, &sw_op_batch_norm_gradient,
        &(const struct sw_batch_norm_args){.b = b, .x = x, .dy = y, .dx = piece(base, 30)}, &err));
    ASSERT_OK(sw_op_run(s, &sw_op_batch_norm_running,
                        &(const struct sw_batch_norm_args){.b = b, .x = x, .y = y}, &err));
}

static void run_the_rest(struct sw_stream *s, char *base)
{
    struct sw_err err;
    struct sw_desc d = sw_desc_blocked(SW_F32, 4, (const int64_t[]){2, 5, 3, 4}, 1, 8);
    struct sw_dropout dropout = {
        .key = sw_philox_stream(3, SW_PURPOSE_DROPOUT, 1), .threshold = 1u << 31, .scale = 2};
    const struct sw_step *step = (const struct sw_step *)(void *)piece(base, 2);
    bool finite = false;
    ASSERT_OK(sw_op_zero_padding(s, &d, piece(base, 3), &err));
    ASSERT_OK(sw_op_run(
        s, &sw_op_dropout,
        &(const struct sw_dropout_args){
            .desc = d, .dropout = dropout, .step = step, .x = piece(base, 3), .y = piece(base, 7)},
        &err));
    ASSERT_OK(sw_op_add(s, piece(base, 7), piece(base, 0), FLOATS, &err));
    ASSERT_OK(sw_copy(s, piece(base, 8), piece(base, 7), 333, &err));
    ASSERT_OK(
        sw_copy_2d(s, &(struct sw_copy_2d){piece(base, 9), 36, piece(base, 7), 20, 16, 7}, &err));
    ASSERT_OK(sw_fill_zero(s, piece(base, 8), 111, &err));
    ASSERT_OK(sw_op_all_finite(s, piece(base, 0), FLOATS, &finite, &err));
    assert_true(finite);
}

static void operations_are_bit_identical_to_the_cpu(void **state)
{
    struct fixture cpu = open_cpu(false, 1);
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    char *want = get_bytes(PIECES * PIECE), *got = get_bytes(PIECES * PIECE);
    fill_image(want);
    char *base = to_device(s, want, PIECES * PIECE);
    char *image[2] = {want, base};
    struct sw_stream *stream[2] = {cpu.stream, s};
    for (int i = 0; i < 2; i++) {
        run_activations(stream[i], image[i]);
        run_losses(stream[i], image[i]);
        run_batch_norm(stream[i], image[i]);
        run_the_rest(stream[i], image[i]);
    }
    to_host(s, got, base, PIECES * PIECE);
    for (int i = 0; i < PIECES; i++) {
        char what[32];
        snprintf(what, sizeof what, "piece %d", i);
        assert_same_bits(what, got + i * PIECE, want + i * PIECE, PIECE);
    }
    free(want);
    free(got);
    sw_stream_free(s);
    sw_device_close(dev);
    close_cpu(&cpu);
}

static void all_finite_returns_its_result_on_the_host(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float host[100] = {0};
    bool finite = false;
    struct sw_err err;
    float *x = to_device(s, host, sizeof host);
    ASSERT_OK(sw_op_all_finite(s, x, 100, &finite, &err));
    assert_true(finite);
    host[99] = NAN;
    ASSERT_OK(sw_copy(s, x, host, sizeof host, &err));
    ASSERT_OK(sw_op_all_finite(s, x, 100, &finite, &err));
    assert_false(finite);
    sw_stream_free(s);
    sw_device_close(dev);
}

/* ---- Plans ---- */

/* All arrays of one problem in one allocation, at the same offsets on every device. */
struct arena {
    size_t bytes, src, weight, bias, dst, diff_dst, diff_src, diff_weight, diff_bias, saved,
        scratch;
};

static size_t reserve(size_t *at, size_t bytes)
{
    size_t start = *at;
    *at += (bytes + 63) / 64 * 64;
    return start;
}

static struct arena arena_of(const struct problem *p, const struct sw_plan *plan)
{
    struct arena a = {0};
    size_t weight = has_weights(p) ? sw_desc_bytes(&plan->weight) : 0;
    size_t bias = has_bias(p) ? sw_desc_bytes(&plan->bias) : 0;
    a.src = reserve(&a.bytes, sw_desc_bytes(&plan->src));
    a.weight = reserve(&a.bytes, weight);
    a.bias = reserve(&a.bytes, bias);
    a.diff_dst = reserve(&a.bytes, sw_desc_bytes(&plan->dst));
    a.dst = reserve(&a.bytes, sw_desc_bytes(&plan->dst));
    a.diff_src = reserve(&a.bytes, sw_desc_bytes(&plan->src));
    a.diff_weight = reserve(&a.bytes, weight);
    a.diff_bias = reserve(&a.bytes, bias);
    a.saved = reserve(&a.bytes, plan->saved_bytes);
    a.scratch = reserve(&a.bytes, plan->scratch_bytes);
    return a;
}

static float *in_arena(char *base, size_t offset)
{
    return (float *)(void *)(base + offset);
}

/* Every pass, queued; the arena at base belongs to the plan's device. */
static void run_passes(const struct problem *p, struct sw_plan *plan, const struct arena *a,
                       char *base)
{
    struct sw_err err;
    struct sw_plan_args args = {.src = in_arena(base, a->src),
                                .dst = in_arena(base, a->dst),
                                .diff_dst = in_arena(base, a->diff_dst),
                                .diff_src = in_arena(base, a->diff_src),
                                .saved = in_arena(base, a->saved),
                                .scratch = in_arena(base, a->scratch)};
    if (has_weights(p)) {
        args.weight = in_arena(base, a->weight);
        args.diff_weight = in_arena(base, a->diff_weight);
    }
    if (has_bias(p)) {
        args.bias = in_arena(base, a->bias);
        args.diff_bias = in_arena(base, a->diff_bias);
    }
    ASSERT_OK(sw_plan_forward(plan, &args, &err));
    ASSERT_OK(sw_plan_backward_data(plan, &args, &err));
    if (has_weights(p))
        ASSERT_OK(sw_plan_backward_weights(plan, &args, &err));
}

/* Random numbers where they are read; padding of blocked layouts is zero. */
static void fill_arena(const struct problem *p, const struct sw_plan *plan, const struct arena *a,
                       char *base)
{
    struct tensors t = random_tensors(p, plan, 9);
    memset(base, 0, a->bytes);
    sw_desc_from_plain(&plan->src, t.src, in_arena(base, a->src));
    sw_desc_from_plain(&plan->dst, t.diff_dst, in_arena(base, a->diff_dst));
    if (has_weights(p))
        sw_desc_from_plain(&plan->weight, t.weight, in_arena(base, a->weight));
    if (has_bias(p))
        sw_desc_from_plain(&plan->bias, t.bias, in_arena(base, a->bias));
    free_tensors(&t);
}

static void compare_plan(const struct problem *p, struct fixture *cpu, struct sw_stream *s)
{
    const struct sw_plan_passes passes = {true, has_weights(p), true};
    struct sw_plan *want, *got;
    struct sw_err err;
    ASSERT_OK(make_plan(p, cpu->stream, passes, &want, &err));
    ASSERT_OK(make_plan(p, s, passes, &got, &err));
    assert_ptr_equal(got->stream, s);
    assert_string_equal(got->algorithm, want->algorithm);
    assert_true(sw_desc_equal(&got->dst, &want->dst));
    assert_int_equal(got->scratch_bytes, want->scratch_bytes);
    assert_int_equal(got->saved_bytes, want->saved_bytes);
    assert_int_equal(!got->ops->backward_weights, !want->ops->backward_weights);

    struct arena a = arena_of(p, want);
    char *image = get_bytes(a.bytes), *back = get_bytes(a.bytes);
    fill_arena(p, want, &a, image);
    char *base = to_device(s, image, a.bytes);
    run_passes(p, want, &a, image);
    run_passes(p, got, &a, base);
    sw_plan_free(got); /* while its passes are queued */
    to_host(s, back, base, a.bytes);
    assert_same_bits(p->name, back, image, a.saved); /* all but saved and scratch */
    sw_device_free(s->dev, base, a.bytes);
    free(image);
    free(back);
    sw_plan_free(want);
}

static void compare_plans(bool reference)
{
    struct problem p[] = {
        conv_problem("convolution", 2, 16, 9, 9, 32, 3, 1, 1, 1),
        conv_problem("groups", 2, 12, 7, 8, 18, 3, 2, 1, 3),
        pool_problem("maximum", true, 2, 16, 9, 9, 3, 2, 0),
        pool_problem("average", false, 2, 16, 9, 9, 3, 2, 1),
        lrn_problem("lrn", 2, 16, 5, 5, 5, 1e-2f, 0.75f, 1),
        ip_problem("inner product", 4, 16, 3, 3, 10),
    };
    struct sw_sim_conf conf = small_conf();
    conf.reference = reference;
    struct fixture cpu = open_cpu(reference, 1);
    struct sw_device *dev = open_sim_with(0, conf);
    struct sw_stream *s = new_stream(dev);
    p[0].conv.fuse_relu = true;
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        for (int block = 0; block <= 8; block += 8) {
            p[i].channel_block = block;
            compare_plan(&p[i], &cpu, s);
        }
    sw_stream_free(s);
    sw_device_close(dev);
    close_cpu(&cpu);
}

static void plans_are_bit_identical_to_the_cpu(void **state)
{
    compare_plans(false);
}

static void reference_plans_are_bit_identical_to_the_cpu(void **state)
{
    compare_plans(true);
}

static void reorders_are_bit_identical_to_the_cpu(void **state)
{
    const int64_t dim[] = {2, 5, 3, 4};
    struct sw_desc from = sw_desc_plain(SW_F32, 4, dim), to = sw_desc_blocked(SW_F32, 4, dim, 1, 8);
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    struct rng r = rng_of(4);
    float *plain = random_floats(&r, sw_desc_count(&from), -1, 1);
    float *want = get_bytes(sw_desc_bytes(&to)), *got = get_bytes(sw_desc_bytes(&to));
    struct sw_plan *plan;
    struct sw_err err;
    const struct sw_plan_request request = {
        .kind = SW_PLAN_REORDER, .stream = s, .src = &from, .shape.to = &to};
    ASSERT_OK(sw_plan_new(&request, &plan, &err));
    float *src = to_device(s, plain, sw_desc_bytes(&from));
    struct sw_plan_args a = {.src = src, .dst = device_bytes(dev, sw_desc_bytes(&to))};
    a.scratch = device_bytes(dev, plan->scratch_bytes);
    ASSERT_OK(sw_plan_forward(plan, &a, &err));
    to_host(s, got, a.dst, sw_desc_bytes(&to));
    sw_desc_from_plain(&to, plain, want);
    assert_same_bits("reorder", got, want, sw_desc_bytes(&to));
    sw_plan_free(plan);
    free(plain);
    free(want);
    free(got);
    sw_stream_free(s);
    sw_device_close(dev);
}

static void plan_errors_name_the_maker_and_the_pass(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    struct problem p = ip_problem("inner product", 4, 16, 0, 0, 10);
    const struct sw_plan_passes forward = {.training = false};
    float host[64] = {0};
    struct sw_plan *plan;
    struct sw_err err;
    p.ip.outputs = 0;
    assert_int_equal(make_plan(&p, s, forward, &plan, &err), SW_ERR_INVALID);
    p.ip.outputs = 10;
    ASSERT_OK(make_plan(&p, s, forward, &plan, &err));
    struct sw_plan_args a = {.src = host, .dst = device_bytes(dev, sw_desc_bytes(&plan->dst))};
    assert_int_equal(sw_plan_forward(plan, &a, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: inner_product forward: src (");
    a.src = device_bytes(dev, 16);
    assert_int_equal(sw_plan_forward(plan, &a, &err), SW_ERR_INVALID);
    assert_says(&err, "extend beyond test memory (16 bytes)");
    ASSERT_OK(sw_stream_wait(s, &err));
    sw_plan_free(plan);
    sw_stream_free(s);
    sw_device_close(dev);
}

/* ---- Every allocation may fail ---- */

/* SW_OK, or the first error. */
static int set_up(struct sw_err *err)
{
    struct sw_sim_conf conf = small_conf();
    struct problem p = pool_problem("maximum", true, 2, 16, 9, 9, 3, 2, 0);
    const struct sw_plan_passes passes = {.training = false};
    struct sw_device *dev = NULL;
    struct sw_stream *s = NULL;
    struct sw_event *e = NULL;
    struct sw_plan *plan = NULL;
    void *memory = NULL;
    conf.reference = true;
    int rc = sw_sim_open(&conf, 0, &dev, err);
    if (rc == SW_OK)
        rc = sw_stream_new(dev, 1, &s, err);
    if (rc == SW_OK)
        rc = sw_event_new(dev, &e, err);
    if (rc == SW_OK)
        rc = sw_device_alloc(dev, 100, "memory", &memory, err);
    if (rc == SW_OK)
        rc = make_plan(&p, s, passes, &plan, err);
    sw_plan_free(plan);
    if (rc == SW_OK)
        rc = sw_stream_wait(s, err);
    sw_device_free(dev, memory, 100);
    sw_event_free(dev, e);
    sw_stream_free(s);
    sw_device_close(dev);
    return rc;
}

static void every_allocation_of_the_set_up_may_fail(void **state)
{
    int n = 0, rc;
    do {
        struct sw_err err;
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++n});
        rc = set_up(&err);
        int live = faulty.live_allocations;
        faulty_end();
        assert_int_equal(live, 0);
        assert_true(rc == SW_OK || rc == SW_ERR_NOMEM);
    } while (rc != SW_OK);
    assert_true(n > 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_override_the_defaults),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(devices_know_their_names),
        cmocka_unit_test(four_devices_of_default_size_can_be_open),
        cmocka_unit_test(sim_implements_every_operation),
        cmocka_unit_test(host_code_cannot_touch_device_memory),
        cmocka_unit_test(memory_is_zero_aligned_and_counted),
        cmocka_unit_test(memory_freed_too_early_is_zeroed_for_its_next_owner),
        cmocka_unit_test(freed_memory_is_reused),
        cmocka_unit_test(out_of_memory_names_the_blob_and_what_is_left),
        cmocka_unit_test(an_allocation_fails_where_a_test_asks_for_it),
        cmocka_unit_test(foreign_pointers_are_reported),
        cmocka_unit_test(copy_from_unmapped_memory_fails_the_stream_and_names_the_pointer),
        cmocka_unit_test(accesses_outside_an_allocation_are_refused),
        cmocka_unit_test(memory_freed_while_its_operation_is_queued_is_found),
        cmocka_unit_test(operations_are_bit_identical_to_the_cpu),
        cmocka_unit_test(all_finite_returns_its_result_on_the_host),
        cmocka_unit_test(plans_are_bit_identical_to_the_cpu),
        cmocka_unit_test(reference_plans_are_bit_identical_to_the_cpu),
        cmocka_unit_test(reorders_are_bit_identical_to_the_cpu),
        cmocka_unit_test(plan_errors_name_the_maker_and_the_pass),
        cmocka_unit_test(every_allocation_of_the_set_up_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
