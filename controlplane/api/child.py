"""Python code in a process of its own under tessera-run: what it prints goes on at once, then comes what ran where."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from controlplane.base.screen import plain
from controlplane.base.tables import columns, duration
from controlplane.policy.reasons import explained

GRACE_S = 10.0
PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Ran:
    """code: of tessera-run. report: what --json writes (docs/json.md); empty if nothing was written."""

    code: int
    report: Mapping[str, Any]

    def rows(self) -> list[tuple[str, ...]]:
        """By GPU, the heading first."""
        launches = self.report.get("launches", {}).get("by_device", {})
        devices = self.report.get("devices")
        if devices:
            heading = ("GPU", "name", "launches", "kernels busy (virtual)")
            return [
                heading,
                *((str(d["device"]), d["name"], f"{d['launches']:,}", duration(d["busy_ns"])) for d in devices),
            ]
        return [("GPU", "launches"), *((gpu, f"{count:,}") for gpu, count in launches.items())] if launches else []

    def notes(self) -> list[str]:
        """Why launches stayed home, and the end, if it was none of the program's wish."""
        kept = self.report.get("kept_home_by_reason", {})
        found = (
            [f"kept home although a rule sent them elsewhere: {sum(kept.values()):,}", *explained(kept)] if kept else []
        )
        gain = self.report.get("schedule", {}).get("gain")
        found += [f"estimated gain: {gain:.2f} times as early as one GPU alone"] if gain is not None else []
        return [*found, *([f"the program ended with exit code {self.code}"] if self.code else [])]

    def __repr__(self) -> str:
        rows = self.rows()
        right = [place for place in range(len(rows[0])) if place != 1 or len(rows[0]) == 2] if rows else []
        return plain([*(columns(rows, right) if rows else []), *self.notes()])

    def _repr_html_(self) -> str:
        cells = [[escape(cell) for cell in row] for row in self.rows()]
        lines = [
            f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in row)}</tr>"
            for tag, row in zip(["th", *["td"] * len(cells)], cells, strict=False)
        ]
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes())
        return f"<table>{''.join(lines)}</table>{notes}"


def run(code: str, options: Sequence[str], say: Callable[[str], None]) -> Ran:
    """Modules of the current folder are found. say: is given what the process writes, as it comes."""
    with tempfile.TemporaryDirectory(prefix="tessera-cell-") as place:
        file, report = Path(place) / "cell.py", Path(place) / "report.json"
        file.write_text(code)
        before = [sys.executable, "-P", "-m", "controlplane.commands.run", *options, "--no-summary"]
        command = [*before, "--json", str(report), "--", sys.executable, str(file)]
        path = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            _pass_on(process, say)
        return Ran(process.returncode, json.loads(report.read_text()) if report.exists() else {})


def _pass_on(process: subprocess.Popen[bytes], say: Callable[[str], None]) -> None:
    """Until the process has ended, which an interrupt asks it to."""
    assert process.stdout is not None
    try:
        while piece := os.read(process.stdout.fileno(), PIECE):
            say(piece.decode(errors="replace"))
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
