"""In whatever way a program takes memory, it finds that of all GPUs (--pool), and then that of the host."""

from pathlib import Path

import pytest

from tests import emulated
from tests.placement.test_large import GUEST, Machine

TAKING = Path(__file__).with_name("pool_memory_guest.py")
TWO = Machine(2, 24, 40)


def test_a_gpu_that_has_less_than_it_should(native_build: Path, tmp_path: Path) -> None:
    """14 MiB of it are left; 20 fit, as the home GPU has 10."""
    native, options = native_build / "native", (*TWO.options, "--show", "all")
    ran = emulated.run(native, tmp_path, TWO.emulated, (TAKING, "beside", 50), options)
    assert ran.output == "True\n"
    assert ran.report["pool"]["split"] == 1


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
