# SPDX-License-Identifier: MIT
"""The data that is backed up: made once, kept between runs in the scratch folder.

* main: pgbench at the given scale, incompressible rows, small tables; page checksums on.
* wal:  a stopped cluster whose pg_wal holds full, unarchived segments of a pgbench load.

Everything grows and shrinks with the scale: 400 is the size of the published numbers.
"""

import json
import os
import shutil
import struct

from host import make_dir, remove_tree, say
from server import LOADING, Server

FULL_SCALE = 400
LAYOUT_VERSION = 1


class Sizes:
    """How much of everything a scale means."""

    def __init__(self, scale):
        share = scale / FULL_SCALE
        self.scale = scale
        self.noise_rows = max(1000, int((1 << 30) / 1024 * share))
        self.small_tables = max(20, int(5000 * share))
        self.wal_segments = max(8, min(128, int(128 * share)))
        self.many_files = max(2000, int(1_000_000 * share))


def small_tables_sql(count):
    """Tables of five pages, each with an index, a TOAST table, a free space and a visibility map."""
    return (
        "SELECT format('CREATE TABLE small_%s (id int PRIMARY KEY, word text);"
        " INSERT INTO small_%s SELECT n, repeat(md5(n::text), 25) FROM generate_series(1, 50) n;', i, i)\n"
        f"FROM generate_series(1, {count}) i \\gexec\n"
    )


NOISE_SQL = """
CREATE EXTENSION pgcrypto;
CREATE TABLE noise (id int, bytes bytea);
ALTER TABLE noise ALTER bytes SET STORAGE EXTERNAL;
INSERT INTO noise SELECT n, gen_random_bytes(970) FROM generate_series(1, {rows}) n;
"""


def is_ready(folder):
    try:
        with open(f"{folder}/ready.json", encoding="ascii") as source:
            return json.load(source)["layout"] == LAYOUT_VERSION
    except (OSError, ValueError, KeyError):
        return False


def mark_ready(folder):
    with open(f"{folder}/ready.json", "w", encoding="ascii") as out:
        json.dump({"layout": LAYOUT_VERSION}, out)


def ensure_main(scratch, sizes, entry, group, socket_dir):
    """The main data set; returns its (stopped) server."""
    folder = f"{scratch}/data-{sizes.scale}"
    server = Server(entry, group, f"{folder}/main", socket_dir)
    if is_ready(folder):
        return server
    say(f"bench: making the data set, scale {sizes.scale}, in {folder}")
    remove_tree(folder)
    make_dir(folder)
    server.init()
    try:
        server.start(**LOADING)
        server.pgbench("-i", "-q", "-s", str(sizes.scale))
        server.sql(NOISE_SQL.format(rows=sizes.noise_rows))
        server.sql(small_tables_sql(sizes.small_tables))
        server.sql("VACUUM (FREEZE, ANALYZE);")
        server.sql("CHECKPOINT;")
    finally:
        server.stop()
    os.sync()
    mark_ready(folder)
    return server


def segment_names(wal_dir):
    """Names of the full segments that wait to be archived, oldest first."""
    names = []
    for name in os.listdir(f"{wal_dir}/archive_status"):
        base, extension = os.path.splitext(name)
        if extension == ".ready" and len(base) == 24:
            names.append(base)
    return sorted(names)


def ensure_wal(scratch, sizes, entry, group, socket_dir):
    """A stopped cluster with full segments that wait for their archiver; returns its server."""
    folder = f"{scratch}/wal-{sizes.wal_segments}"
    server = Server(entry, group, f"{folder}/main", socket_dir)
    if is_ready(folder):
        return server
    say(f"bench: making {sizes.wal_segments} WAL segments in {folder}")
    remove_tree(folder)
    make_dir(folder)
    server.init()
    try:
        server.start(synchronous_commit="off", archive_command="false")
        server.pgbench("-i", "-q", "-s", "20")
        waiting = 0
        while waiting <= sizes.wal_segments:
            server.pgbench("-n", "-c", "4", "-j", "2", "-T", "2")
            server.sql("CHECKPOINT;")
            waiting = len(segment_names(f"{server.data_dir}/pg_wal"))
    finally:
        server.stop()
    os.sync()
    mark_ready(folder)
    return server


def one_valid_page(data_dir):
    """Block 0 of some relation with an intact page header, for files of one page."""
    base = f"{data_dir}/base/1"
    for name in sorted(os.listdir(base)):
        path = f"{base}/{name}"
        if name.isdigit() and os.path.getsize(path) >= 8192:
            with open(path, "rb") as source:
                page = source.read(8192)
            if struct.unpack_from("<H", page, 14)[0] > 24:
                return page
    raise RuntimeError(f"no relation with a page in {base}")


def make_many(scratch, sizes, entry, group, socket_dir):
    """A cluster with very many files: every twentieth holds one page, the others are empty."""
    folder = f"{scratch}/many"
    remove_tree(folder)
    make_dir(folder)
    server = Server(entry, group, f"{folder}/main", socket_dir)
    server.init()
    page = one_valid_page(server.data_dir)
    say(f"bench: making {sizes.many_files} files in {folder}")
    base = f"{server.data_dir}/base/1"
    first = 1_000_000
    for number in range(first, first + sizes.many_files):
        path = f"{base}/{number}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        if number % 20 == 0:
            os.write(fd, page)
        os.fchown(fd, entry.pw_uid, entry.pw_gid)
        os.close(fd)
    return server


def make_recovering_dir(wal_data_dir, target, entry):
    """Just enough of a data directory for archive-get: identity, pg_wal, recovery.signal."""
    remove_tree(target)
    make_dir(target)
    for name in ("global", "pg_wal"):
        make_dir(f"{target}/{name}")
    for name in ("PG_VERSION", "global/pg_control", "postgresql.conf"):
        shutil.copyfile(f"{wal_data_dir}/{name}", f"{target}/{name}")
        os.chown(f"{target}/{name}", entry.pw_uid, entry.pw_gid)
        os.chmod(f"{target}/{name}", 0o600)
    with open(f"{target}/recovery.signal", "w", encoding="ascii"):
        pass
    os.chown(f"{target}/recovery.signal", entry.pw_uid, entry.pw_gid)
    return target
