/* What hosts say on a connection of engine `tcp` before the fabric has it: notes of 16 bytes, and
 * the table of addresses. The bytes come from another machine, and without a key from anybody: what
 * is parsed here is all that a stranger can make a host believe. Numbers are little-endian:
 *
 *     bytes 0..3   the characters "SWT1"
 *           4..5   kind
 *           6..7   number of the host that speaks
 *           8..15  depends on the kind
 *
 * Any thread may call. */
#pragma once

#include "exchange/hosts/tcp_socket.h"

enum sw_tcp_note_kind {
    SW_TCP_HELLO = 1, /* first, by who connects; value: hosts of its job, port << 16 */
    SW_TCP_WELCOME, /* the answer; by host 0 each time that a host comes. value: bits of those that
                       are still missing; of other hosts 0 */
    SW_TCP_TABLE,   /* by host 0: the addresses of all hosts follow */
    SW_TCP_TAKEN,   /* the answer if a host of that number is connected already */
    SW_TCP_OTHER_JOB, /* the answer to who has another number of hosts; value: the own one */
};

enum { SW_TCP_NOTE_BYTES = 16, SW_TCP_ENTRY_BYTES = 18 };

struct sw_tcp_note {
    enum sw_tcp_note_kind kind;
    int host;
    uint64_t value;
};

void sw_tcp_note_write(const struct sw_tcp_note *n, unsigned char out[SW_TCP_NOTE_BYTES]);
/* Checks a note to a host of a job of that many hosts. Errors: SW_ERR_FORMAT; *out is unchanged. */
int sw_tcp_note_parse(const unsigned char in[SW_TCP_NOTE_BYTES], int hosts, struct sw_tcp_note *out,
                      struct sw_err *err) SW_MUST_CHECK;
static inline int sw_tcp_note_hosts(const struct sw_tcp_note *hello)
{
    return (int)(hello->value & 0xffff);
}
static inline uint16_t sw_tcp_note_port(const struct sw_tcp_note *hello)
{
    return (uint16_t)(hello->value >> 16);
}

/* The table: an entry of 16 bytes of address and 2 of port for each host but host 0, by number. */
static inline int sw_tcp_table_bytes(int hosts)
{
    return (hosts - 1) * SW_TCP_ENTRY_BYTES;
}
/* table [hosts]; its first entry is not used. */
void sw_tcp_table_write(const struct sw_tcp_address *table, int hosts, unsigned char *out);
/* Errors: SW_ERR_FORMAT (no port). */
int sw_tcp_table_parse(const unsigned char *in, int hosts, struct sw_tcp_address *table,
                       struct sw_err *err) SW_MUST_CHECK;
