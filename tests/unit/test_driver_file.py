"""Finding the real driver, and that C and Python find the same."""

import struct
from pathlib import Path

import pytest

from controlplane.machine import driver

X86_64, OTHER = 0x0303, 0x0003


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, native_build: Path) -> None:
    """A machine without a driver."""
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    monkeypatch.setattr(driver, "CACHE", tmp_path / "none")
    monkeypatch.setattr(driver, "listed", tuple)


def cache(*entries: tuple[int, str, str]) -> bytes:
    """The loader's cache with flags, name and path of each library."""
    text, rows = b"", b""
    start = driver.CACHE_HEADER_BYTES + len(entries) * driver.CACHE_ENTRY.size
    for flags, name, path in entries:
        at = start + len(text)
        rows += driver.CACHE_ENTRY.pack(flags, at, at + len(name) + 1, 0, 0)
        text += f"{name}\0{path}\0".encode()
    header = driver.CACHE_MAGIC + struct.pack("=II", len(entries), len(text))
    return header.ljust(driver.CACHE_HEADER_BYTES, b"\0") + rows + text


def test_nothing_is_found_where_nothing_is() -> None:
    assert driver.find({}) is None


def test_the_library_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        (directory / "libcuda.so.1").touch()
    monkeypatch.setattr(driver, "listed", lambda: (str(second),))
    assert driver.find({}) == second / "libcuda.so.1"
    assert driver.find({"LD_LIBRARY_PATH": f"relative::/none;{first}"}) == first / "libcuda.so.1"


def test_our_own_libraries_are_left_out(native_build: Path) -> None:
    for directory in ("shim", "emulator"):
        assert driver.find({"LD_LIBRARY_PATH": str(native_build / "native" / directory)}) is None


def test_the_newest_of_versioned_names(tmp_path: Path) -> None:
    for name in ("libcuda.so.9.1", "libcuda.so.580.9", "libcuda.so.580.159.04", "libcuda.so.old", "libcuda.so"):
        (tmp_path / name).touch()
    assert driver.find({"LD_LIBRARY_PATH": str(tmp_path)}) == tmp_path / "libcuda.so.580.159.04"


def test_the_loaders_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "libcuda.so.1"
    file.touch()
    entries = (
        (OTHER, "libcuda.so.1", "/32/bit"),
        (X86_64, "libcuda.so.1", str(file)),
        (X86_64, "libm.so.6", "/lib/libm.so.6"),
    )
    (tmp_path / "cache").write_bytes(cache(*entries))
    monkeypatch.setattr(driver, "CACHE", tmp_path / "cache")
    assert driver.find({}) == file


def test_a_damaged_cache_is_no_error() -> None:
    data = cache((X86_64, "libcuda.so.1", "/somewhere/libcuda.so.1"))
    assert list(driver.cached(data)) == [Path("/somewhere/libcuda.so.1")]
    for length in range(driver.CACHE_HEADER_BYTES + driver.CACHE_ENTRY.size):
        assert list(driver.cached(data[:length])) == []
    assert list(driver.cached(b"another format" + data)) == []
