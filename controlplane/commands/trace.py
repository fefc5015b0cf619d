"""`tessera trace`: what is in a trace that `tessera-run --trace FILE` wrote."""

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from controlplane.base.progress import Progress
from controlplane.base.screen import show
from controlplane.base.tables import blocks
from ptxtools.errors import ConfigError

UNITS = {"": 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
SHOWN = 50
LONGEST_PICTURE = 20000  # slices; a picture of more shows nothing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    show = actions.add_parser("show", help="statistics, then launches in the order of time", allow_abbrev=False)
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.add_argument("--kernel", metavar="GLOB", help="list only launches of kernels with such a name")
    show.add_argument("--limit", metavar="N", type=int, default=SHOWN, help=f"list N launches (default: {SHOWN})")
    export = actions.add_parser(
        "export",
        help="write JSON for ui.perfetto.dev, or a picture",
        description="The form follows from the name: .json or .json.gz for ui.perfetto.dev and chrome://tracing, "
        ".svg for a picture of some milliseconds.",
        allow_abbrev=False,
    )
    export.add_argument("-o", "--output", metavar="FILE", type=Path, required=True)
    export.add_argument("--from", dest="begin", metavar="TIME", default="0", help="begin here: 1.5s, 20ms, 300us")
    export.add_argument("--to", dest="end", metavar="TIME", help="end here")
    for action in (show, export):
        action.add_argument("file", metavar="TRACE", type=Path)
        action.add_argument("--process", metavar="PID", type=int, help="only this process")


def run(options: argparse.Namespace) -> int:
    return _show(options) if options.action == "show" else _export(options)


def _show(options: argparse.Namespace) -> int:
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.observe import listing, trace
    from controlplane.observe.report import report
    from controlplane.report import text as report_text

    with Progress("reading the trace"):
        loaded = trace.load(options.file, options.process)
        statistics = report(loaded.statistics())
        rows = listing.launches(loaded, options.kernel, max(options.limit, 0))
    _warn(loaded.file, loaded.cut_off)
    if options.json:
        print(json.dumps({"report": asdict(statistics), "launches": [asdict(row) for row in rows]}, indent=2))
        return 0
    virtual = any(traced.process.own_gpu_clock for traced in loaded.processes)
    show(blocks([report_text.to_text(statistics, is_virtual=virtual), listing.to_text(rows) if rows else []]))
    if not rows and options.kernel is not None and options.limit > 0:
        print(f"tessera: no launch of a kernel that matches '{options.kernel}' is in it", file=sys.stderr)
    return 0


def _export(options: argparse.Namespace) -> int:
    from controlplane.observe import perfetto, svg, timeline, trace

    begin, end = _nanoseconds("--from", options.begin), options.end and _nanoseconds("--to", options.end)
    if end is not None and end <= begin:
        raise ConfigError(f"--to {options.end} is not after --from {options.begin}", expected="a later time")
    name = options.output.name
    if not name.endswith((".json", ".json.gz", ".svg")):
        raise ConfigError(
            f"-o {options.output}: what to write is not clear", expected="a name with .json, .json.gz or .svg"
        )
    with Progress("reading the trace"):
        loaded = trace.load(options.file, options.process)
        built = timeline.build(loaded, timeline.Window(begin) if end is None else timeline.Window(begin, end))
    _warn(loaded.file, loaded.cut_off)
    slices = [slice_ for group in built.groups for track in group.tracks for slice_ in track.slices]
    if name.endswith(".svg"):
        if len(slices) > LONGEST_PICTURE:
            raise ConfigError(
                f"{len(slices)} slices are too many for a picture", expected="--from and --to closer together"
            )
        last = max((slice_.end_ns for slice_ in slices), default=begin + 1) if end is None else end
        _write(options.output, lambda: options.output.write_text(svg.draw(built, begin, last)))
        print(f"wrote {options.output}: {len(slices)} slices")
    else:
        count = _write(options.output, lambda: perfetto.write(built, options.output))
        print(f"wrote {options.output}: {count} events; open it at https://ui.perfetto.dev or in chrome://tracing")
    return 0


def _write(file: Path, write: Callable[[], int]) -> int:
    try:
        return write()
    except OSError as error:
        raise ConfigError(f"-o {file}: {error.strerror}", expected="a writable file") from error


def _nanoseconds(option: str, text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|ms|us|ns|)", text)
    if match is None:
        raise ConfigError(f"{option} {text!r} is no time", expected="a number with s, ms, us or ns")
    return round(float(match[1]) * UNITS[match[2]])


def _warn(file: Path, cut_off: int | None) -> None:
    if cut_off is not None:
        print(f"tessera: {file} was cut off at offset {cut_off}; what comes before is whole", file=sys.stderr)
