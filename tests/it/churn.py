# SPDX-License-Identifier: MIT
"""
Constant DDL beside a backup: tables come and go, are truncated and rewritten, databases are created and dropped,
temporary and unlogged tables live shortly. Each worker is a thread with psql sessions of its own. The tables live
in a database of their own, so that the others can be looked at meanwhile.
"""
import threading

TABLES = """
create table if not exists churn_{n}_a as select g as id, repeat(md5(g::text), 8) as pad from generate_series(1, 2000) g;
create index on churn_{n}_a (id);
create table churn_{n}_b as select * from churn_{n}_a;
alter table churn_{n}_b add primary key (id);
delete from churn_{n}_b where id % 3 = 0;
vacuum full churn_{n}_b;
truncate churn_{n}_a;
insert into churn_{n}_a select g, 'again' from generate_series(1, 500) g;
drop table churn_{n}_b;
create materialized view churn_{n}_m as select count(*) from churn_{n}_a;
drop materialized view churn_{n}_m;
drop table churn_{n}_a;
"""
TEMPORARY = """
create temp table t_{n} as select g, md5(g::text) from generate_series(1, 3000) g;
create index on t_{n} (g);
create unlogged table if not exists u_{n} (i serial primary key, x text);
insert into u_{n} (x) select repeat('u', 100) from generate_series(1, 2000);
drop table u_{n};
"""


HOME = "churn_home"


class Churn:
    """with Churn(server): ... ; errors of the workers raise at the end."""

    def __init__(self, server, workers=2, databases=True):
        self.server, self.stop_flag, self.errors, self.rounds = server, threading.Event(), [], 0
        if HOME not in server.databases():
            server.sql("create database %s" % HOME)
        jobs = [(TABLES, n) for n in range(workers)] + [(TEMPORARY, workers)]
        self.threads = [threading.Thread(target=self._loop, args=job, daemon=True) for job in jobs]
        if databases:
            self.threads.append(threading.Thread(target=self._databases, daemon=True))

    def _guard(self, text, database=HOME):
        try:
            self.server.sql(text, database)
        except Exception as problem:  # handed to the test when it leaves the block
            if not self.stop_flag.is_set():
                self.errors.append(problem)
                self.stop_flag.set()

    def _loop(self, script, number):
        while not self.stop_flag.is_set():
            self._guard(script.format(n=number))
            self.rounds += 1

    def _databases(self):
        strategy = " strategy file_copy" if self.server.major >= 15 else ""
        turn = 0
        while not self.stop_flag.wait(0.3):
            turn += 1
            self._guard("create database churn_db%s" % (strategy if turn % 2 else ""), "postgres")
            self._guard("create table in_db as select g from generate_series(1, 100) g", "churn_db")
            self._guard("drop database churn_db", "postgres")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.stop_flag.set()
        for thread in self.threads:
            thread.join(60)
        if kind is None and self.errors:
            raise self.errors[0]
