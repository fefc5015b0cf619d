"""Building interpose/ with its C tests, for the tests and for scripts/check."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "native"


def ninja_of(directory: Path) -> str:
    """The ninja that the directory was made with, if it still exists: another version would compile all again."""
    cache = directory / "CMakeCache.txt"
    made_with = re.search("^CMAKE_MAKE_PROGRAM:.*=(.*)$", cache.read_text() if cache.exists() else "", re.MULTILINE)
    ninja = shutil.which(made_with[1] if made_with else "ninja") or shutil.which("ninja")
    assert ninja is not None, "ninja is missing: pip install '.[test]'"
    return ninja


def build_native(directory: Path, *options: str) -> None:
    """Configures and builds; installing the package has usually compiled most of BUILD."""
    ninja = ninja_of(directory)
    configure = [
        "cmake",
        *("-S", str(ROOT / "interpose"), "-B", str(directory), "-G", "Ninja"),
        *(f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DPython3_EXECUTABLE={sys.executable}", "-DTESSERA_TESTS=ON"),
        *options,
    ]
    for command in (configure, [ninja, "-C", str(directory)]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
