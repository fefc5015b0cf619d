"""Globs and regular expressions as the shim understands them: both are the C library's, asked here through ctypes."""

import ctypes
import re
from functools import cache

_LIBC = ctypes.CDLL(None)
_REGEX_BYTES = 256  # of a regex_t, which has 64 with the GNU library
_EXTENDED, _NO_POSITIONS = 1, 8
MOST_ITEMS = 2000  # of an expression with its repetitions unfolded, as the C library does when it compiles them
_ITEM = re.compile(r"\\.|\[\^?\]?(?:\[[:.=].*?[:.=]\]|[^\]])*\]|\{[0-9]*,?[0-9]*\}|.", re.DOTALL)


class PatternError(ValueError):
    """A regular expression that the C library refuses, or that could take for ever; the text says why."""


def glob_matches(glob: str, name: str) -> bool:
    """Whether fnmatch(3) finds that the whole name matches."""
    return bool(_LIBC.fnmatch(glob.encode(), name.encode(), 0) == 0)


def unclosed(glob: str) -> bool:
    """Whether a bracket in it is never closed: fnmatch(3) takes that for the character, which nobody means."""
    place = 0
    while place < len(glob):
        character, place = glob[place], place + 1
        if character == "\\":
            place += 1
        elif character == "[":
            first = place + (glob[place : place + 1] in ("!", "^"))
            end = glob.find("]", first + 1)  # one that stands first is a member
            if end < 0:
                return True
            place = end + 1
    return False


class Regex:
    """A compiled POSIX extended regular expression. Raises PatternError."""

    def __init__(self, pattern: str) -> None:
        _refuse_what_explodes(pattern)
        self._compiled = ctypes.create_string_buffer(_REGEX_BYTES)
        error = _LIBC.regcomp(self._compiled, pattern.encode(), _EXTENDED | _NO_POSITIONS)
        if error:
            text = ctypes.create_string_buffer(256)
            _LIBC.regerror(error, self._compiled, text, ctypes.c_size_t(len(text)))
            raise PatternError(text.value.decode())

    def finds(self, name: str) -> bool:
        """Whether the expression is found anywhere in the name."""
        return bool(_LIBC.regexec(self._compiled, name.encode(), ctypes.c_size_t(0), None, 0) == 0)


@cache
def regex(pattern: str) -> Regex:
    """The compiled expression, made once; its memory stays with the process."""
    return Regex(pattern)


def _refuse_what_explodes(pattern: str) -> None:
    if re.search(r"\\[1-9]", pattern):
        raise PatternError("back references are not allowed")
    items = unfolded(pattern)
    if items > MOST_ITEMS:
        raise PatternError(f"its repetitions unfold to {items} items, more than {MOST_ITEMS}")


def unfolded(pattern: str) -> int:
    """How many items an expression has once x{3} is xxx and x+ is xx*."""
    sums, last = [0], 0  # of each open group; of what a repetition would be of, which is in its group's sum
    for item in _ITEM.findall(pattern):
        times = _times(item)
        if times is not None:
            sums[-1] += last * (times - 1)
            last *= times
        elif item == "(":
            sums.append(1)
            last = 0
        else:
            last = sums.pop() if item == ")" and len(sums) > 1 else 1
            sums[-1] += last
    return sum(sums)


def _times(item: str) -> int | None:
    """How often a repetition has what it is of; None: it is none."""
    if item in ("*", "?"):
        return 1
    if item == "+":
        return 2
    bounds = [int(bound) for bound in item[1:-1].split(",") if bound] if item[0] == "{" and len(item) > 1 else []
    return max([1, *bounds]) + item.endswith(",}") if bounds else None
