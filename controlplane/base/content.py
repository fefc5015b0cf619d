"""The hash of contents that the native parts use (interpose/base/hash.h): of names, texts and images of code."""

MASK = (1 << 64) - 1
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F
FEW_BYTES = 512  # up to there numbers of Python are quicker than arrays
PIECE_WORDS = 1 << 14  # of arrays that stay in the processor's cache


def content_hash(data: bytes | memoryview) -> int:
    """64 bits, never 0."""
    total = _sum(bytes(data)) if len(data) <= FEW_BYTES else _sum_of_many(data)
    return _mixed((total + len(data)) & MASK) or 1


def _mixed(word: int) -> int:
    word = (word ^ word >> 32) * FIRST & MASK
    word = (word ^ word >> 29) * SECOND & MASK
    return word ^ word >> 32


def _sum(data: bytes) -> int:
    words = enumerate(range(0, len(data), 8), start=1)
    return sum(_mixed((int.from_bytes(data[at : at + 8], "little") + place * STEP) & MASK) for place, at in words)


def _sum_of_many(data: bytes | memoryview) -> int:
    import numpy as np  # only here: what needs hashes of names only starts quickly

    whole = len(data) // 8
    words = np.frombuffer(data, "<u8", whole)
    if len(data) % 8:
        rest = bytes(data[8 * whole :]) + bytes(8 - len(data) % 8)
        words = np.append(words, np.frombuffer(rest, "<u8"))
    steps = np.arange(1, PIECE_WORDS + 1, dtype=np.uint64) * np.uint64(STEP)
    total = 0
    for begin in range(0, len(words), PIECE_WORDS):
        piece = words[begin : begin + PIECE_WORDS]
        mixed = piece + (steps[: len(piece)] + np.uint64(begin * STEP & MASK))
        for shift, factor in ((32, FIRST), (29, SECOND)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(32)
        total += int(mixed.sum())
    return total & MASK
