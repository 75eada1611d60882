# SPDX-License-Identifier: MIT
"""
What lies in and beside a data directory: tablespaces, links, unlogged and temporary relations, files that must stay behind,
odd names, things that cannot be read. Cases A10 to A16.
"""
import os
import socket
import stat
import time

import pytest

import oracle
from pghushcmd import DAMAGE, FAILED, REFUSED, USAGE, freeze_while_open, recovered_server, restored_server
from scenario import backup_and_restore_latest, files_of, load_table, relation_path, restore_and_accept

pytestmark = pytest.mark.quick


def tablespace(server, name, location, world):
    """Create it with a table; location may contain anything."""
    path = world.mkdir(os.path.relpath(location, world.scratch))
    server.sql('create tablespace "%s" location \'%s\'' % (name.replace('"', '""'), path.replace("'", "''")))
    server.sql('create table "in_%s" tablespace "%s" as select g as id, md5(g::text) as pad from generate_series(1, 3000) g'
               % (name.replace('"', '""'), name.replace('"', '""')))
    return path


def version_folder(location):
    found = [n for n in os.listdir(location) if n.startswith("PG_")]
    assert len(found) == 1
    return found[0]


def test_a10_tablespaces_mapped_one_by_one_and_all(archived, folder, world, major):
    """One by name, the others by --tablespace-map-all; links and the content follow, the old places stay untouched."""
    server, tool = archived(major)
    ts1 = tablespace(server, "ts1", folder + "/ts1", world)
    tablespace(server, "ts10", folder + "/ts10", world)  # one path is a prefix of the other
    server.sql("create database indb tablespace ts10")
    server.sql("create table x as select g from generate_series(1, 500) g", "indb")
    world.write(os.path.join(ts1, "foreign.txt"), "not ours")
    world.mkdir(os.path.relpath(ts1 + "/PG_12_201909212", world.scratch))
    world.write(ts1 + "/PG_12_201909212/stray", "another major")
    tool.backup()
    expected = oracle.fingerprint(server)
    server.archive_all()
    new1, rest = folder + "/new one", folder + "/rest"
    copy = recovered_server(tool, server, "again", "--tablespace-map", "ts1=" + new1, "--tablespace-map-all", rest)
    places = dict(copy.rows("select spcname, pg_tablespace_location(oid) from pg_tablespace where spcname like 'ts%'"))
    assert places["ts1"] == new1
    assert places["ts10"].startswith(rest + "/")
    assert sorted(os.listdir(new1)) == [version_folder(ts1 + "/../ts10")]
    oracle.accept(copy, expected)
    assert server.sql("select count(*) from in_ts1") == "3000"


def test_a10_link_to_a_link_is_followed(archived, folder, world):
    server, tool = archived()
    real = world.mkdir(os.path.relpath(folder + "/real", world.scratch))
    os.symlink(real, folder + "/l1")
    server.sql("create tablespace ts location '%s/l1'" % folder)
    server.sql("create table t tablespace ts as select g from generate_series(1, 1000) g")
    tool.backup()
    expected = oracle.fingerprint(server)
    server.archive_all()
    server.stop()
    restore_and_accept(tool, server, expected, "--tablespace-map", "ts=" + folder + "/moved")


def test_a10_restore_without_a_map_refuses_the_live_location(archived, folder, world):
    """The original location holds the running server's files: nothing is written over them."""
    server, tool = archived()
    place = tablespace(server, "ts", folder + "/ts", world)
    tool.backup()
    before = files_of(place)
    tool.fails("restore", folder + "/again", rc=(REFUSED, USAGE), says=place)
    assert files_of(place) == before
    assert not os.path.exists(folder + "/again/PG_VERSION")


def test_a10_circular_link_is_an_error_soon(archived, folder, world):
    server, tool = archived()
    os.symlink("b", os.path.join(server.pgdata, "a"))
    os.symlink("a", os.path.join(server.pgdata, "b"))
    os.symlink(folder + "/loop2", folder + "/loop1")
    os.symlink(folder + "/loop1", folder + "/loop2")
    os.symlink(folder + "/loop1", os.path.join(server.pgdata, "pg_tblspc", "99999"))
    start = time.monotonic()
    tool.fails("backup", rc=(FAILED, REFUSED, USAGE, DAMAGE), says="99999", timeout=60)
    assert time.monotonic() - start < 30
    os.unlink(os.path.join(server.pgdata, "pg_tblspc", "99999"))
    assert tool.run("backup", rc=(0, FAILED)).rc in (0, FAILED)


def test_a10_tablespace_inside_the_data_directory(archived, folder, world):
    server, tool = archived()
    tablespace(server, "inside", server.pgdata + "/spaces", world)
    tool.backup()
    expected = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(tool, server, expected, "--tablespace-map", "inside=" + folder + "/moved")


def test_a11_wal_elsewhere_and_linked_configuration(make_server, make_pghush, folder, world):
    """initdb --waldir, a relative link to pg_hba.conf, log as a link: WAL is not in the backup, links are as they were."""
    waldir = folder + "/waldir"
    server = make_server(extra=("--waldir=" + waldir,))
    tool = make_pghush(server)
    world.mkdir(os.path.relpath(folder + "/conf", world.scratch))
    world.mkdir(os.path.relpath(folder + "/logs", world.scratch))
    os.rename(server.pgdata + "/pg_hba.conf", folder + "/conf/pg_hba.conf")
    os.symlink("../conf/pg_hba.conf", server.pgdata + "/pg_hba.conf")
    os.symlink(folder + "/logs", server.pgdata + "/log")
    server.configure(archive_command=tool.archive_command)
    server.start()
    tool.init()
    server.sql("create table t as select g from generate_series(1, 1000) g")
    tool.backup()
    expected = oracle.fingerprint(server)
    server.archive_all()
    target = folder + "/again"
    copy = recovered_server(tool, server, "again", "--waldir", folder + "/newwal")
    assert os.path.realpath(target + "/pg_wal") == folder + "/newwal"
    assert os.readlink(target + "/pg_hba.conf") == "../conf/pg_hba.conf"
    oracle.accept(copy, expected)


def test_a11_wal_content_is_not_restored(archived, folder):
    server, tool = archived()
    server.switch_wal()
    tool.backup()
    target = folder + "/again"
    tool.restore(target)
    names = os.listdir(target + "/pg_wal")
    assert "archive_status" in names
    assert not [n for n in names if len(n) == 24]
    assert os.listdir(target + "/pg_wal/archive_status") == []


def test_a11_external_configuration(make_server, make_pghush, folder, world):
    """config_file and hba_file in another place: a warning without --with-config, restored with it."""
    server = make_server()
    tool = make_pghush(server)
    etc = world.mkdir(os.path.relpath(folder + "/etc", world.scratch))
    server.configure(archive_command=tool.archive_command, data_directory=server.pgdata, hba_file=etc + "/pg_hba.conf",
                     ident_file=etc + "/pg_ident.conf")
    for name in ("postgresql.conf", "pg_hba.conf", "pg_ident.conf"):
        os.rename(os.path.join(server.pgdata, name), os.path.join(etc, name))
    server.start(config_file=etc + "/postgresql.conf")
    tool.init()
    warned = tool.run("backup")
    assert etc + "/postgresql.conf" in warned.err + warned.out
    label = tool.backup("--with-config")
    assert sorted(c["path"] for c in tool.backup_json(label)["external_config"]) == sorted(
        os.path.join(etc, n) for n in ("postgresql.conf", "pg_hba.conf", "pg_ident.conf"))
    server.archive_all()
    tool.restore(folder + "/again", "--backup", label, "--config-dir", folder + "/newetc")
    for name in ("postgresql.conf", "pg_hba.conf", "pg_ident.conf"):
        with open(os.path.join(etc, name), "rb") as source, open(os.path.join(folder, "newetc", name), "rb") as copy:
            assert source.read() == copy.read()


def test_a12_unlogged_and_temporary_relations(archived, folder, major):
    """Only init forks of unlogged relations are stored; one that turns logged in mid-copy has all its rows."""
    server, tool = archived(major, pghush={"compress": "zstd", "compress-level": 12, "read-depth": 1})
    server.sql("create unlogged table u (i serial primary key, x text); insert into u (x) select repeat('u', 100) "
               "from generate_series(1, 20000)")
    server.sql("create unlogged table becomes (i int primary key, x text); insert into becomes select g, md5(g::text) "
               "from generate_series(1, 5000) g")
    load_table(server, "zzz", 60)
    server.sql("checkpoint")
    temp = server.world.popen(server.psql_argv() + ["-c", "create temp table tt as select g from generate_series(1, 5000) g; "
                                                    "select pg_sleep(600)"])
    try:
        main_fork = os.path.relpath(relation_path(server, "u"), server.pgdata)
        process = tool.popen("backup")
        if freeze_while_open(process, relation_path(server, "zzz")):
            server.sql("create unlogged table late (i int primary key); insert into late select generate_series(1, 5000)")
            server.sql("alter table becomes set logged")
            process.send_signal(18)
        assert process.wait(120) == 0
    finally:
        temp.kill()
        temp.wait()
    server.sql("alter table becomes set logged")
    server.archive_all()
    expected = oracle.fingerprint(server, ["postgres"])
    target = folder + "/tree"
    tool.restore(target)
    stored = files_of(target)
    assert main_fork + "_init" in stored
    assert main_fork not in stored
    assert not [p for p in stored if p.startswith("base/") and os.path.basename(p).startswith("t")]
    copy = recovered_server(tool, server, "again")
    assert oracle.fingerprint(copy, ["postgres"]) == expected
    assert copy.sql("select count(*) from u") == "0"
    copy.sql("insert into u (x) values ('usable'); insert into late values (1)")
    oracle.accept(copy, None)


def test_a13_files_that_stay_behind(archived, folder, world):
    server, tool = archived()
    server.sql("select pg_create_physical_replication_slot('s1')")
    junk = ["pg_stat_tmp/global.stat", "pg_dynshmem/mmap.1", "pg_notify/0000", "pg_serial/0000", "pg_snapshots/0001-1",
            "pg_subtrans/00FF", "base/pgsql_tmp/pgsql_tmp1.0", "base/pgsql_tmp/pgsql_tmp1.fileset/0.0", "backup_manifest",
            "backup_label.old", "tablespace_map.old", "current_logfiles", "pg_wal/archive_status/0000000100000000000000AA.ready",
            "base/1/pgsql_tmp_x/1"]
    for name in junk:
        path = os.path.join(server.pgdata, name)
        world.mkdir(os.path.relpath(os.path.dirname(path), world.scratch))
        world.write(path, "junk")
    for name in ("recovery.done", "my_own_file.txt"):
        world.write(os.path.join(server.pgdata, name), "kept")
    tool.backup()
    server.archive_all()
    target = folder + "/again"
    tool.restore(target)
    restored = files_of(target)
    back = [name for name in junk if name in restored and name not in ("backup_manifest",)]
    assert back == [], "brought back: %s" % back
    for name in ("postmaster.pid", "postmaster.opts", "standby.signal", "pg_replslot/s1", "global/pg_internal.init"):
        assert name not in restored
    for name in ("pg_stat_tmp", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_subtrans", "pg_replslot",
                 "pg_twophase", "pg_wal/archive_status", "backup_label", "recovery.signal", "my_own_file.txt"):
        assert name in restored, "%s is missing" % name
    with open(target + "/backup_manifest", encoding="utf-8") as manifest:
        assert manifest.read() != "junk"


ODD_NAMES = [b"a\\b", b"k=v", b"sp ace", b" lead", b"trail ", b"new\nline", b"#x", b"[x]", b"\"q'", b"\xff\xfe",
             b"\xc3\xa9" * 127, b"tab\there", b"%p", b"-rf", b"\x01"]


def test_a15_odd_names(archived, folder, world, major):
    """Names are bytes: stored, listed and restored as they are, or refused; never a catalogue that cannot be loaded."""
    server, tool = archived(major)
    for name in ODD_NAMES:
        path = os.path.join(os.fsencode(server.pgdata), name)
        with open(path, "wb") as odd:
            odd.write(b"content of " + name)
        os.chmod(path, 0o600)
        os.chown(path, world.entry.pw_uid, world.entry.pw_gid)
    for number, name in enumerate(("a=b", "[db]", " db", "d'b", "e\\f")):
        server.sql("create database \"%s\"" % name)
        server.sql("create table t as select %d as n" % number, name)
    tablespace(server, "ts = '[x]'", folder + '/ts =\\x"%', world)
    tool.backup()
    tool.info()
    expected = oracle.fingerprint(server)
    server.archive_all()
    copy = restored_server(tool, server, "again", "--tablespace-map-all", folder + "/all", "--target-action", "promote",
                           start=False)
    for name in ODD_NAMES:
        with open(os.path.join(os.fsencode(copy.pgdata), name), "rb") as odd:
            assert odd.read() == b"content of " + name
    copy.start(archive_mode="off")
    copy.wait_recovered()
    oracle.accept(copy, expected)


def test_a15_data_directory_with_blanks_and_quotes(make_server, make_pghush, folder):
    """B16 as well: PGDATA and repository with spaces, quotes and percent, PGDATA reached by a link."""
    server = make_server(name="my data'%base=x")
    os.symlink(server.pgdata, folder + "/link")
    server.pgdata = folder + "/link"
    repo = server.world.mkdir(os.path.relpath(folder + "/re po%'x", server.world.scratch))
    tool = make_pghush(server, repo=repo)
    server.configure(archive_command=tool.archive_command)
    server.start()
    tool.init()
    server.sql("create table t as select g from generate_series(1, 1000) g")
    tool.section["pgdata"] = folder + "/link/"
    tool.configure()
    backup_and_restore_latest(tool, server, name="again 'and' %again")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files that the server's user cannot read")
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a16_unreadable_file_or_folder(archived, kind):
    server, tool = archived()
    path = os.path.join(server.pgdata, "root_owned")
    if kind == "file":
        with open(path, "w", encoding="utf-8") as secret:
            secret.write("x")
        os.chmod(path, 0o600)
    else:
        os.mkdir(path, 0o000)
    start = time.monotonic()
    tool.fails("backup", rc=FAILED, says=("root_owned", "permission denied"))
    assert time.monotonic() - start < 60
    assert tool.labels() == []
    assert "f" == server.sql("select pg_is_in_recovery()")
    os.rmdir(path) if kind == "directory" else os.unlink(path)
    tool.backup()


def test_a16_fifo_and_socket_are_skipped(archived, folder, world):
    server, tool = archived()
    os.mkfifo(os.path.join(server.pgdata, "fifo"))
    os.chown(os.path.join(server.pgdata, "fifo"), world.entry.pw_uid, world.entry.pw_gid)
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(server.pgdata)
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
        assert stat.S_ISSOCK(os.stat(server.pgdata + "/sock").st_mode)
        tool.run("backup", timeout=60)
    tool.restore(folder + "/again")
    restored = files_of(folder + "/again")
    assert "fifo" not in restored and "sock" not in restored
