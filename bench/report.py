# SPDX-License-Identifier: MIT
"""The results: lines with a requirement and a verdict, lines for orientation, JSON and Markdown."""

import json
from dataclasses import asdict, dataclass

from host import say

PASS, MISS, NOTE = "PASS", "MISS", "-"


def human(value, unit):
    """A number as a person reads it; bytes in powers of 1000."""
    if value is None:
        return "-"
    if unit == "bytes":
        for name, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if abs(value) >= factor:
                return f"{value / factor:.2f} {name}"
        return f"{value:.0f} B"
    if unit == "s":
        return f"{value:.2f} s" if abs(value) >= 1 else f"{value * 1000:.1f} ms"
    if unit == "%":
        return f"{value:.3f} %"
    return f"{value:.3g} {unit}".strip()


@dataclass
class Line:
    row: str
    what: str
    unit: str
    ours: float
    peer: str
    theirs: float | None
    ratio: float | None
    requirement: str
    verdict: str

    def cells(self):
        theirs = f"{human(self.theirs, self.unit)} ({self.peer})" if self.peer else "-"
        ratio = f"{self.ratio:.3f}" if self.ratio is not None else "-"
        return [self.row, self.what, human(self.ours, self.unit), theirs, ratio, self.requirement or "-", self.verdict]


class Report:
    """Collects lines, prints each as it comes, and writes the files at the end."""

    HEAD = ["row", "what", "pghush", "compared with", "ratio", "required", "verdict"]

    def __init__(self, machine):
        self.machine = machine
        self.lines = []
        self.samples = {}
        self.notes = []

    def add(self, line):
        self.lines.append(line)
        say("  " + " | ".join(line.cells()))

    def ratio(self, row, what, unit, ours, peer, theirs, at_most=None, at_least=None):
        """Compare with a peer; with neither bound the line is for orientation."""
        value = ours / theirs if theirs else None
        requirement, verdict = "", NOTE
        if at_most is not None:
            requirement = f"at most {at_most:g} x"
            verdict = PASS if value is not None and value <= at_most else MISS
        elif at_least is not None:
            requirement = f"at least {at_least:g} x"
            verdict = PASS if value is not None and value >= at_least else MISS
        self.add(Line(row, what, unit, ours, peer, theirs, value, requirement, verdict))

    def bound(self, row, what, unit, ours, at_most=None, at_least=None):
        """Compare with a fixed bound."""
        fits = ours <= at_most if at_most is not None else ours >= at_least
        word, limit = ("at most", at_most) if at_most is not None else ("at least", at_least)
        self.add(Line(row, what, unit, ours, "", None, None, f"{word} {human(limit, unit)}", PASS if fits else MISS))

    def fact(self, row, what, unit, ours=None, peer="", theirs=None):
        """A number that nothing is asked of."""
        self.add(Line(row, what, unit, ours, peer, theirs, None, "", NOTE))

    def note(self, text):
        self.notes.append(text)
        say(f"  note: {text}")

    def progress(self, tool, sample):
        """One line for each finished run, so that a long benchmark can be followed."""
        say(f"    {tool}: {sample.wall_s:.2f} s, CPU {sample.cpu_tool_s:.2f} + {sample.cpu_server_s:.2f} s, "
            f"cache {human(sample.cache_growth_bytes, 'bytes')}, RSS {human(sample.peak_rss_bytes, 'bytes')}")

    def keep(self, row, tool, samples):
        """Keep every single run for the JSON file."""
        self.samples.setdefault(row, {})[tool] = [sample.as_dict() for sample in samples]

    def as_json(self):
        content = {
            "machine": self.machine,
            "lines": [asdict(line) for line in self.lines],
            "notes": self.notes,
            "samples": self.samples,
        }
        return json.dumps(content, indent=1)

    def as_markdown(self):
        rows = ["| " + " | ".join(self.HEAD) + " |", "|" + "---|" * len(self.HEAD)]
        rows += ["| " + " | ".join(cell.replace("|", "\\|") for cell in line.cells()) + " |" for line in self.lines]
        rows += [""] + [f"- {note}" for note in self.notes]
        return "\n".join(rows) + "\n"

    def misses(self):
        return [line for line in self.lines if line.verdict == MISS]
