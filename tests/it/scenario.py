# SPDX-License-Identifier: MIT
"""Pieces of stories that several test files tell."""
import os
import subprocess

import oracle
from pghushcmd import recovered_server


class Moment:
    """What a quiet server looked like, in every way a target can name it."""

    def __init__(self, server, name="here"):
        self.fingerprint = oracle.fingerprint(server)
        self.time = oracle.moment(server)
        server.sql("select pg_create_restore_point('%s')" % name)
        self.name = name
        self.xid = server.sql("begin; select txid_current(); create table mark_%s (); commit;" % name).split("\n")[0]
        server.sql("drop table mark_%s" % name)
        self.lsn = server.sql("select pg_current_wal_lsn()")


def spoil(server):
    """Something that must not be there after a restore to an earlier moment; archived completely."""
    server.sql("drop table if exists spoiled; create table spoiled as select g from generate_series(1, 100) g")
    server.archive_all()


def restore_and_accept(pghush, server, expected, *options, name="again", stop=True):
    """Restore, recover, promote, whole oracle. Returns the copy."""
    copy = recovered_server(pghush, server, name, *options)
    oracle.accept(copy, expected, stop=stop)
    return copy


def backup_and_restore_latest(pghush, server, *args, name="again"):
    """Backup, then everything that is committed is archived, restored and compared."""
    label = pghush.backup(*args)
    expected = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(pghush, server, expected, name=name)
    return label


def verify_restored_tree(server, path):
    """pg_verifybackup accepts the tree before its first start; the client's knows the manifests of 13 to 16."""
    manifest = os.path.join(path, "backup_manifest")
    assert os.path.exists(manifest), "restore has written no backup_manifest"
    if server.major >= 17:
        return
    done = server.world.run([os.path.join(server.world.client, "pg_verifybackup"), "-n", path], check=False, timeout=300)
    assert done.returncode == 0, "pg_verifybackup: %s%s" % (done.stdout, done.stderr)


def files_of(path):
    """Relative paths of everything below path, links not followed."""
    found = set()
    for top, dirs, files in os.walk(path):
        for name in dirs + files:
            found.add(os.path.relpath(os.path.join(top, name), path))
    return found


def load_table(server, name, megabytes, database="postgres"):
    """A table of about that size that hardly compresses."""
    rows = megabytes * 1024 // 8 * 7
    server.sql("create table %s as select g as id, md5(g::text || 'a') || repeat(md5(random()::text), 33) as pad "
               "from generate_series(1, %d) g" % (name, rows), database, timeout=600)


def relation_path(server, name, database="postgres"):
    return os.path.join(server.pgdata, server.sql("select pg_relation_filepath('%s')" % name, database))


def dd_overwrite(path, offset, data):
    with open(path, "r+b") as target:
        target.seek(offset)
        target.write(data)


def flip_bit(path, offset, bit=0):
    with open(path, "r+b") as target:
        target.seek(offset)
        byte = target.read(1)[0]
        target.seek(offset)
        target.write(bytes([byte ^ (1 << bit)]))


def mount_tmpfs(world, folder, megabytes):
    """A small file system for full-disk tests, or None where mounting is not allowed."""
    place = world.mkdir(os.path.relpath(os.path.join(folder, "small"), world.scratch))
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm,mode=0700,uid=%d,gid=%d" % (
        megabytes, world.entry.pw_uid, world.entry.pw_gid), "pghush-test", place], capture_output=True, check=False)
    return place if done.returncode == 0 else None


def grow_tmpfs(place, megabytes):
    subprocess.run(["mount", "-o", "remount,size=%dm" % megabytes, place], capture_output=True, check=True)


def unmount(place):
    subprocess.run(["umount", "-l", place], capture_output=True, check=False)
