"""The loader probes (tests/loader) on this machine's real driver.

    scripts/lab loader-probes

The last line is "N passed, N failed". Exit status 1 when one failed. Needs a build or an installation of Tessera.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from controlplane.run import shim
from ptxtools import native
from scripts.commands.dispatch import parser_of
from tests.loader.probes import Probes, build
from tests.loader.ways import CAUGHT, FUNCTIONS, PASSED, PAST, arguments


def passes(probes: Probes, way: tuple[str, ...], expected: Path) -> bool:
    """Whether all functions that are found are of the expected library, and a driver past the shim is told."""
    path = f"{probes.directory}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    try:
        done = probes.run(*arguments(probes, way), LD_LIBRARY_PATH=path)
    except AssertionError as error:
        print(error)
        return False
    told = PAST in done.log
    return done.objects == dict.fromkeys(FUNCTIONS, expected.resolve()) and told == (expected != probes.shim)


def main(words: Sequence[str]) -> int:
    parser_of(__name__, __doc__).parse_args(words)
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        probes = build(Path(directory), native.file("shim/libcuda.so.1"), shim.system_driver())
        for expected, ways in ((probes.shim, CAUGHT), (probes.driver, PASSED)):
            for way in ways:
                good = passes(probes, way, expected)
                failed += not good
                print("ok    " if good else "FAILED", *way, flush=True)
    print(f"{len(CAUGHT) + len(PASSED) - failed} passed, {failed} failed")
    return 1 if failed else 0
