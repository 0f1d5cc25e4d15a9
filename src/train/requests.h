/* Requests from outside. */
#ifndef SW_TRAIN_REQUESTS_H
#define SW_TRAIN_REQUESTS_H

#include "base/err.h"
#include <stddef.h>

/* Answers a line of the control socket (history/control.h). */
void sw_request_answer(void *job, const char *line, char *answer, size_t bytes);

#endif
