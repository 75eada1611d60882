# SPDX-License-Identifier: MIT
"""Memory, descriptors, workers, direct I/O on odd file systems. Cases H01 to H04."""
import os
import subprocess
import time

import pytest

import oracle
from conftest import full_count
from pghushcmd import FAILED, USAGE, Pghush
from pgserver import Server
from scenario import backup_and_restore_latest, load_table, mount_tmpfs, restore_and_accept, unmount

pytestmark = pytest.mark.quick
SIZES = (0, 1, 511, 512, 513, 4095, 4096, 4097, 8191, 8193, 131071, 131072, 131073, 262144, 1 << 20, (1 << 20) + 1,
         (4 << 20) - 1)


def peak_rss_mib(tool, *args):
    """Run and return the peak resident size of the process, by wait4."""
    process = tool.popen(*args, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024


def sanitized(binary):
    with open(binary, "rb") as program:
        return b"__asan_init" in program.read()


def fake_files(pgdata, world, count, per_folder=1000):
    """Many small files that PostgreSQL does not know, in a folder of the data directory."""
    top = os.path.join(pgdata, "many")
    for number in range(count):
        if number % per_folder == 0:
            sub = os.path.join(top, "%05d" % (number // per_folder))
            os.makedirs(sub, mode=0o700)
        with open(os.path.join(sub, "f%05d" % (number % per_folder)), "wb") as small:
            if number % 3:
                small.write(b"%d" % number * 10)
    for path, dirs, files in os.walk(top):
        os.chmod(path, 0o700)
        for name in [path] + [os.path.join(path, f) for f in files]:
            if os.getuid() == 0:
                os.chown(name, world.entry.pw_uid, world.entry.pw_gid)
            if name != path:
                os.chmod(name, 0o600)


def test_h01_many_files_small_memory(archived, world, binary):
    """Memory does not grow with the number of files; backup, info and restore work."""
    server, tool = archived()
    small = peak_rss_mib(tool, "backup")
    fake_files(server.pgdata, world, full_count(20000, 1000000))
    start = time.monotonic()
    large = peak_rss_mib(tool, "backup")
    seconds = time.monotonic() - start
    assert large - small < (200 if sanitized(binary) else 16), "%d MiB, then %d MiB" % (small, large)
    if not sanitized(binary):
        assert large < 64 + 64
    label = tool.labels()[-1]
    assert tool.backup_json(label)["files"] >= full_count(20000, 1000000)
    tool.info()
    target = os.path.join(tool.folder, "again")
    rss = peak_rss_mib(tool, "restore", target)
    assert sanitized(binary) or rss < 64 + 64
    assert os.path.getsize(target + "/many/00000/f00001") == 10
    assert seconds < full_count(60, 1200)


@pytest.mark.slow
def test_h01_many_small_tables(archived):
    server, tool = archived(max_locks_per_transaction=1000, autovacuum="off")
    for part in range(4):
        server.sql("do $$ begin for i in 1..500 loop execute format('create table small_%d_%%s (id int primary key)', i); "
                   "end loop; end $$" % part)
    backup_and_restore_latest(tool, server)


def test_h01_many_archived_segments(archived, world, folder):
    """Thousands of archived segments: info and the plan of a restore stay quick. The extra ones are links to a real one."""
    server, tool = archived()
    tool.backup()
    server.archive_all()
    last = sorted(n for n in tool.wal_objects() if len(n) == 24)[-1]
    segment = tool.wal_objects()[last]
    folders = os.path.dirname(os.path.dirname(segment))
    count = full_count(3000, 20000)
    for number in range(count):
        high = int(last[8:16], 16) + 1 + number // 256
        prefix = world.mkdir(os.path.relpath("%s/%08X" % (folders, high), world.scratch))
        os.link(segment, "%s/%s%08X%08X" % (prefix, last[:8], high, number % 256))
    start = time.monotonic()
    tool.info()
    tool.run("restore", "--dry-run", folder + "/plan", rc=None)
    assert time.monotonic() - start < 20


def test_h02_few_descriptors(archived):
    """ulimit -n 64: works, or a clear error; never a hang."""
    server, tool = archived()
    server.sql("do $$ begin for i in 1..200 loop execute format('create table t_%s (id int primary key)', i); end loop; end $$")
    result = tool.run("backup", rc=(0, FAILED), prefix=("prlimit", "--nofile=64:64"), timeout=120)
    if result.rc:
        assert "too many open files" in result.err.lower()
        assert tool.labels() == []
    else:
        expected = oracle.fingerprint(server)
        server.archive_all()
        restore_and_accept(tool, server, expected)


def test_h02_descriptors_and_threads_stay_constant(archived):
    """Looked at while a backup of many files runs: descriptors do not grow with the files."""
    server, tool = archived(pghush={"compress": "zstd", "compress-level": 9})
    load_table(server, "big", 60)
    process = tool.popen("backup")
    most = 0
    while process.poll() is None:
        try:
            most = max(most, len(os.listdir("/proc/%d/fd" % process.pid)))
        except OSError:
            pass
        time.sleep(0.01)
    assert process.returncode == 0
    assert 0 < most < 256, "%d descriptors" % most


def test_h02_deep_folders(archived, world, folder):
    """A path of many folders, close to PATH_MAX: stored and restored, or refused by name; no overflow."""
    server, tool = archived()
    path = os.path.join(server.pgdata, "deep")
    for _ in range(60):
        path = os.path.join(path, "d" * 40)
    os.makedirs(path, mode=0o700)
    with open(path + "/leaf", "w", encoding="utf-8") as leaf:
        leaf.write("here")
    for top, dirs, files in os.walk(os.path.join(server.pgdata, "deep")):
        for name in [top] + [os.path.join(top, f) for f in files]:
            os.chmod(name, 0o700 if name == top else 0o600)
            os.chown(name, world.entry.pw_uid, world.entry.pw_gid)
    tool.backup()
    tool.restore(folder + "/again")
    with open(path.replace(server.pgdata, folder + "/again") + "/leaf", encoding="utf-8") as leaf:
        assert leaf.read() == "here"


@pytest.mark.parametrize("memory,workers,read_size,depth", [("64MiB", 1, "256KiB", 1), ("64MiB", 2, "4MiB", 4),
                                                           ("256MiB", 16, "1MiB", 64)])
def test_h02_no_hang_at_any_buffer_size(archived, memory, workers, read_size, depth):
    server, tool = archived(pghush={"memory": memory, "workers": workers, "read-size": read_size, "read-depth": depth})
    load_table(server, "t", 20)
    result = tool.run("backup", rc=(0, USAGE), timeout=120)
    if result.rc == 0:
        expected = oracle.fingerprint(server)
        server.archive_all()
        restore_and_accept(tool, server, expected)


def test_h03_absurd_worker_counts(archived):
    server, tool = archived()
    for value in ("0", "-1", "1000000", "x", "2.5", ""):
        tool.fails("backup", "--workers", value, rc=USAGE, says="workers")
    tool.run("backup", "--workers", "1")
    tool.run("backup", "--workers", "9")
    tool.run("backup", "--workers", "auto", prefix=("taskset", "-c", "0"))


@pytest.mark.skipif(os.getuid() != 0, reason="a file system is made by mounting, which needs root")
def test_h04_everything_on_tmpfs(world, binary, folder):
    """tmpfs (on some kernels without direct I/O) for data, repository and target: the same bytes, at most notices."""
    small = mount_tmpfs(world, folder, 700)
    if small is None:
        pytest.skip("this machine does not allow to mount a tmpfs")
    try:
        server = Server(world, 15, folder, small + "/data").init()
        tool = Pghush(world, binary, small, server)
        server.configure(archive_command=tool.archive_command)
        server.start()
        tool.init()
        server.pgbench_init(2)
        tool.configure(direct_io_read="on", direct_io_write="on")
        backup_and_restore_latest(tool, server)
        server.kill()
    finally:
        unmount(small)


@pytest.mark.skipif(os.getuid() != 0, reason="loop devices need root")
def test_h04_device_with_4096_byte_sectors(make_server, make_pghush, world, folder):
    """Repository and restore target on a loop device whose logical blocks are 4096 bytes."""
    image = os.path.join(folder, "image")
    with open(image, "wb") as sparse:
        sparse.truncate(512 << 20)
    made = subprocess.run(["losetup", "-b", "4096", "-f", "--show", image], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip("no loop device with 4096 byte blocks: %s" % made.stderr.strip())
    device, place = made.stdout.strip(), world.mkdir(os.path.relpath(folder + "/disk", world.scratch))
    try:
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True, capture_output=True)
        subprocess.run(["mount", device, place], check=True)
        os.chown(place, world.entry.pw_uid, world.entry.pw_gid)
        repo = world.mkdir(os.path.relpath(place + "/repo", world.scratch))
        server = make_server()
        tool = make_pghush(server, repo=repo, direct_io_read="on", direct_io_write="on")
        server.configure(archive_command=tool.archive_command)
        server.start()
        tool.init()
        odd_sizes(server, world)
        server.pgbench_init(1)
        tool.backup()
        expected = oracle.fingerprint(server)
        server.archive_all()
        restore_and_accept(tool, server, expected, name="disk/again")
        compare_odd_sizes(server.pgdata, place + "/again")
    finally:
        unmount(place)
        subprocess.run(["losetup", "-d", device], check=False)


def odd_sizes(server, world):
    folder = world.mkdir(os.path.relpath(os.path.join(server.pgdata, "odd"), world.scratch))
    for size in SIZES:
        path = os.path.join(folder, str(size))
        with open(path, "wb") as odd:
            odd.write(os.urandom(size))
        os.chmod(path, 0o600)
        os.chown(path, world.entry.pw_uid, world.entry.pw_gid)


def compare_odd_sizes(left, right):
    for size in SIZES:
        with open("%s/odd/%d" % (left, size), "rb") as one, open("%s/odd/%d" % (right, size), "rb") as two:
            assert one.read() == two.read(), "file of %d bytes differs" % size


@pytest.mark.parametrize("read", ["auto", "on", "off"])
@pytest.mark.parametrize("engine", ["uring", "threads"])
def test_h04_same_bytes_by_every_way_of_reading(archived, world, folder, read, engine):
    server, tool = archived(pghush={"direct-io-read": read, "direct-io-write": read, "io-engine": engine})
    odd_sizes(server, world)
    server.pgbench_init(1)
    server.stop()
    server.start()
    tool.backup()
    tool.restore(folder + "/again", "--io-engine", engine)
    compare_odd_sizes(server.pgdata, folder + "/again")


def test_h04_direct_io_refused_at_open_or_first_read(archived, world, folder):
    """EINVAL from the file system: buffered instead, the same bytes."""
    server, tool = archived(pghush={"direct-io-read": "on"})
    odd_sizes(server, world)
    for fault in ("uring:1:ENOSYS", "uring:1:EPERM"):
        tool.run("backup", env={"PH_FAULT": fault})
    tool.restore(folder + "/again")
    compare_odd_sizes(server.pgdata, folder + "/again")


def test_h01_cgroup_like_memory_limit(archived):
    """An address space limit well above the budget: the backup stays inside."""
    server, tool = archived()
    load_table(server, "t", 100)
    if sanitized(tool.binary):
        pytest.skip("the sanitizer's shadow needs terabytes of address space")
    tool.run("backup", prefix=("prlimit", "--as=%d" % (1 << 30)))
