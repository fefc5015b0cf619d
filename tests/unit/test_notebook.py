"""`%%tessera` in IPython, and what `import tessera` offers of the files that such a cell leaves."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output
from traitlets.config import Config

import tessera
from controlplane.api.child import Ran, run
from tests.command import ROOT

CELL = """\
import sys
from ctypes import c_uint32
from controlplane.demo.branches import COUNT, Gpu
gpu = Gpu()
numbers = gpu.buffer([0.5] * COUNT)
for _ in range(6):
    gpu.launch("turn", numbers, numbers, c_uint32(10))
    gpu.read(numbers)
print("from the cell")
print("and its errors", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", place)
        shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        shell.run_line_magic("load_ext", "tessera")
        yield shell
        InteractiveShell.clear_instance()


def cell(shell: InteractiveShell, line: str, text: str) -> tuple[str, str, list[RichOutput]]:
    """Standard output, standard error, and what was displayed."""
    with capture_output() as told:
        shell.run_cell_magic("tessera", line, text)
    return told.stdout, told.stderr, told.outputs


@pytest.fixture(scope="module")
def outputs(
    shell: InteractiveShell, native_build: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, str, list[RichOutput]]]:
    place = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESSERA_NATIVE", str(native_build / "native"))
        patch.setenv("XDG_CACHE_HOME", str(place))
        line = f"--emulate 2 --gpus all --trace {place / 'run.trace'} --profile {place / 'app.profile'}"
        said, _, shown = cell(shell, line, CELL)
        yield place, said, shown


def test_a_cell_runs_and_shows_output_table_trace_and_report(outputs: tuple[Path, str, list[RichOutput]]) -> None:
    _, said, shown = outputs
    assert {"from the cell", "and its errors"} <= set(said.splitlines())
    table, picture, page = (each.data for each in shown)
    assert "<td>NVIDIA H200</td><td>6</td>" in table["text/html"]
    assert "    0  NVIDIA H200         6" in table["text/plain"]
    assert picture["image/svg+xml"].startswith("<svg")
    assert "turn" in picture["image/svg+xml"]
    assert page["text/html"].startswith('<iframe srcdoc="&lt;!doctype html&gt;')


def test_its_files_can_be_read(outputs: tuple[Path, str, list[RichOutput]]) -> None:
    place, _, _ = outputs
    trace = tessera.read_trace(place / "run.trace")
    assert tessera.statistics(trace).launches.total == 6
    assert [row.kernel for row in tessera.launches(trace, "t*", limit=2)] == ["turn", "turn"]
    profile = tessera.read_profile(str(place / "app.profile"))
    assert [each.name for each in profile.classes if each.name == "turn"] == ["turn"]
    compared = tessera.simulate(tessera.on_devices(profile, "h200,l40s"), requests=2)
    assert any(each.name == "router" for each in compared.results)
    with pytest.raises(tessera.ConfigError, match="no profile"):
        tessera.read_profile(place / "run.trace")


@pytest.mark.full
def test_graphs_and_plans(outputs: tuple[Path, str, list[RichOutput]]) -> None:
    place, _, _ = outputs
    found = tessera.study(tessera.read_trace(place / "run.trace"))
    graph = tessera.dependencies(found)
    launches = [number for number, data in graph.nodes(data=True) if data["name"] == "turn"]
    assert all(graph.has_edge(earlier, later) for earlier, later in pairwise(launches))
    profile = tessera.read_profile(place / "app.profile")
    plan = tessera.make_plan(profile, "latency")
    assert any(each.name == "plan" for each in tessera.simulate(profile, plan=plan).results)
    assert "plan" in tessera.report(profile, plan=plan).html


@pytest.mark.full
def test_the_code_in_pages_runs(
    shell: InteractiveShell,
    outputs: tuple[Path, str, list[RichOutput]],
    native_build: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(outputs[0])
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    for page in ("notebook", "python"):
        blocks = re.findall(
            r"^```python\n(.*?)^```$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL
        )
        assert blocks
        for block in blocks:
            with capture_output() as told:
                result = shell.run_cell(block)
            assert result.success, told.stdout
            assert "exit code" not in str(told.outputs)


def test_a_program_that_fails_says_so(native_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    said: list[str] = []
    ran = run("raise SystemExit('<no>')", ["--emulate", "1"], said.append)
    assert (ran.code, "".join(said)) == (1, "<no>\n")
    assert repr(ran).endswith("the program ended with exit code 1")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--emulate 2 --nonsense", "unrecognized arguments: --nonsense"),
        ("--emulate 2 --json x", "--json is for the table under the cell; expected %%tessera [options"),
        ("--emulate '2", "No closing quotation; expected %%tessera [options"),
    ],
)
def test_mistakes_in_the_line(shell: InteractiveShell, line: str, said: str) -> None:
    assert said in cell(shell, line, "print('never')")[1]


def test_what_a_table_shows_is_escaped() -> None:
    ran = Ran(0, {"launches": {"by_device": {"<b>": 1}}, "kept_home_by_reason": {"ranges": 3}})
    assert "<td>&lt;b&gt;</td>" in ran._repr_html_()
    assert "elsewhere: 3" in repr(ran)


def test_the_import_takes_little() -> None:
    code = "import sys, tessera; print(sorted({'numpy', 'networkx', 'yaml', 'IPython'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
