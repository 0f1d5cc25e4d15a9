/* Device drivers: the properties of a kind of device that are known before one is opened. A folder
 * src/device/NAME exports one const struct sw_driver, sw_driver_NAME, and a row in CMakeLists.txt
 * adds it to the registry. No code outside that folder uses the name of the device: callers check
 * the capabilities of the driver and call its functions. Everything is const or pure; any
 * thread. */
#pragma once

#include "device/device.h"

enum { SW_DEVICE_REQUEST_MOST = 64 };

/* The parsed option text: "cpu", "cuda:0,2", "sim:gpus=4+cpu". */
struct sw_device_request {
    const struct sw_driver *driver;
    char text[256];    /* as it was given; "auto" is replaced by the host's name */
    char options[256]; /* what follows the colon, without "+cpu" */
    bool mixed;        /* workers that get none of the devices compute on the host */
    int count;         /* devices that the options name or make; 0: all that exist */
    int index[SW_DEVICE_REQUEST_MOST]; /* [count]: their numbers; one may occur several times */
    int64_t link_bytes_per_s; /* what each device's link to the host carries; 0: to be measured */
    bool peers;               /* copies between the devices are known to bypass the host */
};

/* A device that exists in this machine, as its driver describes it. */
struct sw_device_info {
    char bus[20]; /* "0000:34:00.0" */
    char name[96];
};

struct sw_device_args {
    const char *options;         /* of the request */
    int index;                   /* the device will be called "NAME:INDEX" */
    const char *bus;             /* PCI address; NULL: the driver's own device number INDEX */
    enum sw_precision precision; /* of products */
    struct sw_device *beside;    /* an open device of the same request, or NULL */
};

/* The identity of the devices for which the results of a probe (device/trial.h) are valid. The
 * caller frees the strings. */
struct sw_probe_identity {
    char *options; /* what open_probe is to open */
    char *common;  /* versions of all that copies and sums depend on; may be empty */
    char **device; /* [count]: each device, and where it is */
};

struct sw_driver {
    const char *name;         /* of the folder; devices are called "NAME:INDEX" */
    const char *label;        /* one device, in messages: "CUDA device" */
    const char *const *forms; /* option texts for users, NULL at the end: "cuda", "cuda:0,2" */
    struct sw_device_caps caps;
    int gemm_side; /* rows of square matrices whose product keeps one device busy */

    /* Reads what follows the colon (NULL: there is no colon) into the numbers of a zeroed request.
     * NULL: the driver takes no options. Errors: SW_ERR_INVALID. */
    int (*parse)(const char *options, struct sw_device_request *out, struct sw_err *err);
    /* Writes the option text that makes so many devices. NULL: how many exist is the machine's. */
    void (*format)(int count, char *out, size_t bytes);
    /* Lists the devices that exist; the caller frees the list. Drivers of devices on the bus only.
     * Errors say what is missing: SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND. */
    int (*enumerate)(struct sw_device_info **out, int *count, struct sw_err *err);
    /* Close the device with sw_device_close. Errors: those of enumerate, SW_ERR_INVALID,
     * SW_ERR_NOMEM, SW_ERR_IO. */
    int (*open)(const struct sw_device_args *args, struct sw_device **out, struct sw_err *err);
    /* Libraries that compute on it, "oneDNN 2.6.3, OpenBLAS 0.3.21". NULL: those of the host. */
    int (*libraries)(char *out, size_t bytes, struct sw_err *err);

    /* Links. Devices in memory of their own have both functions, and the host has neither. bus
     * [count]: PCI addresses, or NULL where devices are not on the bus. */
    int (*identify)(const char *options, const char *const *bus, int count,
                    struct sw_probe_identity *out, struct sw_err *err);
    /* Opens up to `most` devices for probing their links, without what the options make go wrong
     * elsewhere. Those that were opened before an error are counted, too. */
    int (*open_probe)(const char *options, struct sw_device **out, int most, int *count,
                      struct sw_err *err);

    /* Prepares the calling thread for computing on the host with so many threads. The host only.
     * Errors: SW_ERR_NOMEM. */
    int (*start_team)(int threads, struct sw_err *err);
};

/* By name, NULL at the end; written by CMake. */
extern const struct sw_driver *const sw_drivers[];

/* The driver whose device is the host itself, and the one whose devices are the GPUs of the machine
 * map. */
const struct sw_driver *sw_driver_host(void);
const struct sw_driver *sw_driver_on_bus(void);
/* The driver that an option text ("cuda", "cuda:0,2") names, or NULL. */
const struct sw_driver *sw_driver_find(const char *text);

/* Errors: SW_ERR_INVALID (an unknown device, which lists those that exist; options that the driver
 * refuses). */
int sw_device_request_parse(const char *text, struct sw_device_request *out,
                            struct sw_err *err) SW_MUST_CHECK;
