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
    char text[256];                    /* as it was given; "auto" is replaced by the host's name */
    char options[256];                 /* what follows the colon, without "+cpu" */
    bool mixed;                        /* workers without a device compute on the CPU */
    int count;                         /* number of devices in the options; 0: all that exist */
    int index[SW_DEVICE_REQUEST_MOST]; /* [count]: device numbers, which may repeat */
    int64_t link_bytes_per_s; /* bandwidth of each device's link to the host; 0: unknown, to be
                                 measured */
    double link_latency_s;    /* of a copy over it; 0: unknown */
    bool peers;               /* copies between the devices are known to bypass the host */
    int64_t memory_bytes;     /* of each device; 0: unknown */
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
    struct sw_device *sibling;   /* an open device of the same request, or NULL */
};

/* Identifies the devices for which the results of a probe (device/probe.h) are valid. The caller
 * frees the strings. */
struct sw_probe_identity {
    char *options; /* argument of open_probe */
    char *common;  /* versions of everything that copies and all-reduces depend on; may be empty */
    char **device; /* [count]: each device and its location */
};

struct sw_driver {
    const char *name;         /* of the folder; devices are called "NAME:INDEX" */
    const char *label;        /* one device, in messages: "CUDA device" */
    const char *const *forms; /* option texts for users, NULL at the end: "cuda", "cuda:0,2" */
    struct sw_device_caps caps;
    int gemm_side; /* rows of square matrices whose product keeps one device busy */

    /* Parses the text after the colon (NULL: no colon) into a zeroed request. NULL: the driver
     * takes no options. Errors: SW_ERR_INVALID. */
    int (*parse)(const char *options, struct sw_device_request *out, struct sw_err *err);
    /* Writes the option text for so many devices. NULL: the machine determines the number. */
    void (*format)(int count, char *out, size_t bytes);
    /* May this machine have such devices? Cheap: loads no library. Drivers of devices on the bus
     * only.
     */
    bool (*is_likely)(void);
    /* Is the module with the device installed? Loads nothing. Drivers of devices on the bus only.
     * The error says what to install: SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND. */
    int (*installed)(struct sw_err *err);
    /* Lists the devices that exist; the caller frees the list. Drivers of devices on the bus only.
     * Errors say what is missing: SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND. */
    int (*enumerate)(struct sw_device_info **out, int *count, struct sw_err *err);
    /* Close the device with sw_device_close. Errors: those of enumerate, SW_ERR_INVALID,
     * SW_ERR_NOMEM, SW_ERR_IO. */
    int (*open)(const struct sw_device_args *args, struct sw_device **out, struct sw_err *err);
    /* Libraries that compute on it, "oneDNN 2.6.3, OpenBLAS 0.3.21". NULL: those of the host. */
    int (*libraries)(char *out, size_t bytes, struct sw_err *err);

    /* Links. Devices with their own memory have both functions, the host has neither. bus [count]:
     * PCI addresses, or NULL if the devices are not on the bus. */
    int (*identify)(const char *options, const char *const *bus, int count,
                    struct sw_probe_identity *out, struct sw_err *err);
    /* Opens up to `most` devices to probe their links, without the faults that the options inject.
     * *count includes those that were opened before an error. */
    int (*open_probe)(const char *options, struct sw_device **out, int most, int *count,
                      struct sw_err *err);

    /* Prepares the calling thread for computing on the host with so many threads. The host only.
     * Errors: SW_ERR_NOMEM. */
    int (*start_team)(int threads, struct sw_err *err);
};

/* By name, NULL at the end; written by CMake. */
extern const struct sw_driver *const sw_drivers[];

/* The driver of the host's CPU, and the driver of the GPUs in the machine map. */
const struct sw_driver *sw_driver_host(void);
const struct sw_driver *sw_driver_on_bus(void);
/* The driver that an option text ("cuda", "cuda:0,2") names, or NULL. */
const struct sw_driver *sw_driver_find(const char *text);

/* Parses the text of --device. Errors: SW_ERR_INVALID (an unknown device: the message lists those
 * that exist; options that the driver refuses). */
int sw_device_request_parse(const char *text, struct sw_device_request *out,
                            struct sw_err *err) SW_MUST_CHECK;
