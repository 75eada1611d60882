# SPDX-License-Identifier: MIT
"""Retention: expire, pin, unpin. Cases F02 to F05, D08 and D10 as far as they are about expiry, E07's order on removal."""
import fcntl
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

import oracle
from conftest import full_count
from pghushcmd import DAMAGE, FAILED, REFUSED, USAGE, kill_and_wait, recovered_server, wait_until
from scenario import flip_bit, load_table, mount_tmpfs, restore_and_accept, unmount

pytestmark = pytest.mark.quick


def grow(server, name="grown", rows=2000):
    """Some WAL, all of it archived."""
    server.sql("create table if not exists %s (g int, pad text); "
               "insert into %s select g, md5(g::text) from generate_series(1, %d) g" % (name, name, rows))
    server.archive_all()


def expire(tool, *args, rc=0, **kwargs):
    return tool.run("expire", *args, rc=rc, **kwargs)


def kept(result):
    return [b["label"] for b in result.data["backups"] if b["action"] == "keep"]


def packs_of(tool):
    return sorted(os.listdir(os.path.join(tool.repo, tool.cluster, "pack")))


def segments(tool):
    return sorted(name for name in tool.wal_objects() if re.fullmatch("[0-9A-F]{24}", name))


def edit_sealed(path, change):
    """Rewrite a sealed JSON object: change(dict), then seal it anew as docs/format.md says."""
    import hashlib
    with open(path, encoding="utf-8") as text:
        obj = json.load(text)
    del obj["sha256"]
    change(obj)
    body = json.dumps(obj, indent=2)[:-2] + ",\n"
    seal = hashlib.sha256(body.encode()).hexdigest()
    os.chmod(path, 0o600)
    with open(path, "w", encoding="utf-8") as text:
        text.write(body + '  "sha256": "%s"\n}\n' % seal)


def backup_path(tool, label, name="backup.json"):
    return os.path.join(tool.repo, tool.cluster, "backup", label, name)


def set_info(tool, which, **members):
    edit_sealed(backup_path(tool, which), lambda obj: obj.update(members))


def copy_tree(source, target):
    """With owners and modes."""
    subprocess.run(["cp", "-a", source, target], check=True)


def restorable(tool, server, label, folder, expected=None, target="--target-immediate"):
    """Restore the backup and recover to where it is consistent; returns the fingerprint."""
    copy = recovered_server(tool, server, os.path.basename(folder), "--backup", label, target)
    found = oracle.fingerprint(copy)
    copy.stop()
    shutil.rmtree(copy.pgdata)
    if expected is not None:
        assert found == expected
    return found


# ---- what stays, what goes

def test_f02_f04_keep_full_leaves_what_is_needed(archived, folder):
    """keep-full 2 of 3, incremental ones between: what goes is gone, what stays restores to its end and to the latest moment."""
    server, tool = archived()
    labels, at = [], {}
    for kind in ("full", "incr", "full", "incr", "full", "incr"):
        grow(server)
        labels.append(tool.backup("--type", kind))
        at[labels[-1]] = None
    grow(server)
    expected = oracle.fingerprint(server)
    server.archive_all()
    before = segments(tool)
    dry = expire(tool, "--keep-full", "2", "--dry-run")
    assert dry.data["result"] == "planned" and kept(dry) == labels[2:]
    assert tool.labels() == labels and segments(tool) == before
    done = expire(tool, "--keep-full", "2")
    assert done.data["result"] == "expired" and kept(done) == labels[2:]
    assert tool.labels() == labels[2:]
    assert not any(os.path.exists(os.path.dirname(backup_path(tool, label))) for label in labels[:1])
    first_needed = tool.backup_json(labels[2])["wal_first"]
    assert segments(tool) == [name for name in before if name >= first_needed]
    assert not [p for p in glob.glob(tool.repo + "/*/wal/*/*/*/*.blocks") if os.path.basename(p)[:24] < first_needed]
    totals = done.data["totals"]
    assert totals["packs_live_bytes"] + totals["packs_expired_bytes"] == totals["packs_stored_bytes"]
    assert tool.run("verify", rc=(0,)).rc == 0
    for number, label in enumerate(labels[2:]):
        restorable(tool, server, label, folder + "/r%d" % number)
    restore_and_accept(tool, server, expected, "--backup", labels[2], name="latest")
    again = expire(tool, "--keep-full", "2")
    assert again.data["totals"]["backups_expired"] == again.data["totals"]["packs_expired"] == 0


def test_full_expires_below_an_incremental_that_uses_its_packs(archived, folder):
    """The full backup goes, its packs stay as long as the incremental one names them, and that restores."""
    server, tool = archived()
    grow(server)
    full = tool.backup("--type", "full")
    grow(server, "more")
    incr = tool.backup("--type", "incr")
    assert incr.endswith("_I"), "not incremental: %s" % incr
    packs = packs_of(tool)
    result = expire(tool, "--keep-daily", "1")
    assert kept(result) == [incr] and tool.labels() == [incr]
    assert packs_of(tool) == packs
    restorable(tool, server, incr, folder + "/r")
    server.sql("vacuum full grown; vacuum full more")
    later = tool.backup("--type", "full")
    expire(tool, "--keep-full", "1")
    assert tool.labels() == [later]
    assert all(name.startswith(later[:16]) for name in packs_of(tool))
    assert sorted(os.listdir(os.path.join(tool.repo, tool.cluster, "backup"))) == [later]


def test_f02_pinned_keeps_its_own_wal_only(archived, folder):
    """An old pinned backup stays with the WAL to its end; in between WAL goes; after unpin it expires."""
    server, tool = archived()
    grow(server)
    old = tool.backup("--type", "full")
    expected = restorable(tool, server, old, folder + "/before")
    for _ in range(4):
        grow(server)
    tool.fails("pin", old, rc=USAGE, says="reason")
    pinned = tool.run("pin", old, "--reason", "before the migration").data
    assert pinned["reason"] == "before the migration" and "@" in pinned["who"]
    new = tool.backup("--type", "full")
    result = expire(tool, "--keep-full", "1")
    assert kept(result) == [old, new]
    assert [b["reasons"] for b in result.data["backups"]][0] == ["pinned"]
    info, last = tool.backup_json(old), tool.backup_json(new)
    assert [s for s in segments(tool) if s < last["wal_first"]] == [s for s in segments(tool)
                                                                    if info["wal_first"] <= s <= info["wal_last"]]
    restorable(tool, server, old, folder + "/after", expected)
    shown = {b["label"]: b for b in tool.info()["clusters"][0]["backups"]}
    assert shown[old]["pin"]["reason"] == "before the migration" and "pin" not in shown[new]
    assert "pinned" in tool.run("info", json_output=False).out
    tool.run("unpin", old)
    tool.fails("unpin", old, rc=USAGE, says="not pinned")
    assert kept(expire(tool, "--keep-full", "1")) == [new]


def test_other_timelines_stay_while_they_can_be_followed(archived, folder):
    """Timeline 2 forks behind the kept backup: its WAL stays and restores; a branch that forked earlier goes."""
    server, tool = archived()
    grow(server)
    first = tool.backup("--type", "full")
    server.sql("select pg_create_restore_point('early')")
    grow(server)
    branch = recovered_server(tool, server, "early", "--target-name", "early", archive_mode="on")
    grow(branch, "on_two")
    branch.stop()
    second = tool.backup("--type", "full")
    server.sql("select pg_create_restore_point('late')")
    grow(server)
    server.stop()
    late = recovered_server(tool, server, "late", "--backup", second, "--target-timeline", "1", "--target-name", "late",
                            archive_mode="on")
    grow(late, "on_three")
    third = tool_on(tool, late).backup("--type", "full")
    assert tool.backup_json(third)["timeline"] == 3
    grow(late, "on_three")
    expected = oracle.fingerprint(late)
    late.archive_all()
    result = expire(tool, "--keep-full", "2")
    assert kept(result) == [second, third]
    left = segments(tool)
    assert not [s for s in left if s.startswith("00000002")], "timeline 2 cannot be reached from a kept backup"
    assert [s for s in left if s.startswith("00000003")] and [s for s in left if s.startswith("00000001")]
    assert "00000002.history" in tool.wal_objects(), "histories stay"
    restore_and_accept(tool, late, expected, "--backup", second, "--target-timeline", "3", name="again")
    assert first not in tool.labels()


def tool_on(tool, server):
    """The same repository, another server."""
    tool.configure(pgdata=server.pgdata, conninfo="host=%s port=5432 user=postgres" % server.socket)
    return tool


def test_f04_corrupt_backups_do_not_count(archived):
    """keep-full 1: not the newest, whose page checks failed, but the clean one before it counts; both stay."""
    server, tool = archived()
    labels = []
    for _ in range(3):
        grow(server)
        labels.append(tool.backup("--type", "full"))
    set_info(tool, labels[2], result="corrupt-pages", corrupt_page_count=1)
    result = expire(tool, "--keep-full", "1")
    assert kept(result) == labels[1:]
    assert "newest" in result.data["backups"][1]["reasons"]
    set_info(tool, labels[1], result="corrupt-pages", corrupt_page_count=1)
    refused = tool.run("expire", "--keep-full", "1", rc=REFUSED)
    assert refused.data["result"] == "refused" and tool.labels() == labels[1:]
    assert "keep nothing" in refused.err


def test_f04_a_backup_without_its_wal_or_packs_does_not_count(archived):
    server, tool = archived()
    labels = []
    for _ in range(3):
        grow(server)
        labels.append(tool.backup("--type", "full"))
    info = tool.backup_json(labels[2])
    os.unlink(tool.wal_objects()[info["wal_last"]])
    pack = next(name for name in packs_of(tool) if name.startswith(labels[1][:16]))
    os.unlink(os.path.join(tool.repo, tool.cluster, "pack", pack))
    result = expire(tool, "--keep-full", "1")
    assert kept(result) == labels
    problems = [b.get("problem", "") for b in result.data["backups"]]
    assert pack in problems[1] and info["wal_last"] in problems[2]


# ---- nothing to go by

def test_f03_no_rule_no_backup(archived):
    """Without a rule nothing is guessed; without a backup no WAL goes; fewer than N is no error."""
    server, tool = archived()
    grow(server)
    tool.fails("expire", rc=USAGE, says="keep-full")
    before = segments(tool)
    result = expire(tool, "--keep-full", "2")
    assert result.data["backups"] == [] and segments(tool) == before
    label = tool.backup()
    result = expire(tool, "--keep-full", "2")
    assert result.data["backups"][0]["reasons"].count("few-full") + result.data["backups"][0]["reasons"].count("keep-full") == 1
    assert tool.labels() == [label]
    assert segments(tool)[0] == tool.backup_json(label)["wal_first"]
    tool.fails("pin", "20200101T000000Z_F", "--reason", "x", rc=USAGE, says="no backup")
    tool.fails("pin", "latest", "--reason", "x", rc=USAGE, says="label")


def test_f03_wal_of_every_kind_goes_and_strays_stay(archived):
    """.partial, .backup and summaries below the cut go, histories stay, what is no WAL stays and is named."""
    server, tool = archived()
    grow(server)
    first = tool.backup("--type", "full")
    grow(server)
    second = tool.backup("--type", "full")
    objects = tool.wal_objects()
    old = tool.backup_json(first)["wal_first"]
    place = os.path.dirname(objects[old])
    shutil.copy2(objects[old], os.path.join(place, old + ".partial"))
    stray = os.path.join(place, "notes.txt")
    shutil.copy2(objects[old], stray)
    result = expire(tool, "--keep-full", "1")
    assert kept(result) == [second]
    left = os.listdir(place)
    assert "notes.txt" in left and not [name for name in left if name.startswith(old)]
    assert any(key.endswith("notes.txt") for key in result.data["stray_files"]) and result.data["stray_count"] == 1
    assert not [name for name in left if name.endswith(".backup") and name < tool.backup_json(second)["wal_first"]]


def test_dry_run_tells_the_reason_for_each_object_and_changes_nothing(archived):
    server, tool = archived()
    for _ in range(3):
        grow(server)
        tool.backup("--type", "full")

    def everything():
        return sorted((top, name, os.stat(os.path.join(top, name)).st_mtime_ns)
                      for top, _, names in os.walk(tool.repo) for name in names)
    before = everything()
    text = tool.run("expire", "--keep-full", "1", "--dry-run", json_output=False).out
    assert everything() == before
    for label in tool.labels():
        assert label in text
    assert "no kept backup needs it" in text and "no manifest that is left names them" in text
    data = expire(tool, "--keep-full", "1", "--dry-run").data
    assert sum(w["objects"] for w in data["wal"]) + data["histories_kept"] == len(
        [p for p in glob.glob(tool.repo + "/main/wal/**", recursive=True) if os.path.isfile(p)])
    assert sum(p["live"] + p["dead"] for p in data["packs"]) == len(packs_of(tool))
    chmod(tool.repo, 0o500, 0o400)
    try:
        expire(tool, "--keep-full", "1", "--dry-run")
    finally:
        chmod(tool.repo, 0o700, 0o600)


def chmod(top, folders, files):
    for path, _, names in os.walk(top, topdown=False):
        for name in names:
            os.chmod(os.path.join(path, name), files)
        os.chmod(path, folders)


# ---- clocks and names

def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(seconds))


def test_d07_f05_clocks_decide_nothing(archived):
    """Dated in the future: rules of time are refused, rules of count are not. A clock ahead or another zone expires nothing."""
    server, tool = archived()
    labels = []
    for _ in range(3):
        grow(server)
        labels.append(tool.backup("--type", "full"))
    now = time.time()
    for number, label in enumerate(labels):
        set_info(tool, label, stop_time=iso(now - (30 - 10 * number) * 86400))
    assert kept(expire(tool, "--keep-days", "11", "--dry-run")) == labels
    assert kept(expire(tool, "--keep-days", "9", "--dry-run")) == labels[1:]
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        assert kept(expire(tool, "--keep-days", "9", "--dry-run", env={"TZ": zone})) == labels[1:]
    set_info(tool, labels[1], stop_time=iso(now + 86400))
    for rule in ("--keep-days", "--keep-daily", "--keep-yearly"):
        result = tool.run("expire", rule, "1", "--keep-full", "1", rc=REFUSED)
        assert labels[1] in result.data["refusal"] and "clock" in result.err
        assert tool.labels() == labels
    assert kept(expire(tool, "--keep-full", "1", "--dry-run")) == labels[2:]
    set_info(tool, labels[1], stop_time=iso(now - 40 * 86400))
    result = expire(tool, "--keep-days", "9", "--dry-run")
    assert result.data["time_regress"] and labels[2] in kept(result)


def test_calendar_rules(archived):
    """One backup a day, week, month and year: the newest good one of each."""
    server, tool = archived()
    grow(server)
    original = tool.backup("--type", "full")
    info = tool.backup_json(original)
    days = ["2026-11-30T01", "2026-11-30T20", "2026-11-29T02", "2026-11-23T02", "2026-10-31T02", "2025-12-31T02"]
    made = {}
    for number, day in enumerate(sorted(days)):
        label = "%sT%s0000Z_F" % (day[:10].replace("-", ""), day[11:])
        copy_tree(os.path.dirname(backup_path(tool, original)), os.path.dirname(backup_path(tool, label)))
        set_info(tool, label, label=label, stop_time=day + ":00:00.000000Z", generation=info["generation"] + 1 + number)
        made[day] = label
    shutil.rmtree(os.path.dirname(backup_path(tool, original)))

    def keeps(*rules):
        return sorted(day for day, label in made.items() if label in kept(expire(tool, "--dry-run", *rules)))
    assert keeps("--keep-daily", "2") == ["2026-11-29T02", "2026-11-30T20"]
    assert keeps("--keep-weekly", "3") == ["2026-10-31T02", "2026-11-29T02", "2026-11-30T20"]  # the 23rd: week of the 29th
    assert keeps("--keep-monthly", "2") == ["2026-10-31T02", "2026-11-30T20"]
    assert keeps("--keep-yearly", "5") == ["2025-12-31T02", "2026-11-30T20"]
    assert keeps("--keep-daily", "1", "--keep-yearly", "2") == ["2025-12-31T02", "2026-11-30T20"]


# ---- damage

def test_unreadable_backup_json_holds_all_wal(archived):
    server, tool = archived()
    labels = []
    for _ in range(3):
        grow(server)
        labels.append(tool.backup("--type", "full"))
    flip_bit(backup_path(tool, labels[0]), 30)
    before, packs = segments(tool), packs_of(tool)
    result = tool.run("expire", "--keep-full", "1", rc=DAMAGE)
    assert labels[0] in result.err and result.data["damaged"]
    assert tool.labels() == [labels[0], labels[2]] and segments(tool) == before
    gone = set(packs) - set(packs_of(tool))
    assert gone and all(name.startswith(labels[1][:16]) for name in gone), "the damaged one's manifest names its packs"


def test_lost_backup_json_is_damage_and_no_debris(archived):
    """A finished backup whose backup.json is gone stays whole, pinned or not, for expire and for the next backup."""
    server, tool = archived()
    labels = []
    for _ in range(3):
        grow(server)
        labels.append(tool.backup("--type", "full"))
    tool.run("pin", labels[0], "--reason", "for ever")
    lost = [backup_path(tool, label) for label in labels[:2]]
    texts = [open(path, "rb").read() for path in lost]
    for path in lost:
        os.unlink(path)
    with open(backup_path(tool, labels[0], "started.json"), "wb"):
        pass  # beside a pin it says nothing
    packs, before = packs_of(tool), segments(tool)
    assert tool.run("verify", rc=DAMAGE).data["finding_count"] == 2
    for _ in range(2):
        result = tool.run("expire", "--keep-full", "1", rc=DAMAGE)
        assert sorted(b["label"] for b in result.data["damaged_backups"]) == labels[:2], result.data
        assert not result.data["unfinished_backups"] and packs_of(tool) == packs and segments(tool) == before
        assert all(os.path.exists(backup_path(tool, label, "manifest")) for label in labels)
    assert "0 of 3 backups" in tool.run("expire", "--keep-full", "1", rc=DAMAGE, json_output=False).out
    tool.backup("--type", "full")  # begins with removing debris
    assert set(packs) <= set(packs_of(tool))
    assert labels[1] in tool.run("info").out
    for path, text in zip(lost, texts):
        with open(path, "wb") as out:
            out.write(text)
    assert tool.run("verify").rc == 0
    expire(tool, "--keep-full", "1")
    assert labels[0] in tool.labels() and labels[1] not in tool.labels()


def test_lost_cluster_json_comes_back_from_the_backups(archived):
    server, tool = archived()
    grow(server)
    label = tool.backup("--type", "full")
    server.stop()
    path = os.path.join(tool.repo, "main", "cluster.json")
    with open(path, encoding="utf-8") as text:
        before = json.load(text)
    os.unlink(path)
    for args in (("info",), ("verify",), ("verify", label), ("expire", "--keep-full", "1", "--dry-run")):
        result = tool.run(*args, rc=DAMAGE)
        assert "cluster.json" in result.err + result.out and "1 backup is there" in result.err + result.out, result
    assert tool.run("init").data["result"] == "rebuilt"
    with open(path, encoding="utf-8") as text:
        after = json.load(text)
    for systems in (before["systems"], after["systems"]):
        assert len(systems) == 1 and systems[0].pop("since")
    for volatile in ("sha256", "created"):
        assert before.pop(volatile) and after.pop(volatile)
    assert before == after
    assert tool.run("verify").rc == 0 and label in tool.run("info").out
    server.start()
    assert tool.run("init").data["result"] == "was-there"
    lease = os.path.join(tool.repo, "main", "lease")
    os.unlink(lease)
    os.mkdir(lease)
    assert "out of the repository" in str(tool.run("expire", "--keep-full", "1", rc=REFUSED))
    os.rmdir(lease)
    os.unlink(path)
    os.rename(os.path.join(tool.repo, "main", "backup"), os.path.join(tool.repo, "main", "elsewhere"))
    tool.run("init", rc=REFUSED)  # nothing tells whose the rest is


def test_unreadable_manifest_holds_all_packs(archived):
    server, tool = archived()
    labels = []
    for _ in range(3):
        grow(server)
        labels.append(tool.backup("--type", "full"))
    path = backup_path(tool, labels[0], "manifest")
    flip_bit(path, os.path.getsize(path) - 100)
    packs = packs_of(tool)
    result = tool.run("expire", "--keep-full", "1", rc=DAMAGE)
    assert labels[0] in result.err
    assert tool.labels() == [labels[0], labels[2]] and packs_of(tool) == packs
    first = tool.backup_json(labels[0])
    assert set(s for s in segments(tool) if s <= first["wal_last"]) >= {first["wal_first"], first["wal_last"]}


# ---- beside others

def test_f05_killed_at_random_moments(archived, folder):
    """kill -9 in the middle of expire: what is listed restores and verifies, the next call finishes the work."""
    server, tool = archived()
    grow(server)
    chance = random.Random(5)
    for run in range(full_count(2, 200)):
        for kind in ("full", "incr", "full"):
            grow(server, rows=200)
            tool.backup("--type", kind)
        copy = os.path.join(folder, "saved")
        copy_tree(tool.repo, copy)
        took = expire(tool, "--keep-full", "1").seconds
        shutil.rmtree(tool.repo)
        os.rename(copy, tool.repo)
        process = tool.popen("--keep-full", "1", "expire", stdout=-3, stderr=-3)
        time.sleep(chance.random() * took)
        kill_and_wait(process, signal.SIGKILL)
        listed = tool.labels()
        assert tool.run("verify").rc == 0, "after kill %d" % run
        if run % 10 == 0:
            restorable(tool, server, listed[0], folder + "/first")
            restorable(tool, server, listed[-1], folder + "/last")
        result = expire(tool, "--keep-full", "1")
        assert tool.labels() == kept(result)
        assert sorted(os.listdir(os.path.join(tool.repo, tool.cluster, "backup"))) == tool.labels()
        assert tool.temporary_files() == []
        assert not [run for run in result.data["packs"] if run["dead"] and run["action"] == "keep"]
        assert expire(tool, "--keep-full", "1").data["totals"]["packs_expired"] == 0


@pytest.mark.slow
def test_faults_leave_nothing_half(archived, folder):
    """Every removal and sync fails once: exit 5, and whatever is still listed is whole."""
    server, tool = archived()
    for _ in range(2):
        grow(server, rows=100)
        tool.backup("--type", "full")
    copy = os.path.join(folder, "saved")
    copy_tree(tool.repo, copy)
    for call in ("unlink", "fsync"):
        for number in range(1, full_count(8, 200)):
            result = tool.run("expire", "--keep-full", "1", rc=None, env={"PH_FAULT": "%s:%d:EIO" % (call, number)})
            if result.rc == 0:
                break
            assert result.rc == FAILED, result
            assert tool.run("verify").rc == 0
            expire(tool, "--keep-full", "1")
            assert len(tool.labels()) == 1
            shutil.rmtree(tool.repo)
            copy_tree(copy, tool.repo)


def test_f05_full_disk_does_not_prevent_freeing_space(archived, world, folder):
    """Not a byte left, so that not even the lease can be written: expire makes room and does its work."""
    server, tool = archived()
    place = mount_tmpfs(world, folder, 400)
    if place is None:
        pytest.skip("mounting is not allowed")
    try:
        for _ in range(2):
            grow(server, rows=100)
            tool.backup("--type", "full")
        subprocess.run("cp -a '%s'/. '%s'" % (tool.repo, place), shell=True, check=True)
        tool.repo = place
        tool.configure()
        subprocess.run("dd if=/dev/zero of='%s/main/fill' bs=4k" % place, shell=True, check=False, capture_output=True)
        assert os.statvfs(place).f_bfree == 0
        expire(tool, "--keep-full", "1")
        assert len(tool.labels()) == 1 and os.statvfs(place).f_bfree > 0
        os.unlink(place + "/main/fill")
        assert tool.run("verify").rc == 0
    finally:
        unmount(place)


def test_debris_of_a_killed_backup_goes(archived):
    """Packs and names of a backup that was killed are removed; packs without any trace of a backup stay and are told."""
    server, tool = archived(pghush={"pack-size": "1MiB", "compress": "none"})
    grow(server)
    label = tool.backup("--type", "full")
    live = packs_of(tool)
    process = tool.popen("backup", "--type", "full", stdout=-3, stderr=-3)
    wait_until(lambda: len(packs_of(tool)) > len(live) + 2 or process.poll() is not None, 60)
    assert process.poll() is None
    kill_and_wait(process, signal.SIGKILL)
    assert len(packs_of(tool)) > len(live)
    alien = "20200101T000000Z-0123abcd-000001"
    shutil.copy2(os.path.join(tool.repo, "main", "pack", live[0]), os.path.join(tool.repo, "main", "pack", alien))
    result = expire(tool, "--keep-full", "1")
    assert packs_of(tool) == sorted(live + [alien])
    assert [r["reason"] for r in result.data["packs"] if r["run"] == alien[:25]] == ["no-trace"]
    assert tool.labels() == os.listdir(os.path.join(tool.repo, "main", "backup")) == [label]
    assert tool.temporary_files() == []


def test_packs_of_an_unfinished_backup_that_a_later_one_names(archived, folder):
    """A backup went on from a killed one: what it names of that run stays, the rest goes; all of it when the backup expires."""
    server, tool = archived(pghush={"compress": "none"})
    small = ("--checkpoint", "fast", "--pack-size", "1MiB", "--read-size", "256KiB", "--memory", "64MiB")
    load_table(server, "big", 48)
    server.sql("vacuum freeze; checkpoint")
    process = tool.popen("backup", *small, stdout=-3, stderr=-3)
    pack_folder = os.path.join(tool.repo, "main", "pack")
    wait_until(lambda: os.path.isdir(pack_folder) and len(packs_of(tool)) > 20 or process.poll() is not None, 60)
    assert process.poll() is None
    kill_and_wait(process, signal.SIGKILL)
    left = {name for name in packs_of(tool) if not name.startswith(".")}
    server.sql("update big set pad = pad where ctid < '(100,0)'; checkpoint")
    one = tool.run("backup", *small).data
    assert one["resumed_extents"] > 4, one
    label, run = one["label"], min(left)[:25]
    both = set(packs_of(tool))
    result = expire(tool, "--keep-full", "1")
    named = [r for r in result.data["packs"] if r["run"] == run]
    after = set(packs_of(tool))
    assert len(named) == 1 and named[0]["live"] == len(after & left) > 0
    assert after <= both and {name for name in after if name[:25] != run} == both - left
    assert tool.run("verify").rc == 0
    assert expire(tool, "--keep-full", "1").data["totals"]["packs_expired"] == 0
    restorable(tool, server, label, folder + "/r")
    server.sql("vacuum full big")
    later = tool.backup("--type", "full")
    expire(tool, "--keep-full", "1")
    assert tool.labels() == os.listdir(os.path.join(tool.repo, "main", "backup")) == [later]
    assert all(name.startswith(later[:16]) for name in packs_of(tool))


def test_pin_that_comes_while_its_backup_goes(archived, folder):
    """The pin is put after expire has looked for one, before it removes: the backup is whole and listed afterwards."""
    server, tool = archived()
    grow(server)
    old = tool.backup("--type", "full")
    for _ in range(10):
        newest = tool.backup("--type", "full")
        lease = os.path.join(tool.repo, "main", "lease")
        began = os.stat(lease).st_mtime_ns
        process = tool.popen("expire", "--keep-full", "1", stdout=-3, stderr=-3)
        wait_until(lambda: os.stat(lease).st_mtime_ns != began or process.poll() is not None, 30, pause=0.001)
        process.send_signal(signal.SIGSTOP)
        with open(os.path.join(tool.repo, "main", ".swap-lease"), "rb") as swap:
            try:
                fcntl.flock(swap, fcntl.LOCK_EX | fcntl.LOCK_NB)
                caught = old in tool.labels()
            except BlockingIOError:
                caught = False
            process.send_signal(signal.SIGCONT)
            if caught:
                time.sleep(1)  # it has found no pin, and waits to be alone with the lease
                tool.run("pin", old, "--reason", "in the last moment")
        assert process.wait(60) == 0
        if caught:
            break
        old = newest
    assert caught, "never stopped in time"
    assert tool.labels() == [old, newest]
    assert tool.run("verify").rc == 0
    assert "pinned" in str(expire(tool, "--keep-full", "1").data["backups"][0])
    restorable(tool, server, old, folder + "/r")


def test_one_that_stands_still_in_the_middle_of_a_change_is_told(archived):
    """Nobody takes over from a process that is stopped while it changes the repository; who waits is told so after 10 s."""
    server, tool = archived()
    label = tool.backup()
    with open(os.path.join(tool.repo, "main", ".swap-lease"), "rb") as swap:
        fcntl.flock(swap, fcntl.LOCK_EX)
        tool.fails("expire", "--keep-full", "1", rc=FAILED, says=("middle of a change", "stopped"))
    expire(tool, "--keep-full", "1")
    assert tool.labels() == [label]


def test_backup_and_expire_exclude_one_another(archived):
    """While a backup runs expire is refused with exit 5, or waits for lock-timeout; a pin needs no waiting."""
    server, tool = archived(pghush={"read-depth": 1})
    grow(server)
    label = tool.backup("--type", "full")
    process = tool.popen("backup", "--type", "full", "--checkpoint", "fast", stdout=-3, stderr=-3)
    lock = os.path.join(tool.repo, "main", "lease")
    began = os.stat(lock).st_mtime_ns
    wait_until(lambda: os.stat(lock).st_mtime_ns != began or process.poll() is not None, 30, pause=0.001)
    process.send_signal(signal.SIGSTOP)
    if process.poll() is None and len(tool.labels()) == 1:
        tool.fails("expire", "--keep-full", "1", rc=FAILED, says=("in use", "backup"))
        tool.run("pin", label, "--reason", "beside a backup")
        tool.run("expire", "--keep-full", "1", "--dry-run")
    process.send_signal(signal.SIGCONT)
    result = expire(tool, "--keep-full", "1", "--lock-timeout", "120s")
    assert process.wait(120) == 0
    assert len(result.data["backups"]) == 2


@pytest.mark.slow
def test_beside_archive_push(archived):
    """expire over and over while the server archives: every segment from the kept backup on is there, none is damaged."""
    server, tool = archived()
    grow(server)
    tool.backup("--type", "full")
    stop = threading.Event()
    failures = []

    def churn():
        while not stop.is_set():
            try:
                expire(tool, "--keep-full", "1", "--lock-timeout", "30s")
            except AssertionError as problem:
                failures.append(problem)
                return
    worker = threading.Thread(target=churn)
    worker.start()
    try:
        for _ in range(8):
            grow(server, rows=500)
        label = tool.backup("--type", "full", "--lock-timeout", "60s")
        for _ in range(8):
            grow(server, rows=500)
    finally:
        stop.set()
        worker.join()
    assert not failures, failures[0]
    expire(tool, "--keep-full", "1")
    assert tool.labels() == [label]
    system = tool.info()["clusters"][0]["systems"][0]
    assert [len(t["gaps"]) for t in system["wal"]] == [0]
    assert system["wal"][0]["ranges"][0]["first"] == tool.backup_json(label)["wal_first"]
    assert tool.run("verify").rc == 0


def test_restore_of_a_backup_that_expires_ends_in_words(archived, folder):
    """A restore is stopped, its backup expires: it fails, says what is missing, and leaves no cluster that starts."""
    server, tool = archived(pghush={"pack-size": "1MiB", "compress": "none", "read-depth": 1, "workers": 1})
    server.pgbench_init(5)
    old = tool.backup("--type", "full")
    server.sql("vacuum full")
    new = tool.backup("--type", "full")
    target = folder + "/target"
    process = tool.popen("restore", "--backup", old, target, stdout=-3, stderr=-1)
    wait_until(lambda: os.path.isdir(target + "/base") or process.poll() is not None, 30, pause=0.0005)
    process.send_signal(signal.SIGSTOP)
    expire(tool, "--keep-full", "1")
    assert tool.labels() == [new]
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    if process.returncode != 0:
        assert "pack" in errors and "expired" in errors, errors
        assert not os.path.exists(target + "/global/pg_control")
