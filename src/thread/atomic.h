/* C11 atomics in headers that .cu files may include too: C++ (and nvcc) has no <stdatomic.h>. */
#pragma once

#ifdef __cplusplus
#include <atomic>
using std::atomic_int;
using std::atomic_size_t;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
#else
#include <stdatomic.h>
#endif
