# SPDX-License-Identifier: MIT
"""
Who runs what: PostgreSQL refuses root, so as root everything runs as the system user "pghush", created when it
is missing; an ordinary user runs everything as himself. What that user cannot reach (a checkout below
somebody's private home) is copied into the scratch folder.
"""
import os
import pwd
import shutil
import subprocess

USER = "pghush"


def ensure_user():
    """The passwd entry of the account that runs servers and pghush."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid())
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        done = subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/bin/sh",
                               "--home-dir", "/nonexistent", USER], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 9):  # 9: another worker was faster
            raise RuntimeError("useradd %s: %s" % (USER, done.stderr.strip()))
        return pwd.getpwnam(USER)


def identity(entry):
    """Arguments of subprocess.run that make the child that user."""
    if os.getuid() != 0:
        return {}
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def give(path, entry):
    """Make path and everything below it belong to the user; links are not followed."""
    if os.getuid() != 0:
        return
    os.lchown(path, entry.pw_uid, entry.pw_gid)
    for top, dirs, files in os.walk(path):
        for name in dirs + files:
            os.lchown(os.path.join(top, name), entry.pw_uid, entry.pw_gid)


def runnable(path, entry):
    """May the user execute this program where it is?"""
    done = subprocess.run(["test", "-x", path], check=False, cwd="/", **identity(entry))
    return done.returncode == 0


def reachable_program(path, entry, scratch):
    """path, or a copy of the program that the user can execute."""
    if runnable(path, entry):
        return path
    folder = os.path.join(scratch, "bin")
    os.makedirs(folder, exist_ok=True)
    copy = shutil.copy(os.path.realpath(path), os.path.join(folder, os.path.basename(path)))
    os.chmod(copy, 0o755)
    return copy


def reachable_server(bindir, entry):
    """bindir, or that of a copy of the whole server in a place the user can enter."""
    if runnable(os.path.join(bindir, "postgres"), entry):
        return bindir
    major_root = os.path.dirname(bindir)
    stamp = open(os.path.join(major_root, "VERSION"), encoding="utf-8").read().strip()
    place = "/var/tmp/pghush-servers-%d/%s" % (os.getuid(), stamp)
    if not os.path.exists(os.path.join(place, "VERSION")):
        work = "%s.%d" % (place, os.getpid())
        os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
        shutil.copytree(major_root, work, symlinks=True)
        try:
            os.rename(work, place)
        except OSError:  # another worker was faster
            shutil.rmtree(work, ignore_errors=True)
    return os.path.join(place, "bin")
