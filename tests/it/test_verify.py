# SPDX-License-Identifier: MIT
"""
verify: every kind of damage is found, once, and named with what it costs; what is whole, or expired, is no finding. Field
cases of the groups b, d, f and g that speak of verify.
"""
import glob
import os
import shutil
import signal
import struct

import pytest

from conftest import full_count
from pghushcmd import DAMAGE, FAILED, USAGE, freeze_while_open
from scenario import flip_bit

pytestmark = pytest.mark.quick
FINDING_FIELDS = {"kind", "object", "text", "backups", "files", "file_count", "restorable"}


class Repository:
    """A full backup, an incremental one on it, and WAL before, between and behind; the server is stopped."""

    def __init__(self, server, tool):
        self.server, self.tool = server, tool
        self.area = os.path.join(tool.repo, "main")
        server.sql("create table t as select g as id, md5(g::text) as pad from generate_series(1, 8000) g")
        server.sql("create table small as select 1 as id")
        self.full = tool.backup()
        server.sql("update t set pad = 'changed' where id % 700 = 1")
        server.sql("checkpoint")
        self.incr = tool.backup()
        self.behind = []
        for _ in range(3):
            server.sql("insert into t select g, 'more' from generate_series(1, 50) g")
            self.behind.append(server.switch_wal())
        server.archive_all()
        server.stop()

    def pack(self, label):
        return sorted(glob.glob("%s/pack/%s-*" % (self.area, label[:16])))[0]

    def manifest(self, label):
        return "%s/backup/%s/manifest" % (self.area, label)

    def verify(self, *args, rc=0):
        return self.tool.run("verify", *args, rc=rc).data

    def finding(self, *args, rc=DAMAGE):
        """The only finding."""
        data = self.verify(*args, rc=rc)
        assert data["finding_count"] == len(data["findings"]) == 1, data["findings"]
        found = data["findings"][0]
        assert FINDING_FIELDS <= set(found), found
        return found

    def is_sound(self):
        for args in ((), ("--fast",)):
            data = self.verify(*args)
            assert data["result"] == "sound" and not data["findings"] and all(b["sound"] for b in data["backups"]), data


@pytest.fixture
def repository(make_server, make_pghush):
    server = make_server(autovacuum="off", extra=("--wal-segsize=1",))
    tool = make_pghush(server)
    server.configure(archive_command=tool.archive_command)
    server.start()
    tool.init()
    return Repository(server, tool)


def u32(content, at):
    return struct.unpack_from("<I", content, at)[0]


def u64(content, at):
    return struct.unpack_from("<Q", content, at)[0]


def read(path):
    with open(path, "rb") as whole:
        return whole.read()


def places_in_pack(path):
    """{what: offset} of one byte of each kind."""
    content = read(path)
    index = u64(content, len(content) - 56)
    frames = u32(content, len(content) - 48)
    middle = [u32(content, index + 24 * i) for i in range(frames)][frames // 2]
    blocks = (u32(content, middle + 8) + (1 << content[middle + 7]) - 1) >> content[middle + 7]
    return {"header": 30, "frame magic": middle + 1, "frame sum": middle + 18, "frame owner": middle + 26,
            "frame checksum": middle + 45, "block length": middle + 48, "block sum": middle + 53,
            "payload": middle + 48 + 8 * blocks + 3, "index": index + 24 * (frames // 2) + 9,
            "page sum": len(content) - 64 - 5, "trailer magic": len(content) - 62, "trailer index": len(content) - 55,
            "trailer index sum": len(content) - 36, "trailer SHA-256": len(content) - 10, "last byte": len(content) - 1}


def places_in_manifest(path):
    content = read(path)
    trailer = len(content) - 128
    return {"header": 14, "reserved": 40, "leaf header": 70, "leaf": 64 + 48 + 30, "owner table": u64(content, trailer + 8) + 50,
            "pack table": u64(content, trailer + 24) + 60, "index": u64(content, trailer + 40) + 58, "trailer": trailer + 60,
            "trailer SHA-256": trailer + 100}


def test_what_is_whole_is_sound(repository):
    data = repository.verify()
    assert [b["label"] for b in data["backups"]] == [repository.full, repository.incr]
    assert data["frames"] > 20 and data["references"] > data["frames"] and data["wal_objects"] >= 4
    assert data["pack_bytes"] == sum(os.path.getsize(p) for p in glob.glob(repository.area + "/pack/*"))
    repository.is_sound()
    one = repository.verify(repository.full)
    assert [b["label"] for b in one["backups"]] == [repository.full] and one["packs"] == 1
    text = repository.tool.run("verify", json_output=False).out
    assert "2 of 2 backups sound, 0 findings" in text
    assert repository.tool.backup_json(repository.incr)["type"] == "incr"


def test_each_kind_of_byte_of_a_pack(repository):
    """A frame costs files; a restore refuses a pack whose ends are damaged, so no backup that names it is sound."""
    path = repository.pack(repository.full)
    name = os.path.basename(path)
    for what, offset in places_in_pack(path).items():
        flip_bit(path, offset, 2)
        found = repository.finding()
        assert found["object"].endswith(name), (what, found)
        is_frame = what.startswith(("frame", "block", "payload"))
        assert (found["file_count"] > 0) == is_frame, (what, found)
        assert repository.full in found["backups"], (what, found)
        if is_frame:
            assert found["offset"] <= offset < found["offset"] + 300000 and found["kind"] == "damaged", (what, found)
            assert found["files"] and "all but" in found["restorable"], (what, found)
            repository.verify("--fast")  # does not read frames
        else:
            for args in ((), ("--fast",)):
                data = repository.verify(*args, rc=DAMAGE)
                assert data["finding_count"] == 1 and not any(b["sound"] for b in data["backups"]), (what, data)
        flip_bit(path, offset, 2)
    repository.is_sound()


def test_damage_is_told_to_all_backups_that_share_it(repository):
    """A frame of the full backup that the incremental one names too; a frame of its own."""
    path = repository.pack(repository.full)
    offset = places_in_pack(path)["payload"]
    flip_bit(path, offset)
    data = repository.verify(rc=DAMAGE)
    assert data["findings"][0]["backups"] == [repository.full, repository.incr], data["findings"]
    assert "no backup wholly" in data["findings"][0]["restorable"]
    assert [b["files_lost"] for b in data["backups"]] == [1, 1] and not any(b["sound"] for b in data["backups"])
    flip_bit(path, offset)
    path = repository.pack(repository.incr)
    flip_bit(path, 64 + 48 + 20)
    found = repository.finding()
    assert found["backups"] == [repository.incr] and "wholly: " + repository.full in found["restorable"], found
    line = repository.tool.run("verify", rc=DAMAGE, json_output=False).out.split("\n")[0]
    assert os.path.basename(path) in line and repository.incr in line and "still restorable" in line and "at byte 64" in line


@pytest.mark.parametrize("fast", [(), ("--fast",)])
def test_each_kind_of_byte_of_a_manifest(repository, fast):
    path = repository.manifest(repository.incr)
    for what, offset in places_in_manifest(path).items():
        flip_bit(path, offset, 5)
        found = repository.finding(*fast)
        assert found["object"].endswith(repository.incr + "/manifest") and found["backups"] == [repository.incr], (what, found)
        assert "wholly: " + repository.full in found["restorable"], (what, found)
        if what == "leaf":
            assert "frame at byte 64" in found["text"], found
        flip_bit(path, offset, 5)
    path = "%s/backup/%s/backup.json" % (repository.area, repository.full)
    for offset in (1, 120, os.path.getsize(path) // 2, os.path.getsize(path) - 20):
        flip_bit(path, offset, 1)
        found = repository.finding(*fast)
        assert found["object"].endswith("backup.json") and found["backups"] == [repository.full], found
        flip_bit(path, offset, 1)


def test_each_kind_of_byte_of_wal(repository):
    wal = repository.tool.wal_objects()
    segment = repository.behind[1]
    path = wal[segment]
    for offset in (2, 40, 126, 128 + 5, 128 + 46, 128 + 52, 128 + 70, os.path.getsize(path) - 1):
        flip_bit(path, offset)
        found = repository.finding()
        assert found["object"].endswith(segment) and found["backups"] == [repository.full, repository.incr], (offset, found)
        assert "up to" in found["restorable"] and not any(not b["sound"] for b in repository.verify(rc=DAMAGE)["backups"])
        flip_bit(path, offset)
    blocks = path + ".blocks"
    for offset in (3, os.path.getsize(blocks) // 2, os.path.getsize(blocks) - 1):
        flip_bit(blocks, offset)
        found = repository.finding()
        assert found["object"].endswith(segment + ".blocks") and "made again" in found["restorable"], found
        flip_bit(blocks, offset)
    own = repository.tool.backup_json(repository.incr)["wal_first"]
    flip_bit(wal[own], 128 + 60)
    found = repository.finding()
    assert repository.incr in found["backups"], found
    data = repository.verify(rc=DAMAGE)
    assert {b["label"]: b["sound"] for b in data["backups"]} == {repository.full: True, repository.incr: False}, data
    assert repository.finding(repository.incr)["object"].endswith(own)
    repository.verify(repository.full)
    flip_bit(wal[own], 128 + 60)
    repository.is_sound()


@pytest.mark.parametrize("part", ["pack", "manifest", "backup.json", "wal"])
def test_cut_emptied_and_missing_objects(repository, part):
    path = {"pack": repository.pack(repository.full), "manifest": repository.manifest(repository.full),
            "backup.json": "%s/backup/%s/backup.json" % (repository.area, repository.full),
            "wal": repository.tool.wal_objects()[repository.behind[0]]}[part]
    name = "/".join(path.split("/")[-1:])
    content = read(path)
    for damaged in (b"", content[:1], content[:len(content) // 2], content[:-1], content + b"x"):
        with open(path, "wb") as out:
            out.write(damaged)
        found = repository.finding()
        assert found["object"].endswith(name) and found["kind"] == "damaged", found
        if part == "pack":
            assert not any(b["sound"] for b in repository.verify(rc=DAMAGE)["backups"]), "a restore refuses the pack"
            half = len(damaged) == len(content) // 2
            assert (found["file_count"] > 0) == (len(damaged) < 2 or half), (len(damaged), found)
            assert repository.finding("--fast")["object"].endswith(name)
    os.unlink(path)
    if part == "backup.json":
        for args in ((), ("--fast",), (repository.full,)):
            found = repository.finding(*args)
            assert found["backups"] == [repository.full] and "manifest is there" in found["text"], found
        with open(os.path.dirname(path) + "/started.json", "wb"):
            pass
        repository.is_sound()  # it was never finished: no backup
        return
    for args in ((), ("--fast",)):
        found = repository.finding(*args)
        assert found["kind"] == "missing" and repository.full in found["backups"] and name in found["object"], found


def test_exchanged_objects(repository):
    """Two whole packs, two whole segments, two whole manifests, each under the other's name."""
    wal = repository.tool.wal_objects()
    pairs = [(repository.pack(repository.full), repository.pack(repository.incr), ("", "--fast")),
             (wal[repository.behind[0]], wal[repository.behind[1]], ("",)),
             (repository.manifest(repository.full), repository.manifest(repository.incr), ("", "--fast"))]
    for one, other, modes in pairs:
        exchange(one, other)
        for mode in modes:
            data = repository.verify(*([mode] if mode else []), rc=DAMAGE)
            named = {f["object"] for f in data["findings"]}
            assert {os.path.relpath(one, repository.tool.repo), os.path.relpath(other, repository.tool.repo)} <= named, data
        exchange(one, other)
    repository.is_sound()


def exchange(one, other):
    os.rename(one, one + ".x")
    os.rename(other, one)
    os.rename(one + ".x", other)


def test_b_gaps_are_named_exactly(repository):
    """A segment that a backup needs; a range behind the backups: exact names, what it costs, what is left."""
    wal = repository.tool.wal_objects()
    first, _, last = repository.behind
    aside = os.path.join(repository.tool.folder, "aside")
    os.mkdir(aside)
    moved = [wal[name] for name in repository.behind[:2]]
    for path in moved:
        shutil.move(path, aside)
    for args in ((), ("--fast",)):
        found = repository.finding(*args)
        assert found["kind"] == "missing" and found["object"].endswith("%s to %s" % (first, repository.behind[1])), found
        assert "2 segments" in found["text"] and found["backups"] == [repository.full, repository.incr], found
        assert "no backup was made behind it" in found["restorable"] and last not in found["object"], found
    for path in moved:
        shutil.move(os.path.join(aside, os.path.basename(path)), path)
    own = repository.tool.backup_json(repository.incr)["wal_last"]
    shutil.move(wal[own], aside)
    found = repository.finding("--fast")
    assert found["object"].endswith(": " + own) and repository.incr in found["backups"], found
    sound = {b["label"]: b["sound"] for b in repository.verify(rc=DAMAGE)["backups"]}
    assert sound == {repository.full: True, repository.incr: False}
    assert repository.finding(repository.incr)["kind"] == "missing"
    repository.verify(repository.full)


def test_d_wal_that_retention_has_removed_is_no_gap(repository):
    """Between the end of a backup and the start of the next one, exactly; one segment more or less is a gap."""
    wal, full, incr = repository.tool.wal_objects(), *map(repository.tool.backup_json, (repository.full, repository.incr))
    between = [name for name in sorted(wal) if full["wal_last"] < name[:24] < incr["wal_first"] and len(name) == 24]
    if not between:
        pytest.skip("no segment lies between the two backups")
    for name in between:
        os.unlink(wal[name])
    repository.verify("--fast")


def test_f_histories(archived):
    """A promotion: its history is there, missing, damaged."""
    from pghushcmd import recovered_server
    server, tool = archived(autovacuum="off", extra=("--wal-segsize=1",))
    server.sql("create table t as select 1 as id")
    label = tool.backup()
    server.archive_all()
    copy = recovered_server(tool, server, "copy", archive_mode="on")
    copy.sql("insert into t values (2)")
    copy.archive_all()
    copy.stop()
    tool.run("verify")
    history = tool.wal_objects()["00000002.history"]
    content = read(history)
    flip_bit(history, len(content) - 2)
    found = tool.run("verify", "--fast", rc=DAMAGE).data["findings"]
    assert [f["object"][-16:] for f in found] == ["00000002.history"] and found[0]["backups"] == [label], found
    os.unlink(history)
    found = tool.run("verify", rc=DAMAGE).data["findings"]
    assert [f["kind"] for f in found] == ["missing"] and "timeline 2" in found[0]["restorable"], found
    assert tool.run("verify", rc=DAMAGE).data["backups"][0]["sound"]


def test_g_backups_that_expire_meanwhile_are_no_damage(repository):
    """While verify waits with a pack open, the incremental backup and its pack go."""
    for path in (repository.pack(repository.full), repository.manifest(repository.full)):
        process = repository.tool.popen("verify", stdout=-1, stderr=-1)
        if not freeze_while_open(process, path):
            process.communicate(timeout=60)
            continue
        kept = repository.tool.folder + "/kept"
        repository.tool.world.run(["cp", "-a", repository.area, kept])
        os.unlink("%s/backup/%s/backup.json" % (repository.area, repository.incr))
        os.unlink(repository.manifest(repository.incr))
        os.unlink(repository.pack(repository.incr))
        process.send_signal(signal.SIGCONT)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, (out, errors)
        shutil.rmtree(repository.area)
        repository.tool.world.run(["cp", "-a", kept, repository.area])
        shutil.rmtree(kept)


def test_g_a_signal_ends_it(repository):
    process = repository.tool.popen("verify", stdout=-1, stderr=-1)
    if freeze_while_open(process, repository.pack(repository.full)):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == FAILED and "signal" in errors, errors
    else:
        process.communicate(timeout=30)


def test_labels(repository):
    tool = repository.tool
    tool.fails("verify", "20200101T000000Z_F", rc=USAGE, says="does not exist")
    tool.fails("verify", "yesterday", rc=USAGE, says="not a backup's label")
    tool.fails("verify", repository.full, repository.incr, rc=USAGE)


@pytest.mark.slow
def test_reads_that_fail(repository):
    """Whichever read or open fails, verify ends with an error, with a finding that says so, or has read everything."""
    counts = ("frames", "references", "wal_objects", "wal_bytes")
    clean = repository.verify()
    for operation in ("read", "open"):
        for number in range(2, full_count(40, 400)):  # the first is that of the configuration file
            result = repository.tool.run("verify", rc=None, env={"PH_FAULT": "%s:%d:EIO" % (operation, number)})
            if "fault injected" not in result.err:
                break
            where = "%s %d: %s" % (operation, number, result)
            assert result.rc in (0, FAILED), where
            if result.rc == 0:  # a read that only looked for settings of the machine
                assert [result.data[c] for c in counts] == [clean[c] for c in counts], where
            elif "findings" in result.data:
                assert {f["kind"] for f in result.data["findings"]} == {"unreadable"}, where
    repository.is_sound()


def test_little_memory(repository):
    """The smallest budget, one worker and several: the same answer."""
    for workers in (1, 5):
        data = repository.verify("--memory", "16MiB", "--workers", workers)
        assert data["frames"] > 20 and data["result"] == "sound"
