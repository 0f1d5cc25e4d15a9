/* What a launch asks of this machine: which addresses are its own, who it is, and the file of the
 * job's key. */
#include "run/launch.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Addresses ---- */

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    if (a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return false;
}

/* The addresses of a host; NULL: none. numeric: names are not looked up. */
static struct addrinfo *addresses_of(const char *host, bool numeric)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = numeric ? AI_NUMERICHOST : 0};
    struct addrinfo *list = NULL;

    return getaddrinfo(host, NULL, &hints, &list) == 0 ? list : NULL;
}

bool sw_launch_is_loopback(const char *address)
{
    if (strcmp(address, "localhost") == 0)
        return true;

    struct addrinfo *list = addresses_of(address, true);
    const bool found = list && is_loopback(list->ai_addr);
    if (list)
        freeaddrinfo(list);
    return found;
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (!a || a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;

    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool is_own_address(const struct addrinfo *list)
{
    struct ifaddrs *interfaces = NULL;
    bool found = false;

    if (getifaddrs(&interfaces) != 0)
        return false;

    for (; list && !found; list = list->ai_next) {
        found = is_loopback(list->ai_addr);
        for (const struct ifaddrs *i = interfaces; i && !found; i = i->ifa_next)
            found = same_address(i->ifa_addr, list->ai_addr);
    }

    freeifaddrs(interfaces);
    return found;
}

bool sw_launch_is_here(const char *address)
{
    char own[SW_LAUNCH_ADDRESS] = "";

    if (sw_launch_is_loopback(address))
        return true;
    if (gethostname(own, sizeof own - 1) == 0 &&
        (strcmp(own, address) == 0 ||
         (strcspn(own, ".") == strlen(address) && strncmp(own, address, strlen(address)) == 0)))
        return true;

    struct addrinfo *list = addresses_of(address, false);
    const bool found = is_own_address(list);
    if (list)
        freeaddrinfo(list);
    return found;
}

/* ---- Identity ---- */

const char *sw_launch_machine_id(char out[SW_LAUNCH_MACHINE_ID])
{
    static const char *const files[] = {"/etc/machine-id", "/proc/sys/kernel/random/boot_id"};
    struct sw_bytes both = {0};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text = NULL;
        size_t bytes;
        struct sw_err ignored;

        if (sw_os_read_file(files[i], 4096, &text, &bytes, &ignored) == SW_OK)
            sw_bytes_append(&both, text, bytes);
        sw_free(text);
    }

    out[0] = '\0';
    if (both.length > 0)
        sw_hash_hex(sw_hash_bytes(both.text, both.length), out);
    sw_bytes_fini(&both);
    return out;
}

/* ---- The key ---- */

#define MAKE_KEY "make one with: (umask 077; head -c 32 /dev/urandom >FILE)"

/* The file that is open, not one that took its name meanwhile. */
static int check_private(int fd, const char *path, uint64_t bytes, struct sw_err *err)
{
    struct stat st;

    if (sw_os()->fstat(fd, &st) != 0)
        return sw_err_errno(err, errno, "%s", path);
    if (st.st_uid != geteuid())
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: the job's key must belong to you, but it belongs to user %u", path,
                          (unsigned)st.st_uid);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%s: other users can access the job's key (mode %04o): use chmod 600, or " MAKE_KEY,
            path, (unsigned)st.st_mode & 07777);
    if (bytes != SW_FABRIC_KEY_BYTES)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: a job's key has %d bytes, and this file %llu: " MAKE_KEY, path,
                          SW_FABRIC_KEY_BYTES, (unsigned long long)bytes);
    return SW_OK;
}

int sw_launch_read_key(const char *path, unsigned char key[SW_FABRIC_KEY_BYTES], struct sw_err *err)
{
    uint64_t bytes;
    int fd;

    int rc = sw_os_open_regular(path, &fd, &bytes, err);
    if (rc == SW_OK)
        rc = check_private(fd, path, bytes, err);
    if (rc == SW_OK)
        rc = sw_os_pread_all(fd, key, SW_FABRIC_KEY_BYTES, 0, path, err);
    if (fd >= 0)
        (void)sw_os()->close(fd);

    return rc == SW_OK ? SW_OK : sw_err_prefix(err, rc, "SINGA_JOB_KEY");
}
