# SPDX-License-Identifier: MIT
"""Secrets, modes of what is made, hygiene of the SQL session. Cases I01, I03, I05."""
import os
import stat

import pytest

import oracle
from pghushcmd import FAILED, USAGE, Pghush, recovered_server
from scenario import backup_and_restore_latest, files_of, load_table, restore_and_accept

pytestmark = pytest.mark.quick
MARK = "s3cr3t-m4rk3r"


def search_everywhere(folder, mark):
    """Files below folder that contain the mark."""
    found = []
    for top, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as data:
                    if mark.encode() in data.read():
                        found.append(path)
    return found


@pytest.mark.parametrize("form", ["keywords", "uri"])
def test_i01_password_is_nowhere(archived, folder, form):
    """A password in conninfo: not in output at debug level, not in errors, /proc/*/cmdline, repository or restored tree."""
    server, tool = archived()
    good = "host=%s user=postgres password=%s" % (server.socket, MARK)
    if form == "uri":
        good = "postgresql://postgres:%s@/postgres?host=%s" % (MARK, server.socket)
    tool.configure(conninfo=good, log_level="debug")
    load_table(server, "t", 20)
    outputs = []
    process = tool.popen("backup", stdout=-1, stderr=-1)
    with open("/proc/%d/cmdline" % process.pid, "rb") as line:
        assert MARK.encode() not in line.read()
    outputs += process.communicate(timeout=120)
    assert process.returncode == 0
    server.archive_all()
    for args in (("check",), ("info",), ("restore", folder + "/again")):
        result = tool.run(*args, rc=None)
        outputs += [result.out, result.err]
    for bad in ("nosuchhost.invalid", "/nonexistent"):
        tool.configure(conninfo=good.replace(server.socket, bad), db_timeout="5s")
        result = tool.run("backup", rc=FAILED)
        outputs += [result.out, result.err]
    broken = good + " nosuchkeyword=1" if form == "keywords" else good + "&nosuchkeyword=1"
    tool.configure(conninfo=broken)
    result = tool.run("backup", rc=(FAILED, USAGE))
    outputs += [result.out, result.err]
    for text in outputs:
        assert MARK not in text
    assert search_everywhere(tool.repo, MARK) == []
    assert search_everywhere(folder + "/again", MARK) == []


def test_i01_secrets_are_refused_on_the_command_line(archived):
    server, tool = archived()
    for conninfo in ("host=x password=%s" % MARK, "postgresql://u:%s@h/db" % MARK):
        result = tool.run("backup", "--conninfo", conninfo, rc=USAGE)
        assert MARK not in result.err + result.out


def test_i03_modes_of_what_we_make(archived, folder):
    """0700 and 0600 whatever the umask: repository, lock files, spool, restored tree."""
    old = os.umask(0)
    try:
        server, tool = archived()
        os.chmod(tool.repo, 0o700)
        server.archive_all()
        tool.backup()
        recovered_server(tool, server, "again").stop()
    finally:
        os.umask(old)
    loose = []
    for top in (tool.repo, folder + "/again"):
        for name in files_of(top):
            info = os.lstat(os.path.join(top, name))
            if not stat.S_ISLNK(info.st_mode) and info.st_mode & 0o077:
                loose.append("%s %o" % (name, stat.S_IMODE(info.st_mode)))
    assert loose == []


def test_i03_nothing_predictable_in_tmp(archived):
    server, tool = archived()
    before = set(os.listdir("/tmp"))
    server.archive_all()
    tool.backup()
    new = [n for n in set(os.listdir("/tmp")) - before if "hush" in n.lower()]
    assert new == []


def test_i05_shadowing_functions_and_odd_settings(archived, major):
    """Functions, operators and settings of others in the path: the backup calls the right ones, whatever the locale."""
    server, tool = archived(major)
    server.sql("""
create schema if not exists evil;
create function public.pg_backup_start(text, boolean) returns pg_lsn language sql as $$ select 'FF/0'::pg_lsn $$;
create function public.pg_is_in_recovery() returns boolean language sql as $$ select true $$;
create function public.pg_start_backup(text, boolean, boolean) returns pg_lsn language sql as $$ select 'FF/0'::pg_lsn $$;
create function evil.int_eq(int, int) returns boolean language sql as $$ select false $$;
create operator public.= (leftarg = int, rightarg = int, function = evil.int_eq);
alter role postgres set search_path = public, evil, pg_catalog;
alter role postgres set datestyle = 'German, DMY';
alter role postgres set intervalstyle = 'sql_standard';
alter role postgres set default_transaction_read_only = on;
alter role postgres set standard_conforming_strings = off;
alter role postgres set bytea_output = 'escape';
alter role postgres set client_encoding = 'LATIN1';
alter role postgres set timezone = 'Asia/Kathmandu';
alter role postgres set extra_float_digits = -15;
""")
    label = tool.backup(env={"PGOPTIONS": "-c datestyle=SQL", "PGCLIENTENCODING": "SJIS", "LC_ALL": "C",
                             "PGTZ": "America/New_York"})
    summary = tool.backup_json(label)
    assert summary["from_standby"] is False and summary["result"] == "ok"
    server.sql("set default_transaction_read_only = off; alter role postgres reset all")
    expected = oracle.fingerprint(server)
    server.sql("select pg_logical_emit_message(true, 'x', 'y')")
    server.archive_all()
    restore_and_accept(tool, server, expected)


GRANTS = """
create role backup_user login;
grant pg_read_all_settings, pg_read_all_stats to backup_user;
grant execute on function pg_switch_wal(), pg_create_restore_point(text) to backup_user;
"""
GRANTS_15 = "grant execute on function pg_backup_start(text, boolean), pg_backup_stop(boolean) to backup_user;"
GRANTS_13 = ("grant execute on function pg_start_backup(text, boolean, boolean), pg_stop_backup(boolean, boolean), "
             "pg_stop_backup() to backup_user;")


@pytest.mark.majors
def test_i05_minimal_grants(archived, major):
    """A role without superuser, with the grants that the documentation names, can check and back up."""
    server, tool = archived(major)
    server.sql(GRANTS + (GRANTS_15 if major >= 15 else GRANTS_13) + (
        "grant pg_checkpoint to backup_user;" if major >= 15 else ""))
    tool.configure(conninfo="host=%s user=backup_user dbname=postgres" % server.socket)
    tool.backup()
    tool.run("check")


def test_i05_server_messages_in_another_encoding(make_server, make_pghush, world, binary, folder):
    """A database in LATIN1 with names beyond ASCII: tablespace and database names come out right."""
    server = make_server(extra=("--encoding=LATIN1",))
    tool = Pghush(world, binary, folder, server)
    server.configure(archive_command=tool.archive_command)
    server.start()
    tool.init()
    server.sql("set client_encoding = 'UTF8'; create table \"größe\" as select 1 as x")
    backup_and_restore_latest(tool, server)
