/* Parses the options of sim: "gpus=4,mem=2GiB,pcie=12GB/s". A table has one row per key. */
#include "base/str.h"
#include "device/sim/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES = 64, /* maximum length of one key or value */
};

static const int64_t least_memory = 64 << 10, most_memory = (int64_t)1 << 40;
static const int64_t most_rate = (int64_t)1 << 40, most_latency_us = 10 * 1000000;

struct sw_sim_conf sw_sim_defaults(void)
{
    return (struct sw_sim_conf){.gpus = 1,
                                .memory_bytes = (int64_t)4 << 30,
                                .peer = SW_SIM_PEER_YES,
                                .slow = 1,
                                .fault_at = 0,
                                .faulty = -1};
}

/* ---- Values: each reader returns whether the value is valid ---- */

static bool read_gpus(const char *value, struct sw_sim_conf *c)
{
    int64_t n;
    if (!sw_parse_int(value, &n) || n < 1 || n > SW_SIM_MAX_GPUS)
        return false;

    c->gpus = (int)n;
    return true;
}

static bool read_memory(const char *value, struct sw_sim_conf *c)
{
    return sw_parse_bytes(value, &c->memory_bytes) && c->memory_bytes >= least_memory &&
           c->memory_bytes <= most_memory;
}

static bool read_rate(const char *value, struct sw_sim_conf *c)
{
    return sw_str_ends(value, "/s") && sw_parse_rate(value, &c->link_bytes_per_s) &&
           c->link_bytes_per_s >= 1000 && c->link_bytes_per_s <= most_rate;
}

static bool read_latency(const char *value, struct sw_sim_conf *c)
{
    static const struct {
        const char *unit;
        int64_t us;
    } units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}};

    size_t digits = strspn(value, "0123456789");
    char number[TEXT_BYTES];
    snprintf(number, sizeof number, "%.*s", (int)digits, value);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(value + digits, units[i].unit) == 0 && sw_parse_int(number, &c->latency_us) &&
            c->latency_us <= most_latency_us / units[i].us) {
            c->latency_us *= units[i].us;
            return true;
        }

    return false;
}

static bool read_peer(const char *value, struct sw_sim_conf *c)
{
    static const char *const names[] = {[SW_SIM_PEER_NO] = "no",
                                        [SW_SIM_PEER_YES] = "yes",
                                        [SW_SIM_PEER_CORRUPT] = "corrupt",
                                        [SW_SIM_PEER_HANG] = "hang"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(value, names[i]) == 0) {
            c->peer = (enum sw_sim_peer)i;
            return true;
        }

    return false;
}

static bool read_slow(const char *value, struct sw_sim_conf *c)
{
    return sw_parse_real(value, &c->slow) && c->slow >= 1 && c->slow <= 1000;
}

static bool read_fault(const char *value, struct sw_sim_conf *c)
{
    static const char *const names[] = {"hang", "lost", "nomem", "wrong"};
    static const enum sw_sim_fault faults[] = {SW_SIM_HANG, SW_SIM_LOST, SW_SIM_NOMEM,
                                               SW_SIM_WRONG};
    const char *at = strchr(value, '@');
    if (!at || !sw_parse_int(at + 1, &c->fault_at) || c->fault_at < 1)
        return false;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == (size_t)(at - value) && sw_str_starts(value, names[i])) {
            c->fault = faults[i];
            return true;
        }

    return false;
}

static bool read_faulty(const char *value, struct sw_sim_conf *c)
{
    int64_t n;
    if (!sw_parse_int(value, &n) || n < 0 || n >= SW_SIM_MAX_GPUS)
        return false;

    c->faulty = (int)n;
    return true;
}

static const struct key {
    const char *name;
    bool (*read)(const char *value, struct sw_sim_conf *conf);
    const char *expected; /* expected values, for messages */
} keys[] = {
    {"gpus", read_gpus, "a whole number from 1 to 64"},
    {"mem", read_memory, "bytes from 64KiB to 1TiB, as in 2GiB"},
    {"pcie", read_rate, "a rate from 1KB/s to 1TiB/s, as in 12GB/s"},
    {"latency", read_latency, "a time of at most 10s in us, ms or s, as in 10us"},
    {"peer", read_peer, "yes, no, corrupt or hang"},
    {"slow", read_slow, "a factor from 1 to 1000"},
    {"fault", read_fault, "hang, lost, nomem or wrong with an operation number, as in hang@500"},
    {"faulty", read_faulty, "the number of a GPU, from 0"},
};
enum { KEYS = sizeof keys / sizeof *keys };

static int read_pair(const char *key, const char *value, struct sw_sim_conf *conf,
                     struct sw_err *err)
{
    const char *names[KEYS];

    for (int i = 0; i < KEYS; i++) {
        names[i] = keys[i].name;
        if (strcmp(key, keys[i].name) != 0)
            continue;
        if (keys[i].read(value, conf))
            return SW_OK;

        return sw_err_set(err, SW_ERR_INVALID, "sim: %s is '%s'; it must be %s", key, value,
                          keys[i].expected);
    }

    const char *nearest = sw_str_nearest(key, names, KEYS);
    if (nearest)
        return sw_err_set(err, SW_ERR_INVALID, "sim: unknown key '%s'; did you mean '%s'?", key,
                          nearest);

    return sw_err_set(err, SW_ERR_INVALID,
                      "sim: unknown key '%s'; known keys are gpus, mem, pcie, latency, peer, slow, "
                      "fault and faulty",
                      key);
}

/* ---- The text ---- */

/* Copies the text between `from` and `to`; false if it is too long. */
static bool copy_token(char *out, const char *from, const char *to)
{
    size_t n = (size_t)(to - from);
    if (n >= TEXT_BYTES)
        return false;

    memcpy(out, from, n);
    out[n] = 0;
    return true;
}

int sw_sim_parse(const char *text, struct sw_sim_conf *conf, struct sw_err *err)
{
    struct sw_sim_conf c = sw_sim_defaults();
    char seen[2 * TEXT_BYTES] = ",", key[TEXT_BYTES], value[TEXT_BYTES], again[TEXT_BYTES + 2];

    for (const char *at = text; *at;) {
        const char *end = at + strcspn(at, ","), *equals = at + strcspn(at, ",=");
        if (*equals != '=' || equals == at || equals + 1 == end || !copy_token(key, at, equals) ||
            !copy_token(value, equals + 1, end) || (*end && !end[1]))
            return sw_err_set(err, SW_ERR_INVALID,
                              "sim: '%s' is not a list KEY=VALUE,... as in gpus=4,mem=2GiB", text);

        int rc = read_pair(key, value, &c, err);
        if (rc != SW_OK)
            return rc;

        snprintf(again, sizeof again, ",%s,", key);
        if (strstr(seen, again))
            return sw_err_set(err, SW_ERR_INVALID, "sim: %s is given twice", key);

        strcat(seen, again + 1); /* known keys, each once: they fit */
        at = *end ? end + 1 : end;
    }

    if (c.faulty >= c.gpus)
        return sw_err_set(err, SW_ERR_INVALID,
                          "sim: faulty is %d, but with %d GPUs it must be at most %d", c.faulty,
                          c.gpus, c.gpus - 1);

    *conf = c;
    return SW_OK;
}
