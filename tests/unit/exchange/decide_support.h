/* Support for updates in two phases: gradients for all parameters, pushed with the workers'
 * verdicts, and comparisons of two tables. */
#pragma once

#include "table_support.h"

static inline void assert_same_values(const struct stand *a, const struct stand *b,
                                      const char *when)
{
    int slots = sw_table_slots(a->table);
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int slot = -1; slot < slots; slot++) {
            struct sw_tensor t = sw_table_tensor(a->table, p, slot);
            float *x = plain_of_table(a, p, slot), *y = plain_of_table(b, p, slot);
            if (memcmp(x, y, (size_t)sw_desc_count(&t.desc) * sizeof(float)) != 0)
                fail_msg("%s: %s, slot %d", when, table_names[p], slot);
            free(x), free(y);
        }
}

/* Every element of every worker's gradient, padding left out. */
static inline void fill_gradients(struct stand *s, float value)
{
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const struct sw_param *param = sw_table_param(s->table, p);
        int64_t n = sw_desc_count(&param->layout);
        float *plain = get_floats(n);
        for (int64_t i = 0; i < n; i++)
            plain[i] = value;
        for (int w = 0; w < s->table->args.workers; w++)
            sw_desc_from_plain(&param->layout, plain, param->gradient[w]);
        free(plain);
    }
}

static inline void hand_over(struct stand *s, uint64_t version, bool fine)
{
    struct sw_err err;
    for (int w = 0; w < s->table->args.workers; w++) {
        for (int p = 0; p < TABLE_PARAMS; p++)
            ASSERT_OK(deliver(s, w, p, version, &err));
        ASSERT_OK(sw_table_report_loss(s->table, w, fine || w != 0, &err));
    }
    ASSERT_OK(pump(s, &err));
    for (int p = 0; p < TABLE_PARAMS; p++)
        assert_true(sw_table_ready(s->table, 0, p, version));
}
