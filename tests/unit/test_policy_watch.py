"""Edits of a policy's file, taken over into a live decision table."""

import gc
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.policy.language import COPIES, FOLLOW
from controlplane.policy.read import read_policy
from controlplane.policy.table import compile_table
from controlplane.policy.watch import Watcher
from ptxtools.native import records

POLICY = 'version: 1\ndevices: {executors: [1]}\nrules:\n  - {match: {function: "old"}, device: 1}\n'


class Run:
    """A watcher of a file, its table, and what it said."""

    def __init__(self, file: Path, verify: int | None = None) -> None:
        self.file, self.said = file, list[str]()
        file.write_text(POLICY)
        policy = replace(read_policy(file), memory_place=FOLLOW)
        policy = policy if verify is None else replace(policy, verify=verify)
        self.buffer = bytearray(compile_table(policy, ["s"]))
        self.watcher = Watcher(file, policy.signature, self.buffer, self.said.append, verify)

    def tick(self, times: int = 2) -> None:
        for _ in range(times):
            assert 0 < self.watcher.tick() <= 0.2

    @property
    def record(self) -> Any:
        return records.header("policy.h")[0].from_buffer("struct tsr_policy *", self.buffer)

    @property
    def function(self) -> str:
        """What the first rule in use matches."""
        ffi, _ = records.header("policy.h")
        table = self.record.tables[self.record.generation % 2]
        return bytes(ffi.buffer(table.text))[table.rules[0].function :].split(b"\0")[0].decode()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "policy.yaml")


def test_disassembling_belongs_to_a_run(run: Run) -> None:
    run.file.write_text(POLICY.replace("old", "newer") + "disassemble: all\n")
    run.tick()
    assert run.function == "old"
    (said,) = run.said
    assert "whose machine code may be disassembled cannot change" in said


def test_edits_leave_nothing_behind(run: Run) -> None:
    def edit(times: int) -> int:
        for number in range(times):
            run.file.write_text(POLICY.replace("old", f"k{number % 7}"))
            run.tick()
            run.said.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = edit(10)
        assert edit(60) - before < 4_000
    finally:
        tracemalloc.stop()


def test_nothing_happens_without_an_edit(run: Run) -> None:
    run.tick(5)
    assert (run.record.generation, run.said) == (1, [])


def test_an_edit_is_taken_over_when_the_file_has_settled(run: Run) -> None:
    run.file.write_text(POLICY.replace("old", "newer"))
    run.tick(1)
    assert run.function == "old"
    run.tick(1)
    assert run.function == "newer"
    assert run.said == [f"{run.file}: the edited rules are in use"]
    run.tick(3)
    assert run.record.generation == 2


def test_an_edit_that_does_not_speak_of_memory_leaves_it(run: Run) -> None:
    """Even if memory would lie elsewhere in a run that began with it."""
    run.file.write_text(POLICY.replace("old", "newer"))
    assert read_policy(run.file).memory_place == COPIES
    run.tick()
    assert (run.function, run.record.memory_place) == ("newer", FOLLOW)


def test_a_replaced_file_is_an_edit(run: Run) -> None:
    other = run.file.with_name("other.yaml")
    other.write_text(POLICY.replace("old", "newest"))
    other.rename(run.file)
    run.tick()
    assert run.function == "newest"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POLICY.replace("device: 1", "device: 7"), ":4: rules.device: '7' is not a place to run"),
        (POLICY.replace("match", "mach"), ":4: rules: unknown key 'mach', did you mean 'match'?"),
        (POLICY.replace("[1]", "[1, 2]"), ":2: the devices cannot change while the program runs"),
        (POLICY + "order: data\nmemory: {place: copies}\n", "cannot change while the program runs"),
        (POLICY + "memory: {place: home}\n", "where memory lies cannot change while the program runs"),
        (
            POLICY.replace("function", "library_call").replace("old", "cublasGemmEx"),
            "library calls cannot be told apart",
        ),
        ("version: [", "not YAML"),
        ("", "the file is empty"),
        (None, "cannot be read"),
        (POLICY + "a: " + "[" * 50_000, ":5: values are nested too deeply"),
        (POLICY + "a: &a {<<: *a}", ":5: *a is a part of itself"),
        (POLICY + "default: ²\n", ":5: default: '²' is not a place to run"),
        (POLICY.replace("[1]", "[{gpu: 1, memory_limit: " + "9" * 400 + "}]"), ":2: "),
    ],
)
def test_a_mistake_keeps_the_rules(run: Run, text: str | None, message: str) -> None:
    if text is None:
        run.file.unlink()
    else:
        run.file.write_text(text)
    run.tick(4)
    assert (run.record.generation, run.function) == (1, "old")
    (said,) = run.said
    assert str(run.file) in said
    assert message in said
    assert said.endswith("the rules before this edit stay in use")
    run.file.write_text(POLICY.replace("old", "corrected"))
    run.tick()
    assert run.function == "corrected"


def test_a_fifo_keeps_the_rules(run: Run) -> None:
    run.file.unlink()
    os.mkfifo(run.file)
    run.tick(4)
    assert (run.record.generation, run.function) == (1, "old")
    assert run.said == [
        f"{run.file}: is not a regular file; expected a YAML file; the rules before this edit stay in use"
    ]


def test_what_nobody_thought_of_keeps_the_rules(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    with monkeypatch.context() as patched:
        patched.setattr("controlplane.policy.watch.replace_rules", fail)
        run.file.write_text(POLICY.replace("old", "newer"))
        run.tick(4)
    assert run.function == "old"
    (said,) = run.said
    assert said == f"{run.file}: internal error (RecursionError: too deep); the rules before this edit stay in use"
    run.file.write_text(POLICY.replace("old", "newest"))
    run.tick()
    assert run.function == "newest"


def test_verifying_cannot_begin_later(run: Run) -> None:
    run.file.write_text(POLICY + "verify: 9\n")
    run.tick()
    assert "verifying cannot begin while the program runs" in run.said[0]
    assert run.record.generation == 1


def test_verify_of_the_command_line_survives_an_edit(tmp_path: Path) -> None:
    run = Run(tmp_path / "policy.yaml", verify=5)
    run.file.write_text(POLICY + "verify: 9\n")
    run.tick()
    assert run.record.tables[0].verify_every == 5
