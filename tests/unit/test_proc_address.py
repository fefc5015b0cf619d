"""cuGetProcAddress of the emulated driver gives every answer that driver 580 gave.

The recorded answers are those of routes.tsv: 43 versions up to 13.0, three stream flags, every exported name.
"""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import pytest

from interpose.api.table import Route, read_routes, read_rows

API = Path(__file__).parents[2] / "interpose" / "api"
VERSIONS = (
    *(2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 4020, 5000, 5050, 6000, 6050, 7000, 7050, 8000),
    *(9000, 9010, 9020, 10000, 10010, 10020),
    *range(11000, 11090, 10),
    *range(12000, 12100, 10),
    13000,
)
LEGACY_FLAGS = (0, 1)
PER_THREAD = 2
SUCCESS, INVALID_VALUE, NOT_FOUND = 0, 1, 500
FOUND, UNKNOWN_SYMBOL, OLD_VERSION = 0, 1, 2
UNTOUCHED = 1  # what the address was before


@dataclass(frozen=True, slots=True)
class Answer:
    """Result code, symbol status (None: untouched) and the address returned."""

    result: int
    status: int | None
    address: int | None


class Driver:
    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))

    def address(self, symbol: str) -> int | None:
        return ctypes.cast(self.library[symbol], ctypes.c_void_p).value

    def ask(self, name: str, version: int, flags: int) -> Answer:
        function, status = ctypes.c_void_p(UNTOUCHED), ctypes.c_int(-1)
        result = self.library.cuGetProcAddress_v2(
            name.encode(), ctypes.byref(function), version, ctypes.c_uint64(flags), ctypes.byref(status)
        )
        return Answer(result, None if status.value == -1 else status.value, function.value)

    def ask_first_form(self, name: str, version: int, flags: int) -> tuple[int, int | None]:
        function = ctypes.c_void_p(UNTOUCHED)
        result = self.library.cuGetProcAddress(name.encode(), ctypes.byref(function), version, ctypes.c_uint64(flags))
        return result, function.value


@pytest.fixture(scope="module")
def driver(native_build: Path) -> Driver:
    return Driver(native_build / "native" / "emulator" / "libcuda.so.1")


def expected(driver: Driver, route: Route, version: int, flags: int) -> Answer:
    steps = route.per_thread if flags == PER_THREAD else route.legacy
    symbol = next((step.symbol for step in reversed(steps) if step.version <= version), None)
    if symbol is None:
        return Answer(SUCCESS, OLD_VERSION, None)
    return Answer(SUCCESS, FOUND, driver.address(symbol))


def test_every_recorded_answer(driver: Driver) -> None:
    routes = read_routes(API / "routes.tsv").by_name
    wrong = []
    counts = {FOUND: 0, OLD_VERSION: 0}
    for route in routes:
        for version in VERSIONS:
            for flags in (*LEGACY_FLAGS, PER_THREAD):
                answer, wanted = driver.ask(route.name, version, flags), expected(driver, route, version, flags)
                counts[wanted.status or 0] += 1
                if answer != wanted:
                    wrong.append((route.name, version, flags, answer, wanted))
    assert wrong == []
    assert counts == {FOUND: 37153, OLD_VERSION: 24380}, "the totals of the recording"


def test_names_with_a_suffix_are_unknown(driver: Driver) -> None:
    names = {route.name for route in read_routes(API / "routes.tsv").by_name}
    for row in read_rows(API / "driver.def"):
        if row.symbol not in names:
            for flags in (*LEGACY_FLAGS, PER_THREAD):
                assert driver.ask(row.symbol, 13000, flags) == Answer(SUCCESS, UNKNOWN_SYMBOL, None), row.symbol


def test_versions_after_the_drivers_are_refused(driver: Driver) -> None:
    for route in read_routes(API / "routes.tsv").by_name:
        answer = driver.ask(route.name, 13010, 0)
        assert answer == Answer(INVALID_VALUE, None, UNTOUCHED), route.name


def test_first_form_answers_with_its_result(driver: Driver) -> None:
    assert driver.ask_first_form("cuMemAlloc", 12000, 0) == (SUCCESS, driver.address("cuMemAlloc_v2"))
    assert driver.ask_first_form("cuNothing", 12000, 0) == (NOT_FOUND, None)
    assert driver.ask_first_form("cuLaunchKernel", 2000, 0) == (NOT_FOUND, None)
    assert driver.ask_first_form("cuInit", 13010, 0) == (INVALID_VALUE, UNTOUCHED)
