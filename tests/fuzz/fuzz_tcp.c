/* What hosts say while they connect over TCP, of untrusted bytes: what is accepted is in the range
 * that its users index with, has exactly one spelling, and an error tells why. Input: a byte, from
 * which the number of hosts follows; then 16 bytes of a note, and a table of addresses. */
#include "exchange/hosts/hosts.h"
#include "exchange/hosts/tcp_notes.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* An error is printable, and leaves the result alone. */
static void check_error(const struct sw_err *err)
{
    demand(err->code == SW_ERR_FORMAT && err->text[0]);
    for (const char *c = err->text; *c; c++)
        demand(*c >= ' ' && *c <= '~');
}

static void try_note(const unsigned char *in, int hosts)
{
    unsigned char again[SW_TCP_NOTE_BYTES];
    struct sw_tcp_note n = {.host = -1};
    struct sw_err err;
    if (sw_tcp_note_parse(in, hosts, &n, &err) != SW_OK) {
        check_error(&err);
        demand(n.host == -1);
        return;
    }
    demand(n.host >= 0 && n.host < SW_MOST_HOSTS);
    demand(n.kind >= SW_TCP_HELLO && n.kind <= SW_TCP_OTHER_JOB);
    demand(n.kind != SW_TCP_HELLO ||
           (sw_tcp_note_hosts(&n) >= 2 && sw_tcp_note_hosts(&n) <= SW_MOST_HOSTS));
    demand(n.kind != SW_TCP_WELCOME || hosts == 64 || n.value < (uint64_t)1 << hosts);
    sw_tcp_note_write(&n, again);
    demand(memcmp(in, again, sizeof again) == 0);
}

/* Exactly as large as the table, so that the address sanitizer sees a read past its end. */
static void try_table(const uint8_t *data, int hosts)
{
    size_t bytes = (size_t)sw_tcp_table_bytes(hosts);
    unsigned char *in = malloc(bytes), *again = malloc(bytes);
    struct sw_tcp_address table[SW_MOST_HOSTS];
    char text[SW_TCP_TEXT];
    struct sw_err err;
    demand(in && again);
    memcpy(in, data, bytes);
    if (sw_tcp_table_parse(in, hosts, table, &err) == SW_OK) {
        sw_tcp_table_write(table, hosts, again);
        demand(memcmp(in, again, bytes) == 0);
        for (int i = 1; i < hosts; i++)
            demand(strlen(sw_tcp_address_text(&table[i], text)) < sizeof text && table[i].port > 0);
    } else {
        check_error(&err);
    }
    free(in);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1 + SW_TCP_NOTE_BYTES)
        return 0;
    int hosts = 2 + data[0] % (SW_MOST_HOSTS - 1);
    try_note(data + 1, hosts);
    data += 1 + SW_TCP_NOTE_BYTES;
    bytes -= 1 + SW_TCP_NOTE_BYTES;
    if (bytes >= (size_t)sw_tcp_table_bytes(hosts))
        try_table(data, hosts);
    return 0;
}
