"""The policy that a run's options stand for: that of a file, of --gpus or of a plan, changed by what else is asked.

Runs without a policy do not import this: they start faster.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.machine.parts import parts_of, told
from controlplane.policy.explain import with_usual_memory
from controlplane.policy.language import COPIES, EXECUTORS, Order, Policy
from controlplane.policy.read import in_order, pooled, read_policy, scheduled
from controlplane.run import launch, shim
from controlplane.run.launch import Change
from controlplane.run.numbers import Present, Question, emulated
from controlplane.run.unchecked import absent_packages
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

if TYPE_CHECKING:
    from controlplane.run.emulation import Emulation
    from controlplane.run.planned import Planned

NAME = "tessera-run"


def policy_of(options: argparse.Namespace, emulation: Emulation | None, planned: Planned | None) -> Policy:
    """As this run uses it. Errors: ConfigError."""
    parts = parts_of(os.environ)
    if parts > 1:
        print(f"{NAME}: {told(parts)}", file=sys.stderr)
    if options.gpus is not None and options.policy is not None:
        raise ConfigError("--gpus takes the place of a policy", expected="--policy with schedule: auto in its file")
    if options.gpus is not None:
        policy = _scheduled(options.gpus, emulation)
    else:
        policy = planned.policy() if options.policy is None and planned is not None else read_policy(options.policy)
    if options.verify is not None:
        policy = replace(policy, verify=options.verify)
    if options.order is not None:
        policy = in_order(policy, Order(options.order))
    if options.pool:
        policy = pooled(policy, options.reserve, options.host)
    if policy.pool and policy.verify:
        raise ConfigError("in a pool two GPUs may share the copy of memory that --verify compares", expected="no pool")
    if not policy.says_memory:
        policy = with_usual_memory(policy, _against_copies(options))
    if options.check_writes is not None and policy.memory_place == COPIES:
        raise ConfigError(
            "--check-writes takes what home pulls from another GPU's copy of memory for written",
            expected="another memory.place",
        )
    return policy


def _against_copies(options: argparse.Namespace) -> str:
    """What in the run speaks against copies of memory where the policy does not say that there are some."""
    if options.check_writes is not None:
        return "writes are checked"
    if options.disassemble == Consent.NONE.value:
        return "no machine code may be disassembled"
    return "; ".join(absent_packages()) if options.emulate is None else ""


def _scheduled(words: str, emulation: Emulation | None) -> Policy:
    """The policy that --gpus stands for. Raises ConfigError."""
    numbers = [int(word) for word in words.split(",") if word.strip().isdigit()]
    if words != "all" and len(numbers) != len(words.split(",")):
        raise ConfigError(f"--gpus {words!r} names no GPUs", expected="all, numbers such as 0,1, or how many")
    if "," not in words:
        with ExitStack() as stack:
            driver = shim.system_driver() if emulation is None else emulation.change().driver or shim.system_driver()
            found = present_of(emulation, driver, [], stack)()
        found.check_known(f"--gpus {words}: ")
        others = [gpu for gpu in range(len(found.gpus)) if gpu != found.first]
        most = len(found.gpus) if words == "all" else numbers[0]
        if words == "all" and len(found.gpus) == 1:
            print(
                f"{NAME}: --gpus all: there is one GPU, which all launches run on; --emulate 2 has more",
                file=sys.stderr,
            )
        if not 0 < most <= len(found.gpus):
            raise ConfigError(
                f"--gpus {words}: this machine has {len(found.gpus)}", expected="all, or as many as there are"
            )
        numbers = [found.first, *others[: most - 1]]
    if len(set(numbers)) != len(numbers) or len(numbers) > EXECUTORS + 1 or max(numbers) > EXECUTORS:
        raise ConfigError(f"--gpus {words!r} does not name GPUs", expected=f"each once, numbers up to {EXECUTORS}")
    return scheduled(numbers[0], numbers[1:])


def present_of(
    emulation: Emulation | None, driver: Path, layers: Sequence[Change], stack: ExitStack
) -> Callable[[], Present]:
    """Who tells of the machine's GPUs; a real driver is asked from now on, and takes a while."""
    if emulation is None:
        return stack.enter_context(Question(driver, os.environ)).answer
    return cache(lambda: emulated(emulation.machine, driver, launch.compose(layers, os.environ)))


def consent_of(policy: Policy | None, asked: str | None) -> Consent:
    """The command line's word comes before the policy's."""
    if asked is not None:
        return Consent(asked)
    return Consent.OPEN if policy is None else policy.disassemble
