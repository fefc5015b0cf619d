"""PTX in fat binaries and cubins: found, or refused with a ValueError, whatever the bytes."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxtools.image import best, running, texts
from ptxtools.image.lz4 import decompress

IMAGES = sorted((Path(__file__).parents[1] / "corpus" / "image").glob("*[nb]"))


def image(name: str) -> bytes:
    return next(path for path in IMAGES if path.name == name).read_bytes()


def test_every_way_of_packing_gives_the_same_text() -> None:
    plain, lz4, zstd = (texts(image(f"{name}.fatbin"))[0] for name in ("plain", "lz4", "zstd"))
    assert plain.text == lz4.text == zstd.text
    assert (plain.architecture, plain.container) == (80, 1)


def test_containers_are_found_wherever_they_lie() -> None:
    data = b"\x7fELF\x02\x01" + bytes(100) + image("lz4.fatbin") + bytes(7) + image("plain.fatbin")
    assert [each.container for each in texts(data)] == [1, 2]


def test_the_text_that_the_driver_takes() -> None:
    found = texts(image("specific.fatbin"))
    assert [each.exact for each in best(found, 90)] == [False]
    assert best(found, 80) == []
    assert [each.exact for each in found] == [False, True]


def test_machine_code_without_ptx() -> None:
    assert texts(image("plain.cubin")) == []


@pytest.mark.parametrize(
    ("data", "size", "plain"),
    [
        (b"\x30abc", 3, b"abc"),
        (b"\x13a\x01\x00", 8, b"a" * 8),
        (b"\x2fab\x02\x00\x00", 21, b"ab" * 10 + b"a"),
        (b"\xf0\x05" + b"x" * 20, 20, b"x" * 20),
    ],
)
def test_lz4(data: bytes, size: int, plain: bytes) -> None:
    assert decompress(data, size) == plain


@pytest.mark.parametrize(("data", "size"), [(b"\x30ab", 3), (b"\x10a\x02\x00", 5), (b"\x10a", 2), (b"\xff\xff", 9)])
def test_damaged_lz4(data: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="LZ4"):
        decompress(data, size)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_images(data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.sampled_from(IMAGES)).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed)))
    with contextlib.suppress(ValueError):
        assert isinstance(texts(bytes(changed)), list)
        assert isinstance(texts(bytes(changed[:cut])), list)
        assert isinstance(running(bytes(changed), 90), list)


def entry(kind: int, architecture: int, payload: bytes, flags: int = 0) -> bytes:
    head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), 0, 0, 0, 0, architecture, 0, 0, flags, 0, 0)
    return head + payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(body)) + body


def cubin(text: bytes = b"") -> bytes:
    """An ELF file of the GPU's kind without sections, told apart by what follows its header."""
    return b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 190) + bytes(44) + text


def ran(data: bytes, architecture: int, *, ptx_only: bool = False) -> list[tuple[int, bool]]:
    """Architecture of what runs, and whether it is machine code."""
    return [(each.architecture, each.cubin is not None) for each in running(data, architecture, ptx_only=ptx_only)]


def test_machine_code_for_the_gpu_runs_and_ptx_only_without() -> None:
    specific, family = 0x100000, 0x200000
    several = container(
        *(entry(2, architecture, cubin()) for architecture in (80, 86, 90)),
        entry(2, 90, cubin(), specific),
        entry(2, 100, cubin(), family),
        entry(1, 80, b".version 8.0\n"),
        entry(1, 120, b".version 8.0\n"),
    )
    assert ran(several, 80) == [(80, True)]
    assert ran(several, 89) == [(86, True)]
    assert ran(several, 90) == [(90, True)]
    (taken,) = running(container(entry(2, 90, cubin(b"9.0a"), specific), entry(2, 90, cubin(b"9.0"))), 90)
    assert taken.cubin is not None
    assert taken.cubin.endswith(b"9.0a")
    assert ran(several, 103) == [(100, True)]
    assert ran(several, 110) == [(80, False)]
    assert ran(several, 121) == [(120, False)]
    assert ran(several, 75) == []
    assert ran(several, 90, ptx_only=True) == [(80, False)]
    assert ran(container(entry(2, 90, cubin(), specific)), 91) == []


def test_what_runs_of_files() -> None:
    (lineinfo,) = running(image("lineinfo.cubin"), 80)
    assert lineinfo.cubin is not None
    assert lineinfo.text is not None
    assert ".entry" in lineinfo.text
    (plain,) = running(image("plain.cubin"), 80)
    assert (plain.text, plain.cubin is None) == (None, False)
    assert [each.text is None for each in running(image("zstd.fatbin"), 90, ptx_only=True)] == [False]
