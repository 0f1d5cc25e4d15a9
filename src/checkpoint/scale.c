/* The loss scale (optim/loss_scale.h) in checkpoints: metadata "loss_scale", of server group K
 * behind the first "loss_scale.K", has the scale and the good updates of each update group: "65536
 * 12 32768 0". A file without it was written at another precision: then the scale begins as the
 * recipe says. */
#include "checkpoint/scale.h"

#include "base/os.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *key_of(int server_group, char out[32])
{
    snprintf(out, 32, server_group > 0 ? "loss_scale.%d" : "loss_scale", server_group);
    return out;
}

int sw_scale_write(const struct sw_table *t, int server_group, struct sw_st_writer *w,
                   struct sw_err *err)
{
    struct sw_bytes text = {0};
    char key[32];

    for (int r = 0; r < sw_table_update_groups(t); r++) {
        struct sw_loss_scale s = sw_table_scale(t, r);
        sw_bytes_printf(&text, "%s%.0f %lld", r > 0 ? " " : "", s.value, (long long)s.good);
    }

    int rc = text.failed
                 ? sw_err_nomem(err, "a checkpoint's loss scale", 0)
                 : sw_st_writer_metadata(w, key_of(server_group, key), sw_bytes_text(&text), err);
    sw_bytes_fini(&text);

    return rc;
}

/* Reads the next pair and advances; returns false if there is no valid one. */
static bool next_pair(const char **at, struct sw_loss_scale *s)
{
    char *end;
    int exponent;

    s->value = strtod(*at, &end);
    if (end == *at)
        return false;

    *at = end;
    s->good = strtoll(*at, &end, 10);
    if (end == *at || s->good < 0 || s->value < 1 || s->value > SW_LOSS_SCALE_MOST)
        return false;

    *at = end;
    return frexp(s->value, &exponent) == 0.5;
}

/* Finds pair number `which` modulo the number of pairs. Returns false if the text is invalid. */
static bool find_pair(const char *text, int which, struct sw_loss_scale *out)
{
    struct sw_loss_scale s;
    int count = 0;

    for (const char *at = text; *at; count++)
        if (!next_pair(&at, &s))
            return false;

    if (count == 0)
        return false;

    for (int i = 0; i <= which % count; i++)
        if (!next_pair(&text, out))
            return false;

    return true;
}

int sw_scale_read(struct sw_table *t, const struct sw_st_file *f, int from, struct sw_err *err)
{
    char key[32];
    const char *text = sw_st_metadata(f, key_of(from, key));
    if (!text)
        return SW_OK;

    for (int r = 0; r < sw_table_update_groups(t); r++) {
        struct sw_loss_scale s;
        if (!find_pair(text, r, &s))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: %s = %s in its metadata: not a loss scale",
                              sw_st_path(f), key, text);

        sw_table_put_scale(t, r, s);
    }

    return SW_OK;
}
