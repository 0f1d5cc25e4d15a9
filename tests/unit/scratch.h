/* A temporary folder for a test program: scratch_begin makes it, scratch_end removes it with all
 * files in it, scratch_path names a file in it. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch_dir[64];

static inline int scratch_begin(void **state)
{
    strcpy(scratch_dir, "/tmp/singa-test-XXXXXX");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

/* Valid until the fourth call after this one. */
static inline const char *scratch_path(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_dir, name);
    return path;
}

/* Files in the folder. */
static inline int scratch_count(void)
{
    int count = 0;
    DIR *d = opendir(scratch_dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        count += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

static inline void scratch_clear(void)
{
    DIR *d = opendir(scratch_dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlink(scratch_path(e->d_name)) != 0)
            rmdir(scratch_path(e->d_name));
    if (d)
        closedir(d);
}

static inline int scratch_end(void **state)
{
    scratch_clear();
    return rmdir(scratch_dir);
}
