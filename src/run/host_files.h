/* Files of host 0 that the other hosts of a job read as well: the checkpoint to resume from, and
 * the parameters of init_from. A host that has the same file at the same path reads that; another
 * one gets a copy, in a folder of the run: STATE/hosts/UID. Pure functions on files; any thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_HOST_FILES = 16, SW_HOST_FILE_SUM = 33 };

struct sw_host_file {
    const char *path; /* borrowed; on host 0 */
    int64_t bytes;
    char sum[SW_HOST_FILE_SUM]; /* of all bytes: sw_hash_hex */
};

/* Reads a file; sets *out, except for its path. Errors: those of sw_os_open_regular, SW_ERR_IO,
 * SW_ERR_NOMEM, SW_ERR_CANCELLED. */
int sw_host_file_read(const char *path, struct sw_host_file *out, struct sw_err *err) SW_MUST_CHECK;
/* Does this host have the same file at the same path? */
bool sw_host_file_is_here(const struct sw_host_file *f);
/* Reads the bytes of the file from fd, and not one more, and writes them to `path` as a whole or
 * not at all. Errors: SW_ERR_IO (disk full; naming path), SW_ERR_NOTFOUND (fd ends too early),
 * SW_ERR_FORMAT (another sum), SW_ERR_NOMEM. */
int sw_host_file_receive(const struct sw_host_file *f, int fd, const char *path,
                         struct sw_err *err) SW_MUST_CHECK;

/* The folder for copies of this run's files, which is created. *folder is owned by the caller.
 * Errors: those of sw_history_state_dir and sw_os_mkdirs. */
int sw_host_files_folder(const char *uid, char **folder, struct sw_err *err) SW_MUST_CHECK;
/* Removes the folder with the copies in it. NULL is accepted. */
void sw_host_files_remove(const char *folder);
