/* Defaults of the address sanitizer in libFuzzer programs: short allocation stacks and a small
 * quarantine, since a target allocates some thousand times per input. ASAN_OPTIONS overrides them.
 */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "malloc_context_size=8:quarantine_size_mb=16";
}
