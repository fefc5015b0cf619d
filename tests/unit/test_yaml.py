"""YAML that was written to do harm, or by accident does: an error with file and line, at once."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.base.yamldoor import MOST_BYTES, MOST_CHARACTERS, MOST_DEPTH
from controlplane.base.yamlfile import read
from controlplane.machine import emulate
from controlplane.policy import schema as policy_schema
from controlplane.policy.read import read_policy
from ptxtools.errors import ConfigError
from tests.command import with_native

SECONDS = 1.0
POLICY = "version: 1\ndevices: {executors: [1]}\n"
BOMB = "".join(f"l{n}: &l{n} {{<<: *l{n - 1}, a{n}: {{<<: *l{n - 1}}}}}\n" for n in range(1, 30))

EVIL: dict[str, tuple[str | bytes, int | None, str]] = {
    "brackets": ("[" * 50_000, 1, "nested too deeply"),
    "braces": ("a:\n" + "{" * 50_000, 2, "; expected "),  # libyaml 0.2.6 says that they are too deep
    "indents": ("\n".join(" " * n + "a:" for n in range(600)), 32, "nested too deeply"),
    "dashes": ("- " * 50_000, 1, "nested too deeply"),
    "questions": ("? " * 50_000, 1, "nested too deeply"),
    "a chain of aliases": (
        "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 100)),
        31,
        "nested too deeply",
    ),
    "merge keys": ("l0: &l0 {a: 1}\n" + BOMB, 13, "too much"),
    "aliases": ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 25)), 15, "much"),
    "merges itself": ("a: &a\n  <<: *a\n", 2, "*a is a part of itself"),
    "holds itself": ("&a\n- 1\n- [*a]\n", 3, "*a is a part of itself"),
    "an alias of nothing": ("a: 1\nb: *c\n", 2, "*c is not defined"),
    "an anchor given twice": ("a: &a 1\nb: &a 1\n", 2, "&a is given twice"),
    "a second document": (POLICY + "---\na: 1\n", 3, "second document"),
    "directives": ("".join(f"%TAG !{n}! a\n" for n in range(13_000)), 13_001, "not YAML"),
    "a long list": (POLICY + "rules: [" + "a," * 60_000 + "]", 3, "too much"),
    "a long text": (POLICY + "log: " + "a" * 5000, 3, f"at most {MOST_CHARACTERS} characters"),
    "a long key": ("a: 1\n? " + "a" * 5000, 2, f"at most {MOST_CHARACTERS} characters"),
    "an open quote": ("a: 1\nb: '" + "a\n" * 50_000, 50_002, "not YAML"),
    "a control character": ("a: 1\nb: \x07\n", 2, "control characters are not allowed"),
    "a NUL": ("a: é\nb: \0\n", 2, "control characters are not allowed"),
    "not UTF-8": (b"a: 1\nb: \xff\n", 2, "is not UTF-8"),
    "too large": ("#" * (MOST_BYTES + 1), None, "the file is too large"),
    "nothing": ("", None, "the file is empty"),
    "only comments": ("#\n" * 100_000, None, "the file is empty"),
    "a number without end": ("version: 1\ndevices: {executors: [" + "1" * 4000 + "]}", 2, "not usable here"),
    "a digit that is none": ("version: 1\ndevices: {executors: [1]}\ndefault: ²\n", 3, "not a place to run"),
    "a limit without end": (
        f"version: 1\ndevices:\n  executors:\n  - {{gpu: 1, memory_limit: {'9' * 400}}}",
        4,
        "not an amount of memory",
    ),
    "rules without end": (
        POLICY + 'rules:\n  - &r {match: {function: "a"}, device: 1}\n' + "  - *r\n" * 5000,
        4,
        "5001 rules are too many",
    ),
}


# Each file in a child of one process, as some of these ended it by a signal: exit code, what it said, CPU time.
CHECKS = """
import json, os, sys
from controlplane.commands.main import main
for file in sys.argv[1:]:
    ours, theirs = os.pipe()
    if not os.fork():
        os.dup2(theirs, 2)
        os._exit(main(["policy", "check", file]))
    os.close(theirs)
    said = open(ours).read()
    _, status, used = os.wait3(0)
    print(json.dumps([os.waitstatus_to_exitcode(status), said, used.ru_utime + used.ru_stime]))
"""


def test_an_error_with_its_line_within_a_second(native_build: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.yaml" for name in EVIL]
    for file, (text, _, _) in zip(files, EVIL.values(), strict=True):
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    command, environment = [sys.executable, "-c", CHECKS, *map(str, files)], with_native(native_build / "native")
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, env=environment)
    for file, (_, line, message), told in zip(files, EVIL.values(), done.stdout.splitlines(), strict=True):
        code, errors, seconds = json.loads(told)
        assert code == 2, (file, errors)
        (said,) = errors.splitlines()
        assert said.startswith(f"tessera: {file}:{'' if line is None else f'{line}:'} ")
        assert message in said
        assert seconds < SECONDS, file


@pytest.mark.parametrize("reader", [read_policy, lambda file: emulate.parse(str(file))])
def test_only_regular_files_are_read(reader: object, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.yaml"
    os.mkfifo(fifo)
    assert callable(reader)
    for file in (fifo, tmp_path, Path("/dev/zero"), tmp_path / "none"):
        place = file if file.suffix else Path(f"/{file}")
        with pytest.raises(ConfigError, match=r"not a regular file|cannot be read"):
            reader(place)


def test_what_aliases_and_merges_are_for(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("a: &a {x: 1, y: [2]}\nb: {<<: *a, x: 3}\nc: [*a, *a]\n")
    entries = read(file).mapping()
    assert {key: value.line for key, value in entries.items()} == {"a": 1, "b": 2, "c": 3}
    merged = entries["b"].mapping()
    assert (merged["x"].text(), [each.text() for each in merged["y"].sequence()]) == ("3", ["2"])
    assert [each.mapping()["x"].text() for each in entries["c"].sequence()] == ["1", "1"]
    file.write_text('"<<": 1\n')
    assert list(read(file).mapping()) == ["<<"]
    file.write_text("[" * (MOST_DEPTH - 1) + "1" + "]" * (MOST_DEPTH - 1))
    assert list(read(file).sequence())


_KEYS = st.sampled_from(
    sorted(
        policy_schema.TOP
        | policy_schema.DEVICES
        | policy_schema.EXECUTOR
        | policy_schema.RULE
        | policy_schema.MATCH
        | policy_schema.GRID
        | policy_schema.NTH
        | policy_schema.SHARE
        | policy_schema.VERIFY
        | policy_schema.MEMORY
        | policy_schema.ANALYSIS
    )
)
_TEXTS = st.one_of(
    st.sampled_from(["0", "1", "16", "-1", "1e999", "nan", "²", f"{2**64}", "1..0", ">=1", "20GiB", "home", "follow"]),
    st.text("0123456789.<>={}()[]*+?|^$\\-aé²\0", max_size=12),
)


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    text = str(value)
    return text if text.isalnum() else '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\\0") + '"'


_VALUES = st.recursive(_TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))


@pytest.mark.full
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    top=st.dictionaries(st.sampled_from(sorted(policy_schema.TOP - {"devices", "version"})), _VALUES),
    match=st.dictionaries(st.sampled_from(sorted(policy_schema.MATCH)), _VALUES),
    devices=st.just({"executors": [1]}) | _VALUES,
)
def test_any_policy_is_used_or_refused(tmp_path: Path, top: object, match: object, devices: object) -> None:
    assert isinstance(top, dict)
    rules = [{"match": match, "device": 1}] if match else []
    file = tmp_path / "policy.yaml"
    file.write_text(_flow({"version": 1, "devices": devices, "rules": rules, **top}))
    _used_or_refused(file)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("[]{}<:*&!|>-?%@'\"#,ab1 \n\t\0é", max_size=60) | st.binary(max_size=40))
def test_any_text_is_used_or_refused(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    _used_or_refused(file)


def _used_or_refused(file: Path) -> None:
    for reader in (read_policy, lambda name: emulate.parse(str(name))):
        with contextlib.suppress(ConfigError):
            reader(file)
