"""What several tests share: the native build of this checkout, made once per session and reused between sessions."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # for helpers beside the tests; at the end, so that the installed package comes first

from tests.sample import is_in_share, share  # noqa: E402


@contextmanager
def locked(name: str, kind: int) -> Iterator[None]:
    """A lock of all workers of this checkout. Given back by hand: a child that a test forked holds it, too."""
    place = ROOT / "build"
    place.mkdir(exist_ok=True)
    with (place / name).open("w") as file:
        fcntl.flock(file, kind)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full-share", type=share, default=Fraction(1), metavar="1/N", help="of the tests marked full")
    parser.addoption("--full-seed", type=int, default=0, metavar="SEED", help="which of them a share has")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All workers must choose the same."""
    part, seed = config.getoption("--full-share"), config.getoption("--full-seed")
    left = [each for each in items if not each.get_closest_marker("full") or is_in_share(each.nodeid, part, seed)]
    kept = {*left}
    config.hook.pytest_deselected(items=[each for each in items if each not in kept])
    items[:] = left


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Tests marked `alone` run while no other worker runs a test; whoever comes while one waits, waits behind it."""
    kind = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
    with ExitStack() as held:
        with locked(".test-turn", fcntl.LOCK_EX):
            held.enter_context(locked(".test-alone", kind))
        return (yield)


@pytest.fixture(scope="session")
def native_build() -> Path:
    """The build directory: unit/ has the C unit tests, native/ what the wheel carries. Parallel workers build once."""
    from tests.native_build import BUILD, build_native

    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".test-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_native(BUILD)
    return BUILD


@pytest.fixture
def native(native_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process loads is of the native build."""
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))


@pytest.fixture(scope="session")
def fake_native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A native directory of empty libraries: enough for what happens before and after a run."""
    directory = tmp_path_factory.mktemp("native")
    (directory / "include").symlink_to(ROOT / "interpose" / "include")
    (directory / "driver.def").symlink_to(ROOT / "interpose" / "api" / "driver.def")
    libraries = {
        "emulator/libcuda.so.1": "tsr_empty_driver",
        "shim/libcuda.so.1": "tsr_empty_shim",
        "cudart/libcudart.so.12": "tsr_empty_runtime_12",
        "cudart/libcudart.so.13": "tsr_empty_runtime_13",
    }
    for library, symbol in libraries.items():
        file = directory / library
        file.parent.mkdir(exist_ok=True)
        source = directory / f"{symbol}.c"
        source.write_text(f"int {symbol} = 1;\n")
        command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", f"-Wl,-soname,{file.name}", "-o"]
        subprocess.run([*command, file, source], check=True)
    return directory
