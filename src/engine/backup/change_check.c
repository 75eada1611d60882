/* SPDX-License-Identifier: MIT */
/*
 * The check of the change map (change_check.h). A page's LSN is the end of the record that changed it
 * last, so a record that begins at from_lsn leaves a greater one.
 */
#include "engine/backup/change_check.h"

#include <stdlib.h>

#include "base/mem.h"
#include "format/pg_page.h"

struct change_check *change_check_new(ph_lsn from_lsn, ph_lsn to_lsn)
{
    struct change_check *c = xcalloc(1, sizeof *c);

    c->from_lsn = from_lsn;
    c->to_lsn = to_lsn;
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

void change_check_free(struct change_check *c)
{
    if (c == NULL)
        return;
    (void)pthread_mutex_destroy(&c->lock);
    free(c->path);
    free(c);
}

bool change_check_is_newer(const struct change_check *c, const uint8_t *page)
{
    return pg_page_lsn(page) > c->from_lsn;
}

void change_check_page(struct change_check *c, const struct source *s, uint64_t offset,
                       const uint8_t *page)
{
    ph_lsn lsn = pg_page_lsn(page);

    if (lsn <= c->from_lsn || lsn > c->to_lsn)
        return;
    (void)pthread_mutex_lock(&c->lock);
    if (c->count == 0) {
        c->path = xstrdup(s->path);
        c->offset = offset;
        c->lsn = lsn;
    }
    c->count++;
    (void)pthread_mutex_unlock(&c->lock);
}

uint64_t change_check_count(struct change_check *c)
{
    uint64_t count;

    (void)pthread_mutex_lock(&c->lock);
    count = c->count;
    (void)pthread_mutex_unlock(&c->lock);
    return count;
}
