"""Kernels that a wheel holds as PTX and as machine code, and samples of them."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from ptxtools.image.fatbin import MAGIC, Flag, Kind
from tests.instruments.wheels import pairs


def entry(kind: Kind, architecture: int, payload: bytes, flags: int = 0) -> bytes:
    size = struct.calcsize("<HHIQIIHHIIIQQQ")
    return (
        struct.pack("<HHIQIIHHIIIQQQ", kind, 0, size, len(payload), 0, 0, 0, 0, architecture, 0, 0, flags, 0, 0)
        + payload
    )


def library(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return b"\x7fELF" + bytes(12) + struct.pack("<4sHHQ", MAGIC, 1, 16, len(body)) + body


def text(architecture: int, *names: str) -> bytes:
    kernels = "".join(f".visible .entry {name}() {{ ret; }}\n" for name in names)
    return f".version 8.0\n.target sm_{architecture}\n.address_size 64\n{kernels}".encode()


def wheel(directory: Path, **libraries: bytes) -> Path:
    path = directory / "some-1.0.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some/__init__.py", "")
        for name, data in libraries.items():
            archive.writestr(f"some/{name}.so", data)
    return path


def test_pairs_of_one_architecture(tmp_path: Path) -> None:
    both = library(
        entry(Kind.PTX, 90, text(90, "a", "b")),
        entry(Kind.ELF, 80, b"for 80"),
        entry(Kind.ELF, 90, b"for 90a", Flag.ARCHITECTURE_SPECIFIC),
        entry(Kind.ELF, 90, b"for 90"),
        entry(Kind.PTX, 52, text(52, "a")),
        entry(Kind.ELF, 52, b"for 52"),
    )
    without = library(entry(Kind.PTX, 90, text(90, "c")), entry(Kind.ELF, 80, b"for 80"))
    found = list(pairs(wheel(tmp_path, libboth=both, libwithout=without, libcublas=both), tmp_path))
    assert [(each.wheel, each.source, each.architecture, set(each.names)) for each in found] == [
        ("some-1.0.whl", "libboth.so:1", 90, {"a", "b"})
    ]
    assert found[0].cubin.read_bytes() == b"for 90"
    assert found[0].text.read_bytes() == text(90, "a", "b")


def test_a_sample_is_of_all_libraries_and_always_the_same(tmp_path: Path) -> None:
    names = [[f"k{number}" for number in range(first, first + 20)] for first in (0, 20)]
    one, two = (library(entry(Kind.PTX, 90, text(90, *some)), entry(Kind.ELF, 90, b"code")) for some in names)
    path = wheel(tmp_path, libone=one, libtwo=two)

    def sample(most: int, seed: int) -> set[str]:
        return {name for each in pairs(path, tmp_path, False, most, seed) for name in each.names}

    assert len(sample(0, 0)) == len(sample(50, 0)) == 40
    taken = sample(25, 1)
    assert len(taken) == 25
    assert taken == sample(25, 1) != sample(25, 2)
    assert taken & set(names[0])
    assert taken & set(names[1])


def test_each_kernel_of_several_libraries_once(tmp_path: Path) -> None:
    old, new = text(90, "a", "b"), text(90, "b", "c")
    one = library(entry(Kind.PTX, 90, old), entry(Kind.ELF, 90, b"code"))
    two = library(
        entry(Kind.PTX, 90, new),
        entry(Kind.ELF, 90, b"code"),
        entry(Kind.PTX, 80, text(80, "b")),
        entry(Kind.ELF, 80, b"code"),
    )
    found = pairs(wheel(tmp_path, libone=one, libtwo=two), tmp_path, once=True)
    assert [(each.source, each.architecture, set(each.names)) for each in found] == [
        ("libone.so:1", 90, {"a", "b"}),
        ("libtwo.so:1", 90, {"c"}),
        ("libtwo.so:1", 80, {"b"}),
    ]
