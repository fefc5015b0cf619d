"""The page of `tessera report`: whole, without network, on what it is given; and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from controlplane.commands.main import main
from controlplane.profile import file
from controlplane.report.page import charts, content, draw
from controlplane.report.page.charts import Bar, Dot, Roofs
from tests.profile.guest_runs import machine, run
from tests.simulate.programs import chain

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Its text, its tags (all closed in order), and what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.refers: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.refers += [value or "" for name, value in attributes if name in ("src", "href", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """An empty one of a picture."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file.write(chain(40), tmp_path / "p.profile")
    return tmp_path / "p.profile"


def report(tmp_path: Path, *words: str) -> tuple[Page, str]:
    made = tmp_path / "report.html"
    assert main(["report", *words, "-o", str(made)]) == 0
    text = made.read_text()
    return Page(text), text


def test_a_page_says_all_and_loads_nothing(profile: Path, tmp_path: Path) -> None:
    page, text = report(tmp_path, str(profile), "--requests", "4")
    assert page.refers == []
    outside = set(re.findall(r"(?:https?:)?//[\w.]+", text)) - {"http://www.w3.org"}
    assert not outside
    assert "@" not in re.sub(r"@media", "", text)
    for part in (
        "With both GPUs the program would do 2.00 times as much as on its own GPU alone",
        "What more GPUs would bring",
        "What each GPU does, and when",
        "Where its launches run",
        "What moves between GPUs",
        "What its kernels are limited by",
        "What is known, and what is not",
        "What to do next",
        "Each operation of the iteration was timed",
        "GPU 0: 50% of all",
    ):
        assert part in page.text
    found = json.loads(re.findall(r'<script id="data" type="application/json">(.*?)</script>', text)[0])
    assert [each["name"] for each in found["placements"]] == ["GPU 0 alone", "router", "rule"]
    slices = found["placements"][1]["slices"]
    assert {each[0] for each in slices} == {0, 1}
    assert all(start >= 0 and long > 0 for _, _, start, long, _, _ in slices)


def test_names_of_programs_are_not_read_as_html(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> & </script>"
    given = chain(10)
    given = replace(given, program=hostile, classes=(replace(given.classes[0], name=hostile),))
    file.write(given, tmp_path / "p")
    page, text = report(tmp_path, str(tmp_path / "p"))
    assert hostile in page.text
    assert "alert(1)</script>" not in text


def test_a_plan_is_reported_with_its_profile(profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "a.plan"
    assert main(["plan", str(profile), "--requests", "2", "-o", str(plan)]) == 0
    page, _ = report(tmp_path, str(plan), "--profile", str(profile), "--requests", "2")
    assert "Where its launches run: plan" in page.text
    assert report(tmp_path, str(profile), "--plan", str(plan), "--requests", "2")[0].text == page.text
    capsys.readouterr()
    assert main(["report", str(plan), "-o", str(tmp_path / "x")]) == 2
    assert "is a plan, which does not hold its program; expected --profile PROFILE" in capsys.readouterr().err
    assert main(["simulate", str(profile), "--devices", "a10", "--plan", str(plan)]) == 2
    assert "it is for NVIDIA H200, NVIDIA H200, the profile is of NVIDIA A10" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x7fELF", "expected a profile of Tessera"),
        (b"{", "it was cut off"),
        (b"TSRTRACE", "offset 0: this is no trace"),
        (None, "No such"),
    ],
)
def test_files_that_cannot_be_reported(
    data: bytes | None, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if data is not None:
        (tmp_path / "f").write_bytes(data)
    assert main(["report", str(tmp_path / "f"), "-o", str(tmp_path / "x")]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.full
def test_a_trace_is_reported(native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native, trace = native_build / "native", tmp_path / "run.trace"
    monkeypatch.setenv("TESSERA_NATIVE", str(native))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = ("--emulate", str(machine(tmp_path, 1)), "--no-summary", "--trace", str(trace), "--trace-parameters")
    run(native, tmp_path, (*options, "--timing", "all"), "automatic_guest.py", "requests", "5", "20", "8")
    page, _ = report(tmp_path, str(trace), "--devices", "2")
    assert "20 in each iteration" in re.sub(r"\s+", " ", page.text)
    assert "step" in page.text


def test_launches_slower_than_the_roof_are_below_it() -> None:
    picture = charts.roofline([Dot("copy", 1e8, 1e5, 1.0)], Roofs(4e12, 0, 2000))
    (dot,) = re.findall(r'cy="([\d.]+)"', picture)
    roof = [float(point.split(",")[1]) for point in re.findall(r'points="([^"]+)"', picture)[0].split()]
    assert float(dot) > min(roof)
    assert "bytes its launches use is not known" in charts.roofline([], Roofs(0, 0, 0))
    assert 'width="1.0"' in charts.bars([Bar("none", 0.0, "0"), Bar("all", 2.0, "2")])


def test_rows_begin_where_kernels_repeat() -> None:
    given = chain(42)
    rows = content.layers(given, [0] * 21 + [1] * 21)
    assert [len(row) for row in rows] == [42]
    assert draw.table([("a", "b"), ("<", "&")]).count("<td>&lt;</td><td>&amp;</td>") == 1
