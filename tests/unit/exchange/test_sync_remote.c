/* Server groups whose tables are elsewhere, without threads: a random order of what a network, the
 * servers and the workers can do, and groups that die at any time. The ledger is that of
 * test_sync.c: sgd at rate 1, and every gradient of group g is BASE^g, so that each element says
 * exactly how many updates of which group are in it. */
#include "table_support.h"

#include "unit/faulty_os.h"

enum { BASE = 64, MOST = 4, SERVERS = 2, VERSIONS = 12, PACKETS = 1024 };

static const int weights[MOST] = {1, BASE, BASE *BASE, BASE *BASE *BASE};

struct setting {
    int groups;
    int64_t period;
    const char *pairs; /* "0-1 1-2" */
    bool hogwild;
};

enum kind { DELTA, ADDED, LOST };

/* A message: its data is needed until it is taken, and goes into the room when it arrives. */
struct packet {
    enum kind kind;
    int from, to, urgency;
    struct sw_sync_delta delta;
    uint64_t groups, number;
    const void *data;
    void *copy, *room;
    size_t bytes;
    void (*done)(void *user, int rc);
    void *user;
    bool used, taken, placed;
};

struct world;

struct group {
    struct world *world;
    int number;
    struct stand stand;
    struct sw_sync *sync;
    uint64_t steps;
    bool dead, held;
    bool knows[MOST]; /* which deaths it has noticed */
};

struct world {
    const struct setting *setting;
    struct rng rng;
    struct group group[MOST];
    struct packet packet[PACKETS];
    uint64_t numbers;
    uint64_t limit; /* the step at which all merge next */
    int again;      /* deltas that were sent again */
};

/* ---- The network ---- */

static int queue(struct group *g, struct packet p)
{
    struct world *w = g->world;
    int i = 0;
    if (g->knows[p.to])
        return SW_ERR_LOST;
    while (i < PACKETS && w->packet[i].used)
        i++;
    assert_true(i < PACKETS);
    p.from = g->number;
    p.number = ++w->numbers;
    p.used = true;
    p.copy = p.bytes ? malloc(p.bytes) : NULL;
    w->packet[i] = p;
    return SW_OK;
}

static int post(void *user, int to, const struct sw_sync_delta *d,
                void (*done)(void *done_user, int rc), void *done_user, struct sw_err *err)
{
    const struct sw_sync *s = ((struct group *)user)->sync;
    return queue(user, (struct packet){.kind = DELTA,
                                       .to = to,
                                       .urgency = d->unit / SERVERS,
                                       .delta = *d,
                                       .data = sw_sync_room(s, d->origin, d->unit),
                                       .bytes = sw_sync_room_bytes(s, d->unit),
                                       .done = done,
                                       .user = done_user});
}

static int acknowledge(void *user, const struct sw_sync_delta *d, struct sw_err *err)
{
    return queue(user, (struct packet){.kind = ADDED, .to = d->origin, .delta = *d});
}

static int tell_lost(void *user, int to, uint64_t groups, struct sw_err *err)
{
    return queue(user, (struct packet){.kind = LOST, .to = to, .groups = groups});
}

static void take(struct packet *p)
{
    if (p->taken)
        return;
    if (p->bytes)
        memcpy(p->copy, p->data, p->bytes);
    p->taken = true;
    if (p->done)
        p->done(p->user, SW_OK);
}

static void drop(struct packet *p)
{
    free(p->copy);
    p->used = false;
}

/* Is it the oldest of its urgency between its two groups? */
static bool is_next(const struct world *w, const struct packet *p)
{
    for (int i = 0; i < PACKETS; i++) {
        const struct packet *q = &w->packet[i];
        if (q->used && q->from == p->from && q->to == p->to && q->urgency == p->urgency &&
            q->number < p->number)
            return false;
    }
    return true;
}

/* One move of a packet: it is taken, placed, or arrives. */
static void move(struct world *w, struct packet *p)
{
    struct sw_sync *s = w->group[p->to].sync;
    struct sw_err err;
    if (!p->taken && rng_int(&w->rng, 0, 1) == 0) {
        take(p);
    } else if (p->kind == DELTA && !p->placed) {
        ASSERT_OK(sw_sync_place(s, p->from, &p->delta, p->bytes, &p->room, &err));
        memset(p->room, 0xff, p->bytes / 2); /* half of it is there */
        p->placed = true;
    } else {
        take(p);
        struct packet q = *p;
        p->used = false;
        if (q.kind == DELTA) {
            memcpy(q.room, q.copy, q.bytes);
            sw_sync_arrived(s, q.from, &q.delta);
        } else if (q.kind == ADDED) {
            ASSERT_OK(sw_sync_acknowledged(s, q.from, &q.delta, &err));
        } else {
            uint64_t before = w->numbers;
            ASSERT_OK(sw_sync_told_lost(s, q.from, q.groups, &err));
            w->again += (int)(w->numbers - before);
        }
        free(q.copy);
    }
}

/* A living group finds out: nothing more comes from the dead one. */
static void notice(struct world *w, struct group *g, int dead)
{
    for (int i = 0; i < PACKETS; i++) {
        struct packet p = w->packet[i];
        if (!p.used ||
            !((p.from == dead && p.to == g->number) || (p.to == dead && p.from == g->number)))
            continue;
        drop(&w->packet[i]);
        if (p.from == g->number && !p.taken && p.done)
            p.done(p.user, SW_ERR_CANCELLED);
    }
    g->knows[dead] = true;
    sw_sync_lose(g->sync, dead);
}

/* What it has handed over may still arrive. */
static void die(struct world *w, int dead)
{
    w->group[dead].dead = true;
    for (int i = 0; i < PACKETS; i++)
        if (w->packet[i].used && w->packet[i].from == dead &&
            (!w->packet[i].taken || rng_int(&w->rng, 0, 2) == 0)) {
            /* And then nothing that was sent after it does. */
            struct packet p = w->packet[i];
            for (int k = 0; k < PACKETS; k++)
                if (w->packet[k].used && w->packet[k].from == dead && w->packet[k].to == p.to &&
                    w->packet[k].urgency == p.urgency && w->packet[k].number >= p.number)
                    drop(&w->packet[k]);
        }
}

/* ---- Groups ---- */

static int make_sync(struct group *g, const char *pairs, struct sw_err *err)
{
    struct sw_table *tables[MOST] = {NULL};
    bool neighbours[MOST * MOST] = {false};
    int n = g->world->setting->groups;
    for (const char *p = pairs; *p; p += p[3] ? 4 : 3) {
        int a = p[0] - '0', b = p[2] - '0';
        neighbours[a * n + b] = neighbours[b * n + a] = true;
    }
    tables[g->number] = g->stand.table;
    return sw_sync_new(
        &(struct sw_sync_args){
            .tables = tables,
            .count = n,
            .period = g->world->setting->period,
            .neighbours = neighbours,
            .outer = {.post = post, .acknowledge = acknowledge, .tell_lost = tell_lost, .user = g}},
        &g->sync, err);
}

static void group_new(struct world *w, int number)
{
    struct group *g = &w->group[number];
    struct sw_err err;
    *g = (struct group){.world = w, .number = number};
    stand_new(&g->stand, &(struct plan_of_table){.workers = 1,
                                                 .servers = SERVERS,
                                                 .slice_elements = 500,
                                                 .init = SW_INIT_CONSTANT,
                                                 .groups = 1,
                                                 .others = w->setting->groups,
                                                 .staleness = -1,
                                                 .rule = w->setting->hogwild ? &sw_table_hogwild
                                                                             : &sw_table_async});
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int64_t e = 0; e < storage_of(&g->stand, p); e++)
            sw_table_param(g->stand.table, p)->gradient[0][e] = (float)weights[number];
    ASSERT_OK(make_sync(g, w->setting->pairs, &err));
    sw_sync_broadcast(g->sync, 0, true);
    g->held = true;
}

static void world_new(struct world *w, const struct setting *x, uint64_t seed)
{
    *w = (struct world){.setting = x, .rng = rng_of(seed)};
    for (int i = 0; i < x->groups; i++)
        group_new(w, i);
}

static void world_free(struct world *w)
{
    for (int i = 0; i < PACKETS; i++)
        if (w->packet[i].used)
            drop(&w->packet[i]);
    for (int i = 0; i < w->setting->groups; i++) {
        sw_sync_free(w->group[i].sync);
        stand_free(&w->group[i].stand);
    }
}

/* The next step of a group's worker. */
static void step(struct group *g)
{
    struct sw_err err;
    uint64_t v = ++g->steps;
    for (int p = 0; p < TABLE_PARAMS; p++)
        if (g->world->setting->hogwild)
            ASSERT_OK(sw_table_update(g->stand.table, 0, p, v, &err));
        else
            ASSERT_OK(deliver(&g->stand, 0, p, v, &err));
}

/* One message of one of its servers. */
static bool serve(struct group *g, int server)
{
    struct sw_message m;
    struct sw_err err;
    if (sw_queue_try_pop(sw_table_inbox(g->stand.table, server), &m) != SW_OK)
        return false;
    ASSERT_OK(sw_table_serve(g->stand.table, server, &m, &err));
    return true;
}

/* ---- The ledger ---- */

static int updates_in(float value, int group)
{
    return (int)-value / weights[group] % BASE;
}

/* All own updates, and of others no more than they made. */
static void look_at(const struct group *g)
{
    const struct world *w = g->world;
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const float *value = sw_table_param(g->stand.table, p)->value;
        for (int64_t e = 0; e < storage_of(&g->stand, p); e++)
            for (int o = 0; o < w->setting->groups; o++) {
                int n = updates_in(value[e], o);
                assert_true(o == g->number ? n == (int)g->steps
                                           : n >= 0 && n <= (int)w->group[o].steps);
            }
    }
}

/* ---- Random orders ---- */

/* Groups begin, and go on after a merge, one after the other. */
static bool resume_one(struct world *w)
{
    int first = rng_int(&w->rng, 0, w->setting->groups - 1);
    for (int k = 0; k < w->setting->groups && rng_int(&w->rng, 0, 20) == 0; k++) {
        struct group *g = &w->group[(first + k) % w->setting->groups];
        if (g->dead || !g->held)
            continue;
        g->held = false;
        sw_sync_resume(g->sync);
        return true;
    }
    return false;
}

static bool may_step(const struct world *w, const struct group *g)
{
    return !g->dead && !g->held && g->steps < w->limit;
}

static int count_living(const struct world *w)
{
    int n = 0;
    for (int i = 0; i < w->setting->groups; i++)
        n += !w->group[i].dead;
    return n;
}

static bool may_move(const struct world *w, const struct packet *p)
{
    return p->used && !w->group[p->to].dead && is_next(w, p);
}

/* Something of what can happen, but for deaths; false: nothing can. */
static bool happen(struct world *w)
{
    int from = rng_int(&w->rng, 0, PACKETS - 1), groups = w->setting->groups;
    int first = rng_int(&w->rng, 0, groups - 1), what = rng_int(&w->rng, 0, 9);

    for (int k = 0; k < groups && what < 4; k++) {
        struct group *g = &w->group[(first + k) % groups];
        int server = rng_int(&w->rng, 0, SERVERS - 1);
        if (!g->dead && (serve(g, server) || serve(g, 1 - server)))
            return true;
    }
    if (what == 4 && may_step(w, &w->group[first])) {
        step(&w->group[first]);
        return true;
    }
    for (int i = 0; i < PACKETS; i++) {
        struct packet *p = &w->packet[(from + i) % PACKETS];
        if (!may_move(w, p))
            continue;
        move(w, p);
        return true;
    }
    for (int i = 0; i < groups; i++)
        for (int k = 0; k < groups; k++)
            if (w->group[i].dead && !w->group[k].dead && !w->group[k].knows[i]) {
                notice(w, &w->group[k], i);
                return true;
            }
    for (int i = 0; i < groups; i++)
        if (!w->group[i].dead) {
            if (may_step(w, &w->group[i])) {
                step(&w->group[i]);
                return true;
            }
            if (w->group[i].held) { /* until it is its turn */
                return true;
            }
            if (serve(&w->group[i], 0) || serve(&w->group[i], 1))
                return true;
        }
    return false;
}

/* Have all living groups reached the step, and is nothing of them in flight? What dead ones have
 * sent may still be. */
static bool is_quiet(const struct world *w)
{
    for (int i = 0; i < w->setting->groups; i++)
        if (!w->group[i].dead &&
            (w->group[i].steps < w->limit || !sw_sync_is_quiet(w->group[i].sync)))
            return false;
    return true;
}

static void happen_at_random(struct world *w, int deaths)
{
    int left = deaths;
    while (!is_quiet(w)) {
        if (left > 0 && count_living(w) > 1 && rng_int(&w->rng, 0, 250) == 0) {
            int dead = rng_int(&w->rng, 0, w->setting->groups - 1);
            if (!w->group[dead].dead) {
                die(w, dead);
                left--;
            }
        }
        /* Some find out early. */
        if (rng_int(&w->rng, 0, 30) == 0) {
            int dead = rng_int(&w->rng, 0, w->setting->groups - 1);
            int who = rng_int(&w->rng, 0, w->setting->groups - 1);
            if (w->group[dead].dead && !w->group[who].dead && !w->group[who].knows[dead])
                notice(w, &w->group[who], dead);
        }
        assert_true(resume_one(w) || happen(w) || is_quiet(w));
    }
}

static int first_living(const struct world *w)
{
    int i = 0;
    while (w->group[i].dead)
        i++;
    return i;
}

static void copy_rooms(const struct group *from, const struct group *to, int room)
{
    int param;
    for (int i = 0; i < sw_sync_units(from->sync); i++)
        memcpy(sw_sync_room(to->sync, room, i), sw_sync_room(from->sync, room, i),
               (size_t)sw_sync_unit(from->sync, i, &param) * sizeof(float));
}

/* The first living group leads. */
static void merge(struct world *w)
{
    int lead = first_living(w), groups = w->setting->groups;
    uint64_t others = 0;
    for (int i = 0; i < groups; i++) {
        struct group *g = &w->group[i];
        if (g->dead)
            continue;
        assert_true(sw_sync_is_quiet(g->sync));
        sw_sync_hold(g->sync, w->limit);
        g->held = true;
        if (i == lead)
            continue;
        sw_sync_take_change(g->sync);
        copy_rooms(g, &w->group[lead], i);
        others |= (uint64_t)1 << i;
    }
    sw_sync_add_changes(w->group[lead].sync, others);
    for (int i = 0; i < groups; i++)
        if (!w->group[i].dead) {
            if (i != lead)
                copy_rooms(&w->group[lead], &w->group[i], lead);
            sw_sync_take_values(w->group[i].sync, lead);
        }
}

static void assert_merged(const struct world *w)
{
    const struct stand *first = &w->group[first_living(w)].stand;
    for (int i = 0; i < w->setting->groups; i++) {
        const struct group *g = &w->group[i];
        for (int p = 0; p < TABLE_PARAMS && !g->dead; p++) {
            const float *value = sw_table_param(g->stand.table, p)->value;
            size_t n = (size_t)storage_of(first, p);
            assert_memory_equal(value, sw_table_param(first->table, p)->value, n * sizeof *value);
            for (size_t e = 0; e < n; e++)
                for (int o = 0; o < w->setting->groups; o++) {
                    int count = updates_in(value[e], o);
                    assert_true(w->group[o].dead ? count <= (int)w->limit : count == (int)w->limit);
                }
        }
    }
}

#define ALL4 "0-1 0-2 0-3 1-2 1-3 2-3"
#define RING4 "0-1 1-2 2-3 3-0"
#define TREE4 "0-1 0-2 1-3"
#define CHAIN4 "0-1 1-2 2-3"
#define CHAIN3 "0-1 1-2"

static const struct setting settings[] = {
    {2, 1, "0-1", false}, {3, 1, CHAIN3, false}, {3, 2, CHAIN3, true},  {4, 1, ALL4, false},
    {4, 1, RING4, false}, {4, 1, TREE4, false},  {4, 1, CHAIN4, false}, {4, 3, CHAIN4, true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* Returns how many deltas were sent again. */
static int run(const struct setting *x, uint64_t seed, int deaths)
{
    static struct world w;
    world_new(&w, x, seed);
    for (w.limit = VERSIONS / 2; w.limit <= VERSIONS; w.limit += VERSIONS / 2) {
        happen_at_random(&w, deaths);
        for (int i = 0; i < x->groups; i++)
            if (!w.group[i].dead)
                look_at(&w.group[i]);
        merge(&w);
        assert_merged(&w);
    }
    int again = w.again;
    world_free(&w);
    return again;
}

static void every_delta_is_added_once(void **state)
{
    for (int i = 0; i < SETTINGS; i++)
        for (uint64_t seed = 0; seed < 4; seed++)
            assert_int_equal(run(&settings[i], seed, 0), 0);
}

static void every_delta_is_added_once_when_groups_die(void **state)
{
    int again = 0;
    for (int i = 0; i < SETTINGS; i++)
        for (uint64_t seed = 0; seed < 24; seed++)
            again += run(&settings[i], 1000 + seed, 1 + (int)(seed % 3));
    assert_true(again > 0);
}

static void what_cannot_come_is_refused(void **state)
{
    static struct world w;
    const struct sw_sync_delta good = {.origin = 0, .unit = 0, .version = 1};
    struct sw_sync_delta bad[] = {good, good, good, good, good};
    struct sw_err err;
    void *to;
    int param;
    world_new(&w, &settings[1], 1);
    struct sw_sync *s = w.group[1].sync;
    sw_sync_resume(s);
    size_t bytes = (size_t)sw_sync_unit(s, 0, &param) * sizeof(float) + 8;
    bad[0].origin = 1; /* its own */
    bad[1].origin = 3;
    bad[2].origin = -1;
    bad[3].unit = -1;
    bad[4].unit = sw_sync_units(s);
    for (int i = 0; i < 5; i++)
        assert_int_equal(sw_sync_place(s, 0, &bad[i], bytes, &to, &err), SW_ERR_INVALID);
    assert_int_equal(sw_sync_place(s, 0, &good, bytes - 8, &to, &err), SW_ERR_INVALID);
    ASSERT_OK(sw_sync_place(s, 0, &good, bytes, &to, &err));
    assert_int_equal(sw_sync_place(s, 2, &good, bytes, &to, &err), SW_ERR_INVALID);
    memset(to, 0, bytes);
    sw_sync_arrived(s, 0, &good);
    assert_false(sw_sync_is_quiet(s));
    assert_int_equal(sw_sync_place(s, 0, &good, bytes, &to, &err), SW_ERR_INVALID);
    assert_true(serve(&w.group[1], 0));
    assert_true(sw_sync_is_quiet(s));
    /* Acknowledgements of what was never sent, or a second time. */
    const struct sw_sync_delta own = {.origin = 1, .unit = 0, .version = 1};
    assert_int_equal(sw_sync_acknowledged(s, 0, &own, &err), SW_ERR_INVALID);
    assert_int_equal(sw_sync_acknowledged(s, 0, &good, &err), SW_ERR_INVALID);
    step(&w.group[1]);
    ASSERT_OK(sw_sync_acknowledged(s, 0, &own, &err));
    assert_int_equal(sw_sync_acknowledged(s, 0, &own, &err), SW_ERR_INVALID);
    world_free(&w);
}

/* What a group's values lack of another's steps, as long as that lives. */
static void staleness_does_not_count_lost_groups(void **state)
{
    static struct world w;
    world_new(&w, &settings[1], 1);
    for (int i = 0; i < 3; i++)
        step(&w.group[1]);
    assert_int_equal(sw_table_staleness(w.group[1].stand.table, 0, 0, 3), 3);
    sw_sync_lose(w.group[1].sync, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sw_sync_lives(w.group[1].sync, i), i != 0);
    step(&w.group[1]);
    assert_int_equal(sw_table_staleness(w.group[1].stand.table, 0, 0, 4), 4);
    sw_sync_lose(w.group[1].sync, 2);
    step(&w.group[1]);
    assert_int_equal(sw_table_staleness(w.group[1].stand.table, 0, 0, 5), 0);
    world_free(&w);
}

static void only_one_table_may_be_here(void **state)
{
    static struct world w;
    struct sw_err err;
    world_new(&w, &settings[1], 1);
    struct sw_table *tables[3] = {w.group[0].stand.table, w.group[1].stand.table, NULL};
    const bool neighbours[9] = {0, 1, 1, 1, 0, 1, 1, 1, 0};
    struct sw_sync *s;
    assert_int_equal(sw_sync_new(
                         &(struct sw_sync_args){
                             .tables = tables, .count = 3, .period = 1, .neighbours = neighbours},
                         &s, &err),
                     SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "3 server groups, 2 of them in this process"));
    world_free(&w);
}

static void allocations_may_fail(void **state)
{
    static struct world w;
    struct sw_err err;
    int at = 0, rc;
    world_new(&w, &settings[1], 1);
    struct group *g = &w.group[0];
    do {
        sw_sync_free(g->sync);
        g->sync = NULL;
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++at});
        rc = make_sync(g, CHAIN3, &err);
        assert_true(rc == SW_OK || (rc == SW_ERR_NOMEM && faulty.live_allocations == 0));
        faulty_end();
    } while (rc != SW_OK);
    assert_true(at > 10);
    assert_int_equal(g->sync->bytes, sw_sync_remote_bytes(g->stand.table, 3));
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_delta_is_added_once),
        cmocka_unit_test(every_delta_is_added_once_when_groups_die),
        cmocka_unit_test(what_cannot_come_is_refused),
        cmocka_unit_test(staleness_does_not_count_lost_groups),
        cmocka_unit_test(only_one_table_may_be_here),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
