# SPDX-License-Identifier: MIT
"""init, check and info on real servers; output, progress and exit codes of the program as a whole."""
import json
import os
import re

import pytest

from pghushcmd import CANNOT_GET, FAILED, REFUSED, USAGE

pytestmark = pytest.mark.quick
NOT_THERE = 1


def steps(result):
    return {step["step"]: step for step in result.data["steps"]}


def test_check_proves_a_good_setup(archived, major):
    server, tool = archived(major)
    result = tool.run("check")
    found = steps(result)
    assert result.data["result"] == "ok" and result.err == ""
    for name in ("repository", "server", "identity", "data directory", "wal_level", "archive_mode", "rights", "archive"):
        assert found[name]["result"] == "ok", found[name]
    segment = re.search(r"[0-9A-F]{24}", found["archive"]["text"]).group()
    assert segment in tool.wal_objects()
    assert os.listdir(os.path.join(tool.repo, "main")) and "check.probe" not in os.listdir(os.path.join(tool.repo, "main"))
    text = tool.run("check", json_output=False).out
    assert not re.search("^(failed|skipped)", text, re.M), text


def test_check_finds_a_broken_archive_early(archived):
    """The server's archiver fails: named, with its segment, long before archive-timeout."""
    server, tool = archived()
    server.sql("alter system set archive_command = '/bin/false'")
    server.sql("select pg_reload_conf()")
    tool.configure(archive_timeout="10min")
    result = tool.run("check", rc=FAILED, timeout=90)
    found = steps(result)
    assert found["archive_mode"]["result"] == "warning"
    assert found["archive"]["result"] == "failed" and "fails" in found["archive"]["text"]
    assert "archive" in result.err and result.seconds < 60


def test_check_names_each_thing_that_is_wrong(make_server, make_pghush, archived):
    server, tool = archived()
    other = make_server(name="other", fresh=True)
    tool.configure(pgdata=other.pgdata)
    found = steps(tool.run("check", rc=REFUSED))
    assert found["data directory"]["result"] == "failed" and other.pgdata in found["data directory"]["text"]
    tool.configure(pgdata=server.pgdata, conninfo="host=/nonexistent user=postgres")
    found = steps(tool.run("check", rc=FAILED))
    assert found["server"]["result"] == "failed" and found["repository"]["result"] == "ok"
    assert found["archive"]["result"] == "skipped" and found["data directory"]["result"] == "ok"
    tool.configure(conninfo="host=%s user=weak dbname=postgres" % server.socket)
    server.sql("create role weak login")
    found = steps(tool.run("check", rc=(USAGE, FAILED)))
    assert found["rights"]["result"] == "failed" and "grant execute" in found["rights"]["hint"].lower()


def test_check_on_a_standby_says_what_it_cannot_prove(archived, folder):
    server, tool = archived()
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start()
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s user=postgres" % standby.socket)
    found = steps(tool.run("check"))
    assert found["archive"]["result"] == "skipped" and "standby" in found["archive"]["text"]


def test_init_again_and_the_setting_it_prints(make_server, make_pghush):
    """The archive_command that init prints works as it stands."""
    server = make_server()
    tool = make_pghush(server)
    text = tool.run("init", json_output=False).out
    setting = re.search(r"^ *(archive_command = .*)$", text, re.M).group(1)
    server.append("postgresql.conf", setting + "\n")
    server.start()
    name = server.switch_wal() if server.sql("create table t as select 1") is not None else None
    server.wait_archived(name)
    assert name in tool.wal_objects()
    assert tool.init().data["result"] == "was-there"


def test_info_tells_windows_gaps_and_backups(archived):
    server, tool = archived()
    empty = tool.info()["clusters"][0]
    assert empty["backups"] == [] and empty["windows"] == []
    first = tool.backup()
    server.sql("create table t as select 1")
    server.archive_all()
    second = tool.backup()
    cluster = tool.info()["clusters"][0]
    assert [b["label"] for b in cluster["backups"]] == [first, second]
    assert all(b["restorable"] and b["result"] == "ok" for b in cluster["backups"])
    window, = cluster["windows"]
    assert window["backup"] == first and window["timeline"] == 1 and not window["ends_in_gap"]
    assert window["to_time"] >= cluster["backups"][1]["stop_time"] > window["from_time"]
    lost = cluster["backups"][1]["wal_first"]
    os.rename(tool.wal_objects()[lost], os.path.join(tool.repo, "moved"))
    cluster = tool.info()["clusters"][0]
    assert [b["restorable"] for b in cluster["backups"]] == [True, False]
    text = tool.run("info", json_output=False).out
    assert first in text and second in text and "lacks WAL" in text
    text = tool.run("info", second, json_output=False).out
    changes = tool.run("info", second).data["backup"]["changes"]
    assert re.search("made against +%s\n" % first, text) and "%d as before" % changes["extents_kept"] in text, text
    assert re.search("full because +the repository holds no backup yet", tool.run("info", first, json_output=False).out)
    detail = tool.run("info", second).data["backup"]
    read = sum(detail["io"]["read_%s_bytes" % how] for how in ("direct", "cached", "dontcache", "buffered"))
    assert abs(detail["bytes_per_sec"] - read * 1e6 / detail["copy_us"]) < 2 and read < detail["database_bytes"], detail


def test_info_of_every_cluster_and_of_one_backup(make_server, make_pghush, archived, world, folder):
    server, tool = archived()
    label = tool.backup()
    other = make_server(name="other", fresh=True)
    others = make_pghush(other, cluster="second", repo=tool.repo)
    others.init()
    tool.configure()  # both write the same file
    argv = [tool.binary, "--output", "json", "--repo", tool.repo, "info"]
    done = world.run(argv, cwd=folder)
    assert [c["name"] for c in json.loads(done.stdout)["clusters"]] == ["main", "second"]
    detail = tool.run("info", label).data["backup"]
    assert detail["label"] == label and detail["tablespaces"] == [] and "settings" in detail["io"]
    tool.fails("info", "20200101T000000Z_F", rc=USAGE, says="20200101T000000Z_F")
    tool.fails("info", "nonsense", rc=USAGE, says="label")


def test_errors_are_one_line_and_one_object(archived):
    server, tool = archived()
    result = tool.run("backup", "--compress", "rar", rc=USAGE)
    error = result.data["error"]
    assert error["code"] == "CONFIG" and error["exit"] == USAGE and "none, lz4 or zstd" in error["text"]
    assert result.err.count("\n") == 1 and result.err.startswith("pghush: option --compress: ")
    result = tool.run("backup", "--compress", "rar", rc=USAGE, json_output=False)
    assert result.out == ""


def test_archive_get_ends_recovery_only_for_a_file_that_is_not_there(archived, folder):
    server, tool = archived()
    name, target = "0000000100000000000000FE", folder + "/back"
    result = tool.run("archive-get", name, target, rc=NOT_THERE)
    assert name in result.err and "not in the archive" in result.err
    for args in ((name,), (name, target, "--prefetch", "many"), ("--what", name, target), (name, target, "more"),
                 (name, target, "--repo", folder + "/absent")):
        tool.run("archive-get", *args, rc=range(CANNOT_GET, 256))
    tool.run("archive-get", name, target, rc=range(CANNOT_GET, 256), env={"PH_FAULT": "alloc:20:ENOMEM"})
    tool.cluster = "nosuch"
    tool.run("archive-get", name, target, rc=range(CANNOT_GET, 256))


def test_progress_is_plain_lines_where_nobody_watches(archived):
    server, tool = archived(checkpoint_timeout="30s", checkpoint_completion_target="0.1")
    server.pgbench_init(5)
    result = tool.run("backup", "--progress", "on", "--checkpoint", "spread", timeout=400)
    for line in result.err.strip().split("\n"):
        assert line == "" or line.startswith("pghush: "), result
    assert "\r" not in result.err and "\033" not in result.err
    assert tool.run("backup").err == ""


def test_a_full_standard_output_is_an_error(archived, world, folder):
    server, tool = archived()
    done = world.run(["sh", "-c", '"$@" > /dev/full', "sh"] + tool.argv("info"), check=False, cwd=folder)
    assert done.returncode == FAILED and "standard output" in done.stderr


def test_passwords_are_refused_where_others_can_read_them(archived, folder):
    server, tool = archived()
    result = tool.run("backup", "--conninfo", "host=x password=geheim", rc=USAGE)
    assert "geheim" not in result.err + result.out
    tool.configure(conninfo="host=%s user=postgres password=geheim" % server.socket)
    for args in (("check",), ("backup",), ("--log-level", "debug", "backup"), ("info",)):
        result = tool.run(*args)
        assert "geheim" not in result.err + result.out
    os.chmod(tool.conf, 0o644)
    result = tool.run("info", rc=USAGE)
    assert "geheim" not in result.err + result.out and "every user can read" in result.err
