/* Prints a net as a Graphviz graph: the layers in execution order, with the part of every worker of
 * a group, and connections with the number of elements that they move. */
#include "base/str.h"
#include "cli/report/report.h"

/* Text within a label. */
static void escaped(struct sw_bytes *out, const char *text)
{
    for (; *text; text++)
        sw_bytes_printf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
}

static void node(struct sw_bytes *out, const struct sw_job_plan *p, int i)
{
    const struct sw_job_layer *l = &p->layers[i];
    char count[32];

    sw_bytes_printf(out, "  n%d [shape=%s label=\"", i, l->moves ? "ellipse" : "box");
    escaped(out, l->name);
    sw_bytes_printf(out, "\\n%s, %s", l->moves ? l->movement.operation[0] : l->type, l->spread);
    if (!l->shards && !l->moves)
        sw_bytes_printf(out, "\\n%s", l->shape);

    for (int w = 0; l->shards && !l->moves && w < p->group_size; w++) {
        const struct sw_job_shard *s = &l->shards[w];
        sw_bytes_printf(out, "\\n%d: %s", w, *s->shape ? s->shape : "--");
        if (s->params)
            sw_bytes_printf(out, ", %s parameters", sw_human_count(count, (double)s->params));
    }

    if (l->moves)
        sw_bytes_printf(out, "\\n%lld elements, back %lld", (long long)l->movement.moved[0],
                        (long long)l->movement.moved[1]);

    sw_bytes_add(out, "\"];\n");
}

void sw_report_dot(struct sw_bytes *out, const struct sw_job_plan *p)
{
    sw_bytes_add(out, "digraph net {\n");
    for (int i = 0; i < p->layer_count; i++)
        node(out, p, i);

    for (int i = 0; i < p->layer_count; i++)
        for (int k = 0; k < p->layers[i].read_count; k++)
            sw_bytes_printf(out, "  n%d -> n%d;\n", p->layers[i].reads[k], i);

    sw_bytes_add(out, "}\n");
}
