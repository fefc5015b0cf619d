"""Hashes of contents: the same as tests/unit/hash_test.c expects of the native one."""

from controlplane.base.content import FEW_BYTES, content_hash

PATTERN = bytes(i * 7 % 256 for i in range(1000))


def test_answers_are_those_of_the_native_parts() -> None:
    assert content_hash(b"") == 1
    assert content_hash(b"a") == 0x652BD6E0DEC984F4
    assert content_hash(PATTERN) == 0x99B441864E57C5A6
    assert content_hash(PATTERN[1:512]) == 0x33459AE8FC5399AF


def test_arrays_and_numbers_agree_on_every_length() -> None:
    from controlplane.base.content import MASK, _mixed, _sum

    for length in (FEW_BYTES + 1, FEW_BYTES + 8, 131072 * 2 + 5):
        data = (PATTERN * (length // len(PATTERN) + 1))[:length]
        assert content_hash(data) == (_mixed((_sum(data) + len(data)) & MASK) or 1)
