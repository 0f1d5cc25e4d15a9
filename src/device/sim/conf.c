/* The option text of sim: "gpus=4,mem=2GiB". */
#include "base/str.h"
#include "device/sim/sim.h"
#include <stdio.h>
#include <string.h>

enum {
    TEXT_BYTES = 64, /* of one key or value */
};

static const char *const keys[] = {"gpus", "mem"};
static const int64_t least_memory = 64 << 10, most_memory = (int64_t)1 << 40;

struct sw_sim_conf sw_sim_defaults(void)
{
    return (struct sw_sim_conf){.gpus = 1, .memory_bytes = (int64_t)4 << 30};
}

static int unknown_key(const char *key, struct sw_err *err)
{
    const char *nearest = sw_str_nearest(key, keys, sizeof keys / sizeof *keys);
    if (nearest)
        return sw_err_set(err, SW_ERR_INVALID, "sim: unknown key '%s'; did you mean '%s'?", key,
                          nearest);
    return sw_err_set(err, SW_ERR_INVALID, "sim: unknown key '%s'; known are gpus and mem", key);
}

static int read_pair(const char *key, const char *value, struct sw_sim_conf *conf,
                     struct sw_err *err)
{
    int64_t number;
    if (strcmp(key, "gpus") == 0) {
        if (!sw_parse_int(value, &number) || number < 1 || number > SW_SIM_MAX_GPUS)
            return sw_err_set(err, SW_ERR_INVALID,
                              "sim: gpus is '%s'; it must be a whole number from 1 to %d", value,
                              (int)SW_SIM_MAX_GPUS);
        conf->gpus = (int)number;
        return SW_OK;
    }
    if (strcmp(key, "mem") == 0) {
        if (!sw_parse_bytes(value, &number) || number < least_memory || number > most_memory)
            return sw_err_set(err, SW_ERR_INVALID,
                              "sim: mem is '%s'; it must be bytes from 64KiB to 1TiB, as in 2GiB",
                              value);
        conf->memory_bytes = number;
        return SW_OK;
    }
    return unknown_key(key, err);
}

/* Copies what lies between `from` and `to`; false when it is too long. */
static bool cut(char *out, const char *from, const char *to)
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
        if (*equals != '=' || equals == at || equals + 1 == end || !cut(key, at, equals) ||
            !cut(value, equals + 1, end) || (*end && !end[1]))
            return sw_err_set(err, SW_ERR_INVALID,
                              "sim: '%s' is not KEY=VALUE,...; as in gpus=4,mem=2GiB", text);
        int rc = read_pair(key, value, &c, err);
        if (rc != SW_OK)
            return rc;
        snprintf(again, sizeof again, ",%s,", key);
        if (strstr(seen, again))
            return sw_err_set(err, SW_ERR_INVALID, "sim: %s is given twice", key);
        strcat(seen, again + 1); /* known keys, each once: they fit */
        at = *end ? end + 1 : end;
    }
    *conf = c;
    return SW_OK;
}
