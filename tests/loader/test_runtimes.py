"""Every driver function that a CUDA runtime looks up comes through the shim, and is ours when we wrap it.

A runtime looks all of them up when it starts; the null driver then refuses to be taken for genuine.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from interpose.api.table import Route, read_routes
from tests.loader.probes import ROOT, Probes, compile_program
from tests.loader.runtimes import INSTALLED, RUNTIMES, Runtime, directory
from tests.null_driver.calls import LOOK_UPS, STRANGERS

FEWEST = 400
PER_THREAD = 2
REPORT = re.compile(r"(\d+) look-ups of driver functions, (\d+) answered with a wrapper")


def name_of(runtime: Runtime) -> str:
    return runtime.name


@pytest.mark.full
@pytest.mark.parametrize("runtime", [r for r in RUNTIMES if r.name in INSTALLED], ids=name_of)
def test_installed(runtime: Runtime, probes: Probes, tmp_path: Path, native_build: Path) -> None:
    check(runtime, installed(runtime.file), probes, tmp_path, native_build)


def installed(file: str) -> Path:
    """The site-packages directory that has the file of an nvidia package."""
    nvidia = find_spec("nvidia")
    assert nvidia
    places = [Path(part).parent for part in nvidia.submodule_search_locations or []]
    return next(place for place in places if (place / file).exists())


@pytest.mark.runtimes
@pytest.mark.parametrize("runtime", RUNTIMES, ids=name_of)
def test_fetched(runtime: Runtime, probes: Probes, tmp_path: Path, native_build: Path) -> None:
    assert directory(runtime).is_dir(), "scripts/lab runtimes"
    check(runtime, directory(runtime), probes, tmp_path, native_build)


def check(runtime: Runtime, place: Path, probes: Probes, work: Path, native_build: Path) -> None:
    look_ups = work / "look_ups"
    options = {"TESSERA_LOG": "info", "TESSERA_NULL_LOOK_UPS": str(look_ups)}
    if runtime.is_archive:
        program = work / "static"
        compile_program(program, "runtime.c", "-DSTATIC", place / runtime.file, "-ldl", "-lrt", "-pthread")
        done = probes.run(str(program), **options)
    else:
        done = probes.run("runtime", place / runtime.file, runtime.start, **options)
    asked = [line.split(" ") for line in look_ups.read_text().splitlines()]
    report = REPORT.search(done.log)
    assert report, done.log
    assert len(asked) == sum(done.calls.get(name, 0) for name in LOOK_UPS) == int(report[1]) >= FEWEST
    assert STRANGERS not in done.calls
    assert max(int(version) for version, _, _ in asked) == runtime.version
    answers = probes.run("replay", text=look_ups.read_text()).lines
    expected = [expected_answer(probes, *question) for question in asked_with_routes(asked, native_build)]
    assert answers == expected
    assert sum(str(probes.shim) in answer for answer in answers) == int(report[2]) > FEWEST / 10


def asked_with_routes(asked: list[list[str]], native_build: Path) -> list[tuple[str | None, bool]]:
    """For each look-up the symbol that driver 580 answers with, and whether the shim wraps it."""
    routes = {route.name: route for route in read_routes(ROOT / "interpose" / "api" / "routes.tsv").by_name}
    rows = (native_build / "shim" / "generated" / "wrapped_rows.h").read_text()
    wrapped = set(re.findall(r"TSR_WRAPS_(\w+)", rows))
    symbols = [symbol_of(routes.get(name), int(version), int(flags)) for version, flags, name in asked]
    return [(symbol, symbol in wrapped) for symbol in symbols]


def symbol_of(route: Route | None, version: int, flags: int) -> str | None:
    if route is None:
        return None
    steps = route.per_thread if flags & PER_THREAD else route.legacy
    return next((step.symbol for step in reversed(steps) if step.version <= version), None)


def expected_answer(probes: Probes, symbol: str | None, is_wrapped: bool) -> str:
    return "- -" if symbol is None else f"{symbol} {probes.shim if is_wrapped else probes.driver}"
