# SPDX-License-Identifier: MIT
"""The lease: who holds it, who takes it over, and that its former holder publishes nothing. Cases G04, and (g) in general."""
import hashlib
import json
import os
import signal
import time

import pytest

import oracle
from pghushcmd import FAILED, REFUSED, freeze_while_open, kill_and_wait
from scenario import load_table, relation_path, restore_and_accept

pytestmark = pytest.mark.quick
SLOW = {"compress": "zstd", "compress-level": 12, "read-depth": 1}


def lease_path(tool):
    return os.path.join(tool.repo, tool.cluster, "lease")


def lease(tool):
    with open(lease_path(tool), encoding="utf-8") as text:
        return json.load(text)


def plant_lease(tool, **members):
    """Change members of the lease and seal it again."""
    now = dict(lease(tool), **members)
    del now["sha256"]
    body = json.dumps(now, indent=2)[:-2] + ",\n"
    text = body + '  "sha256": "%s"\n}\n' % hashlib.sha256(body.encode()).hexdigest()
    tool.world.write(lease_path(tool) + ".new", text)
    st = os.stat(lease_path(tool))
    os.chown(lease_path(tool) + ".new", st.st_uid, st.st_gid)
    os.rename(lease_path(tool) + ".new", lease_path(tool))


@pytest.fixture
def frozen(archived):
    """(server, tool, process): a backup that stands still in the middle of its copy."""
    server, tool = archived(pghush=SLOW)
    load_table(server, "big", 60)
    server.sql("checkpoint")
    process = tool.popen("backup", stderr=-1)
    assert freeze_while_open(process, relation_path(server, "big"))
    yield server, tool, process
    if process.poll() is None:
        process.kill()
        process.wait()


def wake(process, timeout=120):
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=timeout)
    return process.returncode, errors


def test_holder_is_told_and_waited_for(frozen):
    """Who, since when, what to do; with lock-timeout the second one waits, and both succeed."""
    server, tool, process = frozen
    now = lease(tool)
    assert now["pid"] == process.pid and now["command"] == "backup" and not now["released"]
    assert now["boot_id"] == open("/proc/sys/kernel/random/boot_id", encoding="ascii").read().strip()
    start = time.monotonic()
    tool.fails("backup", "--lock-timeout", "0s", rc=FAILED,
               says=("in use", '"backup" of process %d' % process.pid, now["since"][:19], "end that process", "sign of life"))
    assert time.monotonic() - start < 10
    second = tool.popen("backup", "--lock-timeout", "100s", stderr=-1)
    time.sleep(2)
    assert second.poll() is None
    code, errors = wake(process)
    assert code == 0, errors
    _, errors = second.communicate(timeout=120)
    assert second.returncode == 0, errors
    assert len(tool.labels()) == 2
    assert lease(tool)["generation"] == 2 and lease(tool)["released"]


def test_frozen_holder_is_replaced_and_publishes_nothing(frozen):
    """It is taken for dead after valid_s seconds without a sign of life; when it wakes up it ends, and removes nothing."""
    server, tool, process = frozen
    expected = oracle.fingerprint(server)
    plant_lease(tool, valid_s=2, expires="2026-01-01T00:00:00.000000Z")
    tool.configure(compress="lz4", compress_level="auto", read_depth="auto")
    result = tool.run("backup", "--lock-timeout", "0s")
    assert "took over the lease" in result.err and str(process.pid) in result.err
    published = tool.labels()
    assert len(published) == 1
    assert lease(tool)["generation"] == 2
    packs = {n for n in os.listdir(os.path.join(tool.repo, "main", "pack")) if not n.startswith(".tmp-")}
    code, errors = wake(process)
    assert code == REFUSED, errors
    assert "lost the lease" in errors and "ours was 1" in errors
    assert tool.labels() == published
    assert packs <= set(os.listdir(os.path.join(tool.repo, "main", "pack")))
    assert lease(tool)["generation"] == 2 and lease(tool)["released"]
    server.archive_all()
    restore_and_accept(tool, server, expected, "--backup", published[0])
    tool.backup()


def test_holder_that_lost_the_lease_to_a_living_one(frozen):
    """Woken while the new holder still works: the new one is not disturbed."""
    server, tool, process = frozen
    plant_lease(tool, valid_s=1, expires="2026-01-01T00:00:00.000000Z")
    second = tool.popen("backup", "--lock-timeout", "0s", stderr=-1)
    assert freeze_while_open(second, relation_path(server, "big"))
    assert lease(tool)["generation"] == 2 and lease(tool)["pid"] == second.pid
    code, errors = wake(process)
    assert code == REFUSED, errors
    assert tool.labels() == []
    tool.fails("backup", "--lock-timeout", "0s", rc=FAILED, says='"backup" of process %d' % second.pid)
    code, errors = wake(second)
    assert code == 0, errors
    assert len(tool.labels()) == 1


def test_killed_holder_is_replaced_at_once(frozen):
    server, tool, process = frozen
    kill_and_wait(process)
    start = time.monotonic()
    result = tool.run("backup", "--lock-timeout", "0s")
    assert time.monotonic() - start < 60 and "took over the lease" in result.err
    assert lease(tool)["generation"] == 2


def test_lease_is_renewed_while_it_is_held(frozen):
    """The holder gives signs of life in the middle of a long copy; nobody takes it for dead."""
    server, tool, process = frozen
    plant_lease(tool, valid_s=2)
    process.send_signal(signal.SIGCONT)
    code, errors = wake(process)
    assert code == 0, errors
    assert lease(tool)["released"]


@pytest.mark.parametrize("content", [pytest.param("", marks=pytest.mark.slow), "{}",
                                     pytest.param("garbage\n", marks=pytest.mark.slow), None])
def test_damaged_lease(archived, content):
    """Named, with what to do; backups stay usable, and after the remedy all works."""
    server, tool = archived()
    label = tool.backup()
    expected = oracle.fingerprint(server)
    if content is None:  # one bit
        with open(lease_path(tool), "r+b") as text:
            text.seek(20)
            byte = text.read(1)[0]
            text.seek(20)
            text.write(bytes([byte ^ 1]))
    else:
        with open(lease_path(tool), "w", encoding="utf-8") as text:
            text.write(content)
    tool.fails("backup", rc=range(2, 6), says=("main/lease", "no backup is lost", "remove"))
    assert tool.labels() == [label]
    tool.info()
    server.archive_all()
    restore_and_accept(tool, server, expected)
    os.unlink(lease_path(tool))
    tool.backup()


def test_only_the_lease_is_waited_for(archived):
    """Too many connections may pass, too, but lock-timeout is not about that: told at once."""
    server, tool = archived()
    server.sql("create role lonely login connection limit 0")
    tool.configure(conninfo="host=%s port=5432 user=lonely dbname=postgres" % server.socket)
    start = time.monotonic()
    tool.fails("backup", "--lock-timeout", "60s", rc=FAILED, says="too many connections")
    assert time.monotonic() - start < 20
