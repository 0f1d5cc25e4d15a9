/* The hosts of a job: one process on each. Host 0 leads. The list is the same on all hosts and is
 * frozen for the life of the processes; any thread reads it. */
#pragma once

enum { SW_MOST_HOSTS = 64 };

struct sw_host {
    const char *name;    /* borrowed; as users and messages name it */
    const char *address; /* borrowed; how an engine reaches it; NULL: the engine knows */
};

struct sw_hosts {
    const struct sw_host *host; /* borrowed [count] */
    int count, own;             /* own: the number of this process's host */
};
