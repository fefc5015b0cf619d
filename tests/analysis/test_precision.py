"""Kernels that models are made of, launched as models do: predictions exceed what is touched by little."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.access.template import AccessKind
from ptxtools.reader import read
from tests.instruments.campaign import judged
from tests.instruments.oracle import Verdict

TEXT = Path(__file__).parents[1] / "corpus" / "ptx" / "nvcc_model.ptx"
Shape = tuple[int, int, int]

# Kernel, grid, block, and the parameters that are numbers, in order ("q": 64 bits).
LAUNCHES: list[tuple[str, Shape, Shape, str, tuple[int, ...]]] = [
    ("gelu", (4, 1, 1), (256, 1, 1), "i", (1000,)),
    ("append_kv", (6, 1, 1), (64, 1, 1), "qiiii", (1 << 20, 1 << 15, 37, 128, 3)),
    ("rotate", (9, 4, 1), (32, 1, 1), "ii", (4, 64)),
    ("rms_norm", (12, 1, 1), (32, 1, 1), "i", (96,)),
    ("add_bias", (3, 5, 1), (32, 4, 1), "ii", (18, 70)),
    ("copy_columns", (3, 1, 1), (256, 1, 1), "iiii", (20, 100, 16, 32)),
    ("write_columns", (3, 1, 1), (256, 1, 1), "iiii", (20, 100, 16, 32)),
    ("permute", (8, 1, 1), (128, 1, 1), "iiii", (2, 7, 4, 16)),
    ("sum_rows", (5, 1, 1), (128, 1, 1), "ii", (18, 100)),
    ("causal_scores", (2, 3, 1), (32, 1, 1), "ii", (50, 16)),
    ("upsample", (2, 12, 3), (32, 1, 1), "ii", (6, 20)),
    ("convolve", (2, 15, 1), (32, 1, 1), "ii", (15, 40)),
    ("add_all", (3, 1, 1), (64, 1, 1), "i", (1000,)),
    ("quantize", (7, 1, 1), (32, 1, 1), "i", (70,)),
    ("split_sum", (3, 1, 1), (64, 1, 1), "ii", (5, 150)),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory, native_build: Path) -> dict[str, Verdict]:
    module = read(TEXT.read_text())
    jobs = []
    for name, grid, block, kinds, numbers in LAUNCHES:
        function = module.functions[name]
        pointers = sorted(summarise(build(module, function)).pointers)
        values = bytearray(max(each.offset + each.size for each in function.parameters))
        plain = [each for each in function.parameters if each.size <= 8 and each.offset not in pointers]
        for each, kind, number in zip(plain, kinds, numbers, strict=True):
            struct.pack_into(f"<{kind}", values, each.offset, number)
        buffers = {str(offset): number for number, offset in enumerate(pointers)}
        job = {"text": str(TEXT), "function": name, "grid": grid, "block": block, "shared": 0, "pointers": buffers}
        jobs.append(json.dumps({**job, "values": values.hex()}))
    directory = tmp_path_factory.mktemp("precision")
    found = judged(jobs, directory, {"TESSERA_NATIVE": str(native_build / "native")})
    return {verdict.function: verdict for verdict in found}


@pytest.mark.parametrize("name", [each[0] for each in LAUNCHES])
def test_what_is_touched_is_predicted_and_little_else(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    assert verdict.complete
    assert not verdict.result.unknown
    assert not verdict.missed
    assert not verdict.clamped
    assert verdict.predicted_bytes <= MOST.get(name, 1.0) * verdict.traced_bytes


# A triangle is predicted as the rectangle around it; a loop that was unrolled, with where its last turn may end.
MOST = {"causal_scores": 1.5, "sum_rows": 1.07}


def test_rows_that_are_far_apart(verdicts: dict[str, Verdict]) -> None:
    """A new position in a cache: rows of 128 halves, a slot apart."""
    (written,) = (each for each in verdicts["append_kv"].result.ranges if each.kind is AccessKind.WRITE)
    first = 2 * (3 * (1 << 20) + 37 * 128)
    assert (written.first, written.stride, written.width) == (first, 2 << 15, 256)
    assert written.last == first + 5 * (2 << 15) + 255
