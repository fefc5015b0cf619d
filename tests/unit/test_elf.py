"""Reading section names: real files, other files, and damaged ones."""

import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from controlplane.base.elf import has_static_runtime, sections

PYTHON = Path(sys.executable).resolve().read_bytes()


def test_sections_of_a_real_program() -> None:
    assert {b".text", b".dynamic", b".dynstr"} <= sections(PYTHON)
    assert not has_static_runtime(Path(sys.executable))


def test_other_files_have_none() -> None:
    assert sections(b"") == sections(b"#!/bin/sh\n") == sections(b"\x7fELF\x01\x01" + bytes(100)) == set()
    assert not has_static_runtime(Path("/nonexistent"))


@given(st.integers(0, 200), st.integers(0, 63), st.integers(0, 255))
def test_damage_never_raises(cut: int, place: int, value: int) -> None:
    sections(PYTHON[:cut])
    sections(PYTHON[:place] + bytes([value]) + PYTHON[place + 1 : 4096])
