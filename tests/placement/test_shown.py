"""Which GPUs a program sees: in a pool its environment names its own alone, though Tessera uses all in its process.

The driver tells of all of them, its own first: CUDA's runtime checks that it does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.emulated import ALL_GPUS, Machine, run

GUEST = Path(__file__).parent / "shown_guest.py"
POOL = (*ALL_GPUS, "--pool")
ALL_OF_THEM = "3 [0, 1, 2] [0, 1, 2] 0000:10:00.0"
NOBODY: Mapping[str, str] = {}


@pytest.mark.parametrize(
    ("options", "variables", "words", "seen"),
    [
        pytest.param(ALL_GPUS, NOBODY, (), f"{ALL_OF_THEM} None", marks=pytest.mark.full),
        (POOL, NOBODY, (), f"{ALL_OF_THEM} 0"),
        pytest.param((*ALL_GPUS, "--show", "home"), NOBODY, (), f"{ALL_OF_THEM} 0", marks=pytest.mark.full),
        pytest.param((*POOL, "--show", "all"), NOBODY, (), f"{ALL_OF_THEM} None", marks=pytest.mark.full),
        (POOL, {"CUDA_VISIBLE_DEVICES": "2,1"}, (), "2 [0, 1] [0, 1] 0000:12:00.0 2"),
        # the program's own word comes first
        pytest.param(POOL, NOBODY, ("1",), "1 [0] [0] 0000:11:00.0 1", marks=pytest.mark.full),
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
