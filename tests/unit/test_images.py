"""PTX in fat binaries and cubins: found, or refused with a ValueError, whatever the bytes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxtools.image import best, texts
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
