/* SPDX-License-Identifier: MIT */
/*
 * Owners of restored files (restore_places.h).
 *
 * Only root can give files away. Anybody else restores files of his own, which is what a server
 * started by him needs.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/restore/restore_places.h"

#define NAME_BUFFER_BYTES ((size_t)16 * 1024)

static bool user_id(const char *name, uid_t *ret)
{
    AUTO_FREE char *buffer = xmalloc(NAME_BUFFER_BYTES);
    struct passwd entry;
    struct passwd *found = NULL;
    uint64_t number = 0;

    if (getpwnam_r(name, &entry, buffer, NAME_BUFFER_BYTES, &found) == 0 && found != NULL)
        *ret = entry.pw_uid;
    else if (num_parse_u64(name, &number) && number < UINT32_MAX)
        *ret = (uid_t)number;
    else
        return false;
    return true;
}

static bool group_id(const char *name, gid_t *ret)
{
    AUTO_FREE char *buffer = xmalloc(NAME_BUFFER_BYTES);
    struct group entry;
    struct group *found = NULL;
    uint64_t number = 0;

    if (getgrnam_r(name, &entry, buffer, NAME_BUFFER_BYTES, &found) == 0 && found != NULL)
        *ret = entry.gr_gid;
    else if (num_parse_u64(name, &number) && number < UINT32_MAX)
        *ret = (gid_t)number;
    else
        return false;
    return true;
}

/* The owner of the target folder, where that is not root: what a person has prepared. */
static bool folder_owner(const struct restore_job *job, struct restore_owner *ret)
{
    struct stat st;

    if (stat(job->places[0].path, &st) != 0 || st.st_uid == 0)
        return false;
    *ret = (struct restore_owner){.uid = st.st_uid, .gid = st.st_gid};
    return true;
}

static enum ph_rc owner_resolve(const struct restore_job *job, const char *user_group,
                                struct restore_owner *ret, struct ph_err *err)
{
    const char *colon = strrchr(user_group, ':');
    AUTO_FREE char *user =
        colon != NULL ? xstrndup(user_group, (size_t)(colon - user_group)) : xstrdup(user_group);
    struct restore_owner owner = {0};

    if (user_id(user, &owner.uid) && colon != NULL && group_id(colon + 1, &owner.gid)) {
        *ret = owner;
        return PH_OK;
    }
    if (folder_owner(job, ret))
        return PH_OK;
    (void)err_set(err, PH_REFUSED, "owner \"%s\" of the backup's files is unknown on this machine",
                  user_group);
    return err_hint(err,
                    "Restore as the user the server runs as, or make the target folder and give "
                    "it to that user first.");
}

enum ph_rc restore_owners_resolve(struct restore_job *job, struct ph_err *err)
{
    uint32_t count = manifest_reader_owner_count(job->reader);

    job->chown_files = geteuid() == 0;
    if (!job->chown_files)
        return PH_OK;
    job->owners = xcalloc(count, sizeof *job->owners);
    for (uint32_t i = 0; i < count; i++) {
        const char *text = NULL;
        if (manifest_reader_owner(job->reader, (uint16_t)i, &text, err) != PH_OK ||
            owner_resolve(job, text, &job->owners[i], err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}
