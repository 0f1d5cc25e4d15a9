#include "cli/doctor/doctor.h"

#include "base/os.h"
#include <stdarg.h>

void sw_doctor_find(struct sw_doctor *d, enum sw_finding_level level, const char *part,
                    const char *why, const char *mend, const char *what, ...)
{
    struct sw_buf text = {0};
    va_list ap;
    va_start(ap, what);
    sw_buf_vprintf(&text, what, ap);
    va_end(ap);
    struct sw_finding *more = sw_realloc_array(d->findings, (size_t)d->count + 1, sizeof *more);
    char *taken = sw_buf_take(&text);
    sw_buf_fini(&text);
    if (more)
        d->findings = more;
    if (!more || !taken) {
        sw_free(taken);
        d->failed = true;
        return;
    }
    more[d->count++] = (struct sw_finding){level, part, taken, why, mend};
}

void sw_doctor_fini(struct sw_doctor *d)
{
    for (int i = 0; i < d->count; i++)
        sw_free(d->findings[i].what);
    sw_free(d->findings);
    sw_survey_fini(&d->survey);
    sw_machine_free(d->machine);
    *d = (struct sw_doctor){0};
}
