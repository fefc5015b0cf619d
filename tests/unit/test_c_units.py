"""Runs the C unit tests, one program per file tests/unit/*_test.c."""

import os
import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = sorted(path.stem for path in Path(__file__).parent.glob("*_test.c"))
LONG = [name for name in PROGRAMS if "check_steps(" in Path(__file__).with_name(f"{name}.c").read_text()]


def check(program: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run([program], text=True, capture_output=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9][0-9]* passed, 0 failed$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_c_unit(program: str, native_build: Path) -> None:
    check(native_build / "unit" / program)


@pytest.mark.full
@pytest.mark.parametrize("program", LONG)
def test_all_steps_of_long_models(program: str, native_build: Path) -> None:
    check(native_build / "unit" / program, {**os.environ, "TESSERA_TEST_WHOLE": "1"})
