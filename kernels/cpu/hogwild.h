/* Arrays that several threads read and write without locks (Hogwild; Recht, Re, Wright and Niu
 * 2011): an update may be lost where two threads meet in an element, by design. sw_hogwild_add is
 * the one place of the program that writes so; it is not told to the thread sanitizer. */
#pragma once

#include <stdint.h>

/* to = from = shared, [n]. */
void sw_hogwild_take(const float *shared, float *to, float *from, int64_t n);
/* shared += to - from, [n], where they differ: what stays untouched need not travel between
 * processors. Without `from` shared += to. */
void sw_hogwild_add(float *shared, const float *to, const float *from, int64_t n);
