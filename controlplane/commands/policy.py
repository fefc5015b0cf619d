"""`tessera policy check`: what a policy does, in plain words. `tessera policy schema`: the language as JSON Schema."""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from controlplane.machine import SPEC, emulate, gpus
from controlplane.machine.parts import parts_of, repeated
from controlplane.machine.visible import unhidden
from controlplane.policy.explain import (
    Finding,
    Gpu,
    Severity,
    explain_consent,
    explain_default,
    explain_memory,
    explain_rule,
    findings,
    with_usual_memory,
)
from controlplane.policy.language import AUTO, COPIES, FOLLOW, GIVEN, Order, Policy
from controlplane.policy.read import read_policy
from controlplane.policy.schema import SCHEMA
from controlplane.run import shim
from controlplane.run.unchecked import absent_packages
from ptxtools.errors import WireError
from ptxtools.machine.consent import Consent

if TYPE_CHECKING:
    from controlplane.policy.trial import Trial


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    check = actions.add_parser("check", help="explain what each rule does and what is wrong", allow_abbrev=False)
    check.add_argument("file", metavar="FILE", type=Path)
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.add_argument("--emulate", metavar="SPEC", help=f"check against an emulated machine: {SPEC}")
    check.add_argument("--trace", metavar="TRACE", type=Path, help="say how many launches of a trace each rule takes")
    actions.add_parser("schema", help="print the language as JSON Schema", allow_abbrev=False)


def run(options: argparse.Namespace) -> int:
    if options.action == "schema":
        print(json.dumps(SCHEMA, indent=2))
        return 0
    there = _gpus(options.emulate)
    policy = with_usual_memory(read_policy(options.file), _against_copies(options.emulate, there))
    found = findings(policy, there)
    trial = _trial(policy, options.trace) if options.trace is not None else None
    print(_json(policy, found, trial) if options.json else _text(policy, found, there, trial))
    return 1 if any(finding.severity is Severity.ERROR for finding in found) else 0


def _against_copies(spec: str | None, there: Sequence[Gpu] | None) -> str:
    return "; ".join(absent_packages()) if spec is None and there is not None else ""


def _gpus(spec: str | None) -> list[Gpu] | None:
    """Those of an emulated machine, or of this one; None: no driver tells. Raises ConfigError."""
    if spec is not None:
        machine = emulate.parse(spec)
        parts = parts_of(os.environ)
        cards = (Gpu(gpu.name, gpu.fields["sm_count"], gpu.fields["memory_bytes"] // parts) for gpu in machine.devices)
        return list(repeated(cards, parts))
    try:
        driver = shim.system_driver()
    except WireError:
        return None
    answer = gpus.ask(driver, unhidden(os.environ), links=False)
    return None if answer.error else [Gpu(gpu.name, gpu.sm_count, gpu.memory_bytes) for gpu in answer.gpus]


def _trial(policy: Policy, file: Path) -> "Trial":
    from controlplane.policy.trial import try_on  # numpy and all that uses it: only here

    return try_on(policy, file)


def _text(policy: Policy, found: Sequence[Finding], there: Sequence[Gpu] | None, trial: "Trial | None") -> str:
    lines = [f"home: GPU {policy.home}"]
    for executor in policy.executors:
        limits = [f"{executor.sm_limit} SMs"] if executor.sm_limit else []
        limits += [f"{executor.memory_limit_bytes} bytes of memory"] if executor.memory_limit_bytes else []
        lines.append(f"executor: GPU {executor.device}{', at most ' + ' and '.join(limits) if limits else ''}")
    for rule in policy.rules:
        lines.append(f"line {rule.line}: {explain_rule(policy, rule)}")
        lines += [_taken(trial, rule.line, trial.by_line[rule.line])] if trial else []
    lines.append(f"default: {explain_default(policy)}")
    lines += [_taken(trial, None, trial.default)] if trial else []
    lines.append(f"memory: {explain_memory(policy)}")
    if policy.order is Order.DATA:
        lines.append("order: launches of a stream that run on different GPUs wait only where data flows between them")
    if trial:
        lines += [f"not decided: {_launches(trial.elsewhere)} on other GPUs"] if trial.elsewhere else []
    if policy.verify:
        which = "every launch that runs" if policy.verify == 1 else f"one in {policy.verify} launches that run"
        lines.append(f"verify: {which} elsewhere is run at home too and compared")
    if policy.disassemble is not Consent.OPEN:
        lines.append(f"machine code: {explain_consent(policy)}")
    if policy.use_observed:
        lines.append("analysis: what was observed of a launch counts as known of it, although it proves nothing")
    if there is None:
        lines.append("devices: not checked, this machine has no GPU (try --emulate)")
    lines += [f"{policy.file}:{finding.line}: {finding.severity.value}: {finding.text}" for finding in found]
    return "\n".join(lines)


def _taken(trial: "Trial", line: int | None, launches: int) -> str:
    counts = ", ".join(f"GPU {gpu}: {count}" for gpu, count in trial.given.get(line, {}).items())
    return f"  takes {_launches(launches)} of the trace{f' ({counts})' if counts else ''}"


def _launches(count: int) -> str:
    return f"{count} launch{'' if count == 1 else 'es'}"


def _device(device: int) -> int | str:
    return next((name for name, value in {**GIVEN, "auto": AUTO}.items() if value == device), device)


class RuleJson(TypedDict):
    """A rule. device: a number, or by_stream, by_thread; text: what it does."""

    line: int
    device: int | str
    text: str


class DefaultJson(TypedDict):
    """What launches do that no rule matches. device: a number, or by_stream, by_thread, auto."""

    device: int | str
    text: str


class MemoryJson(TypedDict):
    """Where memory lies. place: a GPU's number, follow, copies."""

    place: int | str
    text: str


class AnalysisJson(TypedDict):
    """observed: use or ignore what probes saw."""

    observed: str


class FindingJson(TypedDict):
    """Something to correct. severity: error or warning."""

    severity: str
    line: int
    text: str


class TrialRuleJson(TypedDict):
    """How many launches of a trace a rule takes. by_device: of one that gives streams or threads a GPU, by GPU."""

    line: int
    launches: int
    by_device: NotRequired[dict[int, int]]


class TrialJson(TypedDict):
    """A policy tried on a trace. default: launches that no rule takes; other_gpus: launches on other GPUs than home."""

    rules: list[TrialRuleJson]
    default: int
    default_by_device: NotRequired[dict[int, int]]
    other_gpus: int


class CheckJson(TypedDict):
    """A policy in plain words, and its mistakes. trace: with --trace: which of its launches each rule takes."""

    home: int
    executors: list[int]
    rules: list[RuleJson]
    default: DefaultJson
    memory: MemoryJson
    order: str
    verify: int
    disassemble: str
    analysis: AnalysisJson
    findings: list[FindingJson]
    trace: NotRequired[TrialJson]


def _json(policy: Policy, found: Sequence[Finding], trial: "Trial | None") -> str:
    value: CheckJson = {
        "home": policy.home,
        "executors": [executor.device for executor in policy.executors],
        "rules": [
            {"line": rule.line, "device": _device(rule.device), "text": explain_rule(policy, rule)}
            for rule in policy.rules
        ],
        "default": {"device": _device(policy.default), "text": explain_default(policy)},
        "memory": {
            "place": {FOLLOW: "follow", COPIES: "copies"}.get(policy.memory_place, policy.memory_place),
            "text": explain_memory(policy),
        },
        "order": policy.order.value,
        "verify": policy.verify,
        "disassemble": policy.disassemble.value,
        "analysis": {"observed": "use" if policy.use_observed else "ignore"},
        "findings": [
            {"severity": finding.severity.value, "line": finding.line, "text": finding.text} for finding in found
        ],
    }
    if trial is not None:
        value["trace"] = _trial_json(trial)
    return json.dumps(value, indent=2)


def _trial_json(trial: "Trial") -> TrialJson:
    rules: list[TrialRuleJson] = [{"line": line, "launches": count} for line, count in trial.by_line.items()]
    for rule in rules:
        if rule["line"] in trial.given:
            rule["by_device"] = trial.given[rule["line"]]
    value: TrialJson = {"rules": rules, "default": trial.default, "other_gpus": trial.elsewhere}
    if None in trial.given:
        value["default_by_device"] = trial.given[None]
    return value
