"""interpose/api/routes.tsv, from recorded answers of cuGetProcAddress.

scripts/gen routes FILE.json
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of
from scripts.commands.gen.support import API, replace


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("file", type=Path)
    recorded = json.loads(parser.parse_args(words).file.read_text())
    lines = [
        "# name, steps for the legacy default stream, steps for the per-thread one where they differ",
        f"driver_version\t{recorded['driver_version']}",
    ]
    for name, flags in sorted(recorded["routes"].items()):
        legacy, per_thread = (
            " ".join(f"{version}:{symbol}" for version, symbol in flags[flag] if symbol)
            for flag in ("legacy", "per_thread")
        )
        lines.append(f"{name}\t{legacy}" + ("" if legacy == per_thread else f"\t{per_thread}"))
    replace(API / "routes.tsv", "\n".join(lines) + "\n")
    return 0
