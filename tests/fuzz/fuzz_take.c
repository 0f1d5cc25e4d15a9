/* Rows that another host sends, of untrusted bytes: host 0 queues rows of that host or refuses them,
 * and what it queues is printed as a line that is read again as the same line. Input: the lines. */
#include "base/os.h"
#include "history/part.h"
#include "history/writer.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct sw_history history;

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void check_row(const struct sw_row *row)
{
    struct sw_bytes once = {0}, twice = {0};
    struct sw_row *again = NULL;
    char uid[SW_UID_TEXT];
    struct sw_err err;

    demand(row->kind != SW_ROW_RUN && row->kind != SW_ROW_SEGMENT && row->kind != SW_ROW_FINISH &&
           row->kind != SW_ROW_CHECKPOINT && row->kind != SW_ROW_POINT);
    sw_row_print(row, history.uid, &once);
    demand(sw_row_parse(once.text, once.length - 1, &again, uid, &err) == SW_OK);
    sw_row_print(again, uid, &twice);
    demand(once.length == twice.length && memcmp(once.text, twice.text, once.length) == 0);
    sw_row_free(again);
    sw_bytes_fini(&once);
    sw_bytes_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct sw_history_source source = {
        .host = "b", .number = 1, .first_worker = 2, .workers = 2, .last_step = 1000};
    struct sw_err err = {0};
    if (bytes > SW_HISTORY_CHUNK)
        return 0;
    if (!history.uid[0]) {
        strcpy(history.uid, "0123456789abcdef");
        sw_mutex_init(&history.lock);
    }
    char *lines = malloc(bytes + 1); /* of this size, so that a read past its end is seen */
    demand(lines != NULL);
    if (bytes > 0)
        memcpy(lines, data, bytes);
    int rc = sw_history_take(&history, &source, lines, bytes, &err);
    demand(rc == SW_OK || (rc == SW_ERR_FORMAT && err.text[0]));
    for (struct sw_row *row = history.cold.first, *next; row; row = next) {
        next = row->next;
        check_row(row);
        atomic_fetch_sub(&history.taken_bytes, row->taken_bytes);
        sw_row_free(row);
    }
    history.cold = (struct sw_history_rows){0};
    demand(atomic_load(&history.taken_bytes) == 0);
    free(lines);
    return 0;
}
