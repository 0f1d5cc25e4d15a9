/* What host 0 of `run --hosts` tells every other host, on the standard input of `singa-ws join`:
 * the key of the job, who the hosts are, the recipe, and the options of the job. It comes through
 * ssh, which checked both ends, but is checked all the same.
 *
 * The message is a line "singa-ws join VERSION BYTES" and so many bytes of fields, each "NAME
 * BYTES", a newline, the value and a newline. For every file of the message that the other host
 * does not have it then writes a line SW_JOIN_SEND with the number of the file, and the bytes of
 * the file follow on its standard input; then SW_JOIN_READY.
 *
 * Pure functions, except sw_join_read. */
#pragma once

#include "base/str.h"
#include "run/host_files.h"
#include "run/launch.h"

#define SW_JOIN_SEND "singa-ws join: send " /* and a number */
#define SW_JOIN_READY "singa-ws join: ready"

enum {
    SW_JOIN_VERSION = 1,
    SW_JOIN_BYTES = 16 << 20, /* of all fields, at most */
    SW_JOIN_HEAD = 64,        /* of the first line, at most, with its newline */
};

/* What the other hosts are to do. */
enum sw_join_task { SW_JOIN_TRAIN, SW_JOIN_CHECK };

/* Texts are borrowed; those that are missing are NULL. */
struct sw_join {
    int64_t task; /* enum sw_join_task */
    int64_t own;  /* the number of the host that is told */
    const char *names[SW_LAUNCH_MOST_TCP];
    int count;           /* hosts */
    const char *address; /* of host 0; NULL: that from which ssh came */
    int64_t port;
    const unsigned char *key; /* [SW_FABRIC_KEY_BYTES]; NULL: the network is trusted */
    bool share_machine;
    const char *folder; /* the working directory of host 0 */
    /* The recipe as sw_recipe_text and its neighbors give it. */
    const char *recipe_path, *recipe, *overrides, *fallback;
    const char *name, *init_from; /* options of the job */
    int64_t steps;
    bool steps_at_most, oversubscribe, verbose;
    const char *uid;        /* of the run, or drawn for a new one: 16 hex digits */
    const char *checkpoint; /* to resume from: the path of one of the files; NULL: a new run */
    const char *device;     /* of the run that is resumed; or NULL */
    struct sw_host_file files[SW_HOST_FILES]; /* that all hosts read */
    int file_count;
};

/* The file of that path, or NULL. */
const struct sw_host_file *sw_join_file(const struct sw_join *j, const char *path);
/* Appends the whole message. Texts are not longer than SW_JOIN_BYTES together. */
/* Appends the whole message. Texts are not longer than SW_JOIN_BYTES together. */
void sw_join_write(const struct sw_join *j, struct sw_bytes *out);
/* Reads fields; they must be complete and agree. Texts point into `fields`, which is changed.
 * Errors: SW_ERR_FORMAT. */
int sw_join_parse(char *fields, size_t bytes, struct sw_join *out,
                  struct sw_err *err) SW_MUST_CHECK;
/* The number of bytes behind a first line, with its newline. Errors: SW_ERR_FORMAT (no such line,
 * or longer than the limit), SW_ERR_UNSUPPORTED (another version). */
int sw_join_parse_head(const char *line, size_t line_bytes, size_t *bytes,
                       struct sw_err *err) SW_MUST_CHECK;
/* Reads a message from a file descriptor, and not one byte more. The texts of *out point into
 * *fields, which the caller frees with sw_free. Errors: those above, SW_ERR_IO, SW_ERR_NOTFOUND (it
 * ends too early), SW_ERR_NOMEM. */
int sw_join_read(int fd, struct sw_join *out, char **fields, struct sw_err *err) SW_MUST_CHECK;
