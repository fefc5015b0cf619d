"""`tessera graph` and scripts/independence on traces of a small program on an emulated GPU, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.commands.main import main
from controlplane.observe.tracefile import CHUNK_HEADER, FILE_HEADER, TraceReader
from scripts.commands.lab import independence
from tests.command import TESSERA_RUN, with_native

GUEST = Path(__file__).with_name("guest.py")
ROOT = Path(__file__).parents[2]
REQUESTS = 6
TIMEOUT_S = 120


def run(native: Path, trace: Path, *options: str) -> None:
    command = [str(TESSERA_RUN), "--emulate", "1", "--no-summary", "--trace", str(trace), *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, str(GUEST), str(REQUESTS)],
        text=True,
        capture_output=True,
        env=with_native(native),
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == REQUESTS * sum(4 * n for n in range(1024))


@pytest.fixture(scope="module")
def recorded(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("graph") / "run.trace"
    run(native_build / "native", trace, "--trace-parameters", "--timing", "all")
    return trace


@pytest.fixture(autouse=True)
def _here(native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def graph(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["graph", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["graph", *words]) == 2
    return capsys.readouterr().err


@pytest.mark.full
def test_a_recorded_program(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(graph(capsys, str(recorded), "--json", "--gpus", "3"))
    assert found["operations"] == {"launch": 2 * REQUESTS, "copy": 1 + 2 * REQUESTS, "memset": 0}
    assert found["gpus"] == 3
    assert found["unknown_operations"] == found["whole_launches"] == 0
    assert [part["operations"] for part in found["requests"]] == [4] * REQUESTS
    assert found["edges"]["RAW"] >= 4 * REQUESTS - 1
    assert found["edges"]["stream"] > 0
    # Blocking copies to the host, each waited for before the next call.
    assert found["edges"]["host"] > 0
    assert found["paths"]["known"]["ns"] <= found["paths"]["bytes"]["ns"] <= found["paths"]["streams"]["ns"]
    words = graph(capsys, str(recorded))
    assert f"{2 * REQUESTS} launches, {1 + 2 * REQUESTS} copies" in words
    assert f"{REQUESTS} requests" in words


@pytest.mark.full
def test_pictures(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dot, page = tmp_path / "graph.dot", tmp_path / "graph.html"
    graph(capsys, str(recorded), "--dot", str(dot))
    lines = dot.read_text().splitlines()
    assert lines[0] == "digraph program {"
    assert sum("label=" in line and "->" not in line for line in lines) == 4 * REQUESTS + 1
    graph(capsys, str(recorded), "--html", str(page))
    assert "add_weights" in page.read_text()


def test_a_trace_without_parameters(native_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "bare.trace"
    run(native_build / "native", bare)
    said = refused(capsys, str(bare))
    assert f"{bare}: its launches have no parameters" in said
    assert "--trace-parameters" in said


def test_a_trace_that_was_cut_off(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut, data = tmp_path / "cut", recorded.read_bytes()
    cut.write_bytes(data[:-5])
    assert f"{cut}: it was cut off at offset" in refused(capsys, str(cut))
    cut.write_bytes(data[: FILE_HEADER.size + CHUNK_HEADER.size])
    assert f"{cut}: it was cut off at offset" in refused(capsys, str(cut))


def test_a_trace_of_another_release(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, data = tmp_path / "other", bytearray(recorded.read_bytes())
    data[12] ^= 1
    other.write_bytes(data)
    said = refused(capsys, str(other))
    assert f"{other}: " in said
    assert "another release" in said


def test_no_trace_at_all(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.write_text("not a trace")
    assert f"{other}: offset 0: this is no trace" in refused(capsys, str(other))
    assert "No such file" in refused(capsys, str(tmp_path / "missing"))
    other.write_bytes(recorded.read_bytes()[: FILE_HEADER.size])
    assert list(TraceReader(other)) == []
    assert f"{other}: no kernel was launched in it" in refused(capsys, str(other))
    assert "there is no process 1" in refused(capsys, str(recorded), "--process", "1")


@pytest.mark.parametrize("option", ["--dot", "--html"])
def test_a_file_that_cannot_be_written(
    recorded: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "none" / "file"
    assert f"{option} {nowhere}: No such file or directory" in refused(capsys, str(recorded), option, str(nowhere))
    assert f"{option} /dev/full: No space left on device" in refused(capsys, str(recorded), option, "/dev/full")


@pytest.mark.parametrize("words", [["--gpus", "0"], ["--gpus", "x"], ["--gpus", "17"], ["--json", "--dot", "f"]])
def test_options_that_make_no_sense(recorded: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["graph", str(recorded), *words])
    assert ended.value.code == 2


@pytest.mark.full
def test_independence_of_a_command(native_build: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    options = ["--emulate", "1", "--out", str(tmp_path), "--page", "--json", str(rows)]
    done = subprocess.run(
        [sys.executable, "scripts/independence", *options, "--", sys.executable, str(GUEST), str(REQUESTS)],
        cwd=ROOT,
        env=with_native(native_build / "native"),
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(rows.read_text())
    assert (row["name"], row["launches"], row["unit"], row["units"]) == ("command", 2 * REQUESTS, "request", REQUESTS)
    assert f"{REQUESTS} x request" in done.stdout
    assert (tmp_path / "command.html").exists()


@pytest.mark.full
def test_independence_tells_what_fails(native_build: Path, tmp_path: Path) -> None:
    def told(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "scripts/independence", "--out", str(tmp_path), *words],
            cwd=ROOT,
            env=with_native(native_build / "native"),
            text=True,
            capture_output=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 1
        return done.stderr

    assert "command: ended with code 3" in told("--emulate", "1", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert "No such file" in told("--traces", str(tmp_path / "none"))


def test_targets() -> None:
    found = {
        "operations": {"launch": 1000, "copy": 0, "memset": 0},
        "gain": 1.95,
        "gain_if_known": 1.97,
        "moved_bytes": 99,
        "whole_launches": 1,
        "unknown_operations": 0,
        "units": {"step": {"count": 2, "moved_bytes": [0, 0]}, "branch": {"count": 4, "moved_bytes": [0, 0, 8, 8]}},
    }
    row = independence.row_of("guidance", found, 1.0)
    assert (row.unit, row.units, row.moved_bytes, row.whole) == ("branch", 4, 4.0, 0.001)
    assert independence.misses(row) == []
    worse = {**found, "gain": 1.2, "whole_launches": 2, "units": {"branch": {"count": 1, "moved_bytes": [2_000_000]}}}
    assert independence.misses(independence.row_of("guidance", worse, 11.0)) == [
        "1.20 times one GPU, not 1.9",
        "2.0 MB moved by branch",
        "0.20 % of its launches have a whole range",
        "the graph took 11.0 s",
    ]
    assert independence.misses(independence.row_of("training", worse, 1.0)) == []
