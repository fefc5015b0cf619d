"""Policies: where launches run. The file the user writes, and the decision table (tessera/policy.h) the shim reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane import records
from controlplane.yamlfile import Value, read

GPUS = 16
RULES = 256
FUNCTION_BYTES = 247  # of a glob: the field's size less its NUL


@dataclass(frozen=True, slots=True)
class Rule:
    """Launches of functions whose name matches the glob run on GPU `device`; `line` is where the file says so."""

    function: str
    device: int
    line: int


@dataclass(frozen=True, slots=True)
class Policy:
    """`home` is the GPU the application uses, `executors` the others; the first matching rule or `default` decides."""

    file: Path
    home: int
    executors: tuple[int, ...]
    rules: tuple[Rule, ...]
    default: int


def read_policy(file: Path) -> Policy:
    """Reads a policy file. Raises ConfigError naming file, line and what was expected."""
    root = read(file)
    entries = root.mapping(frozenset({"version", "devices", "rules", "default"}))
    for key in ("version", "devices"):
        if key not in entries:
            raise root.error(f"{key!r} is missing", "version: 1 and devices: {home: 0, executors: [1]}")
    if entries["version"].text() != "1":
        raise entries["version"].error(f"version {entries['version'].text()} is not known", "version: 1")
    home, executors = _devices(entries["devices"])
    rules = tuple(_rule(value, home, executors) for value in entries["rules"].sequence()) if "rules" in entries else ()
    if len(rules) > RULES:
        raise entries["rules"].error(f"{len(rules)} rules are too many", f"at most {RULES}")
    default = _place(entries["default"], home, executors) if "default" in entries else home
    return Policy(file, home, executors, rules, default)


def _devices(value: Value) -> tuple[int, tuple[int, ...]]:
    entries = value.mapping(frozenset({"home", "executors"}))
    home = entries["home"].integer(0, GPUS - 1) if "home" in entries else 0
    if "executors" not in entries:
        raise value.error("'executors' is missing", "executors: a list of GPU numbers")
    seen: list[int] = []
    for item in entries["executors"].sequence():
        number = item.integer(0, GPUS - 1)
        if number == home or number in seen:
            raise item.error(f"GPU {number} is named before", "each GPU once, and not the home GPU")
        seen.append(number)
    return home, tuple(seen)


def _rule(value: Value, home: int, executors: tuple[int, ...]) -> Rule:
    entries = value.mapping(frozenset({"match", "device"}))
    for key in ("match", "device"):
        if key not in entries:
            raise value.error(f"the rule has no {key!r}", 'match: {function: "glob"} and device: a GPU or home')
    match = entries["match"].mapping(frozenset({"function"}))
    if "function" not in match:
        raise entries["match"].error("nothing to match", 'function: "glob"')
    glob = match["function"].text()
    if not 0 < len(glob.encode()) <= FUNCTION_BYTES:
        raise match["function"].error("the glob does not fit", f"1 to {FUNCTION_BYTES} bytes")
    return Rule(glob, _place(entries["device"], home, executors), value.node.start_mark.line + 1)


def _place(value: Value, home: int, executors: tuple[int, ...]) -> int:
    expected = f"home, or a GPU of this policy: {', '.join(map(str, (home, *executors)))}"
    if value.text() == "home":
        return home
    if not value.text().isdigit() or int(value.text()) not in (home, *executors):
        raise value.error(f"{value.text()!r} is not a place to run", expected)
    return int(value.text())


def compile_table(policy: Policy, sockets: tuple[str, ...]) -> bytes:
    """The decision table; sockets are the executors' names, in the policy's order."""
    ffi, text = records.header("policy.h")
    table: Any = ffi.new("struct tsr_policy *")
    table.magic = records.constant(text, "TSR_POLICY_MAGIC", "policy.h")
    table.version = records.constant(text, "TSR_POLICY_VERSION", "policy.h")
    table.bytes = ffi.sizeof(table[0])
    table.home = policy.home
    table.default_device = policy.default
    table.executor_count = len(policy.executors)
    for place, (device, socket) in enumerate(zip(policy.executors, sockets, strict=True)):
        table.executors[place].device = device
        table.executors[place].socket = socket.encode()
    table.rule_count = len(policy.rules)
    for place, rule in enumerate(policy.rules):
        table.rules[place].function = rule.function.encode()
        table.rules[place].device = rule.device
        table.rules[place].line = rule.line
    return bytes(ffi.buffer(table))


@dataclass(frozen=True, slots=True)
class Launches:
    """What the shim counted: launches by GPU, those of the policy and others that the program used itself; and how many
    stayed home although a rule sent them elsewhere."""

    by_device: dict[int, int]
    kept_home: int


def read_launches(policy: Policy, table: bytes) -> Launches:
    """The live counters of a decision table."""
    ffi, _ = records.header("policy.h")
    record: Any = ffi.from_buffer("struct tsr_policy *", table)
    named = (policy.home, *policy.executors)
    by_device = {gpu: int(record.launches[gpu]) for gpu in range(GPUS) if gpu in named or record.launches[gpu]}
    return Launches(by_device, int(record.kept_home))
