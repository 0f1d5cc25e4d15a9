/* The processes that `run --hosts` starts on the other hosts, by ssh: "ssh b singa-ws join".
 *
 * Standard input of each carries the message of run/join.h, and the files that the host asks for,
 * and then stays open: where it ends, the other process ends. What they print comes to standard
 * error, each line behind the name of its host. A thread does both. They have a session of their
 * own, so that Ctrl-C stops the job and not the connections.
 *
 * SINGA_SSH replaces "ssh -o BatchMode=yes -o ConnectTimeout=10", SINGA_REMOTE the command
 * "singa-ws"; both are split at blanks. One owner: the main thread. */
#pragma once

#include "run/join.h"

struct sw_remote;

/* A line of a host that is not for the user, once it is ready; true: it was used. Called by the
 * thread. */
typedef bool sw_remote_line(void *user, int host, const char *line);

struct sw_remote_args {
    const struct sw_launch *launch; /* borrowed until the end; it is by_ssh and has key and port */
    const struct sw_join *message;  /* borrowed during the start; `own` is filled in */
    const bool *began;              /* atomic: the job trains, so the fabric notices a loss */
    bool live;                      /* erase a status line before each line */
    sw_remote_line *line;           /* NULL: all lines are for the user */
    void *user;
};

/* Starts a process on every host but this one, and returns when all have accepted the message.
 * Errors: SW_ERR_NOTFOUND (names the host that could not be reached or did not accept it, after
 * what it printed), SW_ERR_CANCELLED (base/stop.h), SW_ERR_IO, SW_ERR_NOMEM. */
int sw_remote_start(const struct sw_remote_args *args, struct sw_remote **out,
                    struct sw_err *err) SW_MUST_CHECK;
/* Waits until all have ended by themselves, at most timeout_ms; then closes their standard input,
 * and ends those that stay. lost: bits of hosts whose processes are ended at once. Messages name
 * the hosts that ended with another exit code than `expected`. Returns whether this process was
 * stopped because a host failed before the training began: then nothing else would, until the
 * fabric gives up. NULL is accepted. */
bool sw_remote_end(struct sw_remote *r, int expected, uint64_t lost, int timeout_ms);
