"""In whatever way a program takes memory, it finds that of all GPUs (--pool), and then that of the host."""

from pathlib import Path

import pytest

from tests import emulated
from tests.placement.test_large import GUEST, MEBIBYTE, Machine, learn, run

TAKING = Path(__file__).with_name("pool_memory_guest.py")
TWO = Machine(2, 24, 40)


@pytest.mark.parametrize("way", ["mapped", "handles"])
@pytest.mark.parametrize("host", [0, 32])
def test_what_the_program_maps_by_itself_lies_on_all(way: str, host: int, native_build: Path, tmp_path: Path) -> None:
    """Also if it could share it: allocators that always ask for handles share nothing."""
    ran = run(native_build / "native", tmp_path, Machine(2, 24, 40, host), TAKING, way)
    assert ran.lines == [f"{24 + host // 2} True True 0", "True"]
    assert [gpu["owned_bytes"] for gpu in ran.report["pool"]["gpus"]] == [24 * MEBIBYTE] * 2


def test_a_gpu_that_has_less_than_it_should(native_build: Path, tmp_path: Path) -> None:
    """14 MiB of it are left; 20 fit, as the home GPU has 10."""
    native, options = native_build / "native", (*TWO.options, "--show", "all")
    ran = emulated.run(native, tmp_path, TWO.emulated, (TAKING, "beside", 50), options)
    assert ran.output == "True\n"
    assert ran.report["pool"]["split"] == 1


@pytest.mark.parametrize("kept", [0, (1 << 64) - 1])
def test_what_lies_idle_goes_before_the_host_is_used(kept: int, native_build: Path, tmp_path: Path) -> None:
    ran = run(native_build / "native", tmp_path, Machine(1, 24, 40, 64), TAKING, "idle", kept)
    assert ran.report["pool"]["host"]["most_owned_bytes"] <= 8 * MEBIBYTE  # of a pool's first 32


def test_copies_fit_what_others_leave_of_the_gpu(native_build: Path, tmp_path: Path) -> None:
    """Contexts, code and what no pool has lie in the reserve, too: less of the host's memory has copies at a time, but
    what comes next is fetched all the same.
    """
    native, machine, words = native_build / "native", Machine(1, 24, 40, 64), (18, 4, 0, 256, 16)
    learn(native, tmp_path, machine, TAKING, "taken", 0, *words)
    few, many = (run(native, tmp_path, machine, TAKING, "taken", taken, *words) for taken in (24, 0))
    assert few.output == many.output
    assert few.report["pool"]["host"]["evicted"] > many.report["pool"]["host"]["evicted"] > 0
    assert few.report["pool"]["host"]["through_link"] == many.report["pool"]["host"]["through_link"] == 0


def test_code_finds_room_beside_copies(native_build: Path, tmp_path: Path) -> None:
    """Copies of the host's memory have filled what the pool leaves of the GPU; a module's variables need half of it."""
    native, machine, words = native_build / "native", Machine(1, 24, 40, 64), (18, 4, 0, 256, 16)
    learn(native, tmp_path, machine, TAKING, "taken", 0, *words)
    alone, ran = (run(native, tmp_path, machine, TAKING, *way, *words) for way in (("taken", 0), ("code", 20)))
    assert ran.output == alone.output


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
