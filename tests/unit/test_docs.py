"""Pages: their links lead somewhere, and what troubleshooting quotes is what is said."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from controlplane.commands import main, run
from ptxtools.errors import ConfigError
from tests.command import TESSERA, with_native

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"!?\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)?\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
FENCE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
QUOTED = ROOT / "docs" / "troubleshooting.md"
VARYING = re.compile(
    r"\.\.\.|\bFILE\b|[\w/]*policy\.yaml:4: |\b\d+\b|^exit code .*|^CUDA_ERROR_\w+$|CUDA_VISIBLE_DEVICES=1"
)


def pages() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, text=True, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


@cache
def anchors(page: Path) -> frozenset[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for text in plain)


def wrong_links(page: Path) -> list[str]:
    found = []
    for groups in LINK.findall(FENCE.sub("", page.read_text())):
        link = "".join(groups)
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        is_there = target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))
        found += [] if is_there else [f"{page.relative_to(ROOT)}: {link}"]
    return found


def test_links_lead_somewhere() -> None:
    assert [wrong for page in pages() for wrong in wrong_links(page)] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"]({page.name})" not in index] == ["index.md"]


def test_what_troubleshooting_quotes_is_said_somewhere() -> None:
    """Of each line's first column, what is in it of code or messages, but for names and numbers that vary."""
    sources = "".join(
        re.sub(r'"\s*\n\s*f?"', "", file.read_text(errors="replace"))
        for folder in ("controlplane", "interpose", "ptxtools", "docs")
        for pattern in ("*.py", "*.c", "*.h", "policies.md")
        for file in (ROOT / folder).rglob(pattern)
    )
    rows = re.findall(r"^\| ([^|]*`[^|]*) \|", QUOTED.read_text(), re.MULTILINE)
    quoted = [
        piece.strip(" ;:`") for row in rows for span in re.findall(r"`([^`]+)`", row) for piece in VARYING.split(span)
    ]
    assert len(quoted) > 20
    assert [piece for piece in quoted if len(piece) > 3 and piece not in sources] == []


def said_commands(page: Path) -> list[str]:
    """Those in lines of their own and in code spans; placeholders become values, what only begins one is left out."""
    text = page.read_text()
    lines = re.findall(r"^(?:    )?(tessera(?:-run)? .*)$", text, re.MULTILINE)
    spans = re.findall(r"`(tessera(?:-run)? [^`\n]+)`", text)
    plain = (re.split(r" {3,}|  *#", line)[0].strip() for line in [*lines, *spans])
    return [each for each in plain if not re.search(r"\.\.\.|\[|COMMAND|, |: ", each)]


def parsed(command: str) -> None:
    """Raises SystemExit or ConfigError if there is no such command or option."""
    words = shlex.split(re.sub(r"\b(?:N|K|SEED|PID)\b", "5", command).partition(" > ")[0].partition(" | ")[0])
    if words[0] == "tessera-run" or words[1] == "run":
        run.parse([*words[1 + (words[0] == "tessera") :], *([] if "--" in words else ["--", "true"])])
        return
    main.parser(words[1]).parse_args(words[1:])


def test_commands_in_pages_exist() -> None:
    wrong = []
    found = [(page, command) for page in pages() if page.name != "CHANGELOG.md" for command in said_commands(page)]
    assert len(found) > 60
    for page, command in found:
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            try:
                parsed(command)
            except SystemExit as end:
                is_mention = re.search("expected one argument|are required", said.getvalue())
                wrong += (
                    [f"{page.relative_to(ROOT)}: {command}: {said.getvalue()}"] if end.code and not is_mention else []
                )
            except ConfigError as error:
                wrong.append(f"{page.relative_to(ROOT)}: {command}: {error}")
    assert wrong == []


@pytest.mark.full
def test_the_quick_start_works(native_build: Path, tmp_path: Path) -> None:
    """Its commands one after the other, as they stand there; but for the installation and what test_demo.py runs."""
    text = (ROOT / "docs" / "quickstart.md").read_text()
    (rules,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "rules.yaml").write_text(rules)
    commands = [each for each in re.findall(r"^    (tessera .*)$", text, re.MULTILINE) if each != "tessera demo"]
    assert len(commands) > 7
    environment = with_native(native_build / "native") | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PATH"] = f"{TESSERA.parent}{os.pathsep}{environment['PATH']}"
    said = ""
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command],
            text=True,
            capture_output=True,
            cwd=tmp_path,
            env=environment,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        said += done.stderr
    assert (tmp_path / "run.json.gz").stat().st_size > 1000
    assert "matched no launch" not in said


def test_what_a_page_would_load_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<link href="https://a.example/f.css" rel="stylesheet"><a href="https://b.example">x</a>'
        '<script src="//c.example/s.js"></script><link rel="canonical" href="https://d.example/">'
    )
    (tmp_path / "site.css").write_text("a { background: url(https://e.example/p.png) } b { background: url(q.png) }")
    found = runpy.run_path(str(ROOT / "scripts" / "docs"))["loaded_from_elsewhere"](tmp_path)
    assert [re.sub(r".*//(\w).*", r"\1", each) for each in found] == ["a", "c", "e"]
