"""The cache of analyses: what was put in comes out, and nothing else, whoever writes beside it or damages it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.analysis import cache as module
from controlplane.analysis import recent as recent_module
from controlplane.analysis.cache import Cache, Key
from controlplane.analysis.describe import unknown_description
from controlplane.analysis.kernel import Image
from controlplane.analysis.recent import Recent
from controlplane.analysis.result import Analysis
from controlplane.commands.main import main
from ptxtools.machine.consent import Consent

KEY = Key(77, 1000, 90, False, "kernel", (5, 6))
ANALYSIS = Analysis(unknown_description("kernel", "a reason", 3), b"template" * 10, clone=b"clone\0")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "analysis")


def files(cache: Cache) -> list[Path]:
    return sorted(path for path in cache.directory.rglob("*") if path.is_file())


def test_what_was_put_in_comes_out(cache: Cache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, ANALYSIS)
    assert cache.get(KEY) == ANALYSIS
    others = [replace(KEY, code=78), replace(KEY, code_bytes=1), replace(KEY, architecture=80)]
    others += [
        replace(KEY, disassemble=False),
        replace(KEY, ptx_only=True),
        replace(KEY, function="other"),
        replace(KEY, sources=()),
        replace(KEY, clone=True),
    ]
    assert [cache.get(other) for other in others] == [None] * len(others)
    assert cache.usage().files == 1


@pytest.mark.parametrize("cut", [0, 10, 50, -1])
def test_a_damaged_file_is_thrown_away_and_made_again(cache: Cache, cut: int) -> None:
    cache.put(KEY, ANALYSIS)
    (file,) = files(cache)
    data = file.read_bytes()
    file.write_bytes(data[:cut])
    assert cache.get(KEY) is None
    assert not file.exists()
    cache.put(KEY, ANALYSIS)
    for place in range(len(data)):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert cache.get(KEY) is None
    cache.put(KEY, ANALYSIS)
    assert cache.get(KEY) == ANALYSIS


def test_another_version_of_the_analyser_finds_nothing(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, ANALYSIS)
    monkeypatch.setattr(module, "analyser_version", lambda: "another")
    assert cache.get(KEY) is None


def test_the_version_follows_from_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(source: str) -> str:
        (tmp_path / "part.py").write_text(source)
        module.analyser_version.cache_clear()
        return module.analyser_version()

    monkeypatch.setattr("ptxtools.__path__", [str(tmp_path)])
    assert version("one") != version("two")
    assert version("one") == version("one")


@pytest.fixture(autouse=True)
def _forget_version() -> Iterator[None]:
    yield
    module.analyser_version.cache_clear()


def test_writers_do_not_meet(cache: Cache) -> None:
    def work(number: int) -> bool:
        own = Cache(cache.directory)
        for turn in range(20):
            own.put(KEY, replace(ANALYSIS, template=bytes([number]) * (1000 + turn)))
            found = own.get(KEY)
            if found is None or len(set(found.template)) != 1:
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert len(files(cache)) == 1


def test_the_oldest_go_first(cache: Cache) -> None:
    keys = [replace(KEY, function=f"kernel {number}") for number in range(6)]
    for age, key in enumerate(keys):
        cache.put(key, ANALYSIS)
        newest = max(files(cache), key=lambda file: file.stat().st_ctime_ns)
        os.utime(newest, (time.time() - 1000 * (10 - age),) * 2)
    small = Cache(cache.directory, limit_bytes=cache.usage().size_bytes // 2)
    assert small.trim() == 3
    assert [small.get(key) is not None for key in keys] == [False] * 3 + [True] * 3


def test_without_a_directory_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = Cache(tmp_path / "file" / "below")
    nowhere.put(KEY, ANALYSIS)
    assert nowhere.get(KEY) is None
    assert (nowhere.usage().files, nowhere.trim(), nowhere.clear()) == (0, 0, 0)


def test_what_was_used_last_comes_first(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [replace(KEY, function=str(number)) for number in range(5)]
    recent = Recent(cache, Consent.OPEN, clones=True)
    assert recent.listed() == []
    recent.remember(keys[:3])
    recent.remember([keys[4], keys[1], keys[4]])
    assert recent.listed() == [keys[4], keys[1], keys[0], keys[2]]
    assert Recent(cache, Consent.ALL, clones=True).listed() == Recent(cache, Consent.OPEN, clones=False).listed() == []
    monkeypatch.setattr(recent_module, "MOST", 2)
    recent.remember(keys[3:4])
    assert recent.listed() == [keys[3], keys[4]]
    monkeypatch.setattr(recent_module, "analyser_version", lambda: "another")
    assert recent.listed() == []


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b"[1, 2]", b"\xff", b'["V", 7]', b'["V", [[1, 2]]]', b'["V", [7]]']
)
def test_a_damaged_list_of_what_was_used_is_empty(cache: Cache, data: bytes) -> None:
    recent = Recent(cache, Consent.OPEN, clones=False)
    recent.remember([KEY])
    (file,) = files(cache)
    good = file.read_bytes()
    file.write_bytes(data.replace(b"V", module.analyser_version().encode()))
    assert recent.listed() == []
    file.write_bytes(good.replace(b"[5, 6]", b"[[5], 6]"))
    assert recent.listed() == []
    recent.remember([KEY])
    assert recent.listed() == [KEY]
    cache.clear()
    assert files(cache) == []


def test_the_command_shows_and_empties_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    Cache().put(KEY, ANALYSIS)
    assert main(["analyze", "--cache-info"]) == 0
    assert f"{tmp_path}/tessera/analysis: 1 analyses" in capsys.readouterr().out
    assert main(["analyze", "--clear-cache"]) == 0
    assert Cache().usage().files == 0


IMAGES = Path(__file__).parents[1] / "corpus" / "image"


@pytest.mark.parametrize(
    ("name", "ptx_only", "function", "tier", "reason"),
    [
        ("lineinfo.cubin", False, "scale", "ptx", ""),
        ("zstd.fatbin", True, "scale", "ptx", ""),
        ("zstd.fatbin", True, "other", "unknown", "no code of it"),
        ("plain.cubin", False, "scale", "machine", ""),
        ("plain.cubin", False, "other", "unknown", "no code of it"),
        ("header_only.cubin", False, "scale", "unknown", "cannot be read"),
        ("README.md", False, "scale", "unknown", "cannot be read"),
    ],
)
def test_analyses_of_images(name: str, ptx_only: bool, function: str, tier: str, reason: str) -> None:
    found = Image((IMAGES / name).read_bytes(), 90, ptx_only).analyse(function)
    assert found.description["tier"] == tier
    assert found.is_known == (tier != "unknown")
    assert not reason or reason in found.description["unknown"][0]["reason"]


def test_machine_code_is_disassembled_only_if_it_may_be() -> None:
    refused = Image((IMAGES / "plain.cubin").read_bytes(), 80, disassemble=False).analyse("scale")
    assert "may not be disassembled" in refused.description["unknown"][0]["reason"]


def test_what_a_missing_tool_made_unknown_is_not_kept(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NVDISASM", "/nonexistent")
    found = Image((IMAGES / "plain.cubin").read_bytes(), 80).analyse("scale")
    assert "/nonexistent" in found.description["unknown"][0]["reason"]
    cache.put(KEY, found)
    assert cache.usage().files == 0


def test_ptx_that_was_linked_into_machine_code_says_what_it_does() -> None:
    source = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 p) { .reg .b64 %r; ld.param.u64 %r, [p]; st.global.u32 [%r], 1; ret; }
\0"""
    linked = Image((IMAGES / "plain.cubin").read_bytes(), 80, sources=[source])
    assert linked.analyse("scale").description["tier"] == "ptx"
    twice = Image((IMAGES / "plain.cubin").read_bytes(), 80, sources=[source, source])
    assert "2 codes" in twice.analyse("scale").description["unknown"][0]["reason"]


def test_launches_that_had_to_be_evaluated_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recent = Recent(Cache(tmp_path), Consent.OPEN, clones=False)
    assert recent.shapes() == b""
    recent.remember_shapes(b"launches")
    assert Recent(Cache(tmp_path), Consent.ALL, clones=True).shapes() == b"launches"
    (file,) = tmp_path.rglob("recent-shapes")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert recent.shapes() == b""
    recent.remember_shapes(b"launches")
    monkeypatch.setattr(recent_module, "analyser_version", lambda: "another")
    assert recent.shapes() == b""
