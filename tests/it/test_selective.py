# SPDX-License-Identifier: MIT
"""Restore of some databases only. Case C16."""
import os

import pytest

import oracle
from pghushcmd import REFUSED, USAGE, restored_server, wait_until
from pgserver import Server

pytestmark = pytest.mark.quick

ROWS = "create table %s as select g as id, md5(g::text) as x from generate_series(1, %d) g"


def fill(server, database, rows):
    """One table with an index, one that VACUUM has not seen, one that is cut later."""
    server.sql(ROWS % ("t", rows) + "; create unique index on t (id)", database)
    server.sql("create table unseen (g int) with (autovacuum_enabled = off); insert into unseen select generate_series(1, 20000)",
               database)
    server.sql("create table cut (g int) with (autovacuum_enabled = off); insert into cut select generate_series(1, 30000)",
               database)


def churn(server, database):
    """WAL of all kinds over pages that the backup has."""
    server.sql("vacuum unseen", database)
    server.sql("delete from cut where g > 300", database)
    server.sql("vacuum (truncate) cut", database)
    server.sql("insert into cut select generate_series(1, 5000)", database)
    server.sql("update t set x = 'new' where id % 3 = 0", database)
    server.sql("create index on t (x); vacuum full unseen; create table late as select * from t; drop table late", database)
    server.sql("truncate cut; insert into cut values (1)", database)


@pytest.fixture
def town(archived, world, folder):
    """Databases keep, other, far (in a tablespace) and mould (a template), backed up, then changed by WAL."""
    def make(major, checksums=True):
        server, tool = archived(major, checksums=checksums, autovacuum="off")
        space = world.mkdir(os.path.relpath(os.path.join(folder, "space"), world.scratch))
        server.sql("create tablespace space location '%s'" % space)
        server.sql('create database "keep me"')
        server.sql("create database other")
        server.sql("create database far tablespace space")
        server.sql("create database mould")
        for database in ("keep me", "other", "far", "mould"):
            fill(server, database, 20000 if database != "mould" else 10)
        label = tool.backup()
        for database in ("keep me", "other", "far"):
            churn(server, database)
        strategy = " strategy file_copy" if major >= 15 else ""
        server.sql("create database cast_of_mould template mould" + strategy)
        server.sql("checkpoint")
        churn(server, "other")
        return server, tool, label
    return make


def sizes_of(path, oid):
    """{file: (size, allocated bytes)} of one database's folder in base/."""
    found = {}
    for name in os.listdir(os.path.join(path, "base", str(oid))):
        stat = os.stat(os.path.join(path, "base", str(oid), name))
        found[name] = (stat.st_size, stat.st_blocks * 512)
    return found


def restore_one(server, tool, folder, name="some"):
    """Restore "keep me" alone and look at the files; returns the result and the server, not yet started."""
    other = server.sql("select oid from pg_database where datname = 'other'")
    target = os.path.join(folder, name)
    result = tool.run("restore", "--database", "keep me", "--tablespace-map-all", folder + "/" + name + "-ts",
                      "--target-action", "promote", target).data
    files = sizes_of(target, other)
    assert files["PG_VERSION"][0] > 0 and files["pg_filenode.map"][1] > 0
    relations = {n: s for n, s in files.items() if n[0].isdigit()}
    assert sum(s[0] for s in relations.values()) > 3000000, "files without content have lost their sizes"
    assert sum(s[1] for s in relations.values()) == 0, "files without content take space"
    assert result["sparse_bytes"] >= sum(s[0] for s in relations.values())
    return result, Server(server.world, server.major, folder, target)


def accept_one(result, copy, expected):
    """Recovery has passed over the others; they can be dropped; the one that was wanted is right."""
    copy.start(archive_mode="off", autovacuum="off")
    copy.wait_recovered()
    assert oracle.fingerprint(copy, ["keep me"]) == expected
    for one in result["left_out"]:
        if "far" != one["name"]:
            copy.sql(one["drop"])
    copy.sql("drop database if exists cast_of_mould")
    copy.sql("alter system reset ignore_invalid_pages")
    oracle.accept(copy, None)


@pytest.mark.majors
def test_c16_one_database_of_several(town, folder, major):
    """WAL touches the others in every way; replay must not panic, and the wanted one is whole."""
    server, tool, label = town(major)
    server.sql("drop database far")
    server.sql("drop tablespace space")
    expected = oracle.fingerprint(server, ["keep me"])
    server.archive_all()
    result, copy = restore_one(server, tool, folder)
    assert sorted(one["name"] for one in result["left_out"]) == ["far", "mould", "other"]
    accept_one(result, copy, expected)
    assert "PANIC" not in copy.log_text()


@pytest.mark.slow
@pytest.mark.majors
def test_c16_without_page_checksums(town, folder, major):
    """VACUUM then marks pages visible without an image of them: on a page of zeros that is an invalid page."""
    server, tool, label = town(major, checksums=False)
    server.sql("drop database far")
    expected = oracle.fingerprint(server, ["keep me"])
    server.archive_all()
    result, copy = restore_one(server, tool, folder)
    copy.start(archive_mode="off", autovacuum="off", ignore_invalid_pages="off", wait=False)
    wait_until(lambda: "WAL contains references to invalid pages" in copy.log_text(), 60, what="the panic without the setting")
    wait_until(lambda: copy.pid() is None, 60, what="the end of the server")
    accept_one(result, copy, expected)


def test_names_oids_and_contradictions(town, folder):
    """Also by OID; what does not exist is named with what does; delta and standby contradict it."""
    server, tool, label = town(15)
    server.archive_all()
    target = folder + "/x"
    tool.fails("restore", "--database", "nowhere", target, rc=REFUSED, says=["nowhere", "keep me", "other"])
    tool.fails("restore", "--database", "999", target, rc=REFUSED, says=["999"])
    tool.fails("restore", "--database", "other", "--delta", target, rc=USAGE, says=["--delta"])
    tool.fails("restore", "--database", "other", "--standby", target, rc=USAGE, says=["--standby"])
    assert not os.path.exists(target) or os.listdir(target) == []
    oid = server.sql("select oid from pg_database where datname = 'other'")
    planned = tool.run("restore", "--database", oid, "--database", "far", "--dry-run", "--tablespace-map-all", folder + "/ts",
                       target).data
    assert sorted(one["name"] for one in planned["left_out"]) == ["keep me", "mould"]
    assert not os.path.exists(target)
    text = tool.run("restore", "--database", "far", "--tablespace-map-all", folder + "/ts", target, json_output=False).out
    assert 'DROP DATABASE "keep me";' in text and "ignore_invalid_pages" in text


@pytest.mark.slow
def test_resumed_and_delta_afterwards(town, folder):
    """A whole restore in place over a restore of one database brings everything back."""
    server, tool, label = town(15)
    server.archive_all()
    target = folder + "/x"
    tool.run("restore", "--database", "keep me", "--tablespace-map-all", folder + "/ts", "--target-immediate", target)
    copy = restored_server(tool, server, "x", "--delta", "--tablespace-map-all", folder + "/ts", "--target-action", "promote",
                           autovacuum="off")
    copy.wait_recovered()
    expected = oracle.fingerprint(server)
    oracle.accept(copy, expected)
