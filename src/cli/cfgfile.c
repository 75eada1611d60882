/* SPDX-License-Identifier: MIT */
/*
 * Reading the configuration file (cfgfile.h). A file that every user can write is refused outright:
 * it names programs that run as the database's user.
 */
#include "cli/cfgfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/inifile.h"
#include "io/fdio.h"

void cfgfile_release(struct cfgfile *f)
{
    free(f->text);
    *f = (struct cfgfile){0};
}

enum ph_rc cfgfile_read(const char *path, struct cfgfile *ret_file, struct ph_err *err)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    AUTO_FREE char *text = NULL;
    struct stat st;
    size_t got_bytes;

    if (fd < 0)
        return err_sys(err, errno, "could not open it");
    if (fstat(fd, &st) != 0)
        return err_sys(err, errno, "could not examine it");
    if (!S_ISREG(st.st_mode))
        return err_set(err, PH_CONFIG, "it is not a regular file");
    if ((uint64_t)st.st_size > INI_FILE_BYTES_MAX)
        return err_set(err, PH_CONFIG, "it is larger than %zu bytes", INI_FILE_BYTES_MAX);
    if ((st.st_mode & S_IWOTH) != 0) {
        (void)err_set(err, PH_CONFIG, "every user can write it");
        return err_hint(err, "Run \"chmod o-w\" on it.");
    }
    text = xmalloc((size_t)st.st_size + 1);
    if (read_upto(fd, text, (size_t)st.st_size, &got_bytes, err) != PH_OK)
        return err_ctx(err, "could not read it");
    ret_file->text = steal_ptr(text);
    ret_file->len_bytes = got_bytes;
    ret_file->world_readable = (st.st_mode & S_IROTH) != 0;
    return PH_OK;
}
