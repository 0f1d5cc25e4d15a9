/* Arrays that several threads read and write without locks (Hogwild; Recht, Re, Wright and Niu
 * 2011): an update may be lost when two threads write the same element, by design. sw_hogwild_add
 * is the only function of the program that does so; the thread sanitizer ignores it. */
#pragma once

#include <stdint.h>

/* Copies shared to `to` and to `from`, [n]. */
void sw_hogwild_take(const float *shared, float *to, float *from, int64_t n);
/* Sets shared += to - from, [n], only where they differ, so that unchanged cache lines do not move
 * between processors. from NULL: shared += to. */
void sw_hogwild_add(float *shared, const float *to, const float *from, int64_t n);
