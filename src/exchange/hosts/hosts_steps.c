/* Messages have no payload: the item says what they tell (and requests, in its high bits), the
 * version is a step. Those between two hosts come in order. */
#include "exchange/hosts/hosts_steps.h"

#include "base/os.h"
#include "thread/thread.h"

enum what {
    ASK,  /* to host 0: requests */
    HOLD, /* to the others: no step is decided until GO */
    AT,   /* to host 0: the last step that was decided */
    GO,   /* to the others: requests, and the step after which they are carried out */
    WAKE, /* to the others: a step */
    WHATS
};
enum { BITS_SHIFT = 8, WHAT_MASK = (1 << BITS_SHIFT) - 1 };

struct sw_hosts_steps {
    struct sw_hosts_steps_args args;
    struct sw_fabric *fabric; /* borrowed */
    struct sw_mutex lock;     /* guards the others */
    struct sw_cond changed;
    uint64_t living; /* bits of hosts */
    int64_t decided; /* the last step */
    int asked;       /* own requests that host 0 knows */
    int pending;     /* host 0: requests of all hosts without a step */
    uint64_t told;   /* host 0: bits of hosts that have told how far they are */
    int64_t farthest;
    bool holds;   /* this host decides no step */
    int bits;     /* requests that have a step; 0: none */
    int64_t when; /* that step */
    bool closed;
    struct sw_err why; /* host 0 is lost; code 0: no */
};

int sw_hosts_steps_new(const struct sw_hosts_steps_args *args, struct sw_hosts_steps **out,
                       struct sw_err *err)
{
    struct sw_hosts_steps *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "the steps of hosts", sizeof *s);

    s->args = *args;
    s->decided = args->first;
    s->living = UINT64_MAX >> (64 - args->hosts);
    sw_mutex_init(&s->lock);
    sw_cond_init(&s->changed);
    *out = s;
    return SW_OK;
}

void sw_hosts_steps_free(struct sw_hosts_steps *s)
{
    if (!s)
        return;

    sw_cond_fini(&s->changed);
    sw_mutex_fini(&s->lock);
    sw_free(s);
}

/* A message that is to be sent once the lock is released, because sending may call the sink. */
struct note {
    enum what what; /* WHATS: none */
    bool to_leader; /* else to all others that live */
    int bits;
    int64_t version;
};
static const struct note nothing = {.what = WHATS};

/* Who cannot be told is lost, which the fabric tells. */
static void tell(struct sw_hosts_steps *s, struct note n)
{
    const struct sw_fabric_tag tag = {.kind = SW_HOSTS_STEPS,
                                      .item = (uint32_t)(n.bits << BITS_SHIFT | (int)n.what),
                                      .version = (uint64_t)n.version};
    const int end = n.to_leader ? 1 : s->args.hosts;
    struct sw_err ignored;
    int rc;

    for (int i = 0; i < end && n.what != WHATS; i++)
        if (i != s->args.own)
            rc = sw_fabric_send(s->fabric, i, &tag, NULL, 0, NULL, NULL, &ignored);
    (void)rc;
}

/* ---- what comes ---- */

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    *to = NULL;
    return bytes == 0
               ? SW_OK
               : sw_err_set(err, SW_ERR_INVALID, "a message about steps has %zu bytes", bytes);
}

static struct note progress(const struct sw_hosts_steps *s)
{
    return (struct note){.what = AT, .to_leader = true, .version = s->decided};
}

static struct note take(struct sw_hosts_steps *s, int from, enum what what, int bits,
                        int64_t version)
{
    switch (what) {
    case ASK:
        s->pending |= bits;
        return nothing;
    case HOLD:
        s->holds = true;
        return s->fabric ? progress(s) : nothing;
    case AT:
        s->told |= (uint64_t)1 << from;
        s->farthest = version > s->farthest ? version : s->farthest;
        return nothing;
    case GO:
        s->holds = false;
        s->bits = bits;
        s->when = version;
        return nothing;
    default:
        return nothing;
    }
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    static const bool is_for_leader[WHATS] = {[ASK] = true, [AT] = true};

    struct sw_hosts_steps *s = user;
    const uint32_t what = tag->item & WHAT_MASK;

    if (what >= WHATS || is_for_leader[what] != (s->args.own == 0) ||
        (s->args.own != 0 && from != 0) || tag->version > INT64_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a message about steps that this host cannot handle");

    sw_mutex_lock(&s->lock);
    const struct note answer =
        take(s, from, (enum what)what, (int)(tag->item >> BITS_SHIFT), (int64_t)tag->version);
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);

    tell(s, answer);
    if (what == WAKE && s->args.woken)
        s->args.woken(s->args.user, (int64_t)tag->version);
    return SW_OK;
}

static void lost(void *user, int host, const struct sw_err *why)
{
    struct sw_hosts_steps *s = user;

    sw_mutex_lock(&s->lock);
    s->living &= ~((uint64_t)1 << host);
    if (host == 0)
        s->why = *why;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
}

struct sw_fabric_sink sw_hosts_steps_sink(struct sw_hosts_steps *s)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = s};
}

void sw_hosts_steps_start(struct sw_hosts_steps *s, struct sw_fabric *f)
{
    sw_mutex_lock(&s->lock);
    s->fabric = f;
    const struct note answer = s->holds ? progress(s) : nothing;
    sw_mutex_unlock(&s->lock);

    tell(s, answer);
}

/* ---- what is asked ---- */

/* With the lock. */
static int end_of(const struct sw_hosts_steps *s, struct sw_err *err)
{
    if (s->closed)
        return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    if (s->why.code != SW_OK)
        *err = s->why;
    return s->why.code;
}

static void tell_unlocked(struct sw_hosts_steps *s, struct note n)
{
    sw_mutex_unlock(&s->lock);
    tell(s, n);
    sw_mutex_lock(&s->lock);
}

/* Host 0, with the lock: gives the pending requests the first step, at least `step`, that no host
 * has decided. */
static int agree(struct sw_hosts_steps *s, int64_t step, struct sw_err *err)
{
    s->told = 1;
    s->farthest = step - 1;
    tell_unlocked(s, (struct note){.what = HOLD});

    int rc = end_of(s, err);
    while (rc == SW_OK && (s->living & ~s->told)) {
        sw_cond_wait(&s->changed, &s->lock);
        rc = end_of(s, err);
    }
    if (rc != SW_OK)
        return rc;

    s->bits = s->pending;
    s->pending = 0;
    s->when = s->farthest + 1;
    tell_unlocked(s, (struct note){.what = GO, .bits = s->bits, .version = s->when});
    return SW_OK;
}

/* With the lock: makes host 0 know the own requests. */
static void ask(struct sw_hosts_steps *s, int own)
{
    const int fresh = own & ~s->asked;

    s->asked |= own;
    if (s->args.own == 0)
        s->pending |= fresh;
    else if (fresh)
        tell_unlocked(s, (struct note){.what = ASK, .to_leader = true, .bits = fresh});
}

void sw_hosts_steps_ask(struct sw_hosts_steps *s, int own)
{
    sw_mutex_lock(&s->lock);
    ask(s, own);
    sw_mutex_unlock(&s->lock);
}

int sw_hosts_steps_decide(struct sw_hosts_steps *s, int64_t step, int own, int *bits,
                          struct sw_err *err)
{
    *bits = 0;
    sw_mutex_lock(&s->lock);

    ask(s, own);

    int rc = end_of(s, err);
    if (rc == SW_OK && s->pending && s->bits == 0)
        rc = agree(s, step, err);
    while (rc == SW_OK && s->holds) {
        sw_cond_wait(&s->changed, &s->lock);
        rc = end_of(s, err);
    }

    s->decided = step;
    if (rc == SW_OK && s->bits && step >= s->when) {
        *bits = s->bits;
        s->asked &= ~s->bits;
        s->bits = 0;
    }
    sw_mutex_unlock(&s->lock);
    return rc;
}

void sw_hosts_steps_wake(struct sw_hosts_steps *s, int64_t step)
{
    tell(s, (struct note){.what = WAKE, .version = step});
}

void sw_hosts_steps_close_v(void *steps)
{
    struct sw_hosts_steps *s = steps;

    sw_mutex_lock(&s->lock);
    s->closed = true;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
}
