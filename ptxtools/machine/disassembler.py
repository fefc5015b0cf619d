"""Runs nvdisasm, NVIDIA's disassembler, on a cubin. It comes with CUDA's toolkit or from PyPI, never with us.

What it reads is a program's, and nobody knows whose: it runs confined (confined.py), with its output in memory files of
limited size. It is asked for JSON, and for text where JSON does not say all: on some relocatable cubins nvdisasm 13.5
crashes while it writes JSON and not when it writes text; earlier ones (12.8, 13.1, 13.2) list subroutines apart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from importlib import metadata
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO

from ptxtools.machine import confined

PACKAGE = "nvidia-cuda-nvdisasm"
_VARIABLE = "TESSERA_NVDISASM"
_HOW = f"install {PACKAGE} (pip install {PACKAGE}), or name nvdisasm in {_VARIABLE}"
_SECONDS = 120.0
_SECONDS_PER_MEGABYTE = 10.0
_MEMORY_BYTES = 4 << 30
_OUTPUT_BYTES = 1 << 30
_SAID_BYTES = 1 << 16
_ENDED: dict[int, str] = {
    signal.SIGXCPU: "used more of the CPU's time than it may",
    signal.SIGXFSZ: "wrote more than it may",
}
_PRELOADED = ("LD_PRELOAD", "LD_AUDIT")
_KEYS = ("function-name", "sass-instructions")


_SECTION = re.compile(r"\s*\.section\s+(?:\.text\.)?([^,\s]+)")
_LABEL = re.compile(r"(\.L_\w+):")
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;?\s*\Z")
_TARGET = re.compile(r"`\(([^()]*)\)")
_SPACE = re.compile(r"(?<=\w) (?=[`-])")
_ANNOTATION = re.compile(r"\s*\(\*.*\*\)\s*;?\Z")


class DisassemblyError(ValueError):
    """A cubin could not be disassembled; the text says why, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction as nvdisasm writes it: "@!P0", "IMAD.WIDE", "R2,R0,0x4,R4"."""

    guard: str
    opcode: str
    operands: str


def locate() -> Path | None:
    """Where nvdisasm is: what the environment names, the PyPI package, then PATH."""
    named = os.environ.get(_VARIABLE)
    if named:
        return Path(named)
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if file.name == "nvdisasm" and path.is_file():
            return path
    found = shutil.which("nvdisasm")
    return Path(found) if found else None


def disassemble(cubin: bytes, symbols: Collection[int] = (), seconds: float = 0.0) -> dict[str, list[Line]]:
    """The instructions of each function of a cubin, or of those with these numbers in its table of symbols.

    A second to begin with, and three for each megabyte of code; `seconds` is how long it may take, where that is not to
    depend on the size. Errors: DisassemblyError.
    """
    tool = locate()
    if tool is None:
        raise DisassemblyError(f"nvdisasm is not here: {_HOW}")
    seconds = seconds or _SECONDS + _SECONDS_PER_MEGABYTE * len(cubin) / 1e6
    only = ["-fun", ",".join(map(str, sorted(symbols)))] if symbols else []
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        output = _output(tool, ["-json", *only, file.name], seconds)
        found = None if output is None else _in_json(tool, output)
        if found is not None:
            return found
        text = _output(tool, ["-c", *only, file.name], seconds)
        if text is None:
            raise DisassemblyError(f"{tool} crashed")
        return _in_text(text.decode(errors="replace"))


def _in_json(tool: Path, output: bytes) -> dict[str, list[Line]] | None:
    """None: a subroutine is listed apart from its kernel, and not which that is; text has whole sections. Errors:
    DisassemblyError.
    """
    try:
        document = json.loads(output)
        if any(each.get("start") for each in _listed(document)):
            return None
        return dict(map(_function, _listed(document)))
    except (TypeError, KeyError, IndexError, AttributeError, ValueError, RecursionError) as problem:
        raise DisassemblyError(f"{tool} wrote JSON of a form that is not known: {problem!r}") from problem


def _output(tool: Path, arguments: list[str], seconds: float) -> bytes | None:
    """What it wrote; None when it crashed. Errors: DisassemblyError."""
    limits = (ceil(seconds), _MEMORY_BYTES, _OUTPUT_BYTES)
    command = [sys.executable, "-S", "-I", confined.__file__, *map(str, limits), str(tool), *arguments]
    environment = {key: value for key, value in os.environ.items() if key not in _PRELOADED}
    with _memory_file("output") as output, _memory_file("errors") as errors:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as problem:
            raise DisassemblyError(f"{tool} took longer than {seconds:.0f} s") from problem
        except OSError as problem:
            raise DisassemblyError(f"{tool} cannot be run ({problem.strerror}): {_HOW}") from problem
        if done.returncode == 0:
            output.seek(0)
            return output.read()
        said = os.pread(errors.fileno(), _SAID_BYTES, 0).decode(errors="replace").strip().splitlines()
    if done.returncode == -signal.SIGSEGV:
        return None
    last = said[-1] if said else "without a word"
    if done.returncode == confined.CANNOT_RUN:
        raise DisassemblyError(f"{tool} cannot be run ({last}): {_HOW}")
    if -done.returncode in _ENDED:
        raise DisassemblyError(f"{tool} {_ENDED[-done.returncode]}")
    raise DisassemblyError(f"{tool} failed: {last}; a newer one may know this architecture")


def _memory_file(name: str) -> BinaryIO:
    return os.fdopen(os.memfd_create(f"tessera-{name}", os.MFD_CLOEXEC), "w+b")


def _listed(document: object) -> list[dict[str, Any]]:
    """Of the form [description, [function, ...]]."""
    if not isinstance(document, list) or len(document) < 2 or not isinstance(document[1], list):
        raise TypeError("no list of functions")
    return document[1]


def _function(listed: dict[str, Any]) -> tuple[str, list[Line]]:
    name, code = (listed[key] for key in _KEYS)
    return name, [Line(each.get("predicate", ""), each["opcode"], each.get("operands", "")) for each in code or []]


def _in_text(text: str) -> dict[str, list[Line]]:
    """Functions of the listing. Labels become offsets, as JSON has them."""
    found: dict[str, list[Line]] = {}
    labels: dict[str, int] = {}
    pending: list[str] = []
    code: list[Line] = []
    for line in text.splitlines():
        if match := _SECTION.match(line):
            code = found.setdefault(match[1], [])
        elif match := _LABEL.match(line):
            pending.append(match[1])
        elif match := _INSTRUCTION.match(_ANNOTATION.sub("", line)):
            labels.update(dict.fromkeys(pending, int(match[1], 16)))
            pending.clear()
            code.append(Line(match[2] or "", match[3], _SPACE.sub(",", match[4].replace(", ", ","))))
    return {name: [_resolved(each, labels) for each in lines] for name, lines in found.items()}


def _resolved(line: Line, labels: dict[str, int]) -> Line:
    if "`" not in line.operands:
        return line

    def place(match: re.Match[str]) -> str:
        return hex(labels[match[1]]) if match[1] in labels else match[1]

    return Line(line.guard, line.opcode, _TARGET.sub(place, line.operands))
