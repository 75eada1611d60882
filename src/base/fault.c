/* SPDX-License-Identifier: MIT */
/*
 * Fault injection (fault.h): a small table of rules, filled once, counted atomically.
 */
#include "base/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RULES_MAX  8
#define FAULT_KILL (-1)

struct rule {
    char op[16];
    unsigned long nth;
    bool onwards;
    int sys_errno; /* or FAULT_KILL */
    atomic_ulong calls;
};

/* Written by fault_setup before any thread exists, then only counted. */
static struct rule rules[RULES_MAX];
static size_t rule_count;

static int errno_from_name(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } table[] = {
        {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},   {"EACCES", EACCES},
        {"EROFS", EROFS},   {"ENOMEM", ENOMEM}, {"EINTR", EINTR},     {"EINVAL", EINVAL},
        {"ENOENT", ENOENT}, {"EMFILE", EMFILE}, {"EPERM", EPERM},     {"ENOSYS", ENOSYS},
        {"EEXIST", EEXIST}, {"EAGAIN", EAGAIN}, {"KILL", FAULT_KILL},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].value;
    return 0;
}

static bool parse_rule(char *text, struct rule *ret_rule)
{
    char *save = NULL;
    const char *op = strtok_r(text, ":", &save);
    const char *nth = strtok_r(NULL, ":", &save);
    const char *name = strtok_r(NULL, ":", &save);
    char *end;

    if (op == NULL || nth == NULL || name == NULL || strlen(op) >= sizeof ret_rule->op)
        return false;
    memcpy(ret_rule->op, op, strlen(op) + 1);
    ret_rule->nth = strtoul(nth, &end, 10);
    ret_rule->onwards = *end == '+';
    ret_rule->sys_errno = errno_from_name(name);
    return ret_rule->nth > 0 && ret_rule->sys_errno != 0;
}

void fault_setup(void)
{
    const char *spec = getenv("PH_FAULT");
    char copy[256];
    char *save = NULL;

    if (spec == NULL || *spec == '\0')
        return;
    (void)snprintf(copy, sizeof copy, "%s", spec);
    for (char *one = strtok_r(copy, ",", &save); one != NULL; one = strtok_r(NULL, ",", &save)) {
        if (rule_count == RULES_MAX || !parse_rule(one, &rules[rule_count])) {
            (void)fprintf(stderr, "pghush: cannot read PH_FAULT=\"%s\": expected OP:N:ERRNO\n",
                          spec);
            _exit(2);
        }
        rule_count++;
    }
}

int fault_errno(const char *op)
{
    for (size_t i = 0; i < rule_count; i++) {
        struct rule *r = &rules[i];
        unsigned long call;

        if (strcmp(r->op, op) != 0)
            continue;
        call = atomic_fetch_add(&r->calls, 1) + 1;
        if (call != r->nth && !(r->onwards && call > r->nth))
            continue;
        (void)fprintf(stderr, "fault injected: %s call %lu\n", op, call);
        if (r->sys_errno == FAULT_KILL)
            (void)kill(getpid(), SIGKILL);
        return r->sys_errno;
    }
    return 0;
}
