"""A pool whose size the program has limited itself."""

from pathlib import Path

from tests.emulated import ALL_GPUS, Machine, run

GUEST = Path(__file__).with_name("limited_guest.py")


def test_beyond_its_limit_nobody_waits(native_build: Path, tmp_path: Path) -> None:
    """No work that ends would make room, and what is held up goes on only after the answer."""
    ran = run(native_build / "native", tmp_path, Machine(2), (GUEST,), ALL_GPUS, timeout_s=60)
    assert ran.lines == [*["CUDA_ERROR_OUT_OF_MEMORY"] * 3, "CUDA_SUCCESS"]
