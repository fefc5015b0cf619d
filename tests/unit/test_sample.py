"""Samples of parametrisations, and shares of what is left out of them."""

from fractions import Fraction

import pytest

from tests.sample import is_in_share, sampled, share


def test_what_is_not_in_the_sample_is_marked() -> None:
    marked = {each.values: bool(each.marks) for each in sampled(["a", ("b", 1), "c"], [("b", 1)])}
    assert marked == {("a",): True, ("b", 1): False, ("c",): True}


def test_a_sample_has_what_exists() -> None:
    with pytest.raises(AssertionError, match="no such parameter"):
        sampled(["a"], ["b"])


def test_a_share_is_about_as_large_as_asked_and_another_with_another_seed() -> None:
    names = [f"test_{number}" for number in range(1000)]
    first, second = ({each for each in names if is_in_share(each, Fraction(1, 8), seed)} for seed in (1, 2))
    assert 80 < len(first) < 170
    assert 80 < len(second) < 170
    assert len(first & second) < 40
    assert all(is_in_share(each, Fraction(1), 3) for each in names)


@pytest.mark.parametrize("text", ["0", "2", "-1/2", "half"])
def test_a_share_is_part_of_a_whole(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        share(text)
