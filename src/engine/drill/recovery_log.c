/* SPDX-License-Identifier: MIT */
/*
 * Searching a server's log (recovery_log.h). It is read in pieces; a line longer than a piece is cut.
 */
#include "engine/drill/recovery_log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/relname.h"
#include "io/fdio.h"

#define PIECE_BYTES ((size_t)64 * 1024)

bool recovery_log_page(const char *line, uint32_t *ret_database_oid)
{
    static const char level[] = "WARNING:  page ";
    static const char mark[] = " of relation ";
    const char *at = strstr(line, level);
    struct relpath p;

    at = at != NULL ? strstr(at, mark) : NULL;
    if (at == NULL)
        return false;
    at += sizeof mark - 1;
    AUTO_FREE char *path = xstrndup(at, strcspn(at, " "));
    if (!str_starts(at + strlen(path), " is uninitialized") &&
        !str_starts(at + strlen(path), " does not exist"))
        return false;
    if (relpath_parse(path, &p) == RELNAME_NONE)
        return false;
    *ret_database_oid = p.database_oid;
    return true;
}

struct search {
    uint32_t database_oid;
    uint64_t count;
    char *first;
};

static void look(struct search *s, const char *line)
{
    uint32_t oid = 0;

    if (!recovery_log_page(line, &oid) || (oid != 0 && oid != s->database_oid))
        return;
    if (s->count++ == 0)
        s->first = xstrdup(strstr(line, "page "));
}

/* Whole lines of text; returns how many bytes they are. */
static size_t look_at_lines(struct search *s, char *text)
{
    char *at = text;

    for (char *end = strchr(at, '\n'); end != NULL; end = strchr(at, '\n')) {
        *end = '\0';
        look(s, at);
        at = end + 1;
    }
    return (size_t)(at - text);
}

enum ph_rc recovery_log_search(const char *path, uint32_t database_oid, uint64_t *ret_count,
                               char **ret_first, struct ph_err *err)
{
    AUTO_FREE char *text = xmalloc(PIECE_BYTES + 1);
    struct search s = {.database_oid = database_oid};
    AUTO_FD fd = -1;
    size_t kept = 0;
    size_t got = 1;
    enum ph_rc rc = open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0, &fd, err);

    while (rc == PH_OK && got > 0) {
        rc = read_upto(fd, text + kept, PIECE_BYTES - kept, &got, err);
        if (rc != PH_OK)
            break;
        text[kept + got] = '\0';
        kept += got;
        size_t used = look_at_lines(&s, text);
        kept = used == 0 && kept == PIECE_BYTES ? 0 : kept - used;
        memmove(text, text + used, kept);
    }
    if (rc != PH_OK) {
        free(s.first);
        return rc;
    }
    *ret_count = s.count;
    *ret_first = s.first;
    return PH_OK;
}
