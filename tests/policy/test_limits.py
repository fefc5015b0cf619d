"""What a policy lets an executor use: SMs and memory."""

from pathlib import Path

import pytest

from tests.policy.run import Launch, run

LAUNCHES: list[Launch] = [{"function": "alpha", "blocks": 1024, "threads": 1024} for _ in range(4)]
POLICY = """version: 1
devices: {{home: 0, executors: [{{gpu: 1, {limit}}}]}}
rules:
  - {{match: {{function: "*"}}, device: 1}}
"""


def busy_ns(native_build: Path, tmp_path: Path, limit: str) -> int:
    """Time that the launches took on GPU 1, all of them."""
    report = run(native_build, tmp_path, POLICY.format(limit=limit), LAUNCHES).report
    assert report["launches"]["by_device"] == {"0": 0, "1": 4}
    (kernel,) = report["kernels"]
    return int(kernel["virtual_ns"])


@pytest.mark.full
def test_an_executor_keeps_to_its_sms(native_build: Path, tmp_path: Path) -> None:
    whole, part = (busy_ns(native_build, tmp_path, f"sm_limit: {count}") for count in (132, 8))
    assert part > 4 * whole


def test_what_exceeds_an_executors_memory_stays_home(native_build: Path, tmp_path: Path) -> None:
    report = run(native_build, tmp_path, POLICY.format(limit="memory_limit: 1KiB"), LAUNCHES).report
    assert report["launches"] == {"total": 4, "by_device": {"0": 4, "1": 0}, "kept_home": 4}
    assert report["kept_home_by_reason"] == {"executor": 4}
