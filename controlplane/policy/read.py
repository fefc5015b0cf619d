"""Reading a policy file. Every mistake is a ConfigError with file, line, key and what was expected; all are told."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from controlplane.base.yamlfile import Value, read_whole, take
from controlplane.policy import schema
from controlplane.policy.explain import with_usual_memory
from controlplane.policy.language import (
    AUTO,
    COPIES,
    EXECUTORS,
    FOLLOW,
    GIVEN,
    GPUS,
    MOST,
    MOVE_AFTER,
    PATTERN_BYTES,
    RESERVE,
    RULES,
    Executor,
    Interval,
    Log,
    Match,
    Nth,
    Order,
    Policy,
    Rule,
    Share,
    Signature,
)
from controlplane.policy.library_calls import library_calls
from controlplane.policy.pattern import PatternError, glob_matches, regex, unclosed
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

T = TypeVar("T")
UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9}
CONSENTS = frozenset(each.value for each in Consent)
COMPARISON = re.compile(r"(<=|>=|==|<|>)?\s*([0-9]+)")
RANGE = re.compile(r"([0-9]+)\s*\.\.\s*([0-9]+)")


def read_policy(file: Path) -> Policy:
    """Reads a policy file. Raises ConfigError."""
    before = signature(file)
    return replace(read_whole(file, policy_of), signature=before)


def signature(file: Path) -> Signature | None:
    """The state that the file is in; None: there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def policy_of(root: Value) -> Policy:
    """The policy that a YAML document describes. Raises ConfigError."""
    entries = root.mapping(schema.TOP)
    for key in ("version", "devices"):
        if key not in entries:
            raise root.error(f"{key!r} is missing", "version: 1 and devices: {home: 0, executors: [1]}")
    take(entries, "version", _version, None)
    before = root.count()
    nothing: tuple[int, tuple[Executor, ...]] = 0, ()
    home, executors = take(entries, "devices", _devices, nothing)
    are_known = root.count() == before
    gpus = (home, *(executor.device for executor in executors)) if are_known else tuple(range(GPUS))
    no_rules: tuple[Rule, ...] = ()
    rules = take(entries, "rules", lambda value: _rules(value, gpus), no_rules)
    default = take(entries, "default", lambda value: _device(value, gpus), home)
    unverified: tuple[int, int | None] = 0, None
    verify, verify_limit = take(entries, "verify", _verify, unverified)
    log = take(entries, "log", lambda value: Log(value.choice(frozenset(log.value for log in Log))), Log.OFF)
    usual = (FOLLOW, MOVE_AFTER), PoolAsked()
    memory, pool = take(entries, "memory", lambda value: (_memory(value, gpus), _pool(value)), usual)
    consent = take(entries, "disassemble", lambda value: Consent(value.choice(CONSENTS)), Consent.OPEN)
    policy = Policy(
        root.file,
        home,
        executors,
        rules,
        default,
        verify,
        log,
        verify_limit,
        *memory,
        disassemble=consent,
        use_observed=take(entries, "analysis", _uses_observed, otherwise=False),
        devices_line=entries["devices"].line,
        says_order="order" in entries,
        pool=pool.wanted,
        reserve_bytes=pool.reserve_bytes,
        host_bytes=pool.host_bytes,
        limit_bytes=pool.limit_bytes,
    )
    if root.count():  # what keys say together, only of a policy whose keys are right
        take(entries, "order", _order, None)
        return policy
    policy = policy if "memory" in entries else with_usual_memory(replace(policy, says_memory=False))
    if "schedule" in entries:
        return _scheduled(policy, entries)
    return in_order(policy, _order(entries["order"]), entries["order"].line) if "order" in entries else policy


def _version(value: Value) -> None:
    if value.text() != "1":
        raise value.error(f"version {value.text()} is not known", "version: 1")


def scheduled(home: int, others: Sequence[int]) -> Policy:
    """Without a file: launches are placed one by one on these GPUs."""
    executors = tuple(Executor(gpu) for gpu in others)
    return Policy(Path(), home, executors, (), AUTO, memory_place=COPIES, order=Order.DATA)


def _scheduled(policy: Policy, entries: Mapping[str, Value]) -> Policy:
    schedule = entries["schedule"]
    schedule.choice(frozenset(("auto",)))
    if "default" in entries:
        raise entries["default"].error("launches that no rule matches are placed one by one", "no default")
    if "order" in entries and _order(entries["order"]) is Order.STREAM:
        raise entries["order"].error("launches that are placed one by one wait where data flows", "order: data")
    return in_order(replace(policy, default=AUTO, says_order=True), Order.DATA, schedule.line)


def in_order(policy: Policy, order: Order, line: int | None = None) -> Policy:
    """The same with another order; data order has copies of memory if the policy does not say where that lies.

    line: that says so. Raises ConfigError if it says another place.
    """
    if order is Order.DATA and policy.says_memory and policy.memory_place != COPIES:
        raise ConfigError(
            "GPUs that share one copy of memory keep stream order",
            expected="memory: {place: copies}",
            file=policy.file,
            line=line,
        )
    if order is Order.STREAM and policy.default == AUTO:
        raise ConfigError(
            "launches that are placed one by one wait where data flows",
            expected="order: data",
            file=policy.file if policy.signature else None,
            line=line,
        )
    return with_usual_memory(replace(policy, order=order))


def _order(value: Value) -> Order:
    return Order(value.choice(frozenset(order.value for order in Order)))


def _uses_observed(value: Value) -> bool:
    entries = value.mapping(schema.ANALYSIS)
    return "observed" in entries and entries["observed"].choice(frozenset(schema.OBSERVED)) == schema.USE


def _memory(value: Value, gpus: tuple[int, ...]) -> tuple[int, int]:
    """Where it lies, and when it moves."""
    entries = value.mapping(schema.MEMORY)
    if "place" not in entries and _is_pool(entries):
        return COPIES, MOVE_AFTER
    if "place" not in entries:
        raise value.error("'place' is missing", "memory: {place: follow}, {place: home} or {place: 1}")
    place = entries["place"]
    if place.text() == "follow":
        after = entries["move_after"].integer(0, 2**24) if "move_after" in entries else MOVE_AFTER
        return FOLLOW, after
    if "move_after" in entries:
        raise entries["move_after"].error("only memory that follows its use moves", "place: follow")
    if place.text() == "copies":
        return COPIES, MOVE_AFTER
    return _place(place, gpus, ("copies", "follow", "home"), "for memory"), MOVE_AFTER


def _is_pool(entries: Mapping[str, Value]) -> bool:
    return "pool" in entries and entries["pool"].flag()


@dataclass(frozen=True, slots=True)
class PoolAsked:
    """What a policy says of a pool, as Policy has it."""

    wanted: bool = False
    reserve_bytes: int = RESERVE
    host_bytes: int = 0
    limit_bytes: int = 0


def _pool(value: Value) -> PoolAsked:
    entries = value.mapping(schema.MEMORY)
    pool = _is_pool(entries)
    if pool and "place" in entries and entries["place"].text() != "copies":
        raise entries["place"].error("in a pool GPUs have copies of what others own", "place: copies")
    for key, why in (
        ("reserve", "only a pool leaves memory to copies"),
        ("host", "only a pool has host memory besides"),
        ("limit", "only a pool counts what it has of a GPU"),
    ):
        if key in entries and not pool:
            raise entries[key].error(why, "pool: true")
    return PoolAsked(
        pool,
        _size(entries["reserve"]) if "reserve" in entries else RESERVE,
        _size(entries["host"]) if "host" in entries else 0,
        _size(entries["limit"]) if "limit" in entries else 0,
    )


def pooled(policy: Policy, reserve_bytes: int | None, host_bytes: int | None = None) -> Policy:
    """The same with a pool. reserve_bytes, host_bytes: None: what the policy says. Raises ConfigError."""
    if policy.says_memory and policy.memory_place != COPIES:
        raise ConfigError("in a pool GPUs have copies of what others own", expected="memory: {place: copies}")
    reserve = policy.reserve_bytes if reserve_bytes is None else reserve_bytes
    host = policy.host_bytes if host_bytes is None else host_bytes
    pool = replace(policy, pool=True, reserve_bytes=reserve, host_bytes=host)
    return replace(pool, memory_place=COPIES, why_no_copies="", says_memory=True)


def _verify(value: Value) -> tuple[int, int | None]:
    if value.is_text():
        return value.integer(0, 2**32 - 1), None
    entries = value.mapping(schema.VERIFY)
    if "every" not in entries:
        raise value.error("'every' is missing", "verify: a number, or {every: 100, memory_limit: 8GiB}")
    limit = _size(entries["memory_limit"]) if "memory_limit" in entries else None
    return entries["every"].integer(0, 2**32 - 1), limit


def _devices(value: Value) -> tuple[int, tuple[Executor, ...]]:
    entries = value.mapping(schema.DEVICES)
    home = entries["home"].integer(0, GPUS - 1) if "home" in entries else 0
    if "executors" not in entries:
        raise value.error("'executors' is missing", "executors: a list of GPU numbers")
    seen: list[Executor] = []
    for item in entries["executors"].sequence():
        executor = item.attempt(_executor, None)
        if executor is None:
            continue
        if executor.device in (home, *(other.device for other in seen)):
            raise item.error(f"GPU {executor.device} is named before", "each GPU once, and not the home GPU")
        seen.append(executor)
    if len(seen) > EXECUTORS:
        raise entries["executors"].error(f"{len(seen)} executors are too many", f"at most {EXECUTORS}")
    return home, tuple(seen)


def _executor(value: Value) -> Executor:
    if value.is_text():
        return Executor(value.integer(0, GPUS - 1))
    entries = value.mapping(schema.EXECUTOR)
    if "gpu" not in entries:
        raise value.error("the executor does not say which GPU it uses", "gpu: a GPU number")
    sm_limit = take(entries, "sm_limit", lambda each: each.integer(1, 4096), None)
    memory_limit = take(entries, "memory_limit", _size, None)
    return Executor(entries["gpu"].integer(0, GPUS - 1), sm_limit, memory_limit)


def amount_of(text: str) -> int | None:
    """Bytes, from 20GiB, 512MiB or a number; None: it is none of these."""
    found = re.fullmatch(r"([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*([A-Za-z]*)", text)
    size = int(float(found[1]) * UNITS[found[2]]) if found and found[2] in UNITS else 0
    return size if 0 < size < 2**63 else None


def _size(value: Value) -> int:
    size = amount_of(value.text())
    if size is None:
        raise value.error(
            f"{value.text()!r} is not an amount of memory", "for example 20GiB, 512MiB or a number of bytes"
        )
    return size


def _rules(value: Value, gpus: tuple[int, ...]) -> tuple[Rule, ...]:
    rules = list(value.sequence())
    if len(rules) > RULES:
        raise value.error(f"{len(rules)} rules are too many", f"at most {RULES}")
    read = (each.attempt(lambda value: _rule(value, gpus), None) for each in rules)
    return tuple(each for each in read if each is not None)


def _rule(value: Value, gpus: tuple[int, ...]) -> Rule:
    entries = value.mapping(schema.RULE)
    for key in ("match", "device"):
        if key not in entries:
            raise value.error(
                f"the rule has no {key!r}", 'match: {function: "glob"} and device: a GPU, home, by_stream or by_thread'
            )
    match = take(entries, "match", _match, Match())
    return Rule(match, take(entries, "device", lambda each: _device(each, gpus), gpus[0]), value.line)


def _match(value: Value) -> Match:
    entries = value.mapping(schema.MATCH)
    if not entries:
        raise value.error("nothing to match", 'at least one condition; function: "*" matches every launch')

    def at(key: str, reader: Callable[[Value], T]) -> T | None:
        return take(entries, key, reader, None)

    grid = at("grid", _grid) or {}
    return Match(
        function=at("function", _glob),
        function_regex=at("function_regex", _regex),
        module=at("module", _glob),
        process=at("process", _glob),
        library_call=at("library_call", _library_call),
        blocks=grid.get("blocks"),
        threads=grid.get("threads"),
        block_threads=grid.get("block_threads"),
        stream=at("stream", _stream),
        nth=at("nth", _nth),
        share=at("share", _share),
    )


def _pattern(value: Value) -> str:
    text = value.text()
    if not 0 < len(text.encode()) <= PATTERN_BYTES:
        raise value.error("the pattern does not fit", f"1 to {PATTERN_BYTES} bytes")
    return text


def _glob(value: Value) -> str:
    glob = _pattern(value)
    if unclosed(glob):
        raise value.error(
            f"the bracket in {glob!r} is never closed", "a glob such as vector_[ab]*, or \\[ for a bracket"
        )
    return glob


def _regex(value: Value) -> str:
    text = _pattern(value)
    try:
        regex(text)
    except PatternError as error:
        raise value.error(f"{text!r}: {error}", "a POSIX extended regular expression") from error
    return text


def _library_call(value: Value) -> str:
    glob = _glob(value)
    if not any(glob_matches(glob, call) for call in library_calls()):
        expected = "a glob over the entry points that can be told apart, such as cublasGemmEx or cudnn*"
        raise value.error(f"no library call is {glob!r}{_meant(glob, library_calls())}", expected)
    return glob


def _grid(value: Value) -> dict[str, Interval]:
    entries = value.mapping(schema.GRID)
    if not entries:
        raise value.error("nothing to compare", 'for example blocks: ">= 128"')
    return {key: _interval(entry) for key, entry in entries.items()}


def _interval(value: Value) -> Interval:
    expected = 'a whole number, a comparison such as ">= 128", or a range such as "128..1024"'
    text = value.text().strip()
    if found := RANGE.fullmatch(text):
        result = Interval(int(found[1]), int(found[2]))
    elif found := COMPARISON.fullmatch(text):
        result = _compared(found[1] or "==", int(found[2]))
    else:
        raise value.error(f"{text!r} is not a comparison", expected)
    if not 0 <= result.low <= result.high <= MOST:
        raise value.error(f"no number is {text!r}", expected)
    return result


def _compared(operator: str, number: int) -> Interval:
    low = {">": number + 1, ">=": number, "==": number}.get(operator, 0)
    high = {"<": number - 1, "<=": number, "==": number}.get(operator, MOST)
    return Interval(low, high)


def _stream(value: Value) -> int:
    if value.text() == "default":
        return 0
    if not re.fullmatch("[1-9][0-9]{0,8}", value.text()):
        raise value.error(
            f"{value.text()!r} is not a stream",
            "default, or a number in the order in which the program makes streams, from 1",
        )
    return int(value.text())


def _nth(value: Value) -> Nth:
    if value.is_text():
        return Nth(0, value.integer(1, 2**63))
    entries = value.mapping(schema.NTH)
    if "every" not in entries:
        raise value.error("'every' is missing", "a launch's number, or {every: 2, offset: 1}")
    every = entries["every"].integer(1, 2**63)
    offset = entries["offset"].integer(0, 2**63) if "offset" in entries else 0
    if offset >= every:
        raise entries["offset"].error(f"no launch has {offset} left over {every}", f"a number from 0 to {every - 1}")
    return Nth(every, offset)


def _share(value: Value) -> Share:
    if value.is_text():
        return Share(value.number(0, 1))
    entries = value.mapping(schema.SHARE)
    if "fraction" not in entries:
        raise value.error("'fraction' is missing", "a number from 0 to 1, or {fraction: 0.5, seed: 1}")
    seed = entries["seed"].integer(0, 2**63) if "seed" in entries else 0
    return Share(entries["fraction"].number(0, 1), seed)


def _device(value: Value, gpus: tuple[int, ...]) -> int:
    return GIVEN[value.text()] if value.text() in GIVEN else _place(value, gpus, ("home", *GIVEN), "to run")


def _place(value: Value, gpus: tuple[int, ...], others: tuple[str, ...], use: str) -> int:
    text = value.text()
    if text == "home":
        return gpus[0]
    if not (text.isascii() and text.isdigit()) or int(text) not in gpus:
        expected = f"{', '.join(others)}, or a GPU of this policy: {', '.join(map(str, gpus))}"
        raise value.error(f"{text!r} is not a place {use}{_meant(text, others)}", expected)
    return int(text)


def _meant(text: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(text, known, 1)
    return f", did you mean {nearest[0]!r}?" if nearest else ""
