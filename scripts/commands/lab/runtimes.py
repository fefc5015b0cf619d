"""Fetches the CUDA runtimes of tests/loader/runtimes.py from PyPI into build/runtimes, for `pytest -m runtimes`.

    scripts/lab runtimes

An environment can hold one version of a package only, so each has a directory of its own.
"""

import subprocess
import sys
from collections.abc import Sequence

from scripts.commands.dispatch import parser_of
from tests.loader.runtimes import RUNTIMES, directory


def main(words: Sequence[str]) -> int:
    parser_of(__name__, __doc__).parse_args(words)
    for package, target in {runtime.package: directory(runtime) for runtime in RUNTIMES}.items():
        options = ["--quiet", "--no-deps", "--upgrade", "--target", str(target)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, package], check=True)
        print(f"{package}: {next(target.glob('*.dist-info')).name.removesuffix('.dist-info')}")
    return 0
