"""A set-user-id program that is linked to the shim: whoever starts it has no say by variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.stranger import NOBODY, ROOT_ONLY

pytestmark = ROOT_ONLY
SOURCE = Path(__file__).with_name("secure.c")


@pytest.fixture
def folder() -> Iterator[Path]:
    """That everybody may enter, on a file system that does not ignore set-user-id bits."""
    places = [Path("/tmp"), Path("/var/tmp"), Path("/opt")]
    place = next(each for each in places if each.is_dir() and not os.statvfs(each).f_flag & os.ST_NOSUID)
    made = Path(tempfile.mkdtemp(prefix="secure-", dir=place))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def run(program: Path, log: Path, user: int) -> str:
    done = subprocess.run(
        [program],
        env={
            "TESSERA_LOG": "debug",
            "TESSERA_LOG_FILE": str(log),
            "TESSERA_RECORDS": str(log.with_name("records")),
            "TESSERA_POLICY": str(log.with_name("policy")),
            "TESSERA_DRIVER": str(log.with_name("driver")),
        },
        user=user,
        group=user,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_file_is_written_for_whoever_starts_it(folder: Path, native_build: Path) -> None:
    shim = shutil.copy(native_build / "native" / "shim" / "libcuda.so.1", folder)
    program, theirs = folder / "program", folder / "theirs"
    includes = ["-I", str(native_build / "cuda-headers")]
    subprocess.run(
        [os.environ.get("CC", "cc"), *includes, SOURCE, shim, f"-Wl,-rpath,{folder}", "-o", program], check=True
    )
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)
    shutil.copy(program, folder / "plain")
    program.chmod(0o4755)
    assert run(folder / "plain", theirs / "plain.log", NOBODY).startswith(f"secure 0 uid {NOBODY}\n")
    assert (theirs / "plain.log").stat().st_size > 0  # so it would
    assert run(program, theirs / "secure.log", NOBODY).startswith("secure 1 uid 0\n")
    assert sorted(file.name for file in theirs.iterdir()) == ["plain.log"]
