# SPDX-License-Identifier: MIT
"""
Is a restored cluster right? Fingerprints of every table before and after, B-tree and heap checks, page checksums of the
stopped cluster, and the same answer from an index-only scan and a sequential scan of each table.
"""
import os
import time

import pagesum
from pgserver import ServerError

TABLES = """
select quote_ident(n.nspname) || '.' || quote_ident(c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'm') and c.relpersistence = 'p' and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
order by 1
"""

# Reads each table twice: once by sequential scan, once through its primary key or other plain index on not null columns.
SCAN_BOTH = """
create function pg_temp.scan_both() returns setof text language plpgsql as $$
declare r record; seq_count bigint; index_count bigint;
begin
  for r in
    select c.oid::regclass::text as relation, i.indexrelid::regclass::text as index_name,
           (select string_agg(quote_ident(a.attname) || '::text', '||''|''||' order by a.attnum) from pg_attribute a
             where a.attrelid = c.oid and a.attnum = any (i.indkey)) as cols
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_class ic on ic.oid = i.indexrelid
      join pg_am am on am.oid = ic.relam join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and c.relpersistence = 'p' and n.nspname <> 'pg_catalog' and n.nspname not like 'pg_toast%'
      and am.amname = 'btree' and i.indisvalid and i.indpred is null and i.indexprs is null
  loop
    set local enable_seqscan = on; set local enable_indexonlyscan = off; set local enable_indexscan = off;
    set local enable_bitmapscan = off;
    execute format('select coalesce(sum(hashtext(%s)::bigint), 0) + count(*) from %s', r.cols, r.relation) into seq_count;
    set local enable_seqscan = off; set local enable_indexonlyscan = on;
    execute format('select coalesce(sum(hashtext(%s)::bigint), 0) + count(*) from %s', r.cols, r.relation) into index_count;
    if seq_count <> index_count then
      return next format('%s through %s: sequential %s, index-only %s', r.relation, r.index_name, seq_count, index_count);
    end if;
  end loop;
end $$;
select * from pg_temp.scan_both();
"""

# amcheck of 13 knows B-trees only; from 14 on heaps too.
CHECK_INDEXES = """
create extension if not exists amcheck;
select count(bt_index_check(i.indexrelid, true)) from pg_index i join pg_class c on c.oid = i.indexrelid
join pg_am a on a.oid = c.relam where a.amname = 'btree' and c.relpersistence = 'p' and i.indisready and i.indisvalid;
"""
CHECK_HEAPS = """
select c.oid::regclass::text || ' ' || h.blkno || ' ' || h.msg from pg_class c,
lateral verify_heapam(c.oid, on_error_stop => false, check_toast => true, skip => 'none') h
where c.relkind in ('r', 'm', 't') and c.relpersistence = 'p';
"""


def fingerprint(server, databases=None):
    """{database: {table: "count|sum of row hashes"}} of all permanent tables, each database in one snapshot."""
    result = {}
    for database in databases or server.databases():
        tables = [row[0] for row in server.rows(TABLES, database)]
        if not tables:
            result[database] = {}
            continue
        query = " union all ".join(
            "select '%s', count(*), coalesce(sum(hashtext(t::text)::bigint), 0) from %s t" % (name.replace("'", "''"), name)
            for name in tables)
        result[database] = {"|".join(row[:-2]): "|".join(row[-2:]) for row in server.rows(query, database)}
    return result


def moment(server):
    """Server's clock with its offset, after a pause so that nothing committed before has the same time."""
    time.sleep(0.05)
    out = server.sql("select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')") + "Z"
    time.sleep(0.05)
    return out


def check_structures(server):
    """Indexes against heaps, heaps, and both ways of scanning, in every database."""
    problems = []
    for database in server.databases():
        server.sql("analyze pg_class; analyze pg_index; analyze pg_attribute;" + CHECK_INDEXES, database, timeout=600)
        if server.major >= 14:
            problems += ["%s: %s" % (database, "|".join(row)) for row in server.rows(CHECK_HEAPS, database)]
        problems += ["%s: %s" % (database, "|".join(row)) for row in server.rows(SCAN_BOTH, database)]
    assert not problems, "restored cluster is damaged: %s" % "; ".join(problems[:10])


def check_checksums(server):
    """Page checksums of the cleanly stopped cluster, which has them."""
    program = os.path.join(server.bindir, "pg_checksums")
    if os.path.exists(program):
        done = server.world.run([program, "--check", "-D", server.pgdata], check=False, timeout=600)
        assert done.returncode == 0, "pg_checksums: %s%s" % (done.stdout, done.stderr)
    else:
        wrong = pagesum.check_cluster(server.pgdata)
        assert not wrong, "wrong page checksums: %s" % wrong[:10]


def accept(server, expected, stop=True):
    """The whole oracle: server runs (out of recovery); expected is a fingerprint or None. Stops the server at the end."""
    if expected is not None:
        found = fingerprint(server)
        assert found == expected, differences(expected, found)
    server.sql("checkpoint")
    if server.sql("select pg_is_in_recovery()") == "f":
        check_structures(server)
    if stop:
        checksums = server.sql("show data_checksums") == "on"
        server.stop()
        if checksums:
            check_checksums(server)


def differences(expected, found):
    lines = []
    for database in sorted(set(expected) | set(found)):
        left, right = expected.get(database), found.get(database)
        if left is None or right is None:
            lines.append("database %s only %s" % (database, "after" if left is None else "before"))
            continue
        for table in sorted(set(left) | set(right)):
            if left.get(table) != right.get(table):
                lines.append("%s.%s: expected %s, found %s" % (database, table, left.get(table), right.get(table)))
    return "fingerprints differ: " + "; ".join(lines[:12])


def require(condition, server, text):
    if not condition:
        raise ServerError("%s\n%s" % (text, server.log_tail()))
