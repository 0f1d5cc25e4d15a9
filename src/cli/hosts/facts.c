/* Facts about a host: from its job and its machine to lines, and from lines. */
#include "cli/hosts/facts.h"

#include "base/text.h"
#include "machine/io.h"
#include "machine/machine.h"
#include "run/job.h"
#include "run/launch.h"
#include <stdio.h>
#include <string.h>

static const char begins[] = "singa-ws join: fact ", ends[] = "singa-ws join: facts end";

enum { MUST_AGREE = 1, NUMBER = 2 };

static const struct {
    const char *name;
    unsigned flags;
} rows[SW_FACTS] = {
    [SW_FACT_VERSION] = {"version", MUST_AGREE},
    [SW_FACT_MACHINE] = {"machine", 0},
    [SW_FACT_CPU] = {"cpu_model", 0},
    [SW_FACT_CORES] = {"cores", NUMBER},
    [SW_FACT_MEMORY] = {"memory_bytes", NUMBER},
    [SW_FACT_GPUS] = {"gpus", 0},
    [SW_FACT_DEVICE] = {"device", 0},
    [SW_FACT_PARAMETERS] = {"parameters", MUST_AGREE | NUMBER},
    [SW_FACT_TRAINING] = {"training_data", MUST_AGREE},
    [SW_FACT_EVALUATION] = {"evaluation_data", MUST_AGREE},
};

const char *sw_fact_name(enum sw_fact fact)
{
    return rows[fact].name;
}

bool sw_fact_must_agree(enum sw_fact fact)
{
    return rows[fact].flags & MUST_AGREE;
}

bool sw_fact_is_number(enum sw_fact fact)
{
    return rows[fact].flags & NUMBER;
}

/* "2 x NVIDIA H200", or the names one by one. */
static void list_gpus(const struct sw_machine *m, char *out, size_t bytes)
{
    struct sw_bytes text = {0};

    for (int i = 0; i < m->gpu_count;) {
        const char *name = sw_machine_gpu(m, i)->name;
        int same = 1;

        while (i + same < m->gpu_count && sw_str_eq(sw_machine_gpu(m, i + same)->name, name))
            same++;
        sw_bytes_add(&text, i ? ", " : "");
        if (same > 1)
            sw_bytes_printf(&text, "%d x ", same);
        sw_bytes_add(&text, *name ? name : "GPU");
        i += same;
    }

    sw_utf8_copy(out, bytes, sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

void sw_facts_of(const struct sw_job *job, struct sw_facts *out)
{
    const struct sw_job_plan *p = sw_job_plan(job);
    const struct sw_machine *m = p->machine;
    char id[SW_LAUNCH_MACHINE_ID];

    *out = (struct sw_facts){.complete = true};
    snprintf(out->text[SW_FACT_VERSION], SW_FACT_BYTES, "%s", SW_VERSION);
    snprintf(out->text[SW_FACT_MACHINE], SW_FACT_BYTES, "%s", sw_launch_machine_id(id));
    sw_utf8_copy(out->text[SW_FACT_CPU], SW_FACT_BYTES, m->cpu_model);
    snprintf(out->text[SW_FACT_CORES], SW_FACT_BYTES, "%d", m->core_count);
    snprintf(out->text[SW_FACT_MEMORY], SW_FACT_BYTES, "%lld", (long long)m->memory_bytes);
    list_gpus(m, out->text[SW_FACT_GPUS], SW_FACT_BYTES);
    sw_utf8_copy(out->text[SW_FACT_DEVICE], SW_FACT_BYTES, p->device);
    snprintf(out->text[SW_FACT_PARAMETERS], SW_FACT_BYTES, "%lld", (long long)p->params);
    sw_utf8_copy(out->text[SW_FACT_TRAINING], SW_FACT_BYTES, p->data[0]);
    sw_utf8_copy(out->text[SW_FACT_EVALUATION], SW_FACT_BYTES, p->data[1]);
}

void sw_facts_write(const struct sw_facts *f, struct sw_bytes *out)
{
    for (int i = 0; i < SW_FACTS; i++)
        sw_bytes_printf(out, "%s%d %.*s\n", begins, i, (int)strcspn(f->text[i], "\n"), f->text[i]);
    sw_bytes_printf(out, "%s\n", ends);
}

bool sw_facts_read(struct sw_facts *f, const char *line)
{
    int fact, n = 0;

    if (sw_str_eq(line, ends)) {
        f->complete = true;
        return true;
    }
    if (!sw_str_starts(line, begins))
        return false;

    line += sizeof begins - 1;
    if (sscanf(line, "%d%n", &fact, &n) != 1 || line[n] != ' ' || fact < 0 || fact >= SW_FACTS)
        return false;

    sw_utf8_copy(f->text[fact], SW_FACT_BYTES, line + n + 1);
    return true;
}
