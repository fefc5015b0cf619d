"""In whatever way a program takes memory, it finds that of all GPUs (--pool), and then that of the host."""

from pathlib import Path

import pytest

from tests import emulated
from tests.placement.test_large import GUEST


@pytest.mark.full
def test_eight_gpus_give_all_that_they_say(native_build: Path, tmp_path: Path) -> None:
    """More than a TiB."""
    native, machine = native_build / "native", emulated.Machine(8)
    free, total, _ = map(
        int, emulated.run(native, tmp_path, machine, (GUEST, "info"), (*emulated.ALL_GPUS, "--pool")).lines[0].split()
    )
    given = emulated.run(
        native, tmp_path, machine, (GUEST, "fill", 160, 8192, 1024), (*emulated.ALL_GPUS, "--pool")
    ).output
    assert free == total > 1 << 20
    assert int(given.split()[0]) == free // 8192
