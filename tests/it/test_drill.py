# SPDX-License-Identifier: MIT
"""Restore drills (verify --restore) and tables taken out of a backup (restore --table). Cases of groups C, F and G."""
import glob
import os
import signal
import subprocess

import pytest

from pghushcmd import DAMAGE, FAILED, REFUSED, USAGE, kill_and_wait, wait_until
from scenario import dd_overwrite, mount_tmpfs, relation_path, unmount

pytestmark = pytest.mark.quick

LONG_SQL = "select pg_sleep(60)"


@pytest.fixture
def place(world, folder):
    """The drill path; nothing may be left in it, nor any server that has worked there."""
    path = world.mkdir(os.path.relpath(os.path.join(folder, "d"), world.scratch))
    yield path
    assert os.listdir(path) == [], "the drill has left something"
    assert servers_in(path) == []


def servers_in(path):
    """Process ids of what works below path."""
    found = []
    for link in glob.glob("/proc/[0-9]*/cwd"):
        try:
            if os.readlink(link).startswith(path + "/"):
                found.append(int(link.split("/")[2]))
        except OSError:
            pass
    return found


@pytest.fixture
def story(archived):
    """A table, a backup, more rows by WAL, all archived. Returns server, tool, label and the LSN of half the rows."""
    def make(major=15, **settings):
        server, tool = archived(major, **settings)
        server.sql("create table t (g int primary key, x text)")
        server.sql("insert into t select g, md5(g::text) from generate_series(1, 2000) g")
        label = tool.backup()
        server.sql("insert into t select g, 'late' from generate_series(2001, 3000) g")
        half = server.sql("select pg_current_wal_lsn()")
        server.sql("insert into t select g, 'later' from generate_series(3001, 4000) g")
        server.archive_all()
        return server, tool, label, half
    return make


def drill(tool, place, *args, rc=0, restore="latest", **kwargs):
    return tool.run("verify", "--restore", restore, "--drill-path", place, *args, rc=rc, **kwargs)


def results(data):
    return {check["name"]: check["result"] for check in data["checks"]}


@pytest.mark.majors
def test_drill_proves_a_backup(story, place, major):
    """Restored, recovered to the end, checked, recorded, shown by info, and gone."""
    server, tool, label, half = story(major)
    data = drill(tool, place, "--pg-bindir", server.bindir, "--sql", "select count(*) = 4000 from public.t").data
    assert data["result"] == "proved" and data["label"] == label and data["recorded"] is True
    found = results(data)
    assert found["restore"] == found["recovery"] == found["catalogs"] == "ok"
    assert found["sql select count(*) = 4000 from public.t"] == "ok"
    complete = os.path.exists(os.path.join(server.bindir, "pg_checksums"))
    assert found["page checksums"] == ("ok" if complete else "skipped")
    assert found["amcheck"] == ("ok" if major >= 14 else "skipped")
    assert data["databases"] >= 2 and data["relations"] > 500 and data["pg_version"] // 10000 == major
    shown = tool.info()["clusters"][0]["backups"][0]
    assert shown["drill"]["failed"] is False and shown["drill"]["lsn"] == data["lsn"]
    assert "proved restorable on" in tool.run("info", json_output=False).out
    assert "proved restorable on" in tool.run("info", label, json_output=False).out


def test_drill_to_a_moment(story, place):
    """The target decides what the copy holds; a later drill replaces the record."""
    server, tool, label, half = story()
    data = drill(tool, place, "--target-lsn", half, "--amcheck", "off", "--sql", "select count(*) = 3000 from public.t",
                 restore=label).data
    assert data["result"] == "proved" and results(data)["amcheck"] == "skipped"
    data = drill(tool, place, "--amcheck", "off", "--target-immediate", "--sql", "select count(*) = 2000 from t").data
    assert tool.info()["clusters"][0]["backups"][0]["drill"]["lsn"] == data["lsn"]


def test_sql_that_is_false_or_fails(story, place, world, folder):
    """Each is a failed drill: exit 4, recorded, named; the other checks are made all the same."""
    server, tool, label, half = story()
    checks = world.write(os.path.join(folder, "checks.sql"), "select 1;\n\\connect template1\nselect 1 / 0;\n")
    result = drill(tool, place, "--amcheck", "off", "--sql", "select count(*) = 5 from public.t", "--sql", "@" + checks,
                   "--sql", "select true", rc=DAMAGE)
    found = result.data["checks"]
    assert [c["result"] for c in found if c["name"].startswith("sql ")] == ["failed", "failed", "ok"]
    assert any("division by zero" in c["text"] for c in found)
    assert label in result.err
    assert tool.info()["clusters"][0]["backups"][0]["drill"]["failed"] is True
    assert "drill FAILED" in tool.run("info", json_output=False).out
    tool.fails("verify", "--restore", "latest", "--drill-path", place, "--sql", "@" + folder + "/absent", rc=USAGE, says="absent")


def test_damaged_page_is_found(story, place):
    """A page that was damaged before the backup, which did not look: the drill does."""
    server, tool, label, half = story()
    server.sql("create table hurt as select g, md5(g::text) x from generate_series(1, 20000) g")
    server.sql("create index on hurt (g); checkpoint")
    path = relation_path(server, "hurt")
    server.stop()
    dd_overwrite(path, 5 * 8192 + 4000, b"\x55" * 300)
    server.start()
    damaged = tool.backup("--page-checksums", "off", "--type", "full")
    server.archive_all()
    result = drill(tool, place, restore=damaged, rc=DAMAGE)
    found = results(result.data)
    assert found["page checksums"] == "failed" and found["amcheck"] == "failed"
    sound = drill(tool, place, "--target-immediate", "--amcheck", "off", restore=label).data
    assert sound["result"] == "proved"


def test_server_of_another_major_or_none(story, place, world, folder):
    server, tool, label, half = story()
    empty = world.mkdir(os.path.relpath(os.path.join(folder, "nothing"), world.scratch))
    tool.fails("verify", "--restore", "latest", "--drill-path", place, "--pg-bindir", empty, rc=USAGE,
               says=["nothing", "postgres"])
    tool.fails("verify", "--restore", "latest", "--drill-path", place + "/absent", rc=(USAGE, FAILED), says="absent")
    tool.fails("verify", "--restore", "20200101T000000Z_F", "--drill-path", place, rc=USAGE, says="20200101T000000Z_F")
    tool.fails("verify", "--restore", "newest", "--drill-path", place, rc=USAGE, says="newest")
    tool.fails("verify", "--restore", "latest", rc=USAGE, says="drill-path")
    tool.fails("verify", "--restore", "latest", "--fast", "--drill-path", place, rc=USAGE, says="--fast")
    tool.fails("verify", "--sql", "select true", rc=USAGE, says=["--sql", "--restore"])


def wait_for_server(place):
    wait_until(lambda: glob.glob(place + "/pghush-drill-*/sql.log"), 90, what="the drill's SQL")


def test_g01_signals_leave_nothing(story, place):
    """SIGTERM and SIGINT while the copy's server works: it is stopped, the folder is removed."""
    server, tool, label, half = story()
    for number in (signal.SIGTERM, signal.SIGINT):
        process = tool.popen("verify", "--restore", "latest", "--drill-path", place, "--amcheck", "off", "--sql", LONG_SQL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_server(place)
        assert servers_in(place)
        assert kill_and_wait(process, number, timeout=60) == FAILED
        assert os.listdir(place) == [] and servers_in(place) == []
    assert "drill" not in tool.info()["clusters"][0]["backups"][0]


def test_g01_killed_drill(story, place, world):
    """After kill -9 the server ends by itself, and the next drill removes the folder; a stranger's stays."""
    server, tool, label, half = story()
    stranger = world.mkdir(os.path.relpath(place, world.scratch), "pghush-drill-mine")
    process = tool.popen("verify", "--restore", "latest", "--drill-path", place, "--amcheck", "off", "--sql", LONG_SQL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_server(place)
    kill_and_wait(process, signal.SIGKILL)
    wait_until(lambda: not servers_in(place), 30, what="the end of the orphaned server")
    assert len(os.listdir(place)) == 2
    drill(tool, place, "--amcheck", "off")
    assert os.listdir(place) == ["pghush-drill-mine"]
    os.rmdir(stranger)


@pytest.mark.slow
def test_two_drills_at_once(story, place):
    """A drill that runs is not taken for a leftover."""
    server, tool, label, half = story()
    process = tool.popen("verify", "--restore", "latest", "--drill-path", place, "--amcheck", "off", "--sql",
                         "select pg_sleep(15)", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_server(place)
    drill(tool, place, "--amcheck", "off")
    assert process.wait(90) == 0


def test_backup_whose_wal_has_a_gap(story, place):
    """WAL of the backup itself is missing: refused, with the segment's name. Behind it: the drill says how far it got."""
    server, tool, label, half = story()
    summary = tool.backup_json(label)
    for name in ("1", "2"):
        server.sql("select pg_logical_emit_message(true, 'x', '%s')" % name)
        last = server.switch_wal()
        server.wait_archived(last)
    server.archive_all()
    os.unlink(tool.wal_objects()[last])
    data = drill(tool, place, "--amcheck", "off").data
    assert data["result"] == "proved" and int(data["lsn"].split("/")[1], 16) <= int(last[-2:], 16) << 24
    assert last in data["checks"][0]["text"]
    os.unlink(tool.wal_objects()[summary["wal_first"]])
    tool.fails("verify", "--restore", label, "--drill-path", place, rc=REFUSED, says=summary["wal_first"])


def test_no_room(story, world, folder):
    """Asked before anything is restored."""
    server, tool, label, half = story()
    small = mount_tmpfs(world, folder, 64)
    if small is None:
        pytest.skip("mounting is not allowed")
    try:
        tool.fails("verify", "--restore", "latest", "--drill-path", small, rc=FAILED, says=["free", "needs"])
        assert os.listdir(small) == []
    finally:
        unmount(small)


def test_copy_does_nothing_by_itself(story, place, folder):
    """Whatever the cluster's settings are, the copy neither archives nor loads nor listens."""
    server, tool, label, half = story()
    server.sql("alter system set shared_preload_libraries = 'no_such_library'")
    server.sql("alter system set external_pid_file = '%s/pidfile'" % folder)
    server.sql("alter system set log_directory = '%s'" % folder)
    server.append("postgresql.conf", "include '/nowhere/else.conf'\ndata_directory = '/nowhere'\nssl = on\n")
    tool.backup("--type", "full")
    server.archive_all()
    before = set(tool.wal_objects())
    settings = ("select current_setting('archive_mode') = 'off' and current_setting('listen_addresses') = '' "
                "and current_setting('shared_preload_libraries') = '' "
                "and current_setting('max_logical_replication_workers') = '0' "
                "and current_setting('work_mem') = '5MB'")
    drill(tool, place, "--amcheck", "off", "--sql", settings, "--drill-setting", "work_mem=5MB")
    assert not os.path.exists(folder + "/pidfile")
    assert set(tool.wal_objects()) == before


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_as_root(story, place, world, folder):
    """PostgreSQL does not run as root: the copy's server runs as the owner of the files, tablespaces too."""
    server, tool, label, half = story()
    space = world.mkdir(os.path.relpath(os.path.join(folder, "ts"), world.scratch))
    server.sql("create tablespace ts location '%s'" % space)
    server.sql("create table apart tablespace ts as select g from generate_series(1, 100) g")
    tool.backup()
    server.archive_all()
    argv = tool.argv("verify", "--restore", "latest", "--drill-path", place, "--amcheck", "off", "--sql",
                     "select count(*) = 4000 from public.t", "--sql", "select count(*) = 100 from public.apart")
    done = subprocess.run(argv, capture_output=True, text=True, env=tool.world.env, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("operation,error", [("open", "EACCES"), ("read", "EIO"), ("write", "ENOSPC"), ("mkdir", "ENOSPC"),
                                             ("truncate", "EIO"), ("sql", "EIO"), ("unlink", "EIO"), ("alloc", "ENOMEM")])
def test_whatever_call_fails(story, place, operation, error):
    """No server stays behind, the next drill works and leaves nothing; a failed call is never a proof."""
    server, tool, label, half = story()
    hits = 0
    for number in (1, 2, 5, 12, 30, 80, 200, 500):
        result = drill(tool, place, "--amcheck", "off", "--sql", "select count(*) = 4000 from public.t", rc=None,
                       env={"PH_FAULT": "%s:%d:%s" % (operation, number, error)})
        assert result.rc in (0, USAGE, REFUSED, DAMAGE, FAILED), result
        wait_until(lambda: not servers_in(place), 20, what="the end of the copy's server")
        hits += "fault injected" in result.err
    assert hits > 0 or operation in ("truncate", "sql")
    drill(tool, place, "--amcheck", "off")


# ---- tables

@pytest.fixture
def shop(archived):
    """Database "my shop" with a table that is changed, then dropped; another database that is large."""
    def make(major=15):
        server, tool = archived(major)
        server.sql('create database "my.shop"')
        server.sql("create database other")
        server.sql("create table big as select g, md5(g::text) x from generate_series(1, 50000) g", "other")
        server.sql('create schema "S 1"; create table "S 1"."Orders" (id int primary key, note text); '
                   'insert into "S 1"."Orders" select g, md5(g::text) from generate_series(1, 1000) g', "my.shop")
        label = tool.backup()
        server.sql('update "S 1"."Orders" set note = \'changed\' where id <= 10', "my.shop")
        server.sql("vacuum big; update big set x = 'y' where g % 5 = 0", "other")
        there = server.sql("select pg_current_wal_lsn()")
        server.sql('drop table "S 1"."Orders"', "my.shop")
        server.archive_all()
        return server, tool, label, there
    return make


TABLE = '"my.shop".S 1.Orders'


def test_table_as_it_was(shop, place, folder, world):
    """A dropped table comes back as of a moment, as SQL and for pg_restore; only its database is restored."""
    server, tool, label, there = shop()
    data = tool.run("restore", "--table", TABLE, "--table-file", folder + "/orders.sql", "--table-format", "plain",
                    "--target-lsn", there, "--drill-path", place).data
    assert data["table"] == "Orders" and data["bytes"] == os.path.getsize(folder + "/orders.sql")
    server.sql('create database back')
    server.sql('create schema "S 1"', "back")
    world.run(server.psql_argv("back") + ["-f", folder + "/orders.sql"])
    assert server.sql('select count(*), count(*) filter (where note = \'changed\') from "S 1"."Orders"', "back") == "1000|10"
    tool.run("restore", "--table", TABLE, "--table-file", folder + "/orders.dump", "--target-immediate", "--drill-path", place)
    listing = world.run([os.path.join(world.client, "pg_restore"), "-l", folder + "/orders.dump"]).stdout
    assert "TABLE DATA S 1 Orders" in listing
    assert os.stat(folder + "/orders.dump").st_mode & 0o777 == 0o600


def test_table_that_does_not_exist(shop, place, folder):
    """At the end it is dropped; a database that never was; a name that is none; a file that is there."""
    server, tool, label, there = shop()
    out = folder + "/x"
    base = ["restore", "--drill-path", place, "--table-file", out, "--table"]
    tool.fails(*base, TABLE, rc=REFUSED, says=["Orders", "my.shop", "did not exist"])
    tool.fails(*base, "nobase.public.t", rc=REFUSED, says=["nobase", "did not exist"])
    tool.fails(*base, "public.t", rc=USAGE, says=["public.t", "DATABASE.SCHEMA.TABLE"])
    tool.fails(*base, TABLE, "--delta", rc=USAGE, says="--table")
    tool.fails("restore", "--drill-path", place, "--table", TABLE, rc=USAGE, says="--table-file")
    with open(out, "w", encoding="ascii") as there_already:
        there_already.write("mine")
    tool.fails(*base, TABLE, rc=REFUSED, says=["is there already"])
    assert os.path.getsize(out) == 4 and not glob.glob(folder + "/.tmp-*")


@pytest.mark.slow
@pytest.mark.majors
def test_table_on_other_majors(shop, place, folder, major):
    """pg_dump must be of the server's major or later; where it is not, that is said before anything is restored."""
    server, tool, label, there = shop(major)
    out = folder + "/orders"
    if major > 15 and not os.path.exists(os.path.join(server.bindir, "pg_dump")):
        tool.fails("restore", "--table", TABLE, "--table-file", out, "--drill-path", place, "--pg-bindir", server.bindir,
                   rc=USAGE, says=["pg_dump", str(major)])
        return
    tool.run("restore", "--table", TABLE, "--table-file", out, "--target-lsn", there, "--drill-path", place, "--pg-bindir",
             server.bindir)
    assert os.path.getsize(out) > 1000


def test_database_that_was_being_dropped(archived, place):
    """A backup that ends in the middle of DROP DATABASE holds one that nobody can connect to: that is no damage."""
    server, tool = archived()
    server.sql("create database half")
    server.sql("update pg_database set datconnlimit = -2 where datname = 'half'")
    tool.backup()
    server.archive_all()
    data = drill(tool, place).data
    assert data["result"] == "proved", data
