/* SPDX-License-Identifier: MIT */
/*
 * The order in which backups are tried. Labels and times are a clock's, which may have been wrong: what
 * counts is the timeline and where on its path a backup ends. Of backups on one path the one that ends
 * last is the best: recovery from an older one gets as far at most, for it needs the WAL between. Where
 * backups would follow different timelines, the one on which a backup was made last goes first: the
 * lease's generation, which every holder raises, tells that.
 *
 * Nothing here fails or allocates; no threads.
 */
#ifndef ENGINE_RESTORE_RESTORE_RANK_H
#define ENGINE_RESTORE_RESTORE_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/backup_info.h"

struct restore_candidate {
    struct backup_info *b; /* borrowed */
    ph_tli tli;            /* the timeline that recovery from it would follow */
    bool off_line;         /* its end does not lie on that timeline's path */
    uint64_t
        line_generation; /* the highest of a backup that would follow tli; restore_rank sets it */
};

/* Sort, the one to be tried first in front. */
void restore_rank(struct restore_candidate *list, size_t count);

/* Was a made after b? By generation; where an equal one cannot tell, by label. */
bool restore_rank_made_later(const struct backup_info *a, const struct backup_info *b);

/* Of those that are off their line, the one made last; NULL: there is none. */
const struct backup_info *restore_rank_strayed(const struct restore_candidate *list, size_t count);

#endif
