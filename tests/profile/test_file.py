"""Profiles as files: what is written is read again, and what is wrong is named."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.base import valuefile
from controlplane.profile import file as profiles
from ptxtools.errors import ConfigError
from tests.profile.by_hand import SAMPLE


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    profiles.write(SAMPLE, tmp_path / "p")
    assert profiles.read(tmp_path / "p") == SAMPLE
    assert profiles.pack(SAMPLE) == profiles.pack(SAMPLE)


def test_large_ones_are_compressed(tmp_path: Path) -> None:
    operations = SAMPLE.iteration.operations
    large = replace(SAMPLE, iteration=replace(SAMPLE.iteration, operations=operations + (operations[1],) * 6000))
    profiles.write(large, tmp_path / "p")
    data = (tmp_path / "p").read_bytes()
    assert data[:2] == valuefile.GZIP
    assert len(data) < 100_000
    assert profiles.read(tmp_path / "p") == large
    (tmp_path / "p").write_bytes(data[:-1000])
    with pytest.raises(
        ConfigError, match=rf"p: offset {len(data) - 1000}: it was cut off; expected a whole profile \(te"
    ):
        profiles.read(tmp_path / "p")


@pytest.mark.parametrize("part", [0.01, 0.3, 0.7, 0.999])
def test_a_truncated_one_is_refused_with_the_place(part: float, tmp_path: Path) -> None:
    data = profiles.pack(SAMPLE)
    (tmp_path / "p").write_bytes(data[: int(len(data) * part)])
    with pytest.raises(ConfigError, match=r"p:\d+: column \d+: .*; expected a .*profile.*tessera-run --profile"):
        profiles.read(tmp_path / "p")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"schema": "tessera.profile/1"', '"schema": "tessera.profile/2"', r"of another release \(tessera.profile/2\)"),
        ('"schema": "tessera.profile/1"', '"schema": "tessera.plan/1"', "this is no profile, but 'tessera.plan/1'"),
        ('"gpus": [0,0]', '"gpus": [0,1]', r"machine.gpus\[1\]: there is no type 1; expected 0 to 0"),
        ('"of":1', '"of":2', r"iteration.operations\[1\].of: there is no class 2; expected 0 to 1"),
        ('["r",0,0,4096]', '["r",1,0,4096]', r"operations\[1\].accesses: there is no allocation 1"),
        ('["r",0,0,4096]', '["r",0,0,8193]', "bytes 0 to 8193 are not in the allocation; expected 0 to 8192"),
        ('["r",0,0,4096]', '["x",0,0,4096]', r"operations\[1\].accesses\[0\]\[kind\]: 'x' is not known"),
        ('"after":[0]', '"after":[1]', r"operations\[1\]: operation 1 does not come before it; expected -2 to 0"),
        ('"host_ns":2000', '"host_ns":"2"', r"operations\[1\].host_ns: '2' is not usable here; expected a number"),
        ('"host_ns":2000', '"host_time":2', r"operations\[1\].host_time: this entry is not known; expected one of of"),
        ('"program": "python app.py",\n', "", "the whole: 'program' is missing"),
        ('"peak_bytes": 8192', '"peak_bytes": NaN', "peak_bytes: nan is not usable here; expected a whole number"),
        ('"end": true', '"end": false', "its last entry, `end`, is missing"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, text: str, tmp_path: Path) -> None:
    data = profiles.pack(SAMPLE).decode()
    assert old in data
    (tmp_path / "p").write_text(data.replace(old, new, 1))
    with pytest.raises(ConfigError, match=text) as raised:
        profiles.read(tmp_path / "p")
    assert raised.value.exit_code == 2
    assert str(tmp_path / "p") in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"\x7fELF\xff", b"[]", b"{}", b"schema: 1", json.dumps([1] * 9).encode()])
def test_foreign_files_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(ConfigError, match="profile"):
        profiles.read(tmp_path / "p")
    (tmp_path / "p").write_bytes(gzip.compress(data))
    with pytest.raises(ConfigError, match="profile"):
        profiles.read(tmp_path / "p")
