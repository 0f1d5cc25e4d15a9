/* Requests to a running job through the control socket. */
#pragma once

#include <stddef.h>

/* Answers a line of the control socket (history/control.h); requests: a struct sw_requests. */
void sw_request_answer(void *requests, const char *line, char *answer, size_t bytes);
