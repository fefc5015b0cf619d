"""Runs the C unit tests, one program per file tests/unit/*_test.c."""

import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = sorted(path.stem for path in Path(__file__).parent.glob("*_test.c"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_c_unit(program: str, native_build: Path) -> None:
    done = subprocess.run([native_build / "unit" / program], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9][0-9]* passed, 0 failed$", done.stdout, re.MULTILINE), done.stdout
