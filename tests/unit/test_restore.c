/* SPDX-License-Identifier: MIT */
/*
 * The restore engine over a repository made with the real packer and manifest writer: content, holes, chains,
 * attributes; in place; what is refused; every damaged byte is found and named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/restore/restore.h"
#include "format/block_summary_codec.h"
#include "io/fdio.h"
#include "repo/wal_put.h"
#include "repo_build.h"

struct world {
    char *dir;
    struct repo_build repo;
    char *old_ts;
    char *target;
    char *new_ts;
};

static struct world world_new(enum codec_method method)
{
    struct world w = {0};
    char here[4096];

    assert_non_null(getcwd(here, sizeof here));
    w.dir = xasprintf("%s/restore-test-XXXXXX", here);
    assert_non_null(mkdtemp(w.dir));
    w.old_ts = xasprintf("%s/old", w.dir);
    w.target = xasprintf("%s/target", w.dir);
    w.new_ts = xasprintf("%s/new ts", w.dir);
    w.repo = rb_new(w.dir, w.old_ts, method);
    return w;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void world_free(struct world *w)
{
    rb_free(&w->repo);
    nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(w->dir);
    free(w->old_ts);
    free(w->target);
    free(w->new_ts);
}

static enum ph_rc restore(struct world *w, bool delta, struct restore_result *result,
                          struct ph_err *err)
{
    const struct restore_map map = {.tablespace = "ts", .path = w->new_ts};
    const struct restore_opts opts = {
        .store = w->repo.store,
        .cluster = RB_CLUSTER,
        .path = w->target,
        .delta = delta,
        .restore_command = "true %f",
        .maps = &map,
        .map_count = 1,
        .memory_bytes = 64 * MIB,
        .workers = 2,
    };

    return restore_run(&opts, result, err);
}

static void restore_ok(struct world *w, bool delta, struct restore_result *result)
{
    struct ph_err err = {0};

    rb_ok(restore(w, delta, result, &err), &err);
}

static char *at(const struct world *w, const char *path)
{
    return xasprintf("%s/%s", w->target, path);
}

static void expect_bytes(const struct world *w, const char *path, const void *data, size_t len)
{
    AUTO_FREE char *full = at(w, path);
    struct ph_err err = {0};
    struct buf b;

    buf_init(&b, 64 * MIB);
    rb_ok(file_read_all(AT_FDCWD, full, &b, &err), &err);
    assert_int_equal(b.len_bytes, len);
    assert_memory_equal(len > 0 ? b.data : (const uint8_t *)"", data, len);
    buf_release(&b);
}

static void expect_tree(const struct world *w)
{
    uint8_t small[3 * RB_SMALL];

    expect_bytes(w, "base/1/16384", w->repo.big, RB_BIG);
    expect_bytes(w, "base/1/16385", w->repo.chained, RB_EXTENT);
    for (unsigned i = 0; i < RB_SMALL; i++) {
        AUTO_FREE char *name = xasprintf("base/1/2%04u", i);
        rb_fill(small, (size_t)i * 3, i);
        expect_bytes(w, name, small, (size_t)i * 3);
    }
    expect_bytes(w, "global/pg_control", w->repo.control, sizeof w->repo.control);
    expect_bytes(w, "pg_tblspc/16400/PG_15_202209061/x", "in the tablespace", 17);
    expect_bytes(w, "recovery.signal", "", 0);
    AUTO_FREE char *marker = at(w, "pghush.restore");
    assert_int_equal(access(marker, F_OK), -1);
}

static void overwrite(const char *path, off_t offset, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY);
    struct ph_err err = {0};

    assert_true(fd >= 0);
    rb_ok(pwrite_full(fd, data, len, (uint64_t)offset, &err), &err);
    close(fd);
}

static void test_fresh(void **state)
{
    for (int method = CODEC_NONE; method <= CODEC_ZSTD; method++) {
        struct world w = world_new((enum codec_method)method);
        struct restore_result r = {0};
        struct stat st;

        restore_ok(&w, false, &r);
        expect_tree(&w);
        assert_string_equal(r.label, RB_LABEL);
        assert_int_equal(r.kept_bytes, 0);
        AUTO_FREE char *big = at(&w, "base/1/16384");
        assert_int_equal(stat(big, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(st.st_mtime, 1790000000);
        assert_true((size_t)st.st_blocks * 512 < RB_BIG - RB_EXTENT / 2); /* holes */
        AUTO_FREE char *link = at(&w, "log");
        char text[64] = {0};
        assert_true(readlink(link, text, sizeof text - 1) > 0);
        assert_string_equal(text, "../logs elsewhere");
        restore_result_release(&r);
        world_free(&w);
    }
    (void)state;
}

static void test_settings(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    struct ph_err err = {0};
    struct buf b;
    AUTO_FREE char *conf = at(&w, "postgresql.auto.conf");
    AUTO_FREE char *map = at(&w, "tablespace_map");
    AUTO_FREE char *expected = xasprintf("%u %s\n", RB_OID, w.new_ts);

    restore_ok(&w, false, &r);
    buf_init(&b, MIB);
    rb_ok(file_read_all(AT_FDCWD, conf, &b, &err), &err);
    assert_non_null(strstr(buf_cstr(&b), "\nrestore_command = 'true %f'"));
    assert_non_null(strstr(buf_cstr(&b), "work_mem = '7MB'"));
    assert_null(strstr(buf_cstr(&b), "\nrecovery_target_xid = '9'"));
    assert_non_null(strstr(buf_cstr(&b), "\nrecovery_target_timeline = 'current'"));
    assert_non_null(strstr(buf_cstr(&b), "\nrecovery_min_apply_delay = '0'"));
    rb_ok(file_read_all(AT_FDCWD, map, &b, &err), &err);
    assert_string_equal(buf_cstr(&b), expected);
    buf_release(&b);
    restore_result_release(&r);
    world_free(&w);
    (void)state;
}

/* Content decides: changed bytes with old size and time are found; what is right is not written again. */
static void test_in_place(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    AUTO_FREE char *big = at(&w, "base/1/16384");
    AUTO_FREE char *small = at(&w, "base/1/20150");
    AUTO_FREE char *cut = at(&w, "base/1/16385");
    AUTO_FREE char *stray = at(&w, "base/1/stray");
    const struct timespec times[2] = {{.tv_sec = 1790000000}, {.tv_sec = 1790000000}};

    restore_ok(&w, false, &r);
    restore_result_release(&r);
    overwrite(big, 3 * RB_EXTENT + 5, "changed", 7);
    overwrite(big, 2 * (off_t)RB_EXTENT + 9 * RB_PAGE, "not zero", 8);
    assert_int_equal(utimensat(AT_FDCWD, big, times, 0), 0);
    overwrite(small, 10, "x", 1);
    assert_int_equal(truncate(cut, 5 * RB_PAGE + 17), 0);
    int fd = open(stray, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    restore_ok(&w, true, &r);
    expect_tree(&w);
    assert_int_equal(access(stray, F_OK), -1);
    assert_true(r.removed_files >= 1);
    /* Two pages of one file, 27 of the cut one, one small file, postgresql.auto.conf. */
    assert_true(r.written_bytes <= (2 + 27) * (uint64_t)RB_PAGE + 450 + 43);
    assert_true(r.kept_bytes > RB_BIG - 3 * (size_t)RB_EXTENT);
    restore_result_release(&r);
    world_free(&w);
    (void)state;
}

static void test_in_place_types(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    AUTO_FREE char *outside = xasprintf("%s/outside", w.dir);
    AUTO_FREE char *kept = xasprintf("%s/outside/kept", w.dir);
    AUTO_FREE char *base1 = at(&w, "base/1");
    AUTO_FREE char *moved = at(&w, "base/moved");
    AUTO_FREE char *small = at(&w, "base/1/20150");

    restore_ok(&w, false, &r);
    restore_result_release(&r);
    /* A folder became a link that leads out, a file became a folder. */
    assert_int_equal(mkdir(outside, 0700), 0);
    close(open(kept, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(unlink(small), 0);
    assert_int_equal(mkdir(small, 0700), 0);
    assert_int_equal(rename(base1, moved), 0);
    assert_int_equal(symlink(outside, base1), 0);
    restore_ok(&w, true, &r);
    expect_tree(&w);
    assert_int_equal(access(kept, F_OK), 0);
    struct stat st;
    assert_int_equal(lstat(base1, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    restore_result_release(&r);
    world_free(&w);
    (void)state;
}

/* A big file with a second name elsewhere is made anew: the other name keeps its content. */
static void test_in_place_second_name(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    struct ph_err err = {0};
    AUTO_FREE char *big = at(&w, "base/1/16384");
    AUTO_FREE char *other = xasprintf("%s/other name", w.dir);
    char now[8] = {0};

    restore_ok(&w, false, &r);
    restore_result_release(&r);
    overwrite(big, 5, "changed", 7);
    assert_int_equal(link(big, other), 0);
    restore_ok(&w, true, &r);
    expect_tree(&w);
    restore_result_release(&r);
    int fd = open(other, O_RDONLY);
    assert_true(fd >= 0);
    rb_ok(pread_full(fd, now, 7, 5, &err), &err);
    assert_string_equal(now, "changed");
    close(fd);
    world_free(&w);
    (void)state;
}

/* Below the data directory may be mount points too, such as pg_wal. */
static void test_lost_and_found(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    AUTO_FREE char *folder = at(&w, "base/1/lost+found");
    AUTO_FREE char *stray = at(&w, "base/1/stray");

    restore_ok(&w, false, &r);
    restore_result_release(&r);
    assert_int_equal(mkdir(folder, 0), 0);
    assert_int_equal(mkdir(stray, 0700), 0);
    restore_ok(&w, true, &r);
    restore_result_release(&r);
    assert_int_equal(access(folder, F_OK), 0);
    assert_int_equal(access(stray, F_OK), -1);
    assert_int_equal(rmdir(folder), 0);
    world_free(&w);
    (void)state;
}

/* A tablespace that was mapped into the data directory is no stray folder of it. */
static void test_inner_tablespace(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};

    AUTO_FREE char *outside = steal_ptr(w.new_ts);
    AUTO_FREE char *spaces = xasprintf("%s/spaces", w.target);
    AUTO_FREE char *link = xasprintf("%s/pg_tblspc/%u", w.target, RB_OID);
    struct ph_err err = {0};
    w.new_ts = xasprintf("%s/ts", spaces);
    assert_int_equal(restore(&w, false, &r, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "lies inside the target"));
    assert_int_equal(access(w.target, F_OK), -1);
    /* One that has come there by other means is kept. */
    AUTO_FREE char *inside = w.new_ts;
    w.new_ts = xstrdup(outside);
    restore_ok(&w, false, &r);
    restore_result_release(&r);
    free(w.new_ts);
    w.new_ts = xstrdup(inside);
    assert_int_equal(mkdir(spaces, 0700), 0);
    assert_int_equal(rename(outside, inside), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink(inside, link), 0);
    for (int i = 0; i < 2; i++) {
        restore_ok(&w, true, &r);
        expect_tree(&w);
        restore_result_release(&r);
    }
    world_free(&w);
    (void)state;
}

/* The tablespace's path is another one, but leads into the data directory itself. */
static void test_one_folder_twice(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    struct ph_err err = {0};

    assert_int_equal(mkdir(w.target, 0700), 0);
    assert_int_equal(symlink(w.target, w.new_ts), 0);
    assert_int_equal(restore(&w, false, &r, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "lies inside the target"));
    assert_int_equal(unlink(w.new_ts), 0);
    assert_int_equal(rmdir(w.target), 0); /* still empty */
    world_free(&w);
    (void)state;
}

static void test_refused(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    struct ph_err err = {0};
    AUTO_FREE char *mine = at(&w, "precious");

    assert_int_equal(mkdir(w.target, 0700), 0);
    close(open(mine, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(restore(&w, false, &r, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "precious"));
    assert_int_equal(restore(&w, true, &r, &err), PH_REFUSED);
    assert_int_equal(access(mine, F_OK), 0);
    assert_int_equal(unlink(mine), 0);
    /* The tablespace's folder is in use. */
    assert_int_equal(mkdir(w.new_ts, 0700), 0);
    AUTO_FREE char *other = xasprintf("%s/other", w.new_ts);
    close(open(other, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(restore(&w, false, &r, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, w.new_ts));
    DIR *d = opendir(w.target);
    unsigned names = 0;
    while (readdir(d) != NULL)
        names++;
    closedir(d);
    assert_int_equal(names, 2); /* . and .. */
    world_free(&w);
    (void)state;
}

static void test_targets(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    struct ph_err err = {0};
    struct restore_opts opts = {.store = w.repo.store,
                                .cluster = RB_CLUSTER,
                                .path = w.target,
                                .workers = 1,
                                .dry_run = true};

    opts.target = (struct restore_target){.kind = RESTORE_TO_LSN, .lsn = 0x2000050};
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "before the end"));
    opts.target.lsn = 0x3000000;
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "0/3000000"));
    opts.target = (struct restore_target){.kind = RESTORE_TO_TIME, .time_us = 1790000000500000};
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    opts.target = (struct restore_target){.kind = RESTORE_TO_XID, .xid = 699};
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    opts.label = RB_LABEL;
    rb_ok(restore_run(&opts, &r, &err), &err);
    assert_int_equal(r.note_count, 1);
    restore_result_release(&r);
    opts.label = NULL;
    /* It holds its own WAL and nothing is archived behind it. */
    opts.target.xid = 700;
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "stands alone"));
    opts.target = (struct restore_target){.kind = RESTORE_TO_TIME, .time_us = 1790000001500000};
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    opts.standby = true; /* what it lacks may come from its primary */
    rb_ok(restore_run(&opts, &r, &err), &err);
    restore_result_release(&r);
    opts.standby = false;
    opts.target = (struct restore_target){.kind = RESTORE_TO_NAME, .name = "nowhere"};
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    opts.target = (struct restore_target){
        .kind = RESTORE_TO_END, .timeline = RESTORE_TIMELINE_NUMBER, .timeline_number = 7};
    assert_int_equal(restore_run(&opts, &r, &err), PH_REFUSED);
    opts.target = (struct restore_target){.kind = RESTORE_TO_END};
    opts.label = "20200101T000000Z_F";
    assert_int_equal(restore_run(&opts, &r, &err), PH_NOT_FOUND);
    opts.label = RB_LABEL;
    rb_ok(restore_run(&opts, &r, &err), &err);
    assert_int_equal(access(w.target, F_OK), -1);
    restore_result_release(&r);
    world_free(&w);
    (void)state;
}

/* Archive a segment of zeros whose summary names these restore points and one commit. */
static void archive_segment(struct world *w, uint64_t segno,
                            const struct block_summary_event *events, size_t count,
                            int64_t commit_us)
{
    AUTO_FREE uint8_t *bytes = xcalloc(1, 16 * MIB);
    char name[WAL_NAME_TEXT_BYTES];
    struct wal_put_opts opts = {.name = name, .bytes = bytes, .len_bytes = 16 * MIB};
    struct cluster_info cluster;
    struct wal_put_result result;
    struct block_summary s;
    struct wal_archive a;
    struct wal_put *p;
    struct ph_err err = {0};
    struct buf blocks;

    rb_ok(catalogue_cluster_load(w->repo.store, RB_CLUSTER, &cluster, &err), &err);
    wal_archive_init(&a, w->repo.store, &cluster, 0);
    (void)wal_segment_name(1, segno, 16 * MIB, name, sizeof name);
    block_summary_init(&s);
    s.major = 15;
    s.sysid = w->repo.system_id;
    s.tli = s.first_tli = 1;
    s.seg_bytes = 16 * MIB;
    s.page_bytes = 8192;
    s.end = WAL_END_SWITCH;
    s.start_lsn = wal_segno_start_lsn(segno, 16 * MIB);
    s.end_lsn = s.start_lsn + 4096;
    s.last_lsn = s.start_lsn + 4000;
    s.record_count = count + 1;
    s.first_xact_us = s.last_xact_us = s.max_xact_us = commit_us;
    s.last_xact_lsn = s.last_lsn;
    s.events = xcalloc(count + 1, sizeof *s.events);
    for (size_t i = 0; i < count; i++)
        s.events[i] = events[i];
    s.events_count = s.events_cap = count;
    buf_init(&blocks, MIB);
    rb_ok(block_summary_encode(&s, &blocks, &err), &err);
    block_summary_release(&s);
    opts.ready_bytes = opts.len_bytes;
    rb_ok(wal_put_begin(&a, &opts, &p, &err), &err);
    rb_ok(wal_put_commit(p, &blocks, &result, &err), &err);
    buf_release(&blocks);
}

static enum ph_rc choose(struct world *w, struct restore_target target, size_t *ret_notes,
                         struct ph_err *err)
{
    struct restore_opts opts = {.store = w->repo.store,
                                .cluster = RB_CLUSTER,
                                .path = w->target,
                                .target = target,
                                .workers = 1,
                                .dry_run = true};
    struct restore_result r = {0};
    enum ph_rc rc = restore_run(&opts, &r, err);

    *ret_notes = r.note_count;
    restore_result_release(&r);
    return rc;
}

/* Targets in the archived WAL, judged as the server will judge them. */
static void test_targets_in_wal(void **state)
{
    const struct block_summary_event early[] = {
        {.kind = BLOCK_EVENT_RESTORE_POINT, .lsn = 0x2000080, .name = "twice"},
        {.kind = BLOCK_EVENT_RESTORE_POINT, .lsn = 0x2000200, .name = "once"},
    };
    const struct block_summary_event late[] = {
        {.kind = BLOCK_EVENT_RESTORE_POINT, .lsn = 0x3000100, .name = "twice"}};
    const int64_t last_us = INT64_C(1790000005000000);
    struct restore_target target = {.kind = RESTORE_TO_LSN, .lsn = 0x3000100};
    struct world w = world_new(CODEC_LZ4);
    struct ph_err err = {0};
    size_t notes = 0;

    /* The backup has segment 2 itself: what is archived behind it is reached. */
    archive_segment(&w, 3, late, 1, last_us);
    rb_ok(choose(&w, target, &notes, &err), &err);
    target.lsn = 0x4000000; /* no record begins there or behind it */
    assert_int_equal(choose(&w, target, &notes, &err), PH_REFUSED);
    target.lsn = 0x2000100;
    rb_ok(choose(&w, target, &notes, &err), &err);
    archive_segment(&w, 2, early, 2, INT64_C(1790000000500000));
    target = (struct restore_target){.kind = RESTORE_TO_NAME, .name = "once"};
    rb_ok(choose(&w, target, &notes, &err), &err);
    target.name = "twice";
    assert_int_equal(choose(&w, target, &notes, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "0/2000080 lies before the end"));
    /* Inclusive, the server looks for a later commit than the target; exclusive, for one at it. */
    target = (struct restore_target){.kind = RESTORE_TO_TIME, .time_us = last_us - 1};
    rb_ok(choose(&w, target, &notes, &err), &err);
    assert_int_equal(notes, 0);
    target.time_us = last_us;
    rb_ok(choose(&w, target, &notes, &err), &err);
    assert_int_equal(notes, 1);
    target.exclusive = true;
    rb_ok(choose(&w, target, &notes, &err), &err);
    assert_int_equal(notes, 0);
    /* The future is refused, unless the archive knows better than this machine's clock. */
    target.time_us = INT64_C(2208988800000000);
    assert_int_equal(choose(&w, target, &notes, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "future"));
    archive_segment(&w, 4, NULL, 0, target.time_us);
    rb_ok(choose(&w, target, &notes, &err), &err);
    assert_int_equal(notes, 0);
    /* Damaged WAL may lie behind the target: it is told, not refused. */
    AUTO_FREE char *blocks = xasprintf("%s/main/wal/15-1/00000001/00000000/"
                                       "000000010000000000000003.blocks",
                                       w.repo.dir);
    overwrite(blocks, 0, "damaged", 7);
    rb_ok(choose(&w, target, &notes, &err), &err);
    assert_int_equal(notes, 1);
    world_free(&w);
    (void)state;
}

/* After a promotion in mid-segment the old timeline's segment serves, but not behind the fork. */
static void test_name_before_the_fork(void **state)
{
    static const char history[] = "1\t0/3000100\tno recovery target specified\n";
    const struct block_summary_event events[] = {
        {.kind = BLOCK_EVENT_RESTORE_POINT, .lsn = 0x3000080, .name = "before"},
        {.kind = BLOCK_EVENT_RESTORE_POINT, .lsn = 0x3000200, .name = "behind"},
    };
    const struct wal_put_opts opts = {.name = "00000002.history",
                                      .bytes = (const uint8_t *)history,
                                      .len_bytes = sizeof history - 1,
                                      .ready_bytes = sizeof history - 1};
    struct restore_target target = {.kind = RESTORE_TO_NAME, .name = "before"};
    struct world w = world_new(CODEC_LZ4);
    struct wal_put_result result;
    struct cluster_info cluster;
    struct wal_archive a;
    struct wal_put *p;
    struct ph_err err = {0};
    size_t notes = 0;

    archive_segment(&w, 3, events, 2, INT64_C(1790000005000000));
    rb_ok(catalogue_cluster_load(w.repo.store, RB_CLUSTER, &cluster, &err), &err);
    wal_archive_init(&a, w.repo.store, &cluster, 0);
    rb_ok(wal_put_begin(&a, &opts, &p, &err), &err);
    rb_ok(wal_put_commit(p, NULL, &result, &err), &err);
    rb_ok(choose(&w, target, &notes, &err), &err);
    target.name = "behind";
    assert_int_equal(choose(&w, target, &notes, &err), PH_REFUSED);
    target.timeline = RESTORE_TIMELINE_CURRENT;
    rb_ok(choose(&w, target, &notes, &err), &err);
    world_free(&w);
    (void)state;
}

#define LABEL_FUTURE "20990101T000000Z_F"
#define LABEL_LATER  "20261201T000000Z_F"

/* A backup.json under a label and with an end of our choice; it has no manifest. */
static void forge(const struct world *w, const char *label, ph_lsn stop_lsn, uint64_t generation)
{
    AUTO_FREE char *dir = xasprintf("%s/main/backup/%s", w->repo.dir, label);
    AUTO_FREE char *manifest = path_join(dir, "manifest");
    struct backup_info b = {0};
    struct ph_err err = {0};
    AUTO_FD fd = -1;

    assert_int_equal(mkdir(dir, 0700), 0);
    rb_ok(open_at(AT_FDCWD, manifest, O_WRONLY | O_CREAT, 0600, &fd, &err), &err);
    rb_ok(catalogue_load_backup(w->repo.store, RB_CLUSTER, RB_LABEL, &b, &err), &err);
    rb_ok(truncate_fd(fd, b.manifest_bytes, &err), &err);
    snprintf(b.label, sizeof b.label, "%s", label);
    b.start_lsn = stop_lsn - 0x80;
    b.stop_lsn = stop_lsn;
    b.generation = generation;
    rb_ok(catalogue_publish(w->repo.store, RB_CLUSTER, &b, &err), &err);
    assert_int_equal(unlink(manifest), 0);
    backup_info_release(&b);
}

/* Of a forged one the manifest is missed: the error tells that it was chosen. */
static void expect_forged(struct world *w, struct restore_target target, const char *label)
{
    AUTO_FREE char *expected = xasprintf("manifest of backup %s is not in the repository", label);
    struct ph_err err = {0};
    size_t notes = 0;

    assert_int_equal(choose(w, target, &notes, &err), PH_CORRUPT);
    if (strstr(err.text, expected) == NULL)
        fail_msg("expected \"%s\": %s", expected, err.text);
    assert_non_null(strstr(err.hint, "--backup"));
    assert_int_equal(access(w->target, F_OK), -1);
}

/* A clock in the future gave an older backup the greatest label, and WAL is missing behind it. */
static void test_choice_by_lsn(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_target target = {.kind = RESTORE_TO_END};
    struct ph_err err = {0};
    size_t notes = 0;

    archive_segment(&w, 3, NULL, 0, 0);
    archive_segment(&w, 5, NULL, 0, 0);
    forge(&w, LABEL_FUTURE, 0x2000200, 3);
    forge(&w, LABEL_LATER, 0x5000200, 4);
    expect_forged(&w, target, LABEL_LATER);
    target = (struct restore_target){.kind = RESTORE_TO_LSN, .lsn = 0x3000100};
    expect_forged(&w, target, LABEL_FUTURE);
    target.lsn = 0x2000180;
    rb_ok(choose(&w, target, &notes, &err), &err);
    target.lsn = 0x2000080;
    assert_int_equal(choose(&w, target, &notes, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "before the end of backup " RB_LABEL));
    assert_non_null(strstr(err.hint, "earliest moment that can be reached is 0/2000100"));
    /* At one end the later holder of the lease counts, before the label. */
    forge(&w, "20270101T000000Z_F", 0x5000200, 9);
    forge(&w, "20280101T000000Z_F", 0x5000200, 8);
    target = (struct restore_target){.kind = RESTORE_TO_END};
    expect_forged(&w, target, "20270101T000000Z_F");
    world_free(&w);
    (void)state;
}

/* The path of the first pack by name. */
static char *first_pack(const struct world *w)
{
    AUTO_FREE char *packs = xasprintf("%s/main/pack", w->repo.dir);
    AUTO_FREE char *first = NULL;
    struct dirent *e = NULL;
    DIR *d = opendir(packs);

    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.' || (first != NULL && strcmp(e->d_name, first) > 0))
            continue;
        free(first);
        first = xstrdup(e->d_name);
    }
    closedir(d);
    assert_non_null(first);
    return path_join(packs, first);
}

static void expect_pack_missed(struct world *w, const char *says)
{
    struct restore_target target = {.kind = RESTORE_TO_END};
    struct restore_result r = {0};
    struct ph_err err = {0};
    size_t notes = 0;

    assert_int_equal(choose(w, target, &notes, &err), PH_CORRUPT);
    assert_int_equal(restore(w, false, &r, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, says));
    assert_non_null(strstr(err.text, "expected"));
    assert_non_null(strstr(err.hint, "pghush verify"));
    assert_int_equal(access(w->target, F_OK), -1);
}

/* A pack that is missing or cut is found by a listing, before anything is written. */
static void test_pack_missing(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    AUTO_FREE char *pack = first_pack(&w);
    AUTO_FREE char *away = xasprintf("%s/main/away", w.repo.dir);

    assert_int_equal(rename(pack, away), 0);
    expect_pack_missed(&w, "is not in the repository");
    assert_int_equal(rename(away, pack), 0);
    assert_int_equal(truncate(pack, 100), 0);
    expect_pack_missed(&w, "has 100 bytes");
    world_free(&w);
    (void)state;
}

static int bit_flip(const char *path, size_t offset, unsigned bit)
{
    int fd = open(path, O_RDWR);
    uint8_t byte = 0;
    struct ph_err err = {0};

    assert_true(fd >= 0);
    rb_ok(pread_full(fd, &byte, 1, offset, &err), &err);
    byte = (uint8_t)(byte ^ (1u << bit));
    rb_ok(pwrite_full(fd, &byte, 1, offset, &err), &err);
    return close(fd);
}

/* A restore that broke off leaves a folder on which no server starts, and can be run again. */
static void test_interrupted(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    struct restore_result r = {0};
    struct ph_err err = {0};
    AUTO_FREE char *pack = first_pack(&w);
    AUTO_FREE char *control = at(&w, "global/pg_control");
    struct stat st;

    assert_int_equal(stat(pack, &st), 0);
    bit_flip(pack, (size_t)st.st_size / 4, 3);
    assert_int_equal(restore(&w, false, &r, &err), PH_CORRUPT);
    assert_int_equal(access(control, F_OK), -1);
    bit_flip(pack, (size_t)st.st_size / 4, 3);
    restore_ok(&w, false, &r);
    expect_tree(&w);
    restore_result_release(&r);
    world_free(&w);
    (void)state;
}

/* Each object, flips spread over its length: CORRUPT, naming it, and pg_control is not there. */
static void damage(struct world *w, const char *folder, const char *name, unsigned flips)
{
    AUTO_FREE char *path = xasprintf("%s/%s/%s", w->repo.dir, folder, name);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    for (unsigned i = 0; i < flips; i++) {
        size_t offset = (size_t)st.st_size * i / flips;
        struct restore_result r = {0};
        struct ph_err err = {0};
        AUTO_FREE char *control = at(w, "global/pg_control");

        if (i + 1 == flips)
            offset = (size_t)st.st_size - 1;
        bit_flip(path, offset, i % 8);
        enum ph_rc rc = restore(w, false, &r, &err);
        if (rc == PH_OK)
            fail_msg("flip at %zu of %s was not found", offset, name);
        assert_true(rc == PH_CORRUPT || rc == PH_REFUSED || rc == PH_NOT_FOUND);
        assert_int_equal(access(control, F_OK), -1);
        bit_flip(path, offset, i % 8);
        nftw(w->target, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        nftw(w->new_ts, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void test_damage(void **state)
{
    struct world w = world_new(CODEC_LZ4);
    AUTO_FREE char *packs = xasprintf("%s/main/pack", w.repo.dir);
    struct dirent *e = NULL;
    DIR *d = opendir(packs);

    damage(&w, "main/backup/" RB_LABEL, "manifest", 60);
    damage(&w, "main/backup/" RB_LABEL, "backup.json", 30);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL)
        if (e->d_name[0] != '.')
            damage(&w, "main/pack", e->d_name, 40);
    closedir(d);
    world_free(&w);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_in_place_types),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_in_place_second_name),
        cmocka_unit_test(test_inner_tablespace),
        cmocka_unit_test(test_lost_and_found),
        cmocka_unit_test(test_one_folder_twice),
        cmocka_unit_test(test_targets_in_wal),
        cmocka_unit_test(test_name_before_the_fork),
        cmocka_unit_test(test_choice_by_lsn),
        cmocka_unit_test(test_pack_missing),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_damage),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
