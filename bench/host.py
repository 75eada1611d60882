# SPDX-License-Identifier: MIT
"""The machine the benchmark runs on: packages, the unprivileged user, caches and kernel settings.

Everything that needs root is here.  Peers come from Debian's packages with apt-get, and what is
installed is said before it is installed.  Servers and tools run as the system user `pghush`,
because PostgreSQL refuses to run as root and because a peer should not be measured as root.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys

USER = "pghush"
PG_BIN = "/usr/lib/postgresql/15/bin"
PEER_PACKAGES = {
    "postgresql-15": f"{PG_BIN}/postgres",
    "pgbackrest": "pgbackrest",
    "barman": "barman",
    "fio": "fio",
    "lz4": "lz4",
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def missing_packages():
    return [name for name, program in PEER_PACKAGES.items() if shutil.which(program) is None]


def install_peers():
    """Install the peers that are not there yet; needs root and apt-get."""
    wanted = missing_packages()
    if not wanted:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *wanted]
    if shutil.which("apt-get") is None:
        sys.exit(f"bench: this system has no apt-get; install these by hand: {' '.join(wanted)}")
    say(f"bench: installing {' '.join(wanted)} with apt-get")
    # Debian's package would create and start a cluster of its own, which nobody here needs.
    os.makedirs("/etc/postgresql-common/createcluster.d", exist_ok=True)
    with open("/etc/postgresql-common/createcluster.d/pghush-bench.conf", "w", encoding="ascii") as conf:
        conf.write("create_main_cluster = false\n")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update", "-q"], check=True, env=environment, stdout=sys.stderr)
    subprocess.run(command, check=True, env=environment, stdout=sys.stderr)


def ensure_user():
    """Create the unprivileged system user when it is missing; return its passwd entry."""
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        say(f"bench: creating the system user {USER}")
        subprocess.run(
            ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", USER],
            check=True,
        )
        return pwd.getpwnam(USER)


def make_dir(path, mode=0o700):
    """A folder that belongs to the unprivileged user."""
    os.makedirs(path, exist_ok=True)
    entry = pwd.getpwnam(USER)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    os.chmod(path, mode)
    return path


def remove_tree(path):
    """Remove a folder with everything in it; rm is many times faster than shutil for a million files."""
    subprocess.run(["rm", "-rf", "--", path], check=True)


def write_file(path, text, mode=0o600):
    """A small file that belongs to the unprivileged user."""
    entry = pwd.getpwnam(USER)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    os.chmod(path, mode)
    return path


def quiet_caches(names_too=True):
    """Write back what is dirty and drop what is clean, with or without names and attributes of files.

    False where dropping is not permitted.
    """
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as control:
            control.write("3\n" if names_too else "1\n")
    except OSError:
        return False
    return True


def reclaims_by_itself():
    """True where the kernel evicts cold pages although memory is free (DAMON), whoever warmed them."""
    base = "/sys/kernel/mm/damon/admin/kdamonds"
    found = []
    for folder, _, names in os.walk(base):
        for name in sorted({"state", "action"} & set(names)):
            with open(f"{folder}/{name}", encoding="ascii") as source:
                found.append(source.read().strip())
    return "on" in found and "pageout" in found


def meminfo_bytes():
    values = {}
    with open("/proc/meminfo", encoding="ascii") as source:
        for line in source:
            key, rest = line.split(":", 1)
            values[key] = int(rest.split()[0]) * 1024
    return values


@contextlib.contextmanager
def kernel_settings(wanted):
    """Set files below /proc/sys for the length of a block, then put the old values back."""
    old = {}
    try:
        for name, value in wanted.items():
            path = f"/proc/sys/{name}"
            with open(path, encoding="ascii") as control:
                old[path] = control.read()
            with open(path, "w", encoding="ascii") as control:
                control.write(f"{value}\n")
        yield
    finally:
        for path, value in old.items():
            with open(path, "w", encoding="ascii") as control:
                control.write(value)


def describe():
    """What a reader of the results has to know about the machine."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as source:
        models = [line.split(":", 1)[1].strip() for line in source if line.startswith("model name")]
    versions = {}
    for name, command in {
        "pgbackrest": ["pgbackrest", "version"],
        "barman": ["barman", "--version"],
        "postgresql": [f"{PG_BIN}/postgres", "--version"],
        "fio": ["fio", "--version"],
    }.items():
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        versions[name] = answer[0] if answer else "absent"
    return {
        "kernel": os.uname().release,
        "cpu": models[0] if models else os.uname().machine,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": meminfo_bytes()["MemTotal"],
        "versions": versions,
    }
