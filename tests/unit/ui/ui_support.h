/* The model of a run in training for these tests: four workers, of which the last is slow, two
 * servers, and periodic evaluations. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "ui/screen.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGED_STEP = 4812 };

/* Noise without library functions, so that it is the same on every machine. */
static inline double noise(int i)
{
    uint32_t x = (uint32_t)i * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    return (double)((x ^ (x >> 13)) & 0xffff) / 65536 - 0.5;
}

static inline void stage_curves(struct sw_ui_model *m)
{
    struct sw_ui_series *s = m->series;
    int *n = &m->series_count;
    struct sw_ui_series *loss = sw_ui_series_add(s, n, SW_UI_SERIES, 1, "train", "loss");
    struct sw_ui_series *speed = sw_ui_series_add(s, n, SW_UI_SERIES, 2, "train", "samples_per_s");
    struct sw_ui_series *rate = sw_ui_series_add(s, n, SW_UI_SERIES, 3, "train", "lr");
    struct sw_ui_series *test = sw_ui_series_add(s, n, SW_UI_SERIES, 4, "test", "loss");
    struct sw_ui_series *right = sw_ui_series_add(s, n, SW_UI_SERIES, 5, "test", "accuracy");
    for (int i = 1; i <= STAGED_STEP; i++) {
        double fall = 1.0 / (1 + i / 600.0);
        sw_ui_series_point(loss, i, 2.3 * fall + 0.1 + 0.4 * fall * noise(i));
        sw_ui_series_point(speed, i, 1700 + 120 * noise(i + 7) - (i / 500 == 6 ? 500 : 0));
        sw_ui_series_point(rate, i, i < 3000 ? 0.01 : 0.001);
        if (i % 400 == 0) {
            sw_ui_series_point(test, i, 2.2 * fall + 0.25);
            sw_ui_series_point(right, i, 0.75 - 0.6 * fall);
        }
    }
}

static inline void stage_thread(struct sw_ui_model *m, int i, const char *name, enum sw_phase phase,
                                const char *layer, const char *waits, int64_t step, double busy)
{
    struct sw_ui_thread *u = &m->threads[i];
    u->slot = (struct sw_slot_state){.phase = phase,
                                     .layer = -1,
                                     .step = step + 1,
                                     .done_step = step,
                                     .since_ns = m->now_ns - 20 * 1000000,
                                     .heartbeat_ns = m->now_ns,
                                     .loss = 0.43};
    snprintf(u->slot.name, sizeof u->slot.name, "%s", name);
    snprintf(u->slot.layer_name, sizeof u->slot.layer_name, "%s", layer);
    snprintf(u->slot.waiting_for, sizeof u->slot.waiting_for, "%s", waits);
    u->busy = busy;
}

static inline void stage_threads(struct sw_ui_model *m)
{
    m->thread_count = 9;
    m->threads = sw_calloc(9, sizeof *m->threads);
    stage_thread(m, 0, "worker0.0", SW_PHASE_FORWARD, "conv2", "", 4812, 0.6);
    stage_thread(m, 1, "worker0.1", SW_PHASE_BACKWARD, "fc6", "", 4812, 0.6);
    stage_thread(m, 2, "worker0.2", SW_PHASE_FORWARD, "conv3",
                 "version 4812 of conv3.weight from server0.0", 4812, 0.6);
    stage_thread(m, 3, "worker0.3", SW_PHASE_BACKWARD, "conv5", "", 4812, 0.97);
    stage_thread(m, 4, "server0.0", SW_PHASE_UPDATE, "fc6.weight", "", 4812, 0.31);
    stage_thread(m, 5, "server0.1", SW_PHASE_IDLE, "", "", 4812, 0.12);
    stage_thread(m, 6, "prefetch0.0 train 0", SW_PHASE_READ, "", "", 4813, 0.44);
    stage_thread(m, 7, "prefetch0.0 train 1", SW_PHASE_IDLE, "", "", 4812, 0.4);
    stage_thread(m, 8, "prefetch0.0 test 0", SW_PHASE_IDLE, "", "", 4800, 0);
    static const char *const units[] = {"worker0.0", "worker0.1", "worker0.2",
                                        "worker0.3", "server0.0", "server0.1"};
    m->placement_count = 6;
    m->placements = sw_calloc(6, sizeof *m->placements);
    for (int i = 0; i < 6; i++) {
        snprintf(m->placements[i].unit, sizeof m->placements[i].unit, "%s", units[i]);
        snprintf(m->placements[i].device, sizeof m->placements[i].device, "cpu");
        snprintf(m->placements[i].cores, sizeof m->placements[i].cores, "%d-%d",
                 i < 4 ? 4 * i : 16 + i - 4, i < 4 ? 4 * i + 3 : 16 + i - 4);
        snprintf(m->placements[i].reason, sizeof m->placements[i].reason,
                 "an equal share of the cores");
        m->placements[i].numa = i % 4 / 2;
    }
}

static inline void stage_times(struct sw_ui_model *m)
{
    struct sw_step_time rows[40];
    for (int i = 0; i < 40; i++) {
        int worker = i % 4;
        bool slow = worker == 3;
        rows[i] = (struct sw_step_time){.step = 4803 + i / 4,
                                        .worker = worker,
                                        .read_ms = 0.6f,
                                        .decode_ms = 0.8f,
                                        .forward_ms = slow ? 40 : 22,
                                        .backward_ms = slow ? 66 : 39,
                                        .update_ms = 1.1f,
                                        .comm_exposed_ms = slow ? 1 : 46,
                                        .comm_hidden_ms = 7.5f,
                                        .idle_ms = 0.4f};
    }
    sw_ledger_make(&m->ledger, rows, 40);
    static const char *const layers[] = {"conv2", "conv3", "conv1", "fc6",  "conv4",
                                         "conv5", "fc7",   "norm1", "pool1"};
    m->layer_count = 9;
    for (int i = 0; i < 9; i++) {
        snprintf(m->layers[i].name, sizeof m->layers[i].name, "%s", layers[i]);
        m->layers[i].forward_ms = 9.0 / (i + 1);
        m->layers[i].backward_ms = 15.0 / (i + 1);
        m->layers[i].slowest_ms = 30.0 / (i + 1);
    }
    m->link_count = 2;
    m->links[0] = (struct sw_run_traffic){"worker0.0", "server0.0", "shared", 122e6, 0, NAN};
    m->links[1] = (struct sw_run_traffic){"worker0.1", "server0.1", "shared", 122e6, 0, NAN};
}

static inline void stage_machine(struct sw_ui_model *m)
{
    struct sw_ui_machine *k = &m->machine;
    k->known = true;
    snprintf(k->cpu_model, sizeof k->cpu_model, "Example CPU 2.0 GHz");
    k->cpu_count = 20;
    k->node_count = 2;
    for (int i = 0; i < 20; i++)
        k->cpu[i] = i < 16 ? (float)(0.9 + 0.1 * noise(i)) : 0.2f;
    k->node[0] = (struct sw_ui_node){0, 0, 10, 41e9, 135e9};
    k->node[1] = (struct sw_ui_node){1, 10, 10, 12e9, 135e9};
    k->gpu_count = 2;
    snprintf(k->gpus[0], sizeof k->gpus[0], "0: Example GPU, PCIe 63 GB/s");
    snprintf(k->gpus[1], sizeof k->gpus[1], "1: Example GPU, PCIe 31 GB/s");
    k->path_count = 1;
    snprintf(k->paths[0], sizeof k->paths[0], "across packages: 0-1");
    k->load = 17.4;
    k->process_cpus = 15.2;
    k->process_memory = 3.4e9;
    k->read_per_s = 212e6;
    k->write_per_s = NAN;
    m->device_count = 2;
    m->devices[0] = (struct sw_run_hardware){"cpu", m->now - 1, 0.8, 3.4e9, NAN, NAN, NAN};
    m->devices[1] = (struct sw_run_hardware){"cuda:0", m->now - 1, 0.97, 9.8e9, 318, 64, 2610};
}

static inline struct sw_ui_model *stage(void)
{
    struct sw_ui_model *m = sw_calloc(1, sizeof *m);
    assert_non_null(m);
    setenv("TZ", "UTC", 1);
    sw_ui_model_clear(m);
    m->found = m->live = true;
    m->now = 1700000000 + 360;
    m->now_ns = (int64_t)1e15;
    m->rows_age = 0.2;
    m->run = (struct sw_ui_run){.id = 128,
                                .name = "alexnet-cifar",
                                .recipe = "recipes/alexnet.ini",
                                .framework = "sandblaster",
                                .device = "cpu",
                                .host = "nyx",
                                .status = SW_RUN_RUNNING,
                                .workers = 4,
                                .batch = 128,
                                .steps = 35100,
                                .epoch_records = 50000,
                                .params = 60965224,
                                .flops_per_sample = 2.1e9,
                                .started_at = 1700000000};
    stage_curves(m);
    stage_threads(m);
    stage_times(m);
    stage_machine(m);
    m->resume_steps[m->resume_count++] = 2000;
    m->segment_start = 1700000000;
    m->checkpoint_step = 4800;
    m->checkpoint_time = 1700000350;
    sw_ui_event_add(m, 1700000001, SW_LOG_INFO, "job", "begins at step 2000");
    sw_ui_event_add(m, 1700000300, SW_LOG_WARN, "watchdog", "worker0.3 has been silent for 6 s");
    sw_ui_event_add(m, 1700000310, SW_LOG_ERROR, "output", "a library said something unkind");
    sw_ui_event_add(m, 1700000350, SW_LOG_INFO, "checkpoint",
                    "step 4800: runs/128/checkpoint-4800.safetensors, 244 MB");
    m->row_count = 3;
    m->rows = sw_calloc(3, sizeof *m->rows);
    m->rows[0] = (struct sw_ui_row){128,   STAGED_STEP, 35100, "alexnet-cifar", SW_RUN_RUNNING,
                                    0.431, 0.68,        1711,  1700000000,      0};
    m->rows[1] = (struct sw_ui_row){127,    10000, 10000, "mnist-mlp", SW_RUN_DONE,
                                    0.0733, 0.978, 8e4,   1699990000,  1699990100};
    m->rows[2] =
        (struct sw_ui_row){126, 312, 10000, "lenet", SW_RUN_CRASHED, 1.2, NAN, 9e3, 1699980000, 0};
    return m;
}

/* A plan of the staged run: it is right about conv1 and wrong about fc6. */
#define STAGED_PLAN                                                                                \
    "{\"framework\":\"sandblaster\",\"consistency\":\"bsp\",\"worker_groups\":1,"                  \
    "\"workers_per_group\":4,\"compute_ms\":94,\"params_ms\":3,\"activations_ms\":0,\"wait_ms\":"  \
    "1,"                                                                                           \
    "\"layers\":["                                                                                 \
    "{\"name\":\"data\",\"partition\":\"0\",\"location\":null,\"comm\":null,\"compute_ms\":0},"    \
    "{\"name\":\"conv1\",\"partition\":\"0\",\"location\":null,\"comm\":\"ps\",\"compute_ms\":10}" \
    ","                                                                                            \
    "{\"name\":\"conv2\",\"partition\":\"0\",\"location\":null,\"comm\":\"sfb\",\"compute_ms\":"   \
    "28},"                                                                                         \
    "{\"name\":\"fc6\",\"partition\":\"1in\",\"location\":null,\"comm\":null,\"compute_ms\":2.5}," \
    "{\"name\":\"loss\",\"partition\":\"none\",\"location\":3,\"comm\":null,\"compute_ms\":0.1}]}"

static inline void stage_plan(struct sw_ui_model *m)
{
    const struct sw_run_plan_text row = {STAGED_PLAN, 98, NAN};
    struct sw_err err;

    assert_int_equal(sw_ui_plan_read(&m->plan, &row, SW_UI_LAYERS, &err), SW_OK);
}

static inline void unstage(struct sw_ui_model *m)
{
    sw_ui_model_fini(m);
    sw_free(m);
}

static inline struct sw_ui_view view_of_a_beginner(void)
{
    return (struct sw_ui_view){.focus = 1, .smoothing = 2, .end = 1, .cursor = -1};
}
