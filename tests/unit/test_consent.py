"""Whose machine code may be disassembled: files' names, and what the service of a run asks for."""

from __future__ import annotations

from typing import cast

import pytest

from controlplane.analysis.analyst import Analyst
from controlplane.analysis.cache import Key
from controlplane.analysis.describe import unknown_description
from controlplane.analysis.result import Analysis
from controlplane.analysis.service import AnalysisService
from controlplane.commands.run import main
from controlplane.observe.layout import EntryKind
from controlplane.observe.producer import Entry, Process
from ptxtools.machine.consent import Consent, may_disassemble

TORCH, CUBLAS = "/wheels/torch/lib/libtorch_cuda.so", "/wheels/nvidia/cu13/lib/libcublasLt.so.13"


@pytest.mark.parametrize(
    ("source", "closed"),
    [
        (TORCH, False),
        (CUBLAS, True),
        ("libcublas-2f1a3b.so.12.8.4.1", True),
        ("libcudnn_engines_precompiled.so.9", True),
        ("libcufftXt.so", True),
        ("libcusparselt.so.0", True),
        ("/wheels/cupy/_core.cpython-312-x86_64-linux-gnu.so", False),
        ("libflash_attn.so", False),
        ("", False),
    ],
)
def test_closed_libraries_are_known_by_their_names(source: str, closed: bool) -> None:
    assert may_disassemble(Consent.OPEN, source) is not closed
    assert may_disassemble(Consent.ALL, source)
    assert not may_disassemble(Consent.NONE, source)


class _Remembers:
    """An analyst that was asked for these keys and knows nothing."""

    def __init__(self) -> None:
        self.asked: list[Key] = []

    def remembered(self, key: Key) -> Analysis:
        self.asked.append(key)
        return Analysis(unknown_description(key.function, "not analysed here"))


@pytest.mark.parametrize(
    ("consent", "expected"),
    [(Consent.OPEN, [True, False]), (Consent.ALL, [True, True]), (Consent.NONE, [False, False])],
)
def test_the_service_asks_for_what_the_run_allows(consent: Consent, expected: list[bool]) -> None:
    analyst = _Remembers()
    service = AnalysisService(cast("Analyst", analyst), None, consent)
    process = Process(0, 1, 0, "program", 13000, own_gpu_clock=False)
    service.begin(process)
    service.define(process, [Entry(EntryKind.DEVICE, 0, 90, 0, 0, 0, "GPU")])
    for number, file in enumerate((TORCH, CUBLAS), start=1):
        service.define(process, [Entry(EntryKind.MODULE, number, 0, 0, number, 100, file)])
        service.define(process, [Entry(EntryKind.FUNCTION, number, number, 0, 0, 0, "kernel")])
    assert [key.disassemble for key in analyst.asked] == expected


def test_the_option_needs_an_analysis(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--disassemble", "all", "--", "true"]) == 2
    assert "--analyze" in capsys.readouterr().err
