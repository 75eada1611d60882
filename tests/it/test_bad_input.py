# SPDX-License-Identifier: MIT
"""Bad input: one line, the right exit code, nothing changed. The list of what a person can get wrong."""
import hashlib
import os
import shutil

import pytest

from pghushcmd import FAILED, REFUSED, USAGE
from scenario import files_of

pytestmark = pytest.mark.quick
NOT_WAL = range(1, 126)


def one_line(result):
    """An error is one line; a hint and warnings have lines of their own."""
    lines = [line for line in result.err.split("\n") if line.strip()]
    errors = [line for line in lines if not line.lower().startswith(("hint", "warn", "pghush: hint", "pghush: warn", " "))]
    assert len(errors) == 1, "not one line: %s" % result
    assert len(lines) <= 3, "too many lines: %s" % result
    return errors[0]


@pytest.fixture
def idle(make_server, make_pghush):
    """A configured cluster whose server is not started."""
    server = make_server()
    tool = make_pghush(server)
    server.configure(archive_command=tool.archive_command)
    return server, tool


@pytest.fixture
def bare(make_pghush, folder):
    """A configuration without a server or a data directory behind it: for what fails before either is looked at."""
    return make_pghush(None, pgdata=folder + "/absent", conninfo="host=/absent")


@pytest.mark.parametrize("args", [
    ("--no-such-option", "backup"), ("backup", "--no-such-option"), ("nosuchcommand",), (), ("backup", "extra"),
    ("backup", "--compress", "rar"), ("backup", "--compress"), ("backup", "--memory", "1"), ("backup", "--memory", "64MiBs"),
    ("backup", "--memory", "99999999999999999999"), ("backup", "--read-size", "3MiB"), ("backup", "--read-depth", "-1"),
    ("backup", "--archive-timeout", "30"), ("backup", "--archive-timeout", "30parsecs"), ("backup", "--workers", "0x"),
    ("backup", "--compress-level", "99"), ("backup", "--direct-io-read", "maybe"),
    ("restore", "--target-lsn", "nonsense"), ("restore", "--target-xid", "-5"), ("restore", "--target-xid", "x"),
    ("restore", "--target-time", "yesterday"), ("restore", "--target-action", "jump"), ("restore", "a", "b"),
    ("restore", "--target-name", "a", "--target-lsn", "0/1"), ("restore", "--target-immediate", "--target-name", "a"),
    ("restore", "--tablespace-map", "x"), ("archive-push",), ("archive-push", "a", "b"),
], ids=lambda a: " ".join(a) or "nothing")
def test_usage(bare, args):
    tool = bare
    before = files_of(tool.repo)
    result = tool.run(*args, rc=USAGE)
    one_line(result)
    assert files_of(tool.repo) == before


@pytest.mark.parametrize("line,says", [
    ("nosuchkey = 1", "nosuchkey"), ("compress = rar", "compress"), ("memory = 7", "memory"), ("memory = lots", "memory"),
    ("workers", "workers"), ("= 3", "pghush.conf"), ("archive-timeout = 5", "archive-timeout"), ("[unclosed", "pghush.conf"),
])
def test_configuration_file_lines(bare, line, says):
    """The error names the file and the line."""
    tool = bare
    with open(tool.conf, encoding="utf-8") as conf:
        text = conf.read()
    number = text.split("\n").index("[main]") + 1
    broken = text.replace("[main]", line + "\n[main]")
    tool.world.write(tool.conf, broken)
    error = one_line(tool.run("info", rc=USAGE))
    assert says in error and "pghush.conf" in error
    assert str(number) in error, "no line %d in: %s" % (number, error)


def test_configuration_file_itself(bare, folder, world):
    tool = bare
    good = tool.conf
    tool.conf = folder + "/absent.conf"
    assert "absent.conf" in one_line(tool.run("info", rc=USAGE))
    tool.conf = folder
    one_line(tool.run("info", rc=USAGE))
    tool.conf = good
    os.chmod(good, 0o000)
    assert "pghush.conf" in one_line(tool.run("info", rc=USAGE))
    os.chmod(good, 0o666)
    assert "writ" in one_line(tool.run("info", rc=USAGE))
    os.chmod(good, 0o600)
    tool.configure(conninfo="host=x password=secret")
    os.chmod(good, 0o644)
    result = tool.run("info", rc=(USAGE, 0, 5))
    assert result.rc == USAGE or "readable" in result.err
    os.chmod(good, 0o600)
    tool.configure()
    tool.cluster = "nosuch"
    tool.fails("backup", rc=USAGE, says="nosuch")


def test_data_directories_that_are_none(idle, folder, world, make_server):
    server, tool = idle
    server.start()
    tool.init()
    before = files_of(tool.repo)
    for path, says in ((folder + "/absent", "absent"), (folder, "PG_VERSION"), (tool.conf, "pghush.conf")):
        tool.configure(pgdata=path)
        error = one_line(tool.run("backup", rc=(USAGE, REFUSED, FAILED)))
        assert says in error or path in error
    odd = world.mkdir(os.path.relpath(folder + "/odd", world.scratch))
    shutil.copytree(server.pgdata, odd + "/data", ignore=shutil.ignore_patterns("postmaster.pid", "pg_wal"))
    world.write(odd + "/data/PG_VERSION", "9.6\n")
    for top, dirs, files in os.walk(odd):
        for name in [top] + [os.path.join(top, f) for f in files]:
            os.chown(name, world.entry.pw_uid, world.entry.pw_gid)
    tool.configure(pgdata=odd + "/data")
    one_line(tool.run("backup", rc=(USAGE, REFUSED, FAILED)))
    other = make_server(name="other", fresh=True)
    tool.configure(pgdata=other.pgdata)
    one_line(tool.run("backup", rc=(REFUSED, USAGE)))
    tool.configure(pgdata=server.pgdata)
    if os.getuid() == 0:
        os.chown(server.pgdata + "/global/pg_control", 0, 0)
        assert "pg_control" in one_line(tool.run("backup", rc=FAILED))
        os.chown(server.pgdata + "/global/pg_control", world.entry.pw_uid, world.entry.pw_gid)
    assert tool.labels() == []
    assert {n for n in files_of(tool.repo) if "lease" not in n} == {n for n in before if "lease" not in n}


def test_server_not_there_or_not_fit(idle, make_server, make_pghush):
    server, tool = idle
    one_line(tool.run("backup", rc=FAILED))
    server.start()
    tool.init()
    server.sql("alter system set archive_mode = 'off'")
    server.stop()
    server.start()
    assert "archive_mode" in one_line(tool.run("backup", rc=(USAGE, REFUSED, FAILED)))
    assert tool.run("backup", "--with-wal").rc == 0
    server.sql("alter system set wal_level = 'minimal'; alter system set max_wal_senders = 0")
    server.stop()
    server.start()
    assert "wal_level" in one_line(tool.run("backup", rc=(USAGE, REFUSED, FAILED)))
    assert "wal_level" in one_line(tool.run("backup", "--with-wal", rc=(USAGE, REFUSED, FAILED)))
    tool.configure(conninfo="host=/nonexistent user=postgres")
    one_line(tool.run("backup", rc=FAILED))
    tool.configure(conninfo="host=%s user=nosuchuser" % server.socket)
    assert "nosuchuser" in one_line(tool.run("backup", rc=FAILED))


def test_repositories_that_are_none(idle, folder, world):
    server, tool = idle
    server.start()
    error = one_line(tool.run("backup", rc=(USAGE, REFUSED, FAILED)))
    assert "init" in tool.run("backup", rc=None).err or "main" in error
    tool.repo = folder + "/absent"
    tool.configure()
    assert "absent" in one_line(tool.run("init", rc=(USAGE, FAILED)))
    busy = world.mkdir(os.path.relpath(folder + "/busy", world.scratch))
    area = world.mkdir(os.path.relpath(busy + "/main", world.scratch))
    world.write(area + "/precious", "mine")
    tool.repo = busy
    tool.configure()
    tool.run("init", rc=(REFUSED, USAGE))
    assert files_of(busy) == {"main", "main/precious"}
    if os.getuid() == 0:
        tool.repo = folder + "/rootonly"
        os.mkdir(tool.repo, 0o700)
        tool.configure()
        error = one_line(tool.run("init", rc=FAILED))
        assert "ermission" in error
    tool.repo = tool.conf
    one_line(tool.run("info", "--repo", tool.repo, rc=(USAGE, FAILED)))


def test_repository_of_a_newer_format(idle):
    """A cluster.json with a higher version number, well sealed: refused by its version, nothing written."""
    server, tool = idle
    server.start()
    tool.init()
    path = tool.repo + "/main/cluster.json"
    with open(path, encoding="utf-8") as sealed:
        text = sealed.read()
    body = text[:text.rindex('  "sha256"')].replace('"format": 1', '"format": 99')
    assert "99" in body
    seal = hashlib.sha256(body.encode()).hexdigest()
    tool.world.write(path, body + '  "sha256": "%s"\n}\n' % seal)
    for command in (("backup",), ("init",), ("restore", tool.folder + "/x")):
        error = one_line(tool.run(*command, rc=REFUSED))
        assert "99" in error or "newer" in error
    assert not os.path.exists(tool.folder + "/x")


def test_restores_that_cannot_be(archived, folder, world):
    server, tool = archived()
    tool.fails("restore", folder + "/x", rc=(USAGE, REFUSED, FAILED))  # no backup at all
    label = tool.backup()
    server.archive_all()
    for args in (("--backup", "20200101T000000Z_F"), ("--backup", "../../etc"), ("--backup", ""), ("--backup", label + "x"),
                 ("--target-name", "a", "--target-time", "2026-01-01 00:00:00Z"),
                 ("--target-xid", "5", "--target-lsn", "0/5000000"),
                 ("--target-exclusive",), ("--target-lsn", "0/1000000"), ("--target-time", "2001-01-01 00:00:00Z"),
                 ("--waldir", "relative"), ("--primary-conninfo", "host=x")):
        result = tool.run("restore", *args, folder + "/x", rc=(USAGE, REFUSED))
        one_line(result)
        assert not os.path.exists(folder + "/x") or os.listdir(folder + "/x") == [], args
    world.write(folder + "/file", "a file")
    one_line(tool.run("restore", folder + "/file", rc=(REFUSED, FAILED, USAGE)))
    with open(folder + "/file", encoding="utf-8") as same:
        assert same.read() == "a file"


def test_pushes_of_what_is_no_wal(archived, folder, make_server):
    server, tool = archived(fresh=True)
    server.sql("create table t as select generate_series(1, 1000) as g")
    name = server.switch_wal()
    path = os.path.join(server.pgdata, "pg_wal", name)
    server.wait_archived(name)
    stored = tool.wal_objects()
    with open(path, "rb") as whole:
        segment = whole.read()

    def attempt(as_name, content, says=()):
        odd = tool.world.write(folder + "/" + as_name, "")
        with open(odd, "wb") as out:
            out.write(content)
        result = tool.run("archive-push", odd, rc=NOT_WAL)
        error = one_line(result).lower()
        for word in says:
            assert word in error, "%s: %s" % (word, error)

    following = name[:-2] + "F0"
    attempt(following, b"x" * len(segment))
    attempt(following, segment[:-8192], (str(len(segment) - 8192), str(len(segment))))
    attempt(following, segment + b"y")
    attempt(following, b"")
    attempt(following, segment)  # whole, but of another place
    attempt("00000002" + name[8:], segment)  # another timeline
    damaged = bytearray(segment)
    damaged[30] ^= 0x55
    attempt(following, bytes(damaged))
    attempt("backup_label", segment)
    attempt("notes.txt", b"hello")
    attempt("0000000G.history", b"1\t0/3000000\tx\n")
    attempt("00000005.history", b"\x00\x01\x02")
    assert tool.wal_objects() == stored
    tool.fails("archive-push", folder, rc=NOT_WAL)


def test_environment_and_file_agree_on_names(idle):
    """PGHUSH_<KEY> is an option too; an unknown one is an error, or is left alone, but a bad value never is."""
    server, tool = idle
    tool.fails("info", rc=USAGE, says="PGHUSH_COMPRESS", env={"PGHUSH_COMPRESS": "rar"})
    server.start()
    tool.init()
    label = tool.backup(env={"PGHUSH_WITH_WAL": "on", "PGHUSH_COMPRESS": "none"})
    assert tool.backup_json(label)["with_wal"] is True


def test_help_names_every_command(idle):
    server, tool = idle
    result = tool.world.run([tool.binary, "--help"])
    for command in ("init", "check", "backup", "archive-push", "archive-get", "restore", "info"):
        assert command in result.stdout
        text = tool.world.run([tool.binary, command, "--help"]).stdout
        assert command in text and len(text) > 200
    assert tool.world.run([tool.binary, "--version"]).stdout.strip()
