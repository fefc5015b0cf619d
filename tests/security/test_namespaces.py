"""Containers that share a network namespace: equal process ids do not make them meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.running import on_gpu_1, running
from tests.security.stranger import ROOT_ONLY

pytestmark = ROOT_ONLY

CONTAINER = ("unshare", "--pid", "--fork", "--kill-child")
PROC = {"its own /proc": ("--mount-proc",), "the machine's /proc": ()}


@pytest.mark.full
@pytest.mark.parametrize("proc", PROC)
def test_each_has_its_own_executor(proc: str, native_build: Path, tmp_path: Path) -> None:
    before = [*CONTAINER, *PROC[proc]]
    with running(native_build, tmp_path / "first", "--stats", before=before) as first:
        first.launches(2)
        with running(native_build, tmp_path / "second", "--stats", before=before) as second:
            second.launches(3)
            report, errors = second.end()
        assert (on_gpu_1(report), report["processes"]) == (3, 1), errors
        first.launches(2)
        report, errors = first.end()
    assert (on_gpu_1(report), report["processes"]) == (4, 1), errors
