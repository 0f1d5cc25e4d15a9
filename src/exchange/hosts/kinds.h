/* Kinds of messages between the hosts of a job (struct sw_fabric_tag), all in one place, so that no
 * two receivers have the same. Kinds of one line belong to one receiver, in this order. */
#pragma once

enum sw_hosts_kind {
    SW_HOSTS_SHARE = 1,
    SW_HOSTS_TOTAL,
    SW_HOSTS_SMALL, /* hosts_sum.h */
    SW_HOSTS_X,
    SW_HOSTS_DY,    /* hosts_rows.h */
    SW_HOSTS_LEAD,  /* hosts_lead.h */
    SW_HOSTS_STEPS, /* hosts_steps.h */
    SW_HOSTS_CHANGE,
    SW_HOSTS_VALUE, /* hosts_merge.h */
    SW_HOSTS_DELTA,
    SW_HOSTS_DELTA_ADDED,
    SW_HOSTS_DELTA_LOST, /* table_deltas.h */
    SW_HOSTS_GRADIENT,
    SW_HOSTS_VALUES, /* table_remotes.h */
    SW_HOST_NOTICE,
    SW_HOST_FILE, /* run/job_hosts.h */
    SW_HOST_OFFER,
    SW_HOST_ORDER, /* run/job_collective.h */
    SW_HOSTS_LINES,
    SW_HOSTS_STATES, /* run/hosts_history.h */
};
