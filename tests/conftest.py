"""What several tests share: the native build of this checkout, made once per session and reused between sessions."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "native"


def build_native(directory: Path, *options: str) -> None:
    """Configures and builds interpose/ with its C tests; installing the package has usually compiled most of it."""
    ninja = shutil.which("ninja")
    assert ninja is not None, "ninja is missing: pip install '.[test]'"
    configure = [
        "cmake",
        *("-S", str(ROOT / "interpose"), "-B", str(directory), "-G", "Ninja", "-Wno-dev"),
        *(f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DPython3_EXECUTABLE={sys.executable}", "-DTESSERA_TESTS=ON"),
        *options,
    ]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([ninja, "-C", str(directory)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def native_build() -> Path:
    """The build directory: unit/ has the C unit tests, native/ what the wheel carries. Parallel workers build once."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".test-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_native(BUILD)
    return BUILD


@pytest.fixture(scope="session")
def fake_native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A native directory whose driver is an empty library: enough for what happens before and after a run."""
    directory = tmp_path_factory.mktemp("native")
    (directory / "include").symlink_to(ROOT / "interpose" / "include")
    for place in ("emulator", "cudart"):
        (directory / place).mkdir()
    source = directory / "empty.c"
    source.write_text("int tsr_empty_driver = 1;\n")
    library = directory / "emulator" / "libcuda.so.1"
    command = [
        os.environ.get("CC", "cc"),
        "-shared",
        "-fPIC",
        "-Wl,-soname,libcuda.so.1",
        "-o",
        str(library),
        str(source),
    ]
    subprocess.run(command, check=True)
    return directory
