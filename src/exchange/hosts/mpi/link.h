/* The connections of this process over MPI, shared by the files of engine `mpi`: engine.c (life,
 * and the functions of the engine), progress.c (what its thread does).
 *
 * A chunk is a message of MPI with its head and, if it is short, its bytes; else the bytes are a
 * second message, which is sent from the memory of the fabric and received where the receiver wants
 * them. A head without bytes comes first and says that the host is here. Who ends a connection, by
 * drop or close, sends a bye: how many chunks went out whole before that, and how many must still
 * be received. What follows the whole ones is received, since MPI must not keep anything, but not
 * delivered: its memory was the sender's again. A connection is over when both hosts have said bye
 * and all is received; then MPI holds nothing of it, and another one may follow, with tags of its
 * own. */
#pragma once

#include "exchange/hosts/engine.h"
#include "thread/thread.h"
#include <mpi.h>

enum {
    WINDOW = 4,         /* chunks to a host that are under way, at most */
    INLINE = 4096,      /* bytes of a chunk that travel with their head, at most */
    BYE_BYTES = 16,     /* two numbers: whole chunks, and all */
    OPENINGS = 8192,    /* after which tags repeat; MPI has tags up to 32767 at least */
    NAP_NS = 50 * 1000, /* between two looks, when nothing moves; twice as long after 1000 */
};

/* The requests of MPI for one host. */
enum {
    HEAD_IN,
    BODY_IN,
    BYE_IN,
    HERE_OUT,
    BYE_OUT,
    CHUNKS_OUT,
    REQUESTS = CHUNKS_OUT + 2 * WINDOW
};

/* What a message is: part of its tag. */
enum { TAG_HEAD, TAG_BODY, TAG_BYE, TAGS };

struct sw_mpi_slot {
    unsigned char head[SW_FRAME_HEAD + INLINE];
    int head_bytes, body_bytes;
    const void *body; /* borrowed from the fabric */
};

struct sw_mpi_peer {
    /* Guarded by the lock. */
    struct sw_mpi_slot slot[WINDOW]; /* chunk c is in slot c % WINDOW */
    uint64_t pushed, sent; /* chunks: that the fabric pushed, whose memory is free again */
    int openings;
    bool used;    /* from open until the connection is over */
    bool dropped; /* the wire is not called any more */
    bool lost;    /* dropped before the host had said bye */
    bool quiet;   /* MPI uses no memory of the fabric */
    bool here;    /* it has opened its end, too */
    bool bye_came;

    /* Of the thread while the connection is not over, else of open. */
    uint64_t begun, received; /* chunks: that MPI has of us, that came */
    uint64_t whole, total;    /* of the peer's bye */
    unsigned char head[SW_FRAME_HEAD + INLINE], bye_in[BYE_BYTES], bye_out[BYE_BYTES];
    unsigned char *scratch; /* borrowed [SW_FABRIC_CHUNK]: for bytes that nobody wants */
    bool active;            /* its connection is not over; set and cleared with `used` */
    bool bye_said, placed, told;
    struct sw_err why; /* code: an error of MPI has ended it */
};

enum sw_mpi_state { SW_MPI_NEW, SW_MPI_STARTS, SW_MPI_RUNS, SW_MPI_ENDED };

struct sw_mpi_link {
    struct sw_mutex lock;
    struct sw_cond changed;
    struct sw_thread thread;

    /* Guarded by the lock. */
    enum sw_mpi_state state;
    const struct sw_fabric_wire *up; /* NULL: no fabric is open */
    int silence_ms;                  /* of the last fabric */
    int busy;                        /* the host whose memory or wire the thread uses; -1: none */
    bool losses;                     /* a host was lost at some time */
    bool stop;                       /* the process ends */
    bool stuck;      /* MPI uses memory that it must not use any more: it is not called again */
    int64_t stop_ns; /* and then not waited for any longer */
    struct sw_err why;

    /* Frozen when it runs. */
    int task, own, size;
    struct sw_mpi_peer *peers; /* owned [size] */
    unsigned char *scratch;    /* owned, pages: [size] of SW_FABRIC_CHUNK */
    MPI_Request *request;      /* owned [size][REQUESTS], of the thread */
    MPI_Status *status;        /* owned, as above */
    int *done;                 /* owned, as above */
};

/* "Open MPI 4.1.4", "MPICH 4.0.2". Returns out. */
const char *sw_mpi_name(char *out, size_t bytes);
/* The thread: sends what is pushed and takes what has come. Returns whether anything moved. */
bool sw_mpi_round(struct sw_mpi_link *m);
/* The thread: nothing moved in so many rounds. Naps, unless somebody waits for a message. */
void sw_mpi_pause(struct sw_mpi_link *m, int rounds);
