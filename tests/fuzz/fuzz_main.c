/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target without libFuzzer: every seed of a folder once as it is, then cut at many lengths and with single
 * bits flipped. Runs in every build, with every sanitizer; deterministic, so a failure can be repeated.
 */
#include "fuzz_target.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED_BYTES_MAX ((size_t)32 * 1024 * 1024)
#define CUTS           64
#define FLIPS          256

/* Give the target a copy of exactly len bytes on the heap, so that ASan sees each byte too far. */
static void run_one(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len + (len == 0));

    if (copy == NULL)
        abort();
    memcpy(copy, data, len);
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static void run_variants(uint8_t *data, size_t len)
{
    uint64_t state = 88172645463325252u;

    run_one(data, len);
    for (size_t i = 0; i < CUTS; i++)
        run_one(data, len * i / CUTS);
    for (size_t i = 0; i < FLIPS && len > 0; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        /* Half of the flips go to the first bytes, where headers are. */
        size_t at = (size_t)(state % (i % 2 == 0 && len > 256 ? 256 : len));
        uint8_t bit = (uint8_t)(1u << (state >> 32 & 7));

        data[at] ^= bit;
        run_one(data, len);
        data[at] ^= bit;
    }
}

static int run_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    uint8_t *data = malloc(SEED_BYTES_MAX);

    if (in == NULL || data == NULL) {
        free(data);
        if (in != NULL)
            (void)fclose(in);
        (void)fprintf(stderr, "cannot open seed \"%s\"\n", path);
        return 1;
    }
    size_t len = fread(data, 1, SEED_BYTES_MAX, in);

    (void)fclose(in);
    run_variants(data, len);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    static const uint8_t nothing[1];
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    int failed = 0, seeds = 0;

    if (dir == NULL) {
        (void)fprintf(stderr, "usage: %s SEED-FOLDER\n", argv[0]);
        return 2;
    }
    run_one(nothing, 0);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4096];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        failed |= run_file(path);
        seeds++;
    }
    (void)closedir(dir);
    (void)printf("%d seeds\n", seeds);
    return failed != 0 || seeds == 0;
}
