"""A sample of random structured kernels; `scripts/lab fuzz-structured` looks at more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ptxtools.access.template import Template
from ptxtools.ranges import Evaluator, Launch, Result
from tests.fuzz.structured_target import check
from tests.sample import sampled


@pytest.mark.parametrize("kernels", sampled([40, 160], [40]))
def test_every_byte_is_predicted(kernels: int, tmp_path: Path) -> None:
    found = check(20, kernels, tmp_path)
    assert not found.findings
    assert not found.counts["unknown"]
    assert found.counts["complete"] == found.counts["launches"] == 3 * kernels
    assert found.counts["exact"] >= kernels
    assert found.counts["told in full"] >= kernels // 2
    assert found.counts["told in full, exact"] >= 5 * kernels // 16


def short_by_a_byte(template: Template) -> Callable[[Launch], Result]:
    evaluator = Evaluator(template)

    def evaluate(launch: Launch) -> Result:
        result = evaluator.evaluate(launch)
        cut = [replace(each, last=each.last - 1, width=max(0, each.width - 1)) for each in result.ranges]
        return Result(cut, result.unknown)

    return evaluate


def test_a_byte_that_lacks_is_found_twice(tmp_path: Path) -> None:
    found = check(20, 10, tmp_path, short_by_a_byte)
    assert {each.by for each in found.findings} == {"emulator", "oracle"}
