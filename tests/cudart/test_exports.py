"""What the runtime look-alike exports and imports, read from the built libraries."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[2] / "interpose" / "cudart" / "SUPPORT.md"
NEVER = {"exit", "_exit", "abort", "printf", "fprintf", "puts", "fwrite", "signal", "sigaction", "system"}


def symbols(native_build: Path, major: int, *options: str) -> list[list[str]]:
    library = native_build / "native" / "cudart" / f"libcudart.so.{major}"
    listing = subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True, text=True).stdout
    return [line.split() for line in listing.splitlines()]


@pytest.mark.parametrize("major", [12, 13])
def test_support_page_lists_exactly_the_stubs(native_build: Path, major: int) -> None:
    stubs = {row[2].split("@")[0] for row in symbols(native_build, major, "--defined-only") if row[1] == "W"}
    chapter = SUPPORT.read_text().split(f"## libcudart.so.{major}")[1].split("\n## ")[0]
    assert set(re.findall(r"^- `(\w+)`$", chapter, re.MULTILINE)) == stubs


@pytest.mark.parametrize("major", [12, 13])
def test_exports_carry_the_version_that_programs_ask_for(native_build: Path, major: int) -> None:
    exported = [row[2] for row in symbols(native_build, major, "--defined-only") if row[1] in "TW"]
    assert len(exported) > 400
    assert all(name.endswith(f"@@libcudart.so.{major}") for name in exported)
    assert all(re.match(r"(__)?cuda[A-Z]", name) for name in exported)


@pytest.mark.parametrize("major", [12, 13])
def test_nothing_that_ends_or_speaks_for_the_program_is_imported(native_build: Path, major: int) -> None:
    imported = {row[-1].split("@")[0] for row in symbols(native_build, major, "-u")}
    assert not imported & NEVER
