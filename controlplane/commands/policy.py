"""`tessera policy check`: what a policy does, in plain words. `tessera policy schema`: the language as JSON Schema."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from controlplane import emulate
from controlplane.policy import Policy, read_policy
from controlplane.policy.explain import Finding, Gpu, Severity, explain_default, explain_rule, findings
from controlplane.policy.schema import SCHEMA

HELP = "explain and check a policy, or print the language of policies as JSON Schema"
REAL_GPUS = Path("/proc/driver/nvidia/gpus")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    check = actions.add_parser("check", help="explain what each rule does and what is wrong", allow_abbrev=False)
    check.add_argument("file", metavar="FILE", type=Path)
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.add_argument("--emulate", metavar="SPEC", help=f"check against an emulated machine: {emulate.SPEC}")
    actions.add_parser("schema", help="print the language as JSON Schema", allow_abbrev=False)


def run(options: argparse.Namespace) -> int:
    if options.action == "schema":
        print(json.dumps(SCHEMA, indent=2))
        return 0
    policy = read_policy(options.file)
    gpus = _gpus(options.emulate)
    found = findings(policy, gpus)
    print(_json(policy, found) if options.json else _text(policy, found, gpus))
    return 1 if any(finding.severity is Severity.ERROR for finding in found) else 0


def _gpus(spec: str | None) -> list[Gpu] | None:
    """Those of an emulated machine or of this one; None: this one has no driver that says."""
    if spec is not None:
        machine = emulate.parse(spec)
        return [Gpu(gpu.name, gpu.fields["sm_count"], gpu.fields["memory_bytes"]) for gpu in machine.devices]
    return [Gpu(gpu.name) for gpu in sorted(REAL_GPUS.iterdir())] if REAL_GPUS.is_dir() else None


def _text(policy: Policy, found: Sequence[Finding], gpus: Sequence[Gpu] | None) -> str:
    lines = [f"home: GPU {policy.home}"]
    for executor in policy.executors:
        limits = [f"{executor.sm_limit} SMs"] if executor.sm_limit else []
        limits += [f"{executor.memory_limit_bytes} bytes of memory"] if executor.memory_limit_bytes else []
        lines.append(f"executor: GPU {executor.device}{', at most ' + ' and '.join(limits) if limits else ''}")
    lines += [f"line {rule.line}: {explain_rule(policy, rule)}" for rule in policy.rules]
    lines.append(f"default: {explain_default(policy)}")
    if policy.verify:
        which = "every launch that runs" if policy.verify == 1 else f"one in {policy.verify} launches that run"
        lines.append(f"verify: {which} elsewhere is run at home too and compared")
    if gpus is None:
        lines.append("devices: not checked, this machine has no GPU (try --emulate)")
    lines += [f"{policy.file}:{finding.line}: {finding.severity.value}: {finding.text}" for finding in found]
    return "\n".join(lines)


def _json(policy: Policy, found: Sequence[Finding]) -> str:
    value = {
        "home": policy.home,
        "executors": [executor.device for executor in policy.executors],
        "rules": [
            {"line": rule.line, "device": rule.device, "text": explain_rule(policy, rule)} for rule in policy.rules
        ],
        "default": {"device": policy.default, "text": explain_default(policy)},
        "verify": policy.verify,
        "findings": [
            {"severity": finding.severity.value, "line": finding.line, "text": finding.text} for finding in found
        ],
    }
    return json.dumps(value, indent=2)
