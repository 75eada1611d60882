# SPDX-License-Identifier: MIT
"""
Fixtures of the integration tests. Everything lives in one scratch folder a session, removed at the end; servers are
stopped by their process id. Environment:

PGHUSH_BIN       the program (default build/pghush)
PGHUSH_MAJORS    servers to test with, "15,18". Default: 15 (or what the distribution has), and for tests that are
                 marked "majors" 13 and 18 as well
PGHUSH_LONG      full counts of the loops of faults and kills
PGHUSH_SCRATCH   parent of the scratch folder (default /var/tmp)
PGHUSH_KEEP      keep the scratch folder
"""
import glob
import os
import signal
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(ROOT, "tools"))

import accounts  # noqa: E402
import pg_servers  # noqa: E402
from pghushcmd import Pghush  # noqa: E402
from pgserver import Server, World, remove_tree  # noqa: E402

LONG = bool(os.environ.get("PGHUSH_LONG"))
MAIN = next((m for m in (15, 18, 17, 16, 14, 13) if pg_servers.distribution_bindir(m)), 15)


def chosen_majors():
    named = os.environ.get("PGHUSH_MAJORS")
    if named:
        return [int(m) for m in named.split(",")]
    return sorted({13, MAIN, 18})


MAJORS = chosen_majors()


def pytest_configure(config):
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a killed run still stops its servers
    config.addinivalue_line("markers", "quick: part of make check")
    config.addinivalue_line("markers", "long: only in make check-long")
    config.addinivalue_line("markers", "slow: a quick test that make check leaves to make check-long")
    config.addinivalue_line("markers", "majors: runs on several majors even in make check")


def pytest_collection_modifyitems(config, items):
    """Long tests need PGHUSH_LONG; every test has a limit of time."""
    for item in items:
        if item.get_closest_marker("long") and not LONG:
            item.add_marker(pytest.mark.skip(reason="long test: PGHUSH_LONG is not set"))
        if not any(mark.name == "timeout" for mark in item.iter_markers()):
            item.add_marker(pytest.mark.timeout(3000 if LONG else 420))


def pytest_generate_tests(metafunc):
    """A test that takes `major` runs on every chosen major, by default on one, or on three when it is marked."""
    if "major" in metafunc.fixturenames:
        marked = any(mark.name == "majors" for mark in metafunc.definition.iter_markers())
        metafunc.parametrize("major", MAJORS if marked or os.environ.get("PGHUSH_MAJORS") else [MAIN])


class Servers(dict):
    """{major: bindir}, each fetched when it is first asked for."""

    def __init__(self, entry):
        super().__init__()
        self.entry = entry

    def __missing__(self, major):
        try:
            bindir = pg_servers.bindir(major)
        except (RuntimeError, OSError) as problem:
            if os.environ.get("PGHUSH_MAJORS") or os.environ.get("CI"):
                raise
            pytest.skip("server %d could not be fetched: %s" % (major, problem))
        self[major] = accounts.reachable_server(bindir, self.entry)
        return self[major]


@pytest.fixture(scope="session")
def world():
    entry = accounts.ensure_user()
    scratch = tempfile.mkdtemp(prefix="pgh-", dir=os.environ.get("PGHUSH_SCRATCH", "/var/tmp"))
    os.chmod(scratch, 0o755)
    accounts.give(scratch, entry)
    it = World(scratch, entry, Servers(entry), pg_servers.client_bindir())
    try:
        yield it
    finally:
        it.stop_all()
        if not os.environ.get("PGHUSH_KEEP"):
            remove_tree(scratch)


@pytest.fixture(scope="session")
def binary(world):
    path = os.environ.get("PGHUSH_BIN", os.path.join(ROOT, "build", "pghush"))
    assert os.path.exists(path), "%s is not there: run make build" % path
    return accounts.reachable_program(path, world.entry, world.scratch)


@pytest.fixture
def folder(world, request):
    """A folder of the test's own; its servers are stopped and it is removed afterwards."""
    known = len(world.servers)
    world.count = getattr(world, "count", 0) + 1
    path = world.mkdir("t%d" % world.count)
    yield path
    for server in world.servers[known:]:
        server.kill()
    del world.servers[known:]
    failed = getattr(request.node, "failed_call", False)
    if not os.environ.get("PGHUSH_KEEP"):
        remove_tree(path)
    reports = glob.glob(os.path.join(world.scratch, "sanitizer.*"))
    texts = []
    for report in reports:
        with open(report, encoding="utf-8", errors="replace") as text:
            texts.append(text.read()[:6000])
        os.unlink(report)
    if texts and not failed:
        pytest.fail("a sanitizer reported: %s" % "\n".join(texts))
    elif texts:
        print("sanitizer: %s" % "\n".join(texts))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.failed_call = outcome.get_result().failed


@pytest.fixture
def make_server(world, folder):
    """make_server(major=…, checksums=…, fresh=…, extra=…, name="data", **settings): initialised, not started."""
    def make(major=MAIN, name="data", checksums=True, fresh=False, extra=(), **settings):
        return Server(world, major, folder, os.path.join(folder, name)).init(checksums, fresh, extra, **settings)
    return make


@pytest.fixture
def make_pghush(world, binary, folder):
    """make_pghush(server, **settings of the configuration file)."""
    def make(server=None, **settings):
        return Pghush(world, binary, folder, server, **settings)
    return make


@pytest.fixture
def archived(make_server, make_pghush):
    """archived(major, **server settings): (server, pghush), started, repository made, archiving on."""
    def make(major=MAIN, init=True, pghush=None, **settings):
        server = make_server(major, **settings)
        tool = make_pghush(server, **(pghush or {}))
        server.configure(archive_command=tool.archive_command)
        server.start()
        if init:
            tool.init()
        return server, tool
    return make


def full_count(quick, long):
    """How often a loop of faults runs."""
    override = os.environ.get("PGHUSH_COUNT")
    return int(override) if override else (long if LONG else quick)
