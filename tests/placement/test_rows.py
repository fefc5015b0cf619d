"""Launches that overwrite rows of memory that others share: who does not read what is between them does not pull it."""

from itertools import product
from pathlib import Path

import pytest

from tests.placement.rows_guest import BYTES, expected
from tests.placement.test_copies import guest
from tests.sample import sampled

GUEST = Path(__file__).with_name("rows_guest.py")
RULES = 'rules:\n  - {match: {function: "one_*"}, device: 1}\n'
UPPER, LOWER = BYTES // 3, BYTES - BYTES // 3
CASES = {  # launches; bytes that GPU 1 pulls, and home, which in the end has what was read
    "both halves, then all": ("home_fill one_upper one_lower one_read", 0, BYTES),
    "the other half first": ("home_fill one_lower one_upper one_read", 0, BYTES),
    "one half, then all": ("home_fill one_upper one_read", LOWER, BYTES),
    "a half on each GPU": ("home_fill one_upper home_lower home_read", 0, UPPER),
    "a half on each GPU, for both": ("home_fill one_upper home_lower one_read home_read", LOWER, UPPER),
    "halves of what was read before": (
        "one_fill home_upper one_read home_lower one_upper one_lower one_read",
        UPPER,
        BYTES,
    ),
}


LINKS = ("pcie5", "pcie5-no-peer")
SAMPLE = [
    ("a half on each GPU, for both", "pcie5-no-peer"),
]
LEARN = "home_fill one_fill one_upper one_lower one_read home_upper home_lower home_read"


@pytest.fixture(scope="module")
def place(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is known what launches touch."""
    learnt = tmp_path_factory.mktemp("rows")
    guest(native_build / "native", learnt, "copies", RULES, [str(GUEST), *LEARN.split()])
    return learnt


@pytest.mark.parametrize(("case", "link"), sampled([*product(CASES, LINKS)], SAMPLE))
def test_what_is_between_rows_is_pulled_by_who_reads_it(case: str, link: str, native_build: Path, place: Path) -> None:
    launches, one, home = CASES[case]
    ran = guest(native_build / "native", place, "copies", RULES, [str(GUEST), *launches.split()], link)
    assert int(ran.output) == expected(launches.split())
    assert ran.report["launches"]["by_device"]["1"] == launches.count("one_")
    pulled = {"0": home, "1": one}
    assert ran.report["memory_copies"]["pulled_bytes"] == {gpu: count for gpu, count in pulled.items() if count}


def test_who_overwrites_rows_comes_after_nobody(native_build: Path, place: Path) -> None:
    """Under data order: what was there before is nothing to it, also what others wrote between its rows."""
    launches = "home_fill one_upper one_lower one_read home_fill one_upper one_lower one_read"
    ran = guest(native_build / "native", place, "copies", "order: data\n" + RULES, [str(GUEST), *launches.split()])
    assert int(ran.output) == expected(launches.split())
    assert ran.report["memory_copies"]["ties"] == 0
