/* Divides a search over threads that live as long as it does. The tasks of a search have numbers;
 * each thread takes the next one until none is left, an error ends the search, or a stop is
 * requested (base/stop.h). The calling thread waits. */
#pragma once

#include "base/err.h"
#include <stdint.h>

enum { SW_SEARCH_MOST_THREADS = 1024 };

/* Computes task `task` on thread `thread` (from 0), whose scratch memory it may use. */
typedef int sw_search_task(void *user, int64_t task, int thread, struct sw_err *err);

/* Runs tasks 0 to tasks - 1 on at most `threads` threads, 1 to SW_SEARCH_MOST_THREADS. Errors: the
 * first one of a task, SW_ERR_CANCELLED, SW_ERR_NOMEM (a thread). */
int sw_search_parallel(int threads, int64_t tasks, sw_search_task *run, void *user,
                       struct sw_err *err) SW_MUST_CHECK;

/* A search of many queries and one of few are both divided evenly: by blocks of queries, and if
 * these are fewer than threads, also by shards of the searched rows. */
struct sw_search_division {
    int64_t queries, rows;
    int64_t block;        /* queries of a task */
    int64_t shards, each; /* shards of the rows, and rows of each but the last */
};

struct sw_search_division sw_search_divide(int64_t queries, int64_t rows, int64_t block,
                                           int threads);
/* Number of tasks: task = query block * shards + shard. */
int64_t sw_search_tasks(const struct sw_search_division *d);

struct sw_search_part {
    int64_t shard, query, queries, row, end; /* queries from `query`, rows `row` to `end` - 1 */
};

struct sw_search_part sw_search_part_of(const struct sw_search_division *d, int64_t task);
