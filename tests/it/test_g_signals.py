# SPDX-License-Identifier: MIT
"""Signals, lost sessions, locks, idle servers. Cases G01 to G05."""
import os
import random
import signal
import threading
import time

import pytest

import oracle
from conftest import full_count
from pghushcmd import FAILED, REFUSED, freeze_while_open, wait_until
from scenario import backup_and_restore_latest, load_table, relation_path, restore_and_accept

pytestmark = pytest.mark.quick
SLOW = {"compress": "zstd", "compress-level": 12, "read-depth": 1}


def backup_sessions(server):
    return server.sql("select count(*) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' "
                      "and application_name ilike '%pghush%'")


def in_backup_mode(server):
    """Full-page writes are forced while a backup runs; before 15 the functions tell, here the sessions do."""
    return backup_sessions(server) != "0"


def assert_clean_after(server, tool, published):
    wait_until(lambda: not in_backup_mode(server), 20, what="the backup's session to end")
    assert tool.labels() == published
    assert server.sql("select count(*) from pg_replication_slots") == "0"
    tool.info()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_g01_cancel_in_mid_copy(archived, number):
    """Ends within seconds, no backup mode, no visible backup; the next one works."""
    server, tool = archived(pghush=SLOW)
    load_table(server, "big", 50)
    server.sql("checkpoint")
    process = tool.popen("backup", stderr=-1)
    assert freeze_while_open(process, relation_path(server, "big"))
    process.send_signal(signal.SIGCONT)
    start = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - start < 15
    assert process.returncode == FAILED, errors
    assert "cancel" in errors.lower() or "signal" in errors.lower()
    assert_clean_after(server, tool, [])
    tool.configure(compress="lz4", compress_level="auto", read_depth="auto")
    backup_and_restore_latest(tool, server)


def test_g01_cancel_while_waiting_for_the_checkpoint(archived):
    """A spread checkpoint may take minutes; a signal ends the wait at once."""
    server, tool = archived(checkpoint_timeout="1h", checkpoint_completion_target="0.9", pghush={"checkpoint": "spread"},
                            max_wal_size="10GB", shared_buffers="128MB")
    server.pgbench_init(5)
    process = tool.popen("backup", stderr=-1)
    wait_until(lambda: in_backup_mode(server) or process.poll() is not None, 20)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (FAILED, 0), errors
    assert_clean_after(server, tool, tool.labels())


def test_g01_killed_at_random_moments(archived):
    """SIGKILL, SIGTERM, SIGINT at random times: nothing half-made is listed, and each next run works."""
    server, tool = archived()
    server.pgbench_init(2)
    server.pgbench_start(clients=1)
    chance = random.Random(11)
    start = time.monotonic()
    tool.backup()
    whole = time.monotonic() - start
    for turn in range(full_count(10, 200)):
        known = tool.labels()
        process = tool.popen("backup")
        time.sleep(chance.uniform(0, whole))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        code = process.wait(60)
        published = tool.labels()
        assert set(known) <= set(published)
        if code == 0:
            assert len(published) == len(known) + 1
        for label in published:
            assert tool.backup_json(label)["result"] == "ok"
        wait_until(lambda: not in_backup_mode(server), 20, what="the backup's session to end")
    server.stop_load()
    backup_and_restore_latest(tool, server)


def test_g01_restore_killed_at_random_moments(archived, folder):
    """A killed restore never starts as a server and never harms the repository; the next one works."""
    server, tool = archived()
    server.pgbench_init(2)
    expected = oracle.fingerprint(server)
    tool.backup()
    server.archive_all()
    target = folder + "/victim"
    start = time.monotonic()
    tool.restore(target)
    whole = time.monotonic() - start
    chance = random.Random(5)
    for turn in range(full_count(6, 200)):
        tool.world.run(["rm", "-rf", target])
        process = tool.popen("restore", target)
        time.sleep(chance.uniform(0, whole))
        process.kill()
        if process.wait(60) != 0 and os.path.exists(target):
            complete = os.path.exists(target + "/global/pg_control")
            again = tool.run("restore", "--delta", target, rc=(0, REFUSED))
            assert again.rc == 0 or not complete, "pg_control is there, but --delta refuses: %s" % again
    restore_and_accept(tool, server, expected)


def test_g02_session_killed_in_mid_copy(archived):
    """The backup fails soon and says so; it never stops from another session and calls that good."""
    server, tool = archived(pghush=SLOW)
    load_table(server, "big", 60)
    server.sql("checkpoint")
    process = tool.popen("backup", stderr=-1)
    assert freeze_while_open(process, relation_path(server, "big"))
    killed = server.sql("select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name ilike '%pghush%' "
                        "and pid <> pg_backend_pid()")
    assert killed != "0", "no session of the backup was found by its application_name"
    process.send_signal(signal.SIGCONT)
    start = time.monotonic()
    _, errors = process.communicate(timeout=90)
    assert process.returncode == FAILED, errors
    assert time.monotonic() - start < 60
    assert tool.labels() == []


def test_g02_server_restarted_in_mid_copy(archived):
    server, tool = archived(pghush=SLOW)
    load_table(server, "big", 50)
    server.sql("checkpoint")
    process = tool.popen("backup", stderr=-1)
    assert freeze_while_open(process, relation_path(server, "big"))
    server.stop("immediate")
    server.start()
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == FAILED, errors
    assert tool.labels() == []
    tool.configure(compress="lz4", compress_level="auto")
    backup_and_restore_latest(tool, server)


@pytest.mark.slow
def test_g02_timeouts_of_the_role_do_not_end_the_session(archived):
    server, tool = archived(pghush=SLOW)
    load_table(server, "big", 60)
    server.sql("alter role postgres set statement_timeout = '1s'; alter role postgres set lock_timeout = '500ms'; "
               "alter role postgres set idle_in_transaction_session_timeout = '1s'; "
               "alter role postgres set idle_session_timeout = '1s'; checkpoint")
    process = tool.popen("backup", stderr=-1)
    if freeze_while_open(process, relation_path(server, "big")):
        time.sleep(3)
        process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def test_g04_second_backup_at_once_is_refused(archived):
    """One backup of a cluster at a time; archive-push and info go on meanwhile."""
    server, tool = archived(pghush=SLOW)
    load_table(server, "big", 50)
    server.sql("checkpoint")
    process = tool.popen("backup")
    assert freeze_while_open(process, relation_path(server, "big"))
    try:
        refused = tool.fails("backup", rc=(FAILED, REFUSED), says=str(process.pid), timeout=30)
        assert refused.seconds < 20
        tool.info()
        server.archive_all()
        assert tool.run("init", rc=None, timeout=30).seconds < 20
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.wait(120) == 0
    assert len(tool.labels()) == 1


def test_g04_stale_and_damaged_lock_files(archived, world):
    """Empty or left-over lock files, a lease with a living foreign pid: no obstacle; an unreadable one is not "busy"."""
    server, tool = archived()
    area = os.path.join(tool.repo, "main")
    tool.backup()
    world.write(area + "/lease.lock", "")
    tool.backup()
    lease = area + "/lease"
    if os.path.exists(lease):
        with open(lease, encoding="utf-8") as text:
            assert '"generation"' in text.read()
    process = tool.popen("backup")
    process.kill()
    process.wait()
    tool.backup()
    if os.getuid() == 0:
        os.chown(area + "/lease.lock", 0, 0)
        os.chmod(area + "/lease.lock", 0o600)
        result = tool.fails("backup", rc=(FAILED, REFUSED), says="permission denied")
        assert "lease.lock" in result.err


def test_g04_readers_beside_a_push(archived, folder):
    """archive-get and info while pushes run: never blocked, never a half object."""
    server, tool = archived()
    server.archive_all()
    name = sorted(n for n in tool.wal_objects() if len(n) == 24)[0]
    stop, errors = threading.Event(), []

    def reader(number):
        while not stop.is_set():
            for args in (("archive-get", name, "%s/back%d" % (folder, number)), ("info",)):
                result = tool.run(*args, rc=None, timeout=60)
                if result.rc != 0:
                    errors.append(str(result))
                    return

    threads = [threading.Thread(target=reader, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        server.archive_all()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_g05_idle_server(archived, major):
    """Nothing happens on the server, archive_timeout is 0: the backup switches the segment itself and ends soon."""
    server, tool = archived(major, archive_timeout="0")
    server.sql("checkpoint")
    server.switch_wal()
    server.sql("checkpoint")
    start = time.monotonic()
    tool.backup()
    assert time.monotonic() - start < 30
    tool.backup()


def test_g05_failing_archiver_is_named(archived):
    """The wait is finite, and the message has the segment that cannot be archived."""
    server, tool = archived(pghush={"archive-timeout": "4s"})
    server.sql("alter system set archive_command = '/bin/false'; select pg_reload_conf()")
    time.sleep(0.5)
    server.sql("select pg_logical_emit_message(true, 'x', 'y')")
    server.switch_wal()
    result = tool.fails("backup", rc=FAILED, says=("archiv", "0000000100000000000000"), timeout=90)
    assert result.seconds < 60
    assert_clean_after(server, tool, [])
