# SPDX-License-Identifier: MIT
"""Row about verify: how fast the repository is proved whole, beside what only reads and what only hashes the same files."""

from host import quiet_caches
from measure import median
from residency import files_below
from rows_restore import ensure_backup


def fio_argv(paths):
    """Read the files directly, in requests of the size and number that verify has in flight."""
    return ["fio", "--name=repository", "--readonly", "--rw=read", "--bs=4m", "--direct=1", "--ioengine=io_uring",
            "--iodepth=8", "--file_service_type=sequential", f"--filename={':'.join(paths)}"]


def row_verify(bench):
    """verify of a whole repository, beside fio and sha256sum on the same files."""
    report = bench.report
    ours = bench.pghush("pghush, 2 workers", workers=2, memory="256MiB")
    ensure_backup(bench, ours)
    found = [(path, size) for path, size in files_below(ours.repo) if "/pack/" in path and size > 0]
    paths = [path for path, _ in found]
    commands = {
        ours.name: ours.argv("verify"),
        "verify --fast": ours.argv("verify", "--fast"),
        "fio": fio_argv(paths),
        "sha256sum": ["sha256sum", *paths],
    }
    samples = {name: [] for name in commands}
    for _ in range(bench.runs):
        for name, argv in commands.items():
            quiet_caches()
            sample = bench.meter.run(argv)
            samples[name].append(sample)
            report.progress(name, sample)
    walls = {name: median(runs, "wall_s") for name, runs in samples.items()}
    for name, runs in samples.items():
        report.keep("verify", name, runs)
    report.fact("verify", "bytes in packs", "bytes", sum(size for _, size in found))
    for peer in ("fio", "sha256sum"):  # the slower of the two is the one that counts
        counts = walls[peer] == max(walls["fio"], walls["sha256sum"])
        report.ratio("verify", f"verify, every frame decoded: wall, against {peer} on the packs", "s", walls[ours.name], peer,
                     walls[peer], at_most=1 / 0.8 if counts else None)
    report.ratio("verify", "verify --fast: wall", "s", walls["verify --fast"], "fio", walls["fio"])
    report.bound("verify", "peak RSS, memory = 256MiB", "bytes", median(samples[ours.name], "peak_rss_bytes"),
                 at_most=320 << 20)
