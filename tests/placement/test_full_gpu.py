"""A GPU that copies of memory have filled: what the program allocates there itself finds room all the same."""

from itertools import product
from pathlib import Path

import pytest

import tests.placement.test_copies as copies
from tests.placement.test_copies import guest
from tests.placement.test_pairs import NO_PEER
from tests.sample import sampled

WAYS, LINKS = ("alloc", "pitch", "async", "pool", "create"), ("pcie5", NO_PEER)
FULL = Path(__file__).with_name("full_guest.py")
AWAY = 'rules:\n  - {match: {function: "*"}, device: 1}\n'
SMALL = "devices:\n  - {gpu: h200, count: 1}\n  - {gpu: h200, count: 1, memory_gib: 0.0625}\nlink: "


@pytest.mark.parametrize(("how", "link"), sampled([*product(WAYS, LINKS)], [*product(WAYS, LINKS)][::4]))
def test_the_program_allocates_where_copies_are(
    how: str, link: str, native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the copies hold what was written; they go, one after the other, and nothing is lost."""
    monkeypatch.setattr(copies, "MACHINE", SMALL)
    program = [str(FULL), how, "13", str(8 << 20), "4"]
    guest(native_build / "native", tmp_path, "copies", AWAY, program, link)  # learns what launches touch
    ran = guest(native_build / "native", tmp_path, "copies", AWAY, program, link)
    assert ran.output == "4 True True\n"
    assert ran.report["launches"]["by_device"]["1"] >= 13
    assert ran.report["memory_copies"]["bytes"].get("1", 0) <= 32 << 20
