# SPDX-License-Identifier: MIT
"""
A workload that makes every kind of WAL record a plain server can make: all index types, rewrites, truncation, databases
and tablespaces, prepared transactions, subtransactions, multixacts, sequences, large objects, compressed page images.
Databases and tablespaces are named by a round number, so that it can run again on the same server.
"""
import glob
import os
import re
import threading
import time

SEGMENT = re.compile(r"^[0-9A-F]{24}$")

TABLES = """
create table t{n} (id int primary key, g int, body text, p point, arr int[], r int4range, ts tsvector);
insert into t{n} select i, i % 100, repeat(md5(i::text), 1 + i % 8), point(i, i % 77), array[i, i % 10],
  int4range(i, i + 5), to_tsvector('simple', md5(i::text)) from generate_series(1, {rows}) i;
create index on t{n} using hash (g);
create index on t{n} using gin (arr);
create index on t{n} using gin (ts);
create index on t{n} using gist (p);
create index on t{n} using gist (r);
create index on t{n} using spgist (p);
create index on t{n} using brin (id) with (pages_per_range = 4);
create index on t{n} (body text_pattern_ops);
update t{n} set g = g + 1, p = point(g, id) where id % 3 = 0;
delete from t{n} where id % 5 = 0;
vacuum t{n};
insert into t{n} select i, i % 100, repeat(md5(i::text), 1 + i % 8), point(i, i % 77), array[i, i % 10],
  int4range(i, i + 5), to_tsvector('simple', 'x') from generate_series({rows} + 1, {rows} + {rows} / 2) i;
update t{n} set body = repeat('y', 20) where id % 7 = 0;
delete from t{n} where id > {rows} / 2;
vacuum (freeze) t{n};
insert into t{n} (id, g) select i, 1 from generate_series(1000001, 1000300) i;
cluster t{n} using t{n}_pkey;
create table cut{n} as select i from generate_series(1, {rows}) i;
truncate cut{n};
insert into cut{n} select generate_series(1, 100);
begin; truncate cut{n}; insert into cut{n} values (1); rollback;
create table gone{n} as select i, repeat('z', 100) as z from generate_series(1, {rows}) i;
create index on gone{n} (i);
drop table gone{n};
begin; create table never{n} as select generate_series(1, 1000) i; savepoint a; insert into cut{n} values (7);
  savepoint b; create table never2{n} (i int); rollback to a; rollback;
create unlogged table un{n} (i serial primary key, x text);
insert into un{n} (x) select 'u' from generate_series(1, 500);
alter table un{n} set logged;
create unlogged table un2{n} (i int primary key);
insert into un2{n} select generate_series(1, 500);
create sequence s{n}; select count(nextval('s{n}')) from generate_series(1, 200);
select count(lo_from_bytea(0, decode(repeat('00ff', 3000), 'hex'))) from generate_series(1, 20);
begin; select * from t{n} where id = 1000001 for share; savepoint x; update t{n} set g = 9 where id = 1000001; commit;
begin; insert into cut{n} values (42); create table prep{n} as select generate_series(1, 500) i; prepare transaction 'p{n}';
commit prepared 'p{n}';
begin; drop table prep{n}; create table prep2{n} (i int); prepare transaction 'q{n}';
rollback prepared 'q{n}';
begin; drop table prep{n}; prepare transaction 'r{n}';
commit prepared 'r{n}';
alter table t{n} add column extra text default 'abc';
alter table t{n} alter column g type bigint;
create materialized view mv{n} as select g, count(*) from t{n} group by g;
refresh materialized view mv{n};
reindex table t{n};
vacuum full pg_class;
select pg_create_restore_point('point {n}');
select length(pg_logical_emit_message(true, 'p', repeat('m', 100000))::text);
begin; select txid_current(); select pg_logical_emit_message(true, 'x', 'y'); rollback;
"""


def run(server, number, rows=1500, tablespace=None):
    """One round; the server has max_prepared_transactions and room in pg_wal."""
    server.sql(TABLES.format(n=number, rows=rows), timeout=300)
    methods = server.sql("select array_to_string(enumvals, ',') from pg_settings where name = 'wal_compression'") or "on"
    for method in methods.split(","):
        server.sql("checkpoint; set wal_compression = '%s'; update t%d set extra = 'c'; update cut%d set i = i" %
                   (method, number, number))
    databases(server, number, tablespace)


def databases(server, number, tablespace):
    strategies = [" strategy = file_copy", " strategy = wal_log"] if server.major >= 15 else [""]
    for place, strategy in enumerate(strategies):
        name = "d%d_%d" % (number, place)
        server.sql("create database %s%s" % (name, strategy))
        server.sql("create table x as select generate_series(1, 3000) i; create index on x (i)", name)
        if tablespace:
            server.sql("alter database %s set tablespace %s" % (name, tablespace))
            server.sql("insert into x select generate_series(1, 300)", name)
        if place == 0:
            server.sql("drop database %s" % name)


def settings(**more):
    """Server settings that keep all WAL and allow everything above."""
    base = {"max_wal_size": "6GB", "wal_keep_size": "6GB", "max_prepared_transactions": 10, "track_commit_timestamp": "on",
            "wal_level": "logical", "autovacuum_naptime": "2s", "checkpoint_timeout": "1h", "allow_in_place_tablespaces": None}
    base.update(more)
    return {k: v for k, v in base.items() if v is not None}


def make_tablespace(server, folder, name):
    place = server.world.mkdir(os.path.relpath(os.path.join(folder, name), server.world.scratch))
    server.sql("create tablespace %s location '%s'" % (name, place))
    return name


def segments(server, until=None):
    """Paths of the segments in pg_wal in order, the one named `until` last; preallocated ones left out."""
    paths = sorted(p for p in glob.glob(os.path.join(server.pgdata, "pg_wal", "*")) if SEGMENT.match(os.path.basename(p)))
    return [p for p in paths if until is None or os.path.basename(p) <= until]


def finish_segment(server):
    """A switch; returns the name of the last whole segment."""
    server.sql("select pg_logical_emit_message(false, 'end', 'x')")
    return server.switch_wal()


def big_message(server, mebibytes=40):
    server.sql("select pg_logical_emit_message(true, 'big', repeat('a', %d * 1024 * 1024))" % mebibytes, timeout=120)


def kill_within_big_message(server):
    """Kill the server while a 60 MiB record is being written; start it again."""
    before = server.sql("select pg_current_wal_insert_lsn()")
    job = threading.Thread(target=lambda: server.sql(
        "select pg_logical_emit_message(true, 'cut', repeat('b', 60 * 1024 * 1024))", check=False, timeout=60), daemon=True)
    job.start()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        moved = server.sql("select pg_wal_lsn_diff(pg_current_wal_lsn(), '%s') > 20 * 1024 * 1024" % before)
        if moved == "t":
            break
    pid = server.pid()
    server.kill9()
    job.join(30)
    # A zombie that nobody has waited for yet still looks like a running server to the next one.
    while os.path.exists("/proc/%d" % pid) and time.monotonic() < end + 20:
        time.sleep(0.05)
    server.start()
