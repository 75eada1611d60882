/* SPDX-License-Identifier: MIT */
/*
 * The order of candidates (restore_rank.h).
 */
#include "engine/restore/restore_rank.h"

#include <stdlib.h>
#include <string.h>

/* Larger first. */
static int descending(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

static int by_timeline(const void *left, const void *right)
{
    const struct restore_candidate *a = left;
    const struct restore_candidate *b = right;

    return descending(a->tli, b->tli);
}

static int by_rank(const void *left, const void *right)
{
    const struct restore_candidate *a = left;
    const struct restore_candidate *b = right;
    int order = descending(a->line_generation, b->line_generation);

    if (order == 0)
        order = descending(a->tli, b->tli);
    if (order == 0)
        order = descending(a->b->stop_lsn, b->b->stop_lsn);
    if (order == 0)
        order = descending(a->b->generation, b->b->generation);
    return order != 0 ? order : strcmp(b->b->label, a->b->label);
}

void restore_rank(struct restore_candidate *list, size_t count)
{
    if (count == 0)
        return;
    qsort(list, count, sizeof *list, by_timeline);
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
        uint64_t highest = 0;

        for (; end < count && list[end].tli == list[begin].tli; end++)
            if (list[end].b->generation > highest)
                highest = list[end].b->generation;
        for (size_t i = begin; i < end; i++)
            list[i].line_generation = highest;
    }
    qsort(list, count, sizeof *list, by_rank);
}

bool restore_rank_made_later(const struct backup_info *a, const struct backup_info *b)
{
    if (a->generation != b->generation)
        return a->generation > b->generation;
    return strcmp(a->label, b->label) > 0;
}

const struct backup_info *restore_rank_strayed(const struct restore_candidate *list, size_t count)
{
    const struct backup_info *last = NULL;

    for (size_t i = 0; i < count; i++)
        if (list[i].off_line && (last == NULL || restore_rank_made_later(list[i].b, last)))
            last = list[i].b;
    return last;
}
