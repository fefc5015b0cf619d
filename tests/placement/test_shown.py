"""Which GPUs a program sees: in a pool its own alone, though Tessera uses all of them in its process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.emulated import ALL_GPUS, Machine, run

GUEST = Path(__file__).parent / "shown_guest.py"
POOL = (*ALL_GPUS, "--pool")
ALL_OF_THEM = "3 [0, 1, 2] [0, 1, 2] 0000:10:00.0 None"
NOBODY: Mapping[str, str] = {}


@pytest.mark.parametrize(
    ("options", "variables", "words", "seen"),
    [
        (ALL_GPUS, NOBODY, (), ALL_OF_THEM),
        (POOL, NOBODY, (), "1 [0] [0] 0000:10:00.0 0"),
        ((*ALL_GPUS, "--show", "home"), NOBODY, (), "1 [0] [0] 0000:10:00.0 0"),
        ((*POOL, "--show", "all"), NOBODY, (), ALL_OF_THEM),
        (POOL, {"CUDA_VISIBLE_DEVICES": "2,1"}, (), "1 [0] [0] 0000:12:00.0 2"),
        (POOL, NOBODY, ("1",), "1 [0] [0] 0000:11:00.0 1"),  # the program's own word comes first
    ],
)
def test_a_program_and_its_children_see(
    options: Sequence[str],
    variables: Mapping[str, str],
    words: Sequence[str],
    seen: str,
    native_build: Path,
    tmp_path: Path,
) -> None:
    ran = run(native_build / "native", tmp_path, Machine(3), (GUEST, *words), options, variables=dict(variables))
    assert ran.lines == [seen, seen]
    assert ("hides GPU 0" in ran.errors) is bool(words)
