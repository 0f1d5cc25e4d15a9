/* Defaults of the address sanitizer in libFuzzer programs, where a target allocates some thousand
 * times per input: short allocation stacks, and a quarantine that stays in the processor's cache
 * but holds what one input frees. ASAN_OPTIONS overrides them. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "malloc_context_size=4:quarantine_size_mb=1:thread_local_quarantine_size_kb=128";
}
