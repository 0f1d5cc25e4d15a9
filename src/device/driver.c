/* The registry of device drivers, and the option text that chooses from it. */
#include "device/driver.h"

#include "base/str.h"
#include <stdio.h>
#include <string.h>

/* ---- The registry ---- */

const struct sw_driver *sw_driver_host(void)
{
    const struct sw_driver *const *d = sw_drivers;
    while (!(*d)->caps.host_memory)
        d++;
    return *d;
}

const struct sw_driver *sw_driver_on_bus(void)
{
    const struct sw_driver *const *d = sw_drivers;
    while (!(*d)->caps.on_bus)
        d++;
    return *d;
}

const struct sw_driver *sw_driver_find(const char *text)
{
    const size_t n = strcspn(text, ":");

    for (const struct sw_driver *const *d = sw_drivers; *d; d++)
        if (strlen((*d)->name) == n && strncmp((*d)->name, text, n) == 0)
            return *d;

    return NULL;
}

/* ---- Option texts ---- */

/* Appends every form of every driver that may be mixed with the host (or of all), each followed by
 * `suffix`. */
static void list_forms(struct sw_bytes *out, bool mixed, const char *suffix)
{
    for (const struct sw_driver *const *d = sw_drivers; *d; d++)
        for (const char *const *form = (*d)->forms; *form; form++)
            if (!mixed || !(*d)->caps.host_memory)
                sw_bytes_printf(out, "%s%s%s", out->length ? ", " : "", *form, suffix);
}

static int unknown_device(struct sw_err *err)
{
    struct sw_bytes all = {0}, mixed = {0};
    char suffix[16];

    snprintf(suffix, sizeof suffix, "+%s", sw_driver_host()->name);
    list_forms(&all, false, "");
    list_forms(&mixed, true, suffix);

    const int rc =
        sw_err_set(err, SW_ERR_INVALID,
                   "unknown device; expected auto, %s, or with some workers on the CPU %s",
                   sw_bytes_text(&all), sw_bytes_text(&mixed));
    sw_bytes_fini(&all);
    sw_bytes_fini(&mixed);

    return rc;
}

/* Removes the suffix "+cpu" from a device other than the host; returns whether it was present. */
static bool strip_host_suffix(char *text)
{
    const struct sw_driver *host = sw_driver_host();
    char *plus = strrchr(text, '+');
    if (!plus || strcmp(plus + 1, host->name) != 0)
        return false;

    *plus = '\0';
    if (sw_driver_find(text) != host)
        return true;

    *plus = '+';
    return false;
}

int sw_device_request_parse(const char *text, struct sw_device_request *out, struct sw_err *err)
{
    struct sw_device_request r = {0};
    char rest[sizeof r.text];
    if (strlen(text) >= sizeof rest)
        return sw_err_set(err, SW_ERR_INVALID, "longer than %zu characters", sizeof rest - 1);

    strcpy(r.text, sw_str_eq(text, "auto") ? sw_driver_host()->name : text);
    strcpy(rest, r.text);
    r.mixed = strip_host_suffix(rest);

    const char *colon = strchr(rest, ':');
    r.driver = sw_driver_find(rest);
    if (!r.driver || (colon && !r.driver->parse))
        return unknown_device(err);

    strcpy(r.options, colon ? colon + 1 : "");

    const int rc = r.driver->parse ? r.driver->parse(colon ? r.options : NULL, &r, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    *out = r;
    return SW_OK;
}
