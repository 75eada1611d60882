# SPDX-License-Identifier: MIT
"""The judges themselves are judged: a healthy cluster passes the oracle, a damaged one does not."""
import glob
import os

import pytest

import oracle
import pagesum
from churn import Churn
from pgserver import ServerError


@pytest.mark.quick
def test_oracle_accepts_a_healthy_cluster_and_sees_damage(make_server, major):
    server = make_server(major).start()
    server.pgbench_init(1)
    with Churn(server, workers=1) as churn:
        before = oracle.fingerprint(server, ["postgres"])
        while churn.rounds < 2:
            oracle.fingerprint(server, ["template1"])
    assert before["postgres"]["public.pgbench_accounts"].startswith("100000|")
    oracle.accept(server, oracle.fingerprint(server))
    assert pagesum.check_cluster(server.pgdata) == []

    server.start()
    path = os.path.join(server.pgdata, server.sql("select pg_relation_filepath('pgbench_branches')"))
    server.stop()
    with open(path, "r+b") as relation:
        relation.seek(5000)
        relation.write(b"\xff")
    wrong = pagesum.check_cluster(server.pgdata, pages_max=50, files_max=1000)
    assert [(entry[0], entry[1]) for entry in wrong] == [(path, 0)]


@pytest.mark.quick
def test_standby_by_cold_copy_follows(make_server, folder):
    server = make_server().start()
    server.pgbench_init(1)
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start()
    server.sql("create table later as select g from generate_series(1, 10) g")
    standby.wait_for("select count(*) from later", "10")
    assert oracle.fingerprint(standby) == oracle.fingerprint(server)


@pytest.mark.quick
def test_index_that_lacks_a_row_is_seen(make_server):
    """An index whose file is that of an emptier moment: the two ways of scanning differ."""
    server = make_server(checksums=False).start()
    server.sql("create table t (id int not null); create index t_id on t (id); insert into t select generate_series(1, 100)")
    server.sql("checkpoint")
    path = os.path.join(server.pgdata, server.sql("select pg_relation_filepath('t_id')"))
    server.stop()
    with open(path, "rb") as index:
        old = index.read()
    server.start()
    server.sql("insert into t select generate_series(101, 120); checkpoint")
    server.stop()
    with open(path, "r+b") as index:
        index.write(old)
    server.start()
    with pytest.raises((AssertionError, ServerError)):
        oracle.check_structures(server)
    assert glob.glob(path)
