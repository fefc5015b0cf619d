"""The experiment of a probe, with functions in the place of launches."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from controlplane.analysis.poison import MOST_RANGES, Bytes, Experiment, observe

SIZES = (64, 200)


def experiment(change: Callable[[list[Bytes]], bool | None]) -> Experiment | None:
    """Of a launch that changes two buffers, and fails when the function says False."""

    def run(contents: Sequence[Bytes]) -> list[Bytes] | None:
        copies = [each.copy() for each in contents]
        return None if change(copies) is False else copies

    return observe(run, SIZES)


def observed(change: Callable[[list[Bytes]], bool | None]) -> Experiment:
    found = experiment(change)
    assert found is not None
    return found


def test_what_is_written_is_seen_whatever_was_there() -> None:
    def change(buffers: list[Bytes]) -> None:
        buffers[1][10:20] = 0
        buffers[1][40:42] = 255

    found = observed(change)
    assert found.is_complete
    assert (found.buffers[1].written, found.buffers[1].written_bytes) == ([(10, 19), (40, 41)], 12)
    assert (found.buffers[0].written, found.buffers[0].size) == ([], 64)
    assert [each.matters for each in found.buffers] == [False, False]
    assert found.runs == 2 + 3 * 2


def test_inputs_that_change_the_output_matter() -> None:
    def copy(buffers: list[Bytes]) -> None:
        buffers[1][100:164] = buffers[0]

    assert [each.matters for each in observed(copy).buffers] == [True, False]
    assert observed(copy).buffers[1].written == [(100, 163)]


def test_what_is_changed_in_place_matters() -> None:
    def add(buffers: list[Bytes]) -> None:
        buffers[0][3] += 1

    found = observed(add)
    assert (found.buffers[0].written, [each.matters for each in found.buffers]) == ([(3, 3)], [True, False])


def test_an_input_decides_where_is_written() -> None:
    def scatter(buffers: list[Bytes]) -> None:
        buffers[1][int(buffers[0][0]) % 8] = 9

    found = observed(scatter)
    assert found.buffers[0].matters
    assert not found.buffers[1].matters
    assert found.buffers[1].written_bytes > 1


def test_contents_that_make_it_fail_matter_and_something_is_not_seen() -> None:
    def index(buffers: list[Bytes]) -> bool:
        if int(buffers[0].view(np.uint32)[0]) > 100:
            return False
        buffers[1][0] = 1
        return True

    found = observed(index)
    assert (found.failed, found.is_complete, found.buffers[0].matters) == (2, False, True)
    assert found.buffers[1].written == [(0, 0)]


def test_a_launch_that_always_fails_says_nothing() -> None:
    assert experiment(lambda _: False) is None


def test_results_by_chance_are_told() -> None:
    chance = random.Random(1)

    def change(buffers: list[Bytes]) -> None:
        buffers[1][5] = chance.randrange(256)

    found = observed(change)
    assert (found.is_stable, found.is_complete) == (False, False)
    assert found.buffers[1].written == [(5, 5)]
    assert not found.buffers[0].matters


@pytest.mark.parametrize("count", [MOST_RANGES, MOST_RANGES + 1, 3 * MOST_RANGES])
def test_many_ranges_become_fewer(count: int) -> None:
    def run(contents: Sequence[Bytes]) -> list[Bytes]:
        after = contents[0].copy()
        after[: 7 * count : 7] = 1
        after[7 * count + 1000] = 2
        return [after]

    found = observe(run, [7 * count + 2000])
    assert found is not None
    (seen,) = found.buffers
    assert (seen.written_bytes, seen.is_exact) == (count + 1, count + 1 <= MOST_RANGES)
    assert len(seen.written) == min(count + 1, MOST_RANGES)
    assert seen.written[-1] == (7 * count + 1000, 7 * count + 1000)
    written = {byte for first, last in seen.written for byte in range(first, last + 1)}
    assert written >= {*range(0, 7 * count, 7), 7 * count + 1000}
    assert all(first % 7 == 0 and last % 7 == 0 for first, last in seen.written[:-1])
