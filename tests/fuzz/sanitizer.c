/* What the address sanitizer does in libFuzzer programs: short stacks of allocations, and little
 * memory that waits to be used again, since a target allocates some thousand times per input. What
 * ASAN_OPTIONS says has the last word. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "malloc_context_size=8:quarantine_size_mb=16";
}
