/* NVML by dlopen: the few functions that are used are declared here by hand, since Debian has no
 * header of them. A value that the driver does not give is NaN. */
#include "machine/nvml.h"

#include "base/os.h"
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Types of nvml.h (API version 2), declared here because Debian does not ship that header. */
typedef void *device;
struct utilization {
    unsigned gpu, memory; /* percent */
};
struct memory {
    unsigned long long total, free, used;
};
enum { SUCCESS = 0, SENSOR_GPU = 0, CLOCK_SM = 1 };

struct sw_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *bus, device *d);
    /* Figures; NULL where the library lacks the function. */
    int (*utilization)(device d, struct utilization *u);
    int (*memory)(device d, struct memory *m);
    int (*power)(device d, unsigned *milliwatts);
    int (*temperature)(device d, int sensor, unsigned *celsius);
    int (*clock)(device d, int kind, unsigned *mhz);
};

/* ISO C has no conversion from a data pointer to a function pointer; POSIX guarantees the same
 * representation. */
static bool find(void *library, const char *name, void *function)
{
    void *at = dlsym(library, name);
    memcpy(function, &at, sizeof at);
    return at != NULL;
}

/* An older driver may lack a figure, which then is unknown; without these three nothing can be
 * read. */
static bool find_all(struct sw_nvml *n)
{
    find(n->library, "nvmlDeviceGetUtilizationRates", &n->utilization);
    find(n->library, "nvmlDeviceGetMemoryInfo", &n->memory);
    find(n->library, "nvmlDeviceGetPowerUsage", &n->power);
    find(n->library, "nvmlDeviceGetTemperature", &n->temperature);
    find(n->library, "nvmlDeviceGetClockInfo", &n->clock);

    return find(n->library, "nvmlInit_v2", &n->init) &&
           find(n->library, "nvmlShutdown", &n->shutdown) &&
           find(n->library, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus);
}

int sw_nvml_open(struct sw_nvml **out, const char *library, struct sw_err *err)
{
    const char *name = library ? library : "libnvidia-ml.so.1";
    struct sw_nvml *n = sw_calloc(1, sizeof *n);
    if (!n)
        return sw_err_nomem(err, "NVML", sizeof *n);

    n->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    int rc = SW_OK;
    if (!n->library) {
        rc = sw_err_set(err, SW_ERR_NOTFOUND,
                        "%s not found: GPU utilization, power and temperature are unknown", name);
        goto fail;
    }

    if (!find_all(n) || n->init() != SUCCESS) {
        rc = sw_err_set(err, SW_ERR_LIBRARY,
                        "%s cannot be used: GPU utilization, power and temperature are unknown",
                        name);
        goto fail;
    }

    *out = n;
    return SW_OK;

fail:
    if (n->library)
        dlclose(n->library);
    sw_free(n);

    return rc;
}

void sw_nvml_close(struct sw_nvml *n)
{
    if (!n)
        return;

    n->shutdown();
    dlclose(n->library);
    sw_free(n);
}

struct sw_gpu_reading sw_nvml_read(struct sw_nvml *n, const char *bus)
{
    struct sw_gpu_reading r = {NAN, NAN, NAN, NAN, NAN};
    struct utilization u;
    struct memory m;
    unsigned value;
    device d;
    if (n->by_bus(bus, &d) != SUCCESS)
        return r;

    if (n->utilization && n->utilization(d, &u) == SUCCESS)
        r.util = u.gpu / 100.0;
    if (n->memory && n->memory(d, &m) == SUCCESS)
        r.mem_used = (double)m.used;
    if (n->power && n->power(d, &value) == SUCCESS)
        r.power_w = value / 1000.0;
    if (n->temperature && n->temperature(d, SENSOR_GPU, &value) == SUCCESS)
        r.temp_c = value;
    if (n->clock && n->clock(d, CLOCK_SM, &value) == SUCCESS)
        r.clock_mhz = value;

    return r;
}
