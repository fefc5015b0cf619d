"""The cache's folder: what another user wrote, or a link leads to, is neither believed nor removed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.analysis.cache import DIGESTED, HEADER, MAGIC, SUFFIX, Cache, Key, analyser_version, decode, digest_of
from controlplane.analysis.describe import unknown_description
from controlplane.analysis.recent import Recent
from controlplane.analysis.result import Analysis
from controlplane.commands.main import main
from ptxtools.machine.consent import Consent

NOBODY = 65534
KEY = Key(77, 1000, 90, False, "kernel", (5, 6))
ANALYSIS = Analysis(unknown_description("kernel", "a reason", 3), b"template" * 10, clone=b"a clone\0")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may write to."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


def as_nobody(action: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            action()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def only_file(directory: Path) -> Path:
    (file,) = (path for path in directory.rglob("*") if path.is_file())
    return file


@needs_root
def test_what_another_user_prepared_is_not_believed(public: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = public / "tessera" / "analysis"
    as_nobody(lambda: Cache(directory).put(KEY, ANALYSIS))
    as_nobody(lambda: Recent(Cache(directory), Consent.OPEN, clones=True).remember([KEY]))
    for each in (directory, directory.parent):
        each.chmod(0o777)
    before = sorted(directory.rglob("*"))
    said: list[str] = []
    cache = Cache(directory, complain=said.append)
    assert (cache.get(KEY), Recent(cache, Consent.OPEN, clones=True).listed()) == (None, [])
    cache.put(KEY, replace(ANALYSIS, template=b"mine"))
    assert (cache.get(KEY), cache.usage().files, cache.trim(), cache.clear()) == (None, 0, 0, 0)
    assert sorted(directory.rglob("*")) == before
    assert said == [f"the cache of analyses {directory} is not used: 'tessera' belongs to user {NOBODY}"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(public))
        for option in ("--cache-info", "--clear-cache"):
            assert main(["analyze", option]) == 2
            assert f"'tessera' belongs to user {NOBODY}" in capsys.readouterr().err
    assert sorted(directory.rglob("*")) == before


@needs_root
@pytest.mark.parametrize("part", ["tessera/analysis", "tessera/analysis/??", "tessera/analysis/??/*"])
def test_no_part_of_it_may_be_another_users(part: str, public: Path) -> None:
    directory = public / "tessera" / "analysis"
    Cache(directory).put(KEY, ANALYSIS)
    (foreign,) = public.glob(part)
    os.chown(foreign, NOBODY, NOBODY)
    assert Cache(directory).get(KEY) is None


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602, 0o666])
def test_files_that_others_may_read_or_write_are_made_again(mode: int, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache" / "analysis")
    cache.put(KEY, ANALYSIS)
    file = only_file(tmp_path)
    file.chmod(mode)
    assert cache.get(KEY) is None
    assert not file.exists()
    cache.put(KEY, ANALYSIS)
    assert cache.get(KEY) == ANALYSIS
    assert file.stat().st_mode & 0o777 == 0o600


def test_folders_are_for_this_user_only(tmp_path: Path) -> None:
    """Also those of a version that was less careful."""
    directory = tmp_path / "home" / "tessera" / "analysis"
    old = os.umask(0)
    try:
        Cache(directory).put(KEY, ANALYSIS)
    finally:
        os.umask(old)
    folders = [directory.parent, directory, only_file(tmp_path).parent]
    assert [each.stat().st_mode & 0o777 for each in folders] == [0o700] * 3
    for each in folders:
        each.chmod(0o777)
    assert Cache(directory).get(KEY) == ANALYSIS
    assert [each.stat().st_mode & 0o777 for each in folders] == [0o700] * 3


@pytest.mark.parametrize("linked", ["tessera", "analysis", "part", "file"])
def test_no_link_is_followed(linked: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    Cache(elsewhere / "tessera" / "analysis").put(KEY, ANALYSIS)
    precious = only_file(elsewhere)
    names = {
        "tessera": elsewhere / "tessera",
        "analysis": elsewhere / "tessera" / "analysis",
        "part": precious.parent,
        "file": precious,
    }
    link = tmp_path / "home" / names[linked].relative_to(elsewhere)
    link.parent.mkdir(parents=True)
    link.symlink_to(names[linked])
    said: list[str] = []
    cache = Cache(tmp_path / "home" / "tessera" / "analysis", limit_bytes=0, complain=said.append)
    assert cache.get(KEY) is None
    cache.put(KEY, replace(ANALYSIS, template=b"other"))
    cache.trim()
    cache.clear()
    found = decode(precious.read_bytes(), KEY.to_json())
    assert found == ANALYSIS
    is_told = linked in ("tessera", "analysis")
    assert [each.rpartition(": ")[2] for each in said] == ([f"'{linked}' is a symbolic link"] if is_told else [])


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "link to nothing", "a huge file"])
def test_what_is_no_file_is_a_miss_at_once(kind: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache" / "analysis")
    cache.put(KEY, ANALYSIS)
    file = only_file(tmp_path)
    file.unlink()
    recent = Recent(cache, Consent.OPEN, clones=False)
    for place in (file, cache.directory / "recent-open.json"):
        if kind == "fifo":
            os.mkfifo(place, 0o600)
        elif kind == "socket":
            folder = os.open(place.parent, os.O_PATH)
            with closing(socket.socket(socket.AF_UNIX)) as bound:
                bound.bind(f"/proc/self/fd/{folder}/{place.name}")  # its own name may be too long
            os.close(folder)
        elif kind == "folder":
            place.mkdir()
        elif kind == "link to nothing":
            place.symlink_to(tmp_path / "nothing")
        else:
            place.touch(0o600)
            os.truncate(place, 1 << 40)
    assert (cache.get(KEY), recent.listed()) == (None, [])
    cache.put(KEY, ANALYSIS)
    recent.remember([KEY])
    if kind != "folder":
        assert (cache.get(KEY), recent.listed()) == (ANALYSIS, [KEY])
    assert not (tmp_path / "nothing").exists()


def test_other_files_stay_when_it_is_emptied(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache" / "analysis", limit_bytes=0)
    cache.put(KEY, ANALYSIS)
    part = only_file(tmp_path).parent
    mine = [part / "letter.txt", cache.directory / "notes", cache.directory / "photos" / f"one{SUFFIX}"]
    mine[2].parent.mkdir()
    for file in mine:
        file.write_text("precious")
    assert (cache.trim(), cache.clear()) == (1, 0)
    assert all(file.exists() for file in mine)


def test_an_entry_is_bound_to_its_key(tmp_path: Path) -> None:
    """Whatever file it lies in."""
    cache, other = Cache(tmp_path / "cache" / "analysis"), replace(KEY, function="other")
    cache.put(KEY, ANALYSIS)
    data = only_file(tmp_path).read_bytes()
    cache.put(other, ANALYSIS)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        file.write_bytes(data)
    assert (cache.get(KEY), cache.get(other)) == (ANALYSIS, None)


@pytest.mark.parametrize(
    "description",
    [
        ANALYSIS.description,
        7,
        "[" * 100_000,
        [],
        {},
        {**ANALYSIS.description, "unknown": 3},
        {**ANALYSIS.description, "parameters": [{}]},
    ],
)
def test_junk_with_a_digest_is_a_miss(description: object, tmp_path: Path) -> None:
    junk = (description if isinstance(description, str) else json.dumps(description)).encode()
    key = KEY.to_json()
    rest = (
        HEADER.pack(b"", b"", len(key), len(junk), len(ANALYSIS.template))[DIGESTED:] + key + junk + ANALYSIS.template
    )
    data = MAGIC + digest_of(rest) + rest
    assert (decode(data, key) is not None) == (description == ANALYSIS.description)
    cache = Cache(tmp_path / "cache" / "analysis")
    cache.put(KEY, ANALYSIS)
    only_file(tmp_path).write_bytes(data)
    assert (cache.get(KEY) is not None) == (description == ANALYSIS.description)


FIELDS = [77, 1000, 90, False, "kernel", [5, 6], True, False]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"V": 1, "entries": 2}',
        '["V", {"a": 1}]',
        '["V", "text"]',
        '["V", [null]]',
        json.dumps(["V", [[10**30, *FIELDS[1:]]]]),
        json.dumps(["V", [[-1, *FIELDS[1:]]]]),
        json.dumps(["V", [[*FIELDS[:2], 1 << 40, *FIELDS[3:]]]]),
        json.dumps(["V", [[*FIELDS[:4], "\ud800", *FIELDS[5:]]]]),
        json.dumps(["V", [[*FIELDS[:5], [1 << 64], *FIELDS[6:]]]]),
        '["V", [[1e400]]]',
        "1" * 5000,
    ],
)
def test_a_list_of_junk_with_a_digest_is_empty(text: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache" / "analysis")
    recent = Recent(cache, Consent.OPEN, clones=False)
    recent.remember([KEY])
    assert recent.listed() == [KEY]
    data = text.replace('"V"', json.dumps(analyser_version())).encode()
    only_file(tmp_path).write_bytes(digest_of(data) + data)
    assert recent.listed() == []
