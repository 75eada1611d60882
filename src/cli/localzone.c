/* SPDX-License-Identifier: MIT */
/*
 * Local times (localzone.h). mktime() picks one of two moments by its own taste and moves skipped
 * times, so the offsets in force a day before and a day after are tried instead, and each is kept
 * only if the machine's rules give it back.
 */
#include "cli/localzone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/num.h"

#define DAY_SEC INT64_C(86400)
#define SEC_US  INT64_C(1000000)

#define ZONE_FOLDER  "/usr/share/zoneinfo"
#define LETTERS      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS       "0123456789"
#define ABBREVIATION 3 /* characters at least */

/* A rule by itself, "CET-1CEST" or "<+03>-3": an abbreviation, then an offset from UTC. */
static bool is_rule(const char *zone)
{
    size_t len;

    if (*zone == '<') {
        len = strspn(zone + 1, LETTERS DIGITS "+-");
        if (len < ABBREVIATION || zone[1 + len] != '>')
            return false;
        zone += len + 2;
    } else {
        len = strspn(zone, LETTERS);
        if (len < ABBREVIATION)
            return false;
        zone += len;
    }
    if (*zone == '+' || *zone == '-')
        zone++;
    return strspn(zone, DIGITS) > 0;
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool localzone_known(void)
{
    const char *zone = getenv("TZ");
    const char *folder = getenv("TZDIR");
    char path[4096];

    if (zone == NULL || *zone == '\0')
        return true;
    if (*zone == ':')
        zone++;
    if (*zone == '/')
        return is_file(zone);
    if (strcmp(zone, "UTC") == 0 || strcmp(zone, "GMT") == 0 || is_rule(zone))
        return true;
    int len = snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder : ZONE_FOLDER, zone);
    return *zone != '\0' && len > 0 && (size_t)len < sizeof path && is_file(path);
}

static int64_t floor_sec(int64_t time_us)
{
    return time_us / SEC_US - (time_us % SEC_US < 0 ? 1 : 0);
}

static int64_t offset_sec_at(int64_t time_sec)
{
    struct tm tm = {0};
    time_t t = (time_t)time_sec;

    if (localtime_r(&t, &tm) == NULL)
        return 0;
    return tm.tm_gmtoff;
}

size_t localzone_moments(int64_t wall_us, int64_t ret_time_us[2])
{
    int64_t wall_sec = floor_sec(wall_us);
    int64_t before_sec;
    int64_t after_sec;
    size_t count = 0;

    tzset();
    before_sec = offset_sec_at(wall_sec - DAY_SEC);
    after_sec = offset_sec_at(wall_sec + DAY_SEC);
    /* The larger offset gives the earlier moment. */
    if (before_sec < after_sec) {
        int64_t swap = before_sec;

        before_sec = after_sec;
        after_sec = swap;
    }
    if (offset_sec_at(wall_sec - before_sec) == before_sec)
        ret_time_us[count++] = wall_us - before_sec * SEC_US;
    if (after_sec != before_sec && offset_sec_at(wall_sec - after_sec) == after_sec)
        ret_time_us[count++] = wall_us - after_sec * SEC_US;
    return count;
}

const char *localzone_offset(int64_t time_us, char *buf, size_t buf_bytes)
{
    int64_t offset_sec;
    int64_t minutes;

    tzset();
    offset_sec = offset_sec_at(floor_sec(time_us));
    minutes = (offset_sec < 0 ? -offset_sec : offset_sec) / 60;
    (void)snprintf(buf, buf_bytes, "%c%02d:%02d", offset_sec < 0 ? '-' : '+',
                   (int)(minutes / 60 % 100), (int)(minutes % 60));
    return buf;
}
