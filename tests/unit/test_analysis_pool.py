"""Which worker gets which function."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from controlplane.analysis.cache import Key
from controlplane.analysis.pool import Pool
from controlplane.analysis.result import Analysis
from controlplane.analysis.share import (
    LEAST_SHARE,
    MOST_NAMES_BYTES,
    MOST_QUEUED,
    MOST_SHARE,
    MOST_SHARE_BYTES,
    assigned,
    choose,
)
from controlplane.analysis.task import Ahead, ImageOf, Place, Task, image_of
from controlplane.base.content import content_hash

BODY = ".visible .entry {name}(.param .u64 p) {{ .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 1; ret; }}\n"
A: ImageOf = (1, 90, False, (), True, False)
B: ImageOf = (2, 90, False, (), True, False)
C: ImageOf = (3, 90, False, (), True, False)


def test_a_worker_goes_on_with_its_image() -> None:
    assert choose([A, B, A], [{C}, {B}], ()) == (1, 1)


def test_another_image_comes_first_when_one_is_in_work() -> None:
    assert choose([A, B, A], [{C}], [{A}]) == (0, 1)
    assert choose([A, B], [], ()) == (0, 0)


def test_what_another_has_read_is_left_to_it() -> None:
    assert choose([A, A], [{B}], [{A, C}]) is None


def test_when_many_wait_for_one_worker_others_help() -> None:
    assert choose([A] * MOST_QUEUED, [()], [{A}]) is None
    assert choose([A] * (MOST_QUEUED + 1), [()], [{A}]) == (0, MOST_QUEUED)
    assert choose([A, *[B] * MOST_QUEUED], [()], [{C}, {A, B}]) == (0, MOST_QUEUED)


def test_functions_that_wait_are_named() -> None:
    ahead = Ahead(Key(3, 4, 90, False, "n", (5,)), (Place(0, 4), Place(1, 6)), ("n", "o"))
    task = Task(Key(1, 2, 90, False, "k"), (Place(0, 2),), ("l", "m"), (ahead,))
    assert Task.from_json(task.to_json()) == task


def task(code: int, name: str = "k") -> Task:
    return Task(Key(code, 2, 90, False, name), (Place(0, 2),))


def test_a_worker_is_told_of_its_share_of_the_images_that_nobody_has() -> None:
    waiting = [(task(number), [10 + number]) for number in range(20)]
    asked, files = assigned(task(20), waiting, (), {image_of(task(0).key)}, 2)
    assert [each.key.code for each in asked.beside] == list(range(1, 10))  # half of the twenty, less its own
    assert files == [10 + number for number in range(1, 10)]
    asked, files = assigned(task(20), waiting[:5], (), (), 2)
    assert len(asked.beside) == LEAST_SHARE - 1
    asked, files = assigned(task(20), waiting * 10, (), (), 1)
    assert len(asked.beside) == MOST_SHARE - 1


def test_with_an_image_that_somebody_has_a_worker_is_told_of_that_alone() -> None:
    waiting = [(task(1, "l"), [3]), (task(2), [4])]
    for own, others in (({A}, set()), (set(), {A})):
        assert assigned(task(1), waiting, own, others, 1) == (replace(task(1), next=("l",)), [])


def test_large_images_are_analysed_one_by_one() -> None:
    waiting = [(Task(Key(code, MOST_SHARE_BYTES // 2, 90, False, "k"), (Place(0, 2),)), [3]) for code in (2, 3)]
    asked, _ = assigned(task(1), waiting, (), (), 1)
    assert [each.key.code for each in asked.beside] == [2]


def test_names_have_an_end() -> None:
    long = "n" * (MOST_NAMES_BYTES // 3)
    waiting = [(task(code, f"{long}{number}"), [3]) for code in (1, 2) for number in range(3)]
    asked, files = assigned(task(1), waiting, (), (), 1)
    assert asked.next == (f"{long}0", f"{long}1")
    assert (asked.beside, files) == ((), [])


def test_all_functions_of_several_images_are_analysed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found: dict[str, Analysis] = {}
    pool, count = Pool(2), 0
    for number in range(3):
        names = [f"k{number}_{function}" for function in range(2 * MOST_QUEUED)]
        text = ".version 8.0\n.target sm_80\n.address_size 64\n" + "".join(BODY.format(name=name) for name in names)
        file = tmp_path / f"{number}.ptx"
        file.write_text(text)
        descriptor = os.open(file, os.O_RDONLY)
        for name in names:
            key = Key(content_hash(text.encode()), len(text), 80, True, name)
            pool.ask(Task(key, (Place(0, len(text)),)), [descriptor], partial(found.__setitem__, name))
            count += 1
        os.close(descriptor)
    assert pool.wait(60)
    pool.finish()
    assert len(found) == count
    assert all(analysis.is_known for analysis in found.values())
