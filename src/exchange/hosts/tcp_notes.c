/* Writes and checks what hosts say while they connect. */
#include "exchange/hosts/tcp_notes.h"

#include "exchange/hosts/frame.h"
#include "exchange/hosts/hosts.h"
#include <string.h>

enum { MAGIC = 0x31545753 /* "SWT1" */ };

void sw_tcp_note_write(const struct sw_tcp_note *n, unsigned char out[SW_TCP_NOTE_BYTES])
{
    sw_frame_put64(out, MAGIC | (uint64_t)n->kind << 32 | (uint64_t)n->host << 48);
    sw_frame_put64(out + 8, n->value);
}

/* Can a note of the kind have this value? */
static bool is_possible(uint64_t kind, uint64_t value, int hosts)
{
    switch (kind) {
    case SW_TCP_HELLO: /* a count and a port */
        return value >> 32 == 0 && (value & 0xffff) >= 2 && (value & 0xffff) <= SW_MOST_HOSTS;
    case SW_TCP_WELCOME: /* bits of hosts */
        return hosts == 64 || value >> hosts == 0;
    case SW_TCP_OTHER_JOB:
        return value >= 2 && value <= SW_MOST_HOSTS;
    default:
        return value == 0;
    }
}

int sw_tcp_note_parse(const unsigned char in[SW_TCP_NOTE_BYTES], int hosts, struct sw_tcp_note *out,
                      struct sw_err *err)
{
    uint64_t first = sw_frame_get64(in), value = sw_frame_get64(in + 8);
    uint64_t kind = first >> 32 & 0xffff, host = first >> 48;

    if ((first & 0xffffffff) != MAGIC)
        return sw_err_set(err, SW_ERR_FORMAT, "it does not speak the protocol of singa-ws");
    if (kind < SW_TCP_HELLO || kind > SW_TCP_OTHER_JOB || !is_possible(kind, value, hosts))
        return sw_err_set(err, SW_ERR_FORMAT, "it sent a note of kind %d with value %llx",
                          (int)kind, (unsigned long long)value);
    /* The number of a host of another job is not in the range of this one. */
    if (host >= SW_MOST_HOSTS)
        return sw_err_set(err, SW_ERR_FORMAT, "it says that it is host %d", (int)host);

    *out = (struct sw_tcp_note){
        .kind = (enum sw_tcp_note_kind)kind, .host = (int)host, .value = value};
    return SW_OK;
}

void sw_tcp_table_write(const struct sw_tcp_address *table, int hosts, unsigned char *out)
{
    for (int i = 1; i < hosts; i++, out += SW_TCP_ENTRY_BYTES) {
        memcpy(out, table[i].ip, sizeof table[i].ip);
        out[16] = (unsigned char)table[i].port;
        out[17] = (unsigned char)(table[i].port >> 8);
    }
}

int sw_tcp_table_parse(const unsigned char *in, int hosts, struct sw_tcp_address *table,
                       struct sw_err *err)
{
    for (int i = 1; i < hosts; i++, in += SW_TCP_ENTRY_BYTES) {
        memcpy(table[i].ip, in, sizeof table[i].ip);
        table[i].port = (uint16_t)(in[16] | in[17] << 8);
        if (table[i].port == 0)
            return sw_err_set(err, SW_ERR_FORMAT, "it sent no port of host %d", i);
    }

    return SW_OK;
}
