"""Random programs that launch graphs on several GPUs, compared byte for byte with the same programs on one.

    scripts/lab random-graphs [--programs N] [--seed S] [--operations N] [--settings NAME,...] [--jobs N] [--build DIR]

Programs are made from seeds (tests/graphs/random_guest.py), and run in disorder on emulated GPUs in each of the
settings of tests/graphs/settings.py. Prints the seeds of programs that differ; exit status 1 if one does, or if a run
fails. Needs a build tree.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.graphs.settings import RANDOM, SETTINGS, run

ROOT = Path(__file__).resolve().parents[3]
CHUNK = 50  # programs of a process


def arguments_of(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument("--operations", type=int, default=120, help="of each")
    parser.add_argument("--settings", default=",".join(SETTINGS), help=f"of {', '.join(SETTINGS)}")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "native")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.settings.split(",") if name not in SETTINGS]
    if unknown:
        parser.error(f"no such setting: {unknown[0]}")
    return arguments


def compare(native: Path, place: Path, first: int, count: int, operations: int, settings: Sequence[str]) -> list[str]:
    """What is wrong, a line each."""
    place.mkdir()
    program = [RANDOM, first, count, operations]
    try:
        alone = run(native, place, program).lines
        wrong = []
        for number, name in enumerate(settings):
            for turn in range(2):  # the first run learns what kernels touch
                lines = run(native, place, program, SETTINGS[name], disorder=first + 1000 * number + turn).lines
                seeds = [one.split()[0] for one, other in zip(alone, lines, strict=True) if one != other]
                wrong += [f"{name}: program {seed} (of those from {first} on) differs" for seed in seeds]
        return wrong
    except (RuntimeError, ValueError) as error:
        return [f"programs from {first} on: {error}"]


def main(words: Sequence[str]) -> int:
    arguments = arguments_of(words)
    settings, native = arguments.settings.split(","), arguments.build / "native"
    starts = range(arguments.seed, arguments.seed + arguments.programs, CHUNK)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:

        def chunk(first: int) -> list[str]:
            count = min(CHUNK, arguments.seed + arguments.programs - first)
            return compare(native, Path(folder) / str(first), first, count, arguments.operations, settings)

        for first, found in zip(starts, pool.map(chunk, starts), strict=True):
            wrong += found
            for line in found:
                print(line, flush=True)
            if (first - arguments.seed) // CHUNK % 20 == 19:
                print(f"{first - arguments.seed + CHUNK} programs, {len(wrong)} wrong", flush=True)
    print(f"{arguments.programs} programs in {len(settings)} settings: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
