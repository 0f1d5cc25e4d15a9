/* A job on several hosts that are threads of the test (engine `loop`): each host has a trial of its
 * own. Include once per program, after train_support.h. */
#pragma once

#include "exchange/hosts/loop.h"
#include "thread/thread.h"
#include "unit/run/train_support.h"

enum { MOST_HOSTS = 4 };

struct party {
    struct sw_job_hosts hosts[MOST_HOSTS];
    struct sw_hosts list[MOST_HOSTS];
    struct trial trial[MOST_HOSTS];
    char name[MOST_HOSTS][16];
    struct sw_thread thread[MOST_HOSTS];
    struct sw_loop *loop;
    int count;
};

static const struct sw_host names[MOST_HOSTS] = {
    {.name = "ada"}, {.name = "bob"}, {.name = "cyd"}, {.name = "dan"}};

static inline void run_host(void *trial)
{
    trial_run(trial);
}

/* Opens the trial as the job of every host, named h0, h1, ... */
static inline void party_open(struct party *p, int hosts, const struct sw_loop_conf *conf,
                              const struct trial *like)
{
    struct sw_loop_conf loop = conf ? *conf : (struct sw_loop_conf){0};
    struct sw_err err;

    memset(p, 0, sizeof *p);
    p->count = loop.hosts = hosts;
    if (sw_loop_new(&loop, &p->loop, &err) != SW_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < hosts; i++) {
        p->list[i] = (struct sw_hosts){.host = names, .count = hosts, .own = i};
        p->hosts[i] = (struct sw_job_hosts){.list = &p->list[i],
                                            .engine = &sw_fabric_loop,
                                            .share_machine = true,
                                            .conf = sw_loop_end(p->loop, i),
                                            .clock = sw_loop_clock(p->loop, i)};
        snprintf(p->name[i], sizeof p->name[i], "h%d", i);
        p->trial[i] = *like;
        p->trial[i].name = p->name[i];
        p->trial[i].hosts = &p->hosts[i];
        if (trial_open(&p->trial[i]) != SW_OK)
            fail_msg("%s %s", p->trial[i].err.text, sw_bytes_text(&p->trial[i].messages));
    }
}

static inline void party_run(struct party *p)
{
    struct sw_err err;

    for (int i = 0; i < p->count; i++)
        assert_int_equal(sw_thread_start(&p->thread[i], "host", run_host, &p->trial[i], &err),
                         SW_OK);
    for (int i = 0; i < p->count; i++)
        sw_thread_join(&p->thread[i]);
}

static inline void party_close(struct party *p)
{
    for (int i = 0; i < p->count; i++)
        trial_close(&p->trial[i]);
    sw_loop_free(p->loop);
}

static inline void assert_party_ok(const struct party *p)
{
    for (int i = 0; i < p->count; i++) {
        if (p->trial[i].rc != SW_OK)
            print_error("host %d: %s\n", i, p->trial[i].err.text);
        assert_int_equal(p->trial[i].rc, SW_OK);
    }
}

static inline bool host_has(int host, int64_t step)
{
    char name[16];
    snprintf(name, sizeof name, "h%d", host);
    return exists(checkpoint_path(name, step));
}

/* The values of the hosts' tables are the same bits. */
static inline void assert_same_bits(const struct party *p)
{
    for (int i = 1; i < p->count; i++) {
        const struct sw_table *a = p->trial[0].job->params.table,
                              *b = p->trial[i].job->params.table;
        for (int k = 0; k < sw_table_count(a); k++)
            assert_memory_equal(sw_table_param(a, k)->value, sw_table_param(b, k)->value,
                                sw_desc_bytes(&sw_table_param(a, k)->layout));
    }
}

/* ---- Pauses ---- */

/* Pauses, asks for a checkpoint in the pause, and continues. */
static inline void pause_at_step_5(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 5)
        sw_job_request(t->job, SW_JOB_PAUSE);
    if (e->type == SW_JOB_EVENT && strstr(e->text, "paused by request"))
        sw_job_request(t->job, SW_JOB_CHECKPOINT_NOW);
    if (e->type == SW_JOB_CHECKPOINT && e->step > 0 && e->step < t->job->span.steps)
        sw_job_request(t->job, SW_JOB_CONTINUE);
}

/* A pause of host 0 is that of both. The trial displays every step. */
static inline void pause_party(const struct trial *like)
{
    struct party p;

    party_open(&p, 2, NULL, like);
    p.trial[0].on_event = pause_at_step_5;
    party_run(&p);
    assert_party_ok(&p);
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(p.trial[i].text, "paused by request after step"));
    assert_same_bits(&p);
    party_close(&p);
}

/* ---- Loss ---- */

/* What came of jobs that lost a host. */
struct losses {
    int saved, ended; /* hosts that saved, or had done with the job */
    int sent;         /* checkpoints that host 0 got from another host */
};

/* Checks how a host ended after the loss of `victim`; returns the step that it has saved, or -1. */
static inline int64_t check_loss(const struct party *p, int host, int victim, int chunk,
                                 struct losses *l)
{
    const struct trial *t = &p->trial[host];

    l->ended += t->rc == SW_OK;
    if (host == victim || t->rc == SW_OK)
        return -1;

    assert_false(t->stuck);
    if (t->rc != SW_ERR_CANCELLED) { /* before the first update, or at the end */
        if (t->rc != SW_ERR_LOST)
            fail_msg("chunk %d, victim %d, host %d: %s", chunk, victim, host, t->err.text);
        return -1;
    }

    if (sw_job_lost_hosts(t->job) != (uint64_t)1 << victim)
        fail_msg("chunk %d: host %d lost %llx; %s", chunk, host,
                 (unsigned long long)sw_job_lost_hosts(t->job), t->err.text);
    l->saved++;
    return t->job->workers[0].step;
}

/* The checkpoint of the step is there, and is the one of an undisturbed run. */
static inline void check_saved(const struct party *p, int64_t step, int victim, int chunk,
                               struct losses *l)
{
    int holder = -1;

    for (int i = 0; i < 3 && holder < 0; i++)
        if (i != victim && host_has(i, step))
            holder = i;
    assert_true(holder >= 0);
    if (victim != 0 && holder != 0)
        fail_msg("chunk %d: host 0 has no checkpoint of step %d", chunk, (int)step);
    for (int i = 1; i < 3; i++)
        l->sent += victim != 0 && host_has(i, step);

    const char *tensor = differing_tensor(checkpoint_path(p->name[holder], step),
                                          in_home("undisturbed-%d", (int)step), NULL);
    if (tensor)
        fail_msg("chunk %d, step %d: %s differs", chunk, (int)step, tensor);
}

/* Trains with three hosts, of which one dies when it sends that chunk. */
static inline void lose(const struct trial *like, int victim, int64_t chunk, struct losses *l)
{
    const struct sw_loop_conf loop = {
        .kill_host = victim, .kill_chunk = chunk, .seed = (uint64_t)chunk};
    struct party p;
    int64_t step = -1;

    party_open(&p, 3, &loop, like);
    party_run(&p);
    for (int i = 0; i < 3; i++) {
        int64_t saved = check_loss(&p, i, victim, (int)chunk, l);
        step = saved > step ? saved : step;
    }
    if (step > 0)
        check_saved(&p, step, victim, (int)chunk, l);
    party_close(&p);

    for (int i = 0; i < 3; i++)
        for (int k = 0; k <= 20; k++)
            remove(checkpoint_path(p.name[i], k));
}
