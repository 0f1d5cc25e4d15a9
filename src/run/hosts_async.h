/* Asynchronous hosts. Host 0 has the parameters, and the worker groups of the others send it
 * gradients (Downpour, SSP); or every host has a server group, and these exchange their changes
 * (Hogwild). All meet where values are merged: before an evaluation, a checkpoint, and the end. A
 * host that is lost is left out, unless it is host 0, which decides for all. */
#pragma once

#include "exchange/hosts/hosts_lead.h"
#include "exchange/hosts/hosts_merge.h"
#include "exchange/hosts/hosts_steps.h"
#include "exchange/hosts/table_deltas.h"
#include "exchange/hosts/table_remotes.h"
#include "run/hosts_mode.h"

struct sw_hosts_async {
    struct sw_hosts_lead *lead;   /* owned */
    struct sw_hosts_steps *steps; /* owned */
    struct sw_table_deltas deltas;
    struct sw_table_remotes remotes;
    struct sw_hosts_merge *merge; /* owned: the values of host 0, where it has the servers */
    uint64_t left_out;            /* atomic: bits of hosts that are lost, while the others go on */
    uint64_t reported;            /* those that are known to the user */
    char why[192];                /* cause of the last loss; guarded by the lock of the notices */
};

/* Bytes of the exchange of a host's server group with the others. */
size_t sw_hosts_async_bytes(const struct sw_job *job);
