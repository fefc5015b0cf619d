"""A run that follows a plan: whether the plan is for this machine, where the shim finds it, and what became of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane.ipc.memory_file import memory_file, name_of
from controlplane.plan import live, planfile, solver_package
from controlplane.plan.live import Followed
from controlplane.plan.planfile import AGAIN, Plan
from controlplane.policy.language import AUTO, Policy
from controlplane.policy.read import scheduled
from controlplane.profile import file as profiles
from controlplane.run.adapting import Setup, SwapReport
from controlplane.run.launch import Change
from ptxtools.errors import ConfigError

FINISH_SECONDS = 5.0
WHY = {
    "stayed": "could not go where it says",
    "unknown": "it does not have",
    "other_code": "have other code than in it",
    "unexpected": "came where it has others",
    "unplaced": "came before it was clear where in an iteration they are",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """file: the plan's; name: of its kind; predicted_ns: its period. swaps: to other plans, and why."""

    file: str
    name: str
    program: str
    predicted_ns: float
    counts: Followed
    swaps: tuple[SwapReport, ...] = ()

    def to_json(self) -> dict[str, object]:
        requests = self.counts.requests
        return {
            "file": self.file,
            "name": self.name,
            "program": self.program,
            "predicted_ns": self.predicted_ns,
            **asdict(self.counts),
            "in_flight": round(self.counts.in_flight / requests, 3) if requests else 0.0,
            "swapped": [asdict(each) for each in self.swaps],
        }

    def line(self) -> str:
        """For the summary."""
        counts = self.counts
        if not counts.placed:
            return f"the plan {self.file} ({self.name}) was not needed: nothing was placed launch by launch"
        others = {why: getattr(counts, name) for name, why in WHY.items()}
        rest = "".join(f"; {count} {why}" for why, count in others.items() if count)
        return (
            f"followed the plan {self.file} ({self.name}): {counts.followed} of {counts.placed} launches and copies, "
            f"{counts.requests} requests{rest}" + "".join(f"\n  {each.line()}" for each in self.swaps)
        )

    def fault(self, command: str) -> str | None:
        """Why the plan is of no use to the program."""
        if not self.counts.is_of_other_code:
            return None
        return (
            f"{self.file}: it is for other code: of {self.program}, this was {command}; no launch is in it, and the "
            f"rule placed them; expected a plan of this program ({AGAIN})"
        )


class Planned:
    """A plan that a run follows, from entering the context on; profile: that it was made of, for plans for other
    situations; None: no other is followed. Errors: ConfigError, of one that is no plan, too large, or of another one.
    """

    def __init__(self, file: Path, profile: Path | None = None) -> None:
        self.file, self.profile = file, profile
        self.plan: Plan = planfile.read(file)
        if profile is not None:
            solver_package.require()
            planfile.check(self.plan, profiles.read(profile), file)
        self._process: subprocess.Popen[str] | None = None
        self._swaps: tuple[SwapReport, ...] = ()
        data = live.compiled(self.plan, file, adapts=profile is not None)
        self.memory = memory_file("tessera-plan", len(data))
        os.pwrite(self.memory, data, 0)

    def __enter__(self) -> Self:
        if self.profile is not None:
            setup = Setup(self.memory, str(self.file), str(self.profile))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "controlplane.run.adapting", setup.to_argument()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[self.memory],
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """No other plan is followed any more. Bounded."""
        if self._process is None:
            return
        try:
            answer, _ = self._process.communicate(timeout=FINISH_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            answer, _ = self._process.communicate()
        self._process = None
        self._swaps = tuple(SwapReport(**json.loads(line)) for line in answer.splitlines() if line.endswith("}"))

    def policy(self) -> Policy:
        """For a run without one: all GPUs of the plan, whose launches are placed one by one."""
        home = self.plan.home
        return scheduled(home, [gpu for gpu in range(len(self.plan.gpus)) if gpu != home])

    def check(self, policy: Policy, names: Sequence[str]) -> None:
        """names: of this machine's GPUs. Errors: ConfigError, of a plan for others."""
        plan = self.plan
        if tuple(names) != plan.gpus:
            raise ConfigError(
                f"it is for {', '.join(plan.gpus)}, this machine has {', '.join(names) or 'no GPU'}",
                expected=f"a plan for these GPUs ({AGAIN})",
                file=self.file,
            )
        if policy.default != AUTO:
            raise ConfigError(
                "a plan says where launches go that no rule matches", expected="schedule: auto", file=policy.file
            )
        missing = sorted({gpu for group in plan.groups for gpu in group.gpus} - set(policy.gpus))
        if policy.home != plan.home or missing:
            raise ConfigError(
                f"it is for a program at home on GPU {plan.home}"
                + (f", and GPUs {missing} that the policy does not name" if missing else ""),
                expected="a plan for the policy's GPUs (tessera plan PROFILE --policy POLICY -o FILE makes one)",
                file=self.file,
            )

    def change(self) -> Change:
        return Change(variables={"TESSERA_PLAN": name_of(self.memory)})

    def outcome(self) -> Outcome:
        """So far; may be asked while the program runs and afterwards."""
        data = os.pread(self.memory, live.size(), 0)
        counts = live.observed(data, len(self.plan.gpus)).counts
        plan = self.plan
        return Outcome(str(self.file), plan.chosen, plan.program, plan.predicted.period_ns, counts, self._swaps)
