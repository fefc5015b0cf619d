"""Every command in the README and docs/ is executed: those that stand in lines of their own, one page after the other.

A page's commands run in one folder, in their order, as a reader would type them. There is no GPU here, so that commands
without --emulate get it, and every program is that of `tessera demo`. What is left out is listed, with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import ROOT, TESSERA, with_native

PAGES = ("README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$|^    (\S[^\n]*)$", re.MULTILINE | re.DOTALL)
COMMANDS = ("tessera", "tessera-run", "scripts/", "python", "python3", "pip", "pytest", "cmake", "ninja", "eval")
LEFT_OUT = {  # what begins so
    "python3 -m venv": "continuous integration runs the installations (.ci/run)",
    "tessera demo": "tests/unit/test_demo.py",
    "tessera top": "it ends with Ctrl-C: tests/unit/test_top.py",
    "tessera-run [options]": "it is the form of a command",
    'eval "$(tessera completion': "it is for the files of a shell: tests/unit/test_completion.py",
    "tessera completion fish": "the same",
    "scripts/": "these are campaigns: tests/README.md says which run when",
    "python tests/fault/": "these are campaigns: tests/fault runs parts of them",
}
PROGRAM = re.compile(r"-- python \S+\.py(?: \d+)?")
WORDS = (  # placeholders, and what is there for them
    (re.compile(r" \[[^]]*\]"), ""),
    (re.compile(r"\bFILE\b"), "some.file"),
    (re.compile(r"--metrics \d+"), "--metrics 0"),
)
POLICIES = ("rules.yaml", "policy.yaml")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Commands and policies, in the order of the page: (language, text). A line of four spaces is one of `bash`."""
    for language, fenced, line in FENCED.findall((ROOT / page).read_text()):
        if language == "yaml":
            yield language, fenced
        for each in fenced.splitlines() if language == "bash" else [line]:
            if each.partition(" ")[0].startswith(COMMANDS):
                yield "bash", re.split(r" {3,}|  *#", each)[0].strip()


def reason(command: str) -> str | None:
    """Why it is left out. None: it is not."""
    is_whole = command == "tessera demo" or not command.startswith("tessera demo")
    return next((why for start, why in LEFT_OUT.items() if command.startswith(start) and is_whole), None)


def typed(command: str) -> str:
    """As it runs here."""
    for pattern, there in WORDS:
        command = pattern.sub(there, command)
    command = PROGRAM.sub(f"-- {sys.executable} app.py 2", command)
    if command.startswith(("tessera-run ", "tessera run ")):
        name = re.match(r"tessera[- ]run", command)
        assert name is not None
        command = command if "--emulate" in command else f"{name[0]} --emulate 2{command[name.end() :]}"
    elif command.startswith("tessera probe "):
        command += " --emulate 1"
    return command


def test_what_is_left_out_is_there_and_most_is_not() -> None:
    found = [text for page in PAGES for language, text in blocks(page) if language == "bash"]
    assert len([each for each in found if reason(each) is None]) > 50
    assert [start for start in LEFT_OUT if not any(each.startswith(start) for each in found)] == []


@pytest.fixture(scope="module")
def environment(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With a cache in which the program's kernels are, since a first run checks nothing."""
    place = tmp_path_factory.mktemp("commands")
    found = with_native(native_build / "native") | {"XDG_CACHE_HOME": str(place)}
    found["PATH"] = f"{TESSERA.parent}{os.pathsep}{found['PATH']}"
    with (place / "app.py").open("w") as program:
        subprocess.run([TESSERA, "demo", "--show"], stdout=program, env=found, check=True)
    for asked in ("--analyze", "--check-accesses"):  # the second needs clones, which the first does not make
        options = ["--emulate", "1", asked, "--no-summary"]
        command = ["tessera-run", *options, "--", sys.executable, str(place / "app.py")]
        subprocess.run(command, env=found, check=False)
    return found


@pytest.mark.full
@pytest.mark.parametrize("page", [page for page in PAGES if any(reason(text) is None for _, text in blocks(page))])
def test_the_commands_of_a_page_work(page: str, environment: dict[str, str], tmp_path: Path) -> None:
    ptx = (ROOT / "tests" / "corpus" / "ptx" / "nvcc_vector_add.ptx").read_text()
    (tmp_path / "kernels.ptx").write_text(ptx)
    for name in POLICIES:
        (tmp_path / name).write_text(
            'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "jo*"}, device: 1}\n'
        )
    with (tmp_path / "app.py").open("w") as program:
        subprocess.run([TESSERA, "demo", "--show"], stdout=program, env=environment, check=True)
    for language, text in blocks(page):
        if language == "yaml":
            for name in POLICIES if "version: 1" in text and "executors:\n" not in text else ():
                (tmp_path / name).write_text(text)
            continue
        if reason(text) is not None:
            continue
        done = subprocess.run(
            ["bash", "-c", typed(text)],
            text=True,
            capture_output=True,
            cwd=tmp_path,
            env=environment,
            timeout=100,
            check=False,
        )
        # Of a machine without GPUs the doctor says so, and ends with 1.
        assert done.returncode in ((0, 1) if text == "tessera doctor" else (0,)), f"{typed(text)}\n{done.stderr}"
