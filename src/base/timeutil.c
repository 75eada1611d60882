/* SPDX-License-Identifier: MIT */
/*
 * Time (timeutil.h). Calendar arithmetic is ours (days from civil, proleptic Gregorian), so that
 * neither TZ nor the locale can change a stored time.
 */
#include "base/timeutil.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define US_PER_SEC INT64_C(1000000)

static int64_t days_from_civil(int64_t y, int m, int d)
{
    int64_t era;
    int64_t yoe;
    int64_t doy;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = y - era * 400;
    doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

int64_t time_now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * US_PER_SEC + ts.tv_nsec / 1000;
}

uint64_t time_mono_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void time_sleep_us(uint64_t us)
{
    struct timespec ts = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};

    while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
        continue;
}

static void split(int64_t time_us, struct tm *ret_tm, int *ret_us)
{
    int64_t sec = time_us / US_PER_SEC;
    int64_t us = time_us % US_PER_SEC;
    time_t t;

    if (us < 0) {
        us += US_PER_SEC;
        sec--;
    }
    t = (time_t)sec;
    (void)gmtime_r(&t, ret_tm);
    *ret_us = (int)us;
}

const char *time_format_iso(int64_t time_us, bool micro, char *buf, size_t buf_bytes)
{
    struct tm tm;
    int us;

    split(time_us, &tm, &us);
    if (micro)
        (void)snprintf(buf, buf_bytes, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, us);
    else
        (void)snprintf(buf, buf_bytes, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return buf;
}

const char *time_format_label(int64_t time_us, char *buf, size_t buf_bytes)
{
    struct tm tm;
    int us;

    split(time_us, &tm, &us);
    (void)snprintf(buf, buf_bytes, "%04d%02d%02dT%02d%02d%02dZ", tm.tm_year + 1900, tm.tm_mon + 1,
                   tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return buf;
}

/* Exactly `digits` digits at *at; moves *at behind them. */
static bool take_number(const char **at, int digits, int *ret)
{
    int value = 0;

    for (int i = 0; i < digits; i++) {
        if ((*at)[i] < '0' || (*at)[i] > '9')
            return false;
        value = value * 10 + ((*at)[i] - '0');
    }
    *at += digits;
    *ret = value;
    return true;
}

static bool take_char(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

/* Fraction of a second after the dot: 1 to 6 digits count, further ones are cut. */
static bool take_fraction(const char **at, int *ret_us)
{
    int us = 0;
    int n = 0;

    for (; **at >= '0' && **at <= '9'; (*at)++, n++)
        if (n < 6)
            us = us * 10 + (**at - '0');
    if (n == 0)
        return false;
    for (; n < 6; n++)
        us *= 10;
    *ret_us = us;
    return true;
}

/* "Z", "+02", "+0530", "+05:30" or nothing. */
static bool take_zone(const char **at, int *ret_offset_sec, bool *ret_has_zone)
{
    int sign;
    int hours;
    int minutes = 0;

    *ret_offset_sec = 0;
    *ret_has_zone = **at != '\0';
    if (!*ret_has_zone)
        return true;
    if (take_char(at, 'Z') || take_char(at, 'z'))
        return true;
    sign = **at == '-' ? -1 : 1;
    if (!take_char(at, '+') && !take_char(at, '-'))
        return false;
    if (!take_number(at, 2, &hours))
        return false;
    if (**at != '\0') {
        (void)take_char(at, ':');
        if (!take_number(at, 2, &minutes))
            return false;
    }
    *ret_offset_sec = sign * (hours * 3600 + minutes * 60);
    return hours <= 15 && minutes < 60;
}

static bool take_clock(const char **at, int *ret_sec_of_day, int *ret_us)
{
    int hour;
    int minute;
    int second = 0;

    if (!take_number(at, 2, &hour) || !take_char(at, ':') || !take_number(at, 2, &minute))
        return false;
    if (take_char(at, ':') && !take_number(at, 2, &second))
        return false;
    if (take_char(at, '.') && !take_fraction(at, ret_us))
        return false;
    *ret_sec_of_day = hour * 3600 + minute * 60 + second;
    return hour < 24 && minute < 60 && second < 60;
}

bool time_parse_iso(const char *str, int64_t *ret_us, bool *ret_has_zone)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const char *at = str;
    int year;
    int month;
    int day;
    int sec_of_day = 0;
    int us = 0;
    int offset_sec;
    bool has_zone;
    bool leap;

    if (!take_number(&at, 4, &year) || !take_char(&at, '-') || !take_number(&at, 2, &month) ||
        !take_char(&at, '-') || !take_number(&at, 2, &day))
        return false;
    leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month < 1 || month > 12 || day < 1 ||
        day > month_days[month - 1] + (month == 2 && leap ? 1 : 0))
        return false;
    if ((*at == 'T' || *at == 't' || *at == ' ') && at[1] >= '0' && at[1] <= '9') {
        at++;
        if (!take_clock(&at, &sec_of_day, &us))
            return false;
    }
    while (*at == ' ')
        at++;
    if (!take_zone(&at, &offset_sec, &has_zone) || *at != '\0')
        return false;
    *ret_us =
        (days_from_civil(year, month, day) * 86400 + sec_of_day - offset_sec) * US_PER_SEC + us;
    *ret_has_zone = has_zone;
    return true;
}
