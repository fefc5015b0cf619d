"""Random structured kernels: arithmetic, branches, predicates, loops with exits in the middle, and addresses of it all.

Every kernel ends: loops count to small numbers. Registers are written on several paths and in several iterations, so
that phis and values that loops change arise by themselves. Of each value a bound is kept; where an index would reach
too far, it is cut down.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
WORDS, PREDICATES = 10, 5  # registers that statements choose from
_NEAR = 1 << 22  # bytes of an index
_WORD = 1 << 32
_PARAMETERS = (("p", 8), ("q", 8), ("n", 4), ("m", 4), ("k", 4))
_BLOCKS = ((1, 1, 1), (5, 1, 1), (32, 1, 1), (33, 1, 1), (8, 4, 1), (3, 2, 2), (64, 1, 1))
_GRIDS = ((1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 2, 1))
_SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40)
_NUMBERS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 64, 100)


@dataclass(slots=True)
class _Writer:
    """`bounds`: how large each word may be, with either sign. `frozen`: words that a loop around only steps, or leaves
    alone. `last`: the word that was written last. `depth`: of statements around. `exits`: labels behind the loops
    around, and of their next iterations.
    """

    chance: random.Random
    lines: list[str] = field(default_factory=list)
    bounds: list[int] = field(default_factory=lambda: [_WORD] * WORDS)
    labels: int = 0
    loops: int = 0
    last: int = 0
    depth: int = 0
    left: int = 28
    exits: list[str] = field(default_factory=list)
    frozen: set[int] = field(default_factory=set)

    def add(self, text: str) -> None:
        self.lines.append(text)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def word(self) -> int:
        """Often what was made last: so that it counts."""
        return self.last if self.chance.random() < 0.4 else self.chance.randrange(WORDS)

    def near(self) -> int:
        """A word that comparisons with small numbers say something of, if there is one."""
        near = [number for number in range(WORDS) if self.bounds[number] < 1 << 12]
        return self.chance.choice(near) if near and self.chance.random() < 0.7 else self.word()

    def target(self, source: int = -1) -> int:
        """Often the word that it is made of."""
        if source >= 0 and source not in self.frozen and self.chance.random() < 0.4:
            return source
        return self.chance.choice([number for number in range(WORDS) if number not in self.frozen])

    def predicate(self) -> str:
        return f"%p{self.chance.randrange(PREDICATES)}"

    def guard(self) -> str:
        return f"@{self.chance.choice(('', '!'))}{self.predicate()} "

    def set(self, number: int, bound: int, guarded: bool = False) -> None:
        self.last = number
        bound = min(bound, _WORD)
        self.bounds[number] = max(self.bounds[number], bound) if guarded else bound


def _arithmetic(of: _Writer) -> None:
    chance, a, b = of.chance, of.word(), of.word()
    to = of.target(a)
    guard = of.guard() if chance.random() < 0.15 else ""
    number = chance.choice((1, 1, -1)) * chance.choice(_NUMBERS)
    small, shift = chance.choice((1, 2, 3, 4, 5, 7, 8, 12, 16, 32)), chance.randrange(6)
    x, y = of.bounds[a], of.bounds[b]
    sign = chance.choice("us")
    text, bound = chance.choice(
        (
            (f"add.s32 %r{to}, %r{a}, %r{b};", x + y),
            (f"add.s32 %r{to}, %r{a}, {number};", x + abs(number)),
            (f"add.s32 %r{to}, %r{a}, {number};", x + abs(number)),
            (f"sub.s32 %r{to}, %r{a}, %r{b};", x + y),
            (f"mul.lo.s32 %r{to}, %r{a}, {number};", x * abs(number)),
            (f"mul.lo.s32 %r{to}, %r{a}, %r{b};", x * y),
            (f"mad.lo.s32 %r{to}, %r{a}, {number}, %r{b};", x * abs(number) + y),
            (f"shl.b32 %r{to}, %r{a}, {shift};", x << shift),
            (f"and.b32 %r31, %r{b}, 3; shl.b32 %r{to}, %r{a}, %r31;", x << 3),
            (f"shr.{sign}32 %r{to}, %r{a}, {shift};", _WORD if sign == "u" else x),
            (f"and.b32 %r{to}, %r{a}, {chance.choice((1, 3, 7, 8, 15, 31, 28, 63, 992))};", 1 << 10),
            (f"or.b32 %r{to}, %r{a}, {small};", 2 * x + 32),
            (f"xor.b32 %r{to}, %r{a}, {small};", 2 * x + 32),
            (f"min.{sign}32 %r{to}, %r{a}, %r{b};", x + y),
            (f"max.{sign}32 %r{to}, %r{a}, %r{b};", x + y if sign == "s" else _WORD),
            (f"div.{sign}32 %r{to}, %r{a}, {small};", _WORD if sign == "u" else x),
            (f"rem.{sign}32 %r{to}, %r{a}, {small};", small),
            (f"or.b32 %r31, %r{b}, 1; rem.{sign}32 %r{to}, %r{a}, %r31;", _WORD if sign == "u" else x),
            (f"or.b32 %r31, %r{b}, 1; div.{sign}32 %r{to}, %r{a}, %r31;", _WORD if sign == "u" else x),
            (f"bfe.{sign}32 %r{to}, %r{a}, {shift}, {1 + shift};", 1 << (1 + shift)),
            (f"neg.s32 %r{to}, %r{a};", x),
            (f"abs.s32 %r{to}, %r{a};", x),
            (f"not.b32 %r{to}, %r{a};", x + 1),
            (f"selp.b32 %r{to}, %r{a}, %r{b}, {of.predicate()};", max(x, y)),
            (f"mov.b32 %r{to}, {number};", abs(number)),
            (f"mov.b32 %r{to}, %r{chance.choice((20, 21, 22, 23, 24, 25))};", 1 << 11),
        )
    )
    of.set(to, bound, bool(guard))
    first, _, last = text.rpartition("; ")
    of.add(f"{first};" if first else "")
    of.add(guard + last)


def _compare(of: _Writer) -> None:
    chance, name = of.chance, of.predicate()
    test = chance.choice(("lt", "le", "gt", "ge", "eq", "ne"))
    sign = chance.choice("us")
    other = chance.choice((f"%r{of.word()}", f"%r{chance.choice((22, 23, 24))}", str(chance.choice(_NUMBERS))))
    kind = "b" if test in ("eq", "ne") and chance.random() < 0.5 else sign
    of.add(f"setp.{test}.{kind}32 {name}, %r{of.near()}, {other};")
    if chance.random() < 0.25:
        of.add(f"{chance.choice(('and', 'or', 'xor'))}.pred {name}, {of.predicate()}, {of.predicate()};")
    if chance.random() < 0.1:
        of.add(f"not.pred {name}, {of.predicate()};")


def _choose(of: _Writer) -> None:
    """One word or another, near each other or not."""
    chance, a, b = of.chance, of.near(), of.near()
    to = of.target(a)
    bound = max(of.bounds[a], of.bounds[b])
    if chance.random() < 0.5:
        of.add(f"add.s32 %r31, %r{a}, {chance.choice((1, -1, 4, 8))}; selp.b32 %r{to}, %r31, %r{a}, {of.predicate()};")
        of.set(to, of.bounds[a] + 8)
    elif chance.random() < 0.5:
        of.add(f"selp.b32 %r{to}, %r{a}, %r{b}, {of.predicate()};")
        of.set(to, bound)
    else:
        of.add(f"{of.guard()}mov.b32 %r{to}, %r{a};")
        of.set(to, bound, guarded=True)


def _narrow(of: _Writer) -> None:
    """A word that few threads change by a choice that only they make, and an element that it names."""
    chance, word, other, end = of.chance, of.target(of.near()), of.label(), of.label()
    more = chance.choice((1, 1, -1, 8))
    test = chance.choice(("eq", "eq", "lt", "gt"))
    of.add(f"add.s32 %r31, %r{word}, {more}; setp.{test}.s32 %p9, %r{word}, {chance.choice(_NUMBERS)};")
    of.add(f"mov.b32 %r30, %r{word}; mov.b32 %r{word}, %r31; @!%p9 bra {other};")
    of.add(f"selp.b32 %r{word}, %r{word}, %r30, {of.predicate()}; bra {end};\n{other}:")
    if chance.random() < 0.3:
        of.add(f"add.s32 %r{word}, %r{word}, {chance.choice((1, 4, -2))};")
    of.add(f"mov.b32 %r29, 0;\n{end}:")
    of.set(word, of.bounds[word] + 16)
    _store(of)


def _load(of: _Writer) -> None:
    to = of.target()
    _address(of, "%rd2", 4)
    of.add(f"ld.global.u32 %r{to}, [%rd9];")
    of.set(to, _WORD)


def _store(of: _Writer) -> None:
    size = of.chance.choice((1, 1, 4, 4, 8))
    _address(of, "%rd1", size)
    guard = of.guard() if of.chance.random() < 0.3 else ""
    value = "%rd1" if size == 8 else "%r20"
    of.add(f"{guard}st.global.u{8 * size} [%rd9+{size * of.chance.randrange(4)}], {value};")


def _guarded_store(of: _Writer) -> None:
    """Of whatever index, if it is near."""
    index, most, size = of.word(), of.chance.choice((8, 40, 100, 1000)), of.chance.choice((1, 4))
    if of.chance.random() < 0.5:
        of.add(f"setp.lt.u32 %p9, %r{index}, {most};")
    else:
        of.add(f"setp.lt.s32 %p9, %r{index}, {most}; setp.gt.s32 %p8, %r{index}, -{most}; and.pred %p9, %p8, %p9;")
    _address(of, "%rd1", size, index)
    of.add(f"@%p9 st.global.u{8 * size} [%rd9], %r20;")


def _address(of: _Writer, base: str, size: int, near: int = -1) -> None:
    """%rd9 becomes the address of an element. `near`: of this one, which does not reach far."""
    index = near if near >= 0 else of.word()
    of.add(f"mov.b32 %r30, %r{index};")
    if near < 0 and of.bounds[index] * size > _NEAR:
        of.add(
            of.chance.choice(("and.b32 %r30, %r30, 0xffff;", "rem.s32 %r30, %r30, 1000;", "shr.u32 %r30, %r30, 20;"))
        )
    of.add(
        of.chance.choice(
            (
                f"mul.wide.s32 %rd8, %r30, {size}; add.s64 %rd9, {base}, %rd8;",
                f"cvt.s64.s32 %rd8, %r30; mad.lo.s64 %rd9, %rd8, {size}, {base};",
                f"cvt.s64.s32 %rd8, %r30; shl.b64 %rd8, %rd8, {size.bit_length() - 1}; add.s64 %rd9, {base}, %rd8;",
            )
        )
    )


def _branch(of: _Writer) -> None:
    other, end = of.label(), of.label()
    _compare(of)
    of.add(f"{of.guard()}bra {other};")
    before = list(of.bounds)
    _block(of)
    after, of.bounds = of.bounds, before
    if of.chance.random() < 0.6:
        of.add(f"bra {end};\n{other}:")
        _block(of)
        of.add(f"{end}:")
    else:
        of.add(f"{other}:")
    of.bounds = [max(pair) for pair in zip(of.bounds, after, strict=True)]


def _loop(of: _Writer) -> None:
    """It counts in a register of its own, and other registers go on with it."""
    chance, counter = of.chance, 40 + of.loops
    of.loops += 1
    head, following, end = of.label(), of.label(), of.label()
    limit = chance.choice(("%r26", "%r27", str(chance.choice((1, 2, 3, 5)))))
    step = chance.choice((1, 1, 2))
    free = chance.sample([number for number in range(WORDS) if number not in of.frozen], 2)
    frozen = {number for number in range(WORDS) if number not in free and chance.random() < 0.7} - of.frozen
    steps = {number: chance.choice((1, 1, 4, 16, -1, -3, 32)) for number in sorted(frozen) if chance.random() < 0.5}
    of.add(f"mov.u32 %r{counter}, 0;")
    of.frozen |= frozen
    # What the body writes may come to much, in a few iterations.
    of.bounds = [
        bound + 8 * 32 * (number in steps) if number in of.frozen else _WORD for number, bound in enumerate(of.bounds)
    ]
    if chance.random() < 0.5:
        of.add(f"setp.ge.s32 %p9, 0, {limit}; @%p9 bra {end};")
    goes_on = _odd(of) if chance.random() < 0.3 else ""
    of.add(f"{head}:")
    of.exits += [end, following]
    _block(of)
    del of.exits[-2:]
    of.add(f"{following}:")
    of.lines += [f"add.s32 %r{number}, %r{number}, {by};" for number, by in steps.items()]
    if chance.random() < 0.3:
        of.add(f"mov.b32 %r{of.target()}, %r{counter};")
    of.add(f"add.s32 %r{counter}, %r{counter}, {step};")
    if goes_on:
        of.add(f"{goes_on} @!%p9 bra {end};")
    of.add(f"setp.lt.s32 %p9, %r{counter}, {limit}; @%p9 bra {head};\n{end}:")
    of.frozen -= frozen
    of.bounds = [bound if number in of.frozen | frozen else _WORD for number, bound in enumerate(of.bounds)]


def _odd(of: _Writer) -> str:
    """Another counter, which may come round; says when the loop goes on, and counts."""
    chance, counter = of.chance, 40 + of.loops
    of.loops += 1
    start = chance.choice(("%r22", "%r23", "%r20", "0x7ffffffd", "-3", "0x80000000", "2", "12"))
    step = chance.choice((1, 1, -1, -1, 3, -3, 4, 0x10000000, 0x40000000, 0x7FFFFFFF))
    test = f"{chance.choice(('lt', 'le', 'gt', 'ge', 'ne'))}.{chance.choice('us')}32"
    limit = chance.choice(("%r22", "%r23", "%r24", "%r20", "0", "8", "16", "0x7fffffff", "-1"))
    word = of.target()
    of.add(f"mov.b32 %r{counter}, {start};")
    seen = f"mov.b32 %r{word}, %r{counter};"
    count = f"add.s32 %r{counter}, %r{counter}, {step};"
    order = [seen, count] if chance.random() < 0.5 else [count, seen]
    return f"{' '.join(order)} setp.{test.replace('ne.s', 'ne.u')} %p9, %r{counter}, {limit};"


def _leave(of: _Writer) -> None:
    if of.exits:
        _compare(of)
        of.add(f"{of.guard()}bra {of.chance.choice(of.exits[-2:])};")


def _quit(of: _Writer) -> None:
    _compare(of)
    of.add(f"{of.guard()}exit;")


_STATEMENTS: tuple[tuple[Callable[[_Writer], None], int], ...] = (
    (_arithmetic, 12),
    (_compare, 4),
    (_choose, 3),
    (_narrow, 2),
    (_store, 4),
    (_guarded_store, 3),
    (_load, 1),
    (_branch, 4),
    (_loop, 2),
    (_leave, 1),
)


def _block(of: _Writer) -> None:
    of.depth += 1
    makers, weights = zip(*_STATEMENTS, strict=True)
    for _ in range(of.chance.randrange(1, 6)):
        of.left -= 1
        (make,) = of.chance.choices(makers, weights)
        deep = make in (_branch, _loop) and (of.depth > 3 or of.left < 0)
        (_arithmetic if deep else make)(of)
    of.depth -= 1


def kernel(name: str, chance: random.Random) -> str:
    """A kernel's PTX."""
    of = _Writer(chance)
    for number in range(WORDS):
        source = chance.choice((20, 20, 21, 22, 23, 24, 25, 26))
        factor, more = chance.choice((1, 1, 1, -1, 4, -3)), chance.choice((0, 0, 0, -20, -64, 100))
        of.add(f"mov.b32 %r31, {more}; mad.lo.s32 %r{number}, %r{source}, {factor}, %r31;")
        of.bounds[number] = 1 << 11
    for number in range(PREDICATES):
        of.add(f"setp.{chance.choice(('lt', 'ge', 'eq'))}.s32 %p{number}, %r{of.word()}, {chance.choice(_NUMBERS)};")
    for _ in range(chance.randrange(1, 5)):
        _block(of)
        if chance.random() < 0.1:
            _quit(of)
    _store(of)
    parameters = ", ".join(f".param .u{8 * size} {each}" for each, size in _PARAMETERS)
    body = "\n".join(line for line in of.lines if line)
    return f"""
.visible .entry {name}({parameters})
{{
.reg .pred %p<10>; .reg .b32 %r<{40 + of.loops + 1}>; .reg .b64 %rd<10>;
ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];
ld.param.u32 %r22, [n]; ld.param.u32 %r23, [m]; ld.param.u32 %r24, [k];
mov.u32 %r20, %tid.x; mov.u32 %r21, %ctaid.x; mov.u32 %r25, %tid.y;
and.b32 %r26, %r22, 7; and.b32 %r27, %r23, 3;
{body}
ret;
}}
"""


def text(kernels: int, chance: random.Random) -> str:
    """A module with kernels k0, k1, ..."""
    return HEAD + "".join(kernel(f"k{number}", chance) for number in range(kernels))


def jobs(file: Path, kernels: int, each: int, chance: random.Random) -> Iterator[str]:
    """Launches of a module's kernels, for tests/instruments/launcher.py."""
    for number in range(kernels):
        for _ in range(each):
            sizes = [chance.choice(_SIZES) * (-1 if chance.random() < 0.05 else 1) for _ in range(3)]
            values = struct.pack("<QQiii", 0, 0, *sizes)
            shape = {"grid": chance.choice(_GRIDS), "block": chance.choice(_BLOCKS), "shared": 0}
            named = {"text": str(file), "function": f"k{number}"}
            yield json.dumps({**named, **shape, "pointers": {"0": 0, "8": 1}, "values": values.hex()})
