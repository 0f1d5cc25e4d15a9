/* Splits --input FIELD=X.npy. The contract is in cli/options/field_inputs.h. */
#include "cli/options/field_inputs.h"

#include "base/os.h"
#include <string.h>

int sw_cli_field_inputs_split(struct sw_cli_field_inputs *in, const struct sw_cli_list *texts,
                              struct sw_err *err)
{
    const size_t count = (size_t)texts->count + 1;

    in->input = sw_calloc(count, sizeof *in->input);
    in->field = sw_calloc(count, sizeof *in->field);
    if (!in->input || !in->field)
        return sw_err_nomem(err, "--input", count);

    for (int i = 0; i < texts->count; i++) {
        const char *text = texts->items[i], *equals = strchr(text, '=');
        const size_t n = equals ? (size_t)(equals - text) : 0;

        in->count = i + 1;
        in->input[i].path = text;
        if (n == 0 || memchr(text, '/', n) || memchr(text, '.', n))
            continue;

        in->field[i] = sw_format("%.*s", (int)n, text);
        if (!in->field[i])
            return sw_err_nomem(err, "--input", n);

        in->input[i] = (struct sw_predict_input){.field = in->field[i], .path = equals + 1};
    }

    return SW_OK;
}

void sw_cli_field_inputs_fini(struct sw_cli_field_inputs *in)
{
    for (int i = 0; i < in->count; i++)
        sw_free(in->field[i]);
    sw_free(in->field);
    sw_free(in->input);
    *in = (struct sw_cli_field_inputs){0};
}
