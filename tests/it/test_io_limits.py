# SPDX-License-Identifier: MIT
"""A machine that gives little: few descriptors (case H02), a kernel that refuses io_uring half way."""
import pytest

import oracle
from pghushcmd import FAILED
from scenario import load_table, restore_and_accept

pytestmark = pytest.mark.quick


@pytest.fixture
def small(archived):
    server, tool = archived(pghush={"direct-io-read": "on", "direct-io-write": "on"})
    load_table(server, "t", 20)
    return server, tool


def own_lines(result):
    return [line for line in result.err.split("\n") if line and "fault injected" not in line]


def test_h02_64_descriptors_suffice(small):
    server, tool = small
    expected = oracle.fingerprint(server)
    tool.run("backup", "--workers", "2", prefix=("prlimit", "--nofile=64:64"))
    server.archive_all()
    restore_and_accept(tool, server, expected)


def test_h02_no_descriptor_at_all_is_one_line(small):
    _, tool = small
    known = tool.labels()
    result = tool.run("backup", rc=FAILED, env={"PH_FAULT": "open:1+:EMFILE"})
    assert any("Too many open files" in line for line in own_lines(result)), result
    assert tool.labels() == known


def test_h02_descriptors_run_out_for_a_moment(small):
    server, tool = small
    expected = oracle.fingerprint(server)
    tool.run("backup", env={"PH_FAULT": "open:300:EMFILE,open:301:EMFILE"})
    server.archive_all()
    restore_and_accept(tool, server, expected)


@pytest.mark.parametrize("fault", ["enter:1+:EAGAIN", pytest.param("enter:20+:EAGAIN", marks=pytest.mark.slow),
                                   "enter:7:EAGAIN", pytest.param("enter:30+:EIO", marks=pytest.mark.slow)])
def test_kernel_stops_taking_requests(small, fault):
    """The rest is read and written without io_uring: the same bytes."""
    server, tool = small
    expected = oracle.fingerprint(server)
    tool.run("backup", env={"PH_FAULT": fault}, timeout=120)
    server.archive_all()
    restore_and_accept(tool, server, expected)


@pytest.mark.parametrize("number", [1, 5, 60])
def test_kernel_does_not_give_back_what_it_took(small, folder, number):
    """Clean failures: one line, no backup, no abort. What the kernel may still write into is not freed: no leak is looked for."""
    _, tool = small
    known = tool.labels()
    env = {"PH_FAULT": "reap:%d+:EIO" % number,
           "ASAN_OPTIONS": tool.world.env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    result = tool.run("backup", rc=None, env=env, timeout=120)
    assert result.rc in (0, FAILED), result
    if result.rc:
        assert len(own_lines(result)) >= 1 and "io_uring" in result.err, result
        assert tool.labels() == known
    tool.backup()
    result = tool.run("restore", folder + "/back", rc=None, env=env, timeout=120)
    assert result.rc in (0, FAILED), result
    assert result.rc == 0 or own_lines(result), result
