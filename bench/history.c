/* Fills a history through the writer, as runs do, to time `singa-ws history` on a large file and to
 * measure its bytes per point:
 *
 *     history DB RUNS STEPS
 *
 * Each run has four training curves with a point at every step and two evaluation curves with a
 * point at every 500th step. Prints points, bytes, and points written per second. */
#include "history/history.h"
#include "base/os.h"
#include <stdio.h>
#include <stdlib.h>

static void die(const char *what)
{
    fprintf(stderr, "history: %s\n", what);
    exit(1);
}

static void check(int code, const struct sw_err *err)
{
    if (code)
        die(err->text);
}

static const char *const names[] = {"loss", "lr", "samples_per_s", "grad_norm"};
enum { TRAIN = sizeof names / sizeof *names, EVAL_EVERY = 500, PACE = 1000 };

/* Returns the number of lost rows. */
static uint64_t write_run(const char *db, int number, int64_t steps)
{
    struct sw_history *h;
    struct sw_history_producer *p;
    struct sw_err err;
    char name[32], out[512];
    int train[TRAIN], loss, accuracy;
    snprintf(name, sizeof name, "bench-%d", number);
    snprintf(out, sizeof out, "%s-run-%d", db, number);
    struct sw_run_info info = {.name = name,
                               .recipe = "x.ini",
                               .recipe_text = "[job]\n",
                               .recipe_hash = "00",
                               .out_dir = out,
                               .workers = 1,
                               .batch = 64,
                               .steps = steps,
                               .epoch_records = 60000};
    check(sw_history_open(&h, db, NULL, &err), &err);
    check(sw_history_begin_run(h, &info, &err), &err);
    check(sw_history_producer_new(h, &p, &err), &err);
    for (int i = 0; i < TRAIN; i++)
        check(sw_history_series(h, "train", names[i], &train[i], &err), &err);
    check(sw_history_series(h, "test", "loss", &loss, &err), &err);
    check(sw_history_series(h, "test", "accuracy", &accuracy, &err), &err);
    for (int64_t step = 1; step <= steps; step++) {
        double x = 2.3 / (1 + 0.001 * (double)step);
        for (int i = 0; i < TRAIN; i++)
            sw_history_point(p, train[i], step, x * (1 + 0.001 * (double)(step * (i + 7) % 97)));
        if (step % EVAL_EVERY == 0) {
            sw_history_point(p, loss, step, x);
            sw_history_point(p, accuracy, step, 1 - 0.4 * x);
        }
        /* No run produces points this fast; without a pause the writer would drop some. */
        if (step % PACE == 0 && !sw_history_flush(h, 60000))
            die("the writer does not keep up");
    }
    sw_history_finish_run(h, SW_RUN_DONE);
    if (!sw_history_flush(h, 60000))
        die("the writer does not keep up");
    struct sw_history_stats stats;
    sw_history_stats(h, &stats);
    sw_history_close(h);
    return stats.lost;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("history DB RUNS STEPS");
    int runs = atoi(argv[2]);
    int64_t steps = atoll(argv[3]), began = sw_os()->monotonic_ns();
    uint64_t lost = 0;
    for (int i = 0; i < runs; i++)
        lost += write_run(argv[1], i + 1, steps);
    double seconds = (double)(sw_os()->monotonic_ns() - began) * 1e-9;
    double points = (double)runs * (double)(steps * TRAIN + steps / EVAL_EVERY * 2);
    if (lost)
        die("rows were lost");
    struct stat st;
    if (sw_os()->stat(argv[1], &st) != 0)
        die("the database does not exist");
    printf("points %.0f bytes %lld bytes_per_point %.2f points_per_s %.0f\n", points,
           (long long)st.st_size, (double)st.st_size / points, points / seconds);
    return 0;
}
