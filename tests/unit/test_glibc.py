"""What is built runs where glibc is 2.28, whichever it was built with (interpose/cmake/TesseraOldGlibc.cmake)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

OLDEST = (2, 28)
NEEDED = re.compile(r"Name: GLIBC_([\d.]+)\s")


def versions(file: Path) -> set[tuple[int, ...]]:
    """Of the C library, that a file asks for."""
    shown = subprocess.run(
        ["readelf", "--version-info", "--wide", file],
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, "LC_ALL": "C"},
    ).stdout
    _, _, needs = shown.partition("Version needs section")
    return {tuple(map(int, each.split("."))) for each in NEEDED.findall(needs)}


def test_nothing_asks_for_a_newer_glibc(native_build: Path) -> None:
    native = native_build / "native"
    files = [*native.glob("*/lib*.so*"), native / "executor" / "tessera-executor"]
    assert len(files) >= 8
    newer = {file.name: sorted(each for each in versions(file) if each > OLDEST) for file in files}
    assert {name: each for name, each in newer.items() if each} == {}
    assert any(versions(file) for file in files)


def test_a_newer_symbol_is_noticed(tmp_path: Path) -> None:
    """On systems whose C library has one."""
    source, made = tmp_path / "newer.c", tmp_path / "newer"
    source.write_text("#include <sys/stat.h>\nint main(void) { struct stat s; return fstat(0, &s); }\n")
    subprocess.run([os.environ.get("CC", "cc"), source, "-o", made], check=True)
    newest = os.confstr("CS_GNU_LIBC_VERSION") or ""
    if tuple(map(int, newest.split()[1].split("."))) < (2, 33):
        pytest.skip(f"{newest} has none")
    assert max(versions(made)) > OLDEST
