"""A program that closes descriptors of the shim gets an error, as from a driver whose devices it has closed."""

from pathlib import Path

import pytest

from tests.emulated import Machine, run
from tests.fault import closed_descriptors

POLICY = """version: 1
devices: {home: 0, executors: [1, 2]}
memory: {place: PLACE}
rules:
  - {match: {function: add, nth: {every: 2}}, device: 1}
  - {match: {function: add}, device: 2}
"""


@pytest.mark.parametrize("place", ["follow", "copies"])
def test_it_is_told(place: str, native_build: Path, tmp_path: Path) -> None:
    program = (closed_descriptors.__file__,)
    ran = run(native_build / "native", tmp_path, Machine(3), program, policy=POLICY.replace("PLACE", place))
    assert ran.lines == ["told"]
