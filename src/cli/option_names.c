/* SPDX-License-Identifier: MIT */
/*
 * Names of options (options.h): what somebody who mistyped one may have meant, variables, groups.
 */
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define DISTANCE_LEN_MAX 40

size_t edit_distance(const char *a, const char *b, size_t cap)
{
    size_t rows[3][DISTANCE_LEN_MAX + 1]; /* of the matrix: i - 2, i - 1, i, in turn */
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);

    if (a_len > DISTANCE_LEN_MAX || b_len > DISTANCE_LEN_MAX)
        return cap;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3];
        const size_t *prev = rows[(i + 2) % 3];
        const size_t *prev2 = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t replaced = prev[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);

            now[j] = MIN_OF(MIN_OF(prev[j], now[j - 1]) + 1, replaced);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = MIN_OF(now[j], prev2[j - 2] + 1);
        }
    }
    return MIN_OF(rows[a_len % 3][b_len], cap);
}

const char *option_nearest(const char *name, uint32_t commands)
{
    const char *best = NULL;
    size_t best_distance = MAX_OF(strlen(name) / 3, 2) + 1;

    for (size_t i = 0; i < OPT_COUNT; i++) {
        const struct option_spec *spec = option_spec((enum opt_id)i);
        size_t distance;

        if ((spec->commands & commands) == 0)
            continue;
        distance = edit_distance(name, spec->name, best_distance);
        if (distance < best_distance) {
            best = spec->name;
            best_distance = distance;
        }
    }
    return best;
}

const char *option_env_name(const struct option_spec *spec, char *buf, size_t buf_bytes)
{
    size_t len;

    (void)snprintf(buf, buf_bytes, "PGHUSH_%s", spec->name);
    len = strlen(buf);
    for (size_t i = 0; i < len; i++) {
        if (buf[i] == '-')
            buf[i] = '_';
        else if (buf[i] >= 'a' && buf[i] <= 'z')
            buf[i] = (char)(buf[i] - 'a' + 'A');
    }
    return buf;
}

const char *option_group_title(enum opt_group group)
{
    static const char *const titles[GROUP_COUNT] = {
        [GROUP_GENERAL] = "General options",
        [GROUP_PLACE] = "Cluster and repository",
        [GROUP_BACKUP] = "Backup",
        [GROUP_STORE] = "Storing",
        [GROUP_RESOURCES] = "Resources and I/O",
        [GROUP_ARCHIVE] = "WAL archive",
        [GROUP_TARGET] = "What to restore to",
        [GROUP_RESTORE] = "How to restore",
        [GROUP_SCRATCH] = "Scratch server",
        [GROUP_VERIFY] = "Verify",
        [GROUP_RETAIN] = "Retention",
    };

    return titles[group];
}
