"""The process beside a run that follows a plan: it looks what the program does, and has the run follow another plan.

It ends when its standard input does. Then each swap is a line of JSON on its standard output.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Setup:
    """memory: descriptor of the live plan (tessera/plan.h)."""

    memory: int
    plan: str
    profile: str

    def to_argument(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class SwapReport:
    """A swap. at_ns, since the run's first launch, by its clock: when it was decided; followed_ns: when launches first
    followed the new plan, 0 where none has. Periods: of the plan before, as measured; of the new one, as predicted, and
    as measured after the swap, 0 where that is not known.
    """

    at_ns: float
    reason: str
    plan: str
    before_ns: float
    predicted_ns: float
    after_ns: float = 0.0
    is_back: bool = False
    followed_ns: float = 0.0

    def line(self) -> str:
        """For the summary."""
        what = "back to" if self.is_back else "then"
        periods = f"before it a request every {self.before_ns / 1e6:.3f} ms" if self.before_ns else ""
        periods += f", after it every {self.after_ns / 1e6:.3f} ms" if self.after_ns else ""
        return f"after {self.at_ns / 1e9:.3f} s {what} another plan ({self.plan}): {self.reason}" + (
            f"; {periods.removeprefix(', ')}" if periods else ""
        )


class Adapting:
    def __init__(self, setup: Setup) -> None:
        # Only here: who only starts this process does without.
        from controlplane.plan import live, planfile, situation
        from controlplane.plan.adapt import Controller
        from controlplane.profile import file

        self.live, self.file = live, Path(setup.plan)
        plan, profile = planfile.read(self.file), file.read(Path(setup.profile))
        self.gpus = len(plan.gpus)
        rows, counts = situation.times(profile)
        self.controller = Controller(plan, rows, counts, situation.replanner(profile, plan))
        self.memory = mmap.mmap(setup.memory, os.fstat(setup.memory).st_size)
        self.swaps: list[SwapReport] = []
        self.last_ns = 0.0

    def poll(self) -> None:
        from controlplane.plan.adapt import Seen

        seen = self.live.observed(self.memory, self.gpus)
        if not seen.is_current or seen.now_ns <= self.last_ns:
            return
        self.last_ns = seen.now_ns
        if self.swaps and not self.swaps[-1].followed_ns:
            self.swaps[-1] = replace(self.swaps[-1], followed_ns=seen.followed_ns - seen.start_ns)
        counts = seen.counts
        strange = counts.unknown + counts.other_code + counts.unexpected
        known = len(self.controller.effects)
        swap = self.controller.step(
            Seen(
                seen.now_ns, counts.requests, counts.in_flight, counts.placed, strange, seen.ns, seen.lost, seen.shapes
            )
        )
        if len(self.controller.effects) > known and self.swaps:
            self.swaps[-1] = replace(self.swaps[-1], after_ns=self.controller.effects[-1].after_ns)
        if swap is not None:
            self.live.replace(self.memory, swap.plan, self.file)
            at_ns, name = swap.at_ns - seen.start_ns, swap.plan.chosen
            self.swaps.append(
                SwapReport(at_ns, swap.reason, name, swap.before_ns, swap.predicted_ns, 0.0, swap.is_back)
            )

    def report(self) -> None:
        for each in self.swaps:
            print(json.dumps(asdict(each)), flush=True)


def main() -> int:
    adapting = Adapting(Setup(**json.loads(sys.argv[1])))
    while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
        adapting.poll()
    adapting.poll()
    adapting.report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
