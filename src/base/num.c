/* SPDX-License-Identifier: MIT */
/*
 * Numbers (num.h). Parsing is strict: every digit counts, overflow is an error.
 */
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Reads digits, returns how many; 0 on none or overflow. */
static size_t take_digits(const char *str, uint64_t *ret)
{
    uint64_t value = 0;
    size_t n = 0;

    while (str[n] >= '0' && str[n] <= '9') {
        if (!ck_mul_u64(value, 10, &value) || !ck_add_u64(value, (uint64_t)(str[n] - '0'), &value))
            return 0;
        n++;
    }
    if (n > 0)
        *ret = value;
    return n;
}

bool num_parse_u64(const char *str, uint64_t *ret)
{
    uint64_t value;
    size_t n = take_digits(str, &value);

    if (n == 0 || str[n] != '\0')
        return false;
    *ret = value;
    return true;
}

bool num_parse_hex_u64(const char *str, size_t len_bytes, uint64_t *ret)
{
    uint64_t value = 0;

    if (len_bytes == 0 || len_bytes > 16)
        return false;
    for (size_t i = 0; i < len_bytes; i++) {
        char c = str[i];
        uint64_t digit;

        if (c >= '0' && c <= '9')
            digit = (uint64_t)(c - '0');
        else if (c >= 'A' && c <= 'F')
            digit = (uint64_t)(c - 'A') + 10;
        else if (c >= 'a' && c <= 'f')
            digit = (uint64_t)(c - 'a') + 10;
        else
            return false;
        value = value << 4 | digit;
    }
    *ret = value;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static bool parse_with_units(const char *str, const struct unit *units, size_t count, uint64_t *ret)
{
    uint64_t value;
    size_t n = take_digits(str, &value);

    if (n == 0)
        return false;
    while (str[n] == ' ')
        n++;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(str + n, units[i].name) != 0)
            continue;
        if (!ck_mul_u64(value, units[i].factor, &value))
            return false;
        *ret = value;
        return true;
    }
    return false;
}

bool num_parse_size(const char *str, uint64_t *ret_bytes)
{
    const uint64_t k = 1024;
    const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"k", k},
        {"kB", k},
        {"KiB", k},
        {"M", k * k},
        {"MB", k * k},
        {"MiB", k * k},
        {"G", k * k * k},
        {"GB", k * k * k},
        {"GiB", k * k * k},
        {"T", k * k * k * k},
        {"TB", k * k * k * k},
        {"TiB", k * k * k * k},
    };

    return parse_with_units(str, units, sizeof units / sizeof *units, ret_bytes);
}

bool num_parse_duration(const char *str, uint64_t *ret_us)
{
    const uint64_t s = 1000000;
    const struct unit units[] = {
        {"", s},         {"us", 1},     {"ms", 1000},    {"s", s},
        {"min", 60 * s}, {"m", 60 * s}, {"h", 3600 * s}, {"d", 86400 * s},
    };

    return parse_with_units(str, units, sizeof units / sizeof *units, ret_us);
}

bool num_parse_lsn(const char *str, ph_lsn *ret_lsn)
{
    const char *slash = strchr(str, '/');
    uint64_t hi;
    uint64_t lo;
    size_t hi_len;
    size_t lo_len;

    if (slash == NULL)
        return false;
    hi_len = (size_t)(slash - str);
    lo_len = strlen(slash + 1);
    if (hi_len > 8 || lo_len > 8 || !num_parse_hex_u64(str, hi_len, &hi) ||
        !num_parse_hex_u64(slash + 1, lo_len, &lo))
        return false;
    *ret_lsn = hi << 32 | lo;
    return true;
}

const char *num_format_size(uint64_t bytes, char *buf, size_t buf_bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t i = 0;

    while (value >= 1024 && i + 1 < sizeof names / sizeof *names) {
        value /= 1024;
        i++;
    }
    (void)snprintf(buf, buf_bytes, i == 0 ? "%.0f %s" : "%.1f %s", value, names[i]);
    return buf;
}

const char *num_format_duration(uint64_t us, char *buf, size_t buf_bytes)
{
    uint64_t sec = us / 1000000;

    if (sec < 60)
        (void)snprintf(buf, buf_bytes, "%.1f s", (double)us / 1e6);
    else if (sec < 3600)
        (void)snprintf(buf, buf_bytes, "%" PRIu64 " min %02" PRIu64 " s", sec / 60, sec % 60);
    else
        (void)snprintf(buf, buf_bytes, "%" PRIu64 " h %02" PRIu64 " min", sec / 3600,
                       sec / 60 % 60);
    return buf;
}
