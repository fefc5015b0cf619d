"""Policy files and the decision table made from them."""

from pathlib import Path
from typing import Any

import pytest

from controlplane import records
from controlplane.errors import ConfigError
from controlplane.policy import Policy, Rule, compile_table, read_launches, read_policy

SMALLEST = """version: 1
devices: {home: 0, executors: [1]}
rules:
  - match: {function: "*"}
    device: 1
default: home
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return file


def test_the_smallest_policy_sends_everything_to_gpu_1(tmp_path: Path) -> None:
    file = written(tmp_path, SMALLEST)
    assert read_policy(file) == Policy(file, 0, (1,), (Rule("*", 1, 4),), 0)


def test_without_rules_everything_stays_home(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, "version: 1\ndevices: {home: 2, executors: [0]}\n"))
    assert policy.rules == ()
    assert policy.default == 2


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("devices: {executors: [1]}\n", 1, "'version' is missing"),
        ("version: 2\ndevices: {executors: [1]}\n", 1, "version 2 is not known"),
        ("version: 1\ndevices: {home: 0, executors: [0]}\n", 2, "GPU 0 is named before"),
        ("version: 1\ndevices: {executors: [1, 1]}\n", 2, "GPU 1 is named before"),
        ("version: 1\ndevices: {executors: [99]}\n", 2, "'99' is not usable here"),
        (SMALLEST.replace("device: 1", "device: 2"), 5, "'2' is not a place to run"),
        (SMALLEST.replace("device: 1", "device: away"), 5, "'away' is not a place to run"),
        (SMALLEST.replace("function:", "kernel:"), 4, "unknown key 'kernel'"),
        (SMALLEST.replace("default: home", "default: 7"), 6, "'7' is not a place to run"),
        (SMALLEST.replace('"*"', f'"{"x" * 300}"'), 4, "the glob does not fit"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_policy(file)
    assert caught.value.line == line
    assert message in caught.value.message
    assert caught.value.expected


def test_the_table_holds_what_the_policy_says(tmp_path: Path) -> None:
    table = compile_table(read_policy(written(tmp_path, SMALLEST)), ("socket-name",))
    ffi, text = records.header("policy.h")
    record: Any = ffi.from_buffer("struct tsr_policy *", table)
    assert record.magic == records.constant(text, "TSR_POLICY_MAGIC", "policy.h")
    assert record.bytes == len(table) == ffi.sizeof("struct tsr_policy")
    assert (record.home, record.default_device, record.executor_count, record.rule_count) == (0, 0, 1, 1)
    assert ffi.string(record.executors[0].socket) == b"socket-name"
    assert record.executors[0].device == 1
    assert ffi.string(record.rules[0].function) == b"*"
    assert record.rules[0].device == 1


def test_counters_are_read_back_by_gpu(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, SMALLEST))
    ffi, _ = records.header("policy.h")
    table = bytearray(compile_table(policy, ("s",)))
    record: Any = ffi.from_buffer("struct tsr_policy *", table)
    record.launches[0], record.launches[1], record.launches[7], record.kept_home = 3, 0, 5, 2
    launches = read_launches(policy, bytes(table))
    assert launches.by_device == {0: 3, 1: 0, 7: 5}
    assert launches.kept_home == 2
