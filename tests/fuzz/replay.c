/* Replays a corpus without libFuzzer: main() feeds every file of the folders named on the command
 * line to LLVMFuzzerTestOneInput, so that every build tries each input that ever failed. An empty
 * or missing folder is an error.
 *
 * With libFuzzer a target runs until it is stopped, or finds a fault and saves the input:
 *
 *     cmake -B build/fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DSINGA_FUZZ=ON -DSINGA_CUDA=OFF
 *           -DSINGA_SANITIZE='address;undefined'
 *     ninja -C build/fuzz fuzz_recipe
 *     mkdir -p found
 *     build/fuzz/tests/fuzz_recipe -timeout=5 -rss_limit_mb=1024 found tests/fuzz/corpus/recipe
 *
 * Add a small input that failed to the corpus, under a name that says what it is: every build then
 * replays it as test fuzz.recipe. The first comment of a target describes its input.
 * Targets for files with a checksum compute the correct one, so that the code after the check is
 * reached (fuzz_shard.c). */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    long bytes = -1;
    int failed = 1;

    if (f && fseek(f, 0, SEEK_END) == 0)
        bytes = ftell(f);
    if (bytes >= 0 && fseek(f, 0, SEEK_SET) == 0) {
        /* Exactly as large as the input, so that the address sanitizer sees a read past its end. */
        data = malloc(bytes > 0 ? (size_t)bytes : 1);
        if (data && fread(data, 1, (size_t)bytes, f) == (size_t)bytes) {
            LLVMFuzzerTestOneInput(data, (size_t)bytes);
            failed = 0;
        }
    }
    if (failed)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    free(data);
    if (f)
        fclose(f);
    return failed;
}

/* Returns the number of inputs; -1: one could not be read. */
static int replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int inputs = 0;

    if (!dir) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return -1;
    }
    while (inputs >= 0 && (entry = readdir(dir))) {
        char path[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        inputs = replay_file(path) ? -1 : inputs + 1;
    }
    closedir(dir);
    return inputs;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int inputs = replay_folder(argv[i]);

        printf("%s: %d inputs\n", argv[i], inputs);
        if (inputs <= 0)
            return 1;
    }
    return 0;
}
