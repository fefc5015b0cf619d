"""Compares the ranges that machine code gives with those of PTX, for kernels that exist as both; prints a table.

    scripts/lab machine-against-ptx [--arch 80,90] [--launches N] [--function PART] [--jobs N] [--json FILE] [--all]
                                    FILE...
    scripts/lab machine-against-ptx --corpus DIR|FILE [...]
    scripts/lab machine-against-ptx [--once] [--sample N] [--seed N] [--seconds S] WHEEL... [...]

FILE: a PTX text, which ptxas assembles for each architecture; or a fat binary, library or cubin that holds the PTX and
the cubin of one architecture. --corpus: what `scripts/lab corpus` made, or packed. WHEEL: a Python package (.whl): all
its libraries are looked at but NVIDIA's closed ones, with --once kernels of one name and architecture only once, with
--sample so many of their kernels, and the summary is by wheel, too. --seconds: no file is begun later; those left are
counted ("not_reached"). --patience: a file that takes longer is given up, and said to be refused. Each kernel is
evaluated for N random launches. Machine code is right when its ranges hold the PTX's bytes, without those of loads that
nobody uses, or not in that launch, whatever they load ("equal" with or without them). Where they do not, launches on
the emulated driver decide: they show a traced byte that is not there ("missing"), or that PTX says too much ("less").
That is no difference where PTX leaves it open what the launch does: it divides by zero, or uses a register that has no
value. --trials: so many launches of all kernels, held to machine code alone; with sizes that make most of them end.
Without --all only kernels that differ are listed; the JSON has all. Exit status 1 when a byte is missing, or no launch
decided ("undecided").
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path

from ptxtools.image import texts
from ptxtools.image.cubins import cubins
from ptxtools.image.resolve import Text
from scripts.commands.dispatch import parser_of
from tests.instruments.against import Code, Verdict, assemble, verdicts
from tests.instruments.pack import unpacked
from tests.instruments.wheels import Pair, pairs

REPORT_S = 30.0

Work = Path | Pair


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a process is told of the comparison. `architectures`: of PTX texts, those to assemble for."""

    architectures: tuple[int, ...]
    launches: int
    function: str
    trials: int
    patience_s: int


class LateError(Exception):
    """A file took too long."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of a file: verdicts with the name of the code; what could not be compared.

    `origin`: the folder or wheel that it is of.
    """

    origin: str
    file: str
    found: list[tuple[str, Verdict]]
    refused: list[str]


def main(words: Sequence[str]) -> int:
    options = parsed(words)
    wanted = Wanted(
        tuple(map(int, options.arch.split(","))), options.launches, options.function, options.trials, options.patience
    )
    with tempfile.TemporaryDirectory() as directory:
        begin = time.monotonic()
        files = list(work(options, Path(directory)))
        random.Random(options.seed).shuffle(files)
        compared = list(reported(files, wanted, options, begin))
    compared.sort(key=lambda each: (each.origin, each.file))
    entries = [(f"{each.origin}/{each.file}", code, verdict) for each in compared for code, verdict in each.found]
    refused = [f"{each.file} {said}" for each in compared for said in each.refused]
    summary = {
        **summarised([verdict for *_, verdict in entries], refused),
        "not_reached": len(files) - len(compared),
        "seconds": round(time.monotonic() - begin, 1),
        "wheels": by_wheel(compared),
    }
    print(json.dumps(summary, indent=2))
    if options.json:
        listed = [told(file, code, verdict) for file, code, verdict in entries]
        options.json.write_text(json.dumps({**summary, "refusals": refused, "list": listed}, indent=1))
    return 1 if summary["missing"] or summary["undecided"] else 0


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--arch", default="80,90", help="of PTX texts: the architectures to assemble for")
    parser.add_argument("--launches", type=int, default=5, help="of each kernel")
    parser.add_argument("--trials", type=int, default=0, help="launches of each kernel on the emulated driver")
    parser.add_argument("--once", action="store_true", help="of each wheel, a name and architecture only once")
    parser.add_argument("--sample", type=int, default=0, help="kernels of each wheel (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and of the order")
    parser.add_argument("--seconds", type=float, default=inf, help="no file is begun later")
    parser.add_argument("--patience", type=int, default=0, metavar="S", help="a file that takes longer is given up")
    parser.add_argument("--function", default="", help="only kernels whose name has this part")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time, a file each")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--all", action="store_true", help="list all kernels")
    options = parser.parse_args(words)
    if not options.files and not options.corpus:
        parser.error("either files, or --corpus")
    for file in [*options.files, *([options.corpus] if options.corpus else [])]:
        if not file.exists():
            parser.error(f"{file}: there is no such file")
    return options


def work(options: argparse.Namespace, directory: Path) -> Iterator[Work]:
    wheels = [file for file in options.files if file.suffix == ".whl"]
    yield from (file for file in options.files if file.suffix != ".whl")
    if wheels:
        those = partial(of_wheel, directory, options.once, options.sample, options.seed)
        with ProcessPoolExecutor(min(options.jobs, len(wheels))) as pool:
            for found in pool.map(those, wheels):
                yield from found
    if options.corpus:
        yield from sorted(unpacked(options.corpus, directory).glob("*/*.ptx"))


def of_wheel(directory: Path, once: bool, most: int, seed: int, wheel: Path) -> list[Pair]:
    return list(pairs(wheel, directory, once, most, seed))


def reported(files: list[Work], wanted: Wanted, options: argparse.Namespace, begin: float) -> Iterator[Compared]:
    """What came of each file, as they are done; the kernels that differ are printed."""
    said, kernels = begin, 0
    with ProcessPoolExecutor(max(1, min(options.jobs, len(files)))) as pool:
        runs = [pool.submit(compare, file, wanted) for file in files]
        for done, run in enumerate(as_completed(runs), start=1):
            if time.monotonic() - begin > options.seconds:
                for each in runs:
                    each.cancel()
            if run.cancelled():
                continue
            compared = run.result()
            for problem in compared.refused:
                print(f"{compared.file}: {problem}", file=sys.stderr)
            for code, verdict in compared.found:
                if options.all or not verdict.is_equal:
                    print(f"{compared.file[-24:]:24} {code:6} {line(verdict)}", flush=True)
            kernels += len(compared.found)
            yield compared
            if time.monotonic() - said > REPORT_S:
                said = time.monotonic()
                print(f"  {done} of {len(files)} files, {kernels} kernels, {said - begin:.0f} s", file=sys.stderr)


def compare(work: Work, wanted: Wanted) -> Compared:
    compared = Compared(
        *((work.parent.name, work.name) if isinstance(work, Path) else (work.wheel, work.source)), [], []
    )
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(wanted.patience_s)
    try:
        if isinstance(work, Path):
            of_file(work, wanted, compared)
        else:
            of_pair(work, wanted, compared)
    except LateError:
        compared.refused.append(f"not all compared in {wanted.patience_s} s")
    finally:
        signal.alarm(0)
    return compared


def give_up(*_: object) -> None:
    raise LateError


def of_pair(pair: Pair, wanted: Wanted, compared: Compared) -> None:
    """Of a wheel's kernels those that the pair names."""
    text = pair.text.read_text(errors="replace")
    names = {name for name in pair.names if wanted.function in name}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "text.ptx"
        path.symlink_to(pair.text)
        try:
            code = Code(pair.cubin.read_bytes(), names.__contains__)
            for verdict in verdicts(text, path, code, wanted.launches, names.__contains__, wanted.trials):
                compared.found.append((f"sm_{pair.architecture}", verdict))
        except ValueError as problem:
            compared.refused.append(str(problem))


def of_file(file: Path, wanted: Wanted, compared: Compared) -> None:
    data = file.read_bytes()
    is_wanted = partial(contains, wanted.function)
    with tempfile.TemporaryDirectory() as directory:
        for text in texts(data):
            path = Path(directory) / "text.ptx"
            path.write_text(text.text)
            for name, machine in codes(data, text, path, wanted, compared.refused):
                try:
                    code = Code(machine, is_wanted)
                except ValueError as problem:
                    compared.refused.append(f"{name}: {problem}")
                    continue
                for verdict in verdicts(text.text, path, code, wanted.launches, is_wanted, wanted.trials):
                    compared.found.append((name, verdict))


def contains(part: str, name: str) -> bool:
    return part in name


def codes(data: bytes, text: Text, path: Path, wanted: Wanted, refused: list[str]) -> Iterator[tuple[str, bytes]]:
    """The cubins that hold the same code as a text: of its fat binary and architecture, or what ptxas makes of it."""
    if text.container:
        for cubin in cubins(data):
            if cubin.container == text.container and cubin.architecture == text.architecture:
                yield f"sm_{cubin.architecture}", cubin.data
        return
    if text.source == "cubin":
        yield f"sm_{text.architecture}", data
        return
    for architecture in wanted.architectures:
        if architecture >= text.architecture:
            try:
                yield f"sm_{architecture}", assemble(path, architecture, path.parent)
            except ValueError as problem:
                refused.append(f"sm_{architecture}: {problem}")


def said(verdict: Verdict) -> str:
    """The verdict in a word."""
    if not verdict.is_superset:
        return "undecided" if verdict.undecided == verdict.missing else "missing"
    if verdict.machine_unknown:
        return "unknown"
    if verdict.narrower:
        return "less"
    return "equal" if verdict.is_equal else "more"


def line(verdict: Verdict) -> str:
    reasons = {
        "missing": f"in {verdict.missing}: {verdict.example}",
        "undecided": f"in {verdict.undecided}: {verdict.example}",
        "unknown": f"{', '.join(sorted(verdict.machine_unknown))} {verdict.example}",
        "less": f"than PTX, and all that was traced, in {verdict.narrower}: {verdict.example}",
        "more": f"in {verdict.unequal}: {verdict.example}",
        "equal": ", ".join(
            ["without dead loads"] * bool(verdict.dead) + ["without what PTX leaves open"] * bool(verdict.open)
        ),
    }
    also = f" (PTX unknown: {', '.join(sorted(verdict.ptx_unknown))})" if verdict.ptx_unknown else ""
    return f"{said(verdict):9} {verdict.name[:80]:80} {reasons[said(verdict)]}{also}"


def told(file: str, code: str, verdict: Verdict) -> dict[str, object]:
    return {
        "file": file,
        "code": code,
        "name": verdict.name,
        "verdict": said(verdict),
        "ptx_unknown": sorted(verdict.ptx_unknown),
        "machine_unknown": sorted(verdict.machine_unknown),
        "example": verdict.example,
    }


def by_wheel(compared: list[Compared]) -> dict[str, dict[str, object]]:
    wheels: dict[str, list[Compared]] = {}
    for each in compared:
        if each.origin.endswith(".whl"):
            wheels.setdefault(each.origin, []).append(each)
    return {
        name: summarised(
            [verdict for each in parts for _, verdict in each.found],
            [said for each in parts for said in each.refused],
        )
        for name, parts in wheels.items()
    }


def summarised(found: list[Verdict], refused: list[str]) -> dict[str, object]:
    both = [each for each in found if not each.ptx_unknown]
    reasons = Counter(reason for each in found for reason in each.machine_unknown)
    words = Counter(map(said, both))
    return {
        "kernels": len(found),
        "refused": len(refused),
        "missing": sum(said(each) == "missing" for each in found),
        "undecided": sum(said(each) == "undecided" for each in found),
        "ended_trials": sum(each.ended for each in found),
        "ptx_known": len(both),
        "equal": words["equal"],
        "equal_percent": round(100 * words["equal"] / len(both), 1) if both else None,
        "equal_without_dead_loads": sum(said(each) == "equal" and bool(each.dead) for each in both),
        "equal_without_what_is_open": sum(said(each) == "equal" and bool(each.open) for each in both),
        "less": words["less"],
        "more": words["more"],
        "unknown": words["unknown"],
        "unknown_reasons": dict(reasons.most_common()),
        "known_only_from_machine_code": sum(bool(each.ptx_unknown) and not each.machine_unknown for each in found),
    }
