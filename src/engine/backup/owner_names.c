/* SPDX-License-Identifier: MIT */
/*
 * Owner names (owner_names.h). A data directory has one owner, rarely two: a list with the last hit in
 * front is enough.
 */
#include "engine/backup/owner_names.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>

#include "base/mem.h"

#define NAME_ROOM_BYTES 4096

struct known_owner {
    struct known_owner *next;
    uint32_t uid;
    uint32_t gid;
    uint16_t place;
};

struct owner_names {
    struct known_owner *first;
};

struct owner_names *owner_names_new(void)
{
    return xcalloc(1, sizeof(struct owner_names));
}

void owner_names_free(struct owner_names *o)
{
    if (o == NULL)
        return;
    while (o->first != NULL) {
        struct known_owner *next = o->first->next;

        free(o->first);
        o->first = next;
    }
    free(o);
}

static char *user_name(uint32_t uid)
{
    char room[NAME_ROOM_BYTES];
    struct passwd pw;
    struct passwd *found = NULL;

    if (getpwuid_r(uid, &pw, room, sizeof room, &found) == 0 && found != NULL)
        return xstrdup(pw.pw_name);
    return xasprintf("%u", uid);
}

static char *group_name(uint32_t gid)
{
    char room[NAME_ROOM_BYTES];
    struct group gr;
    struct group *found = NULL;

    if (getgrgid_r(gid, &gr, room, sizeof room, &found) == 0 && found != NULL)
        return xstrdup(gr.gr_name);
    return xasprintf("%u", gid);
}

enum ph_rc owner_names_place(struct owner_names *o, struct manifest_writer *w, uint32_t uid,
                             uint32_t gid, uint16_t *ret_place, struct ph_err *err)
{
    struct known_owner *k;

    for (k = o->first; k != NULL; k = k->next)
        if (k->uid == uid && k->gid == gid)
            break;
    if (k == NULL) {
        AUTO_FREE char *user = user_name(uid);
        AUTO_FREE char *group = group_name(gid);
        AUTO_FREE char *both = xasprintf("%s:%s", user, group);
        uint16_t place;

        if (manifest_writer_owner(w, both, &place, err) != PH_OK)
            return err->rc;
        k = xcalloc(1, sizeof *k);
        k->uid = uid;
        k->gid = gid;
        k->place = place;
        k->next = o->first;
        o->first = k;
    }
    *ret_place = k->place;
    return PH_OK;
}
