"""Whether a check that was asked for checked anything, and if not, why: nothing checked is never a success."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.policy.table import Launches
    from controlplane.report.statistics import AnalysisReport
    from controlplane.run.checks import CheckReport

EXIT_CODE = 3  # of a run in which that is so, if the program itself ended with 0


def unchecked(
    launches: Launches | None, checks: CheckReport | None, analysis: AnalysisReport | None, verify: int | None
) -> list[str]:
    """One sentence or two for each option that checked nothing; verify: what the command line asked for."""
    found: list[str] = []
    if launches is not None and verify and not launches.verified:
        found.append(f"--verify: nothing was verified: {'; '.join(_verify(launches, verify))}")
    if checks is not None and checks.writes and not checks.checked:
        found.append(f"--check-writes: nothing was checked: {_checks(checks, analysis)}")
    if checks is not None and checks.accesses and not checks.tested_launches:
        found.append(f"--check-accesses: nothing was tested: {_checks(checks, analysis)}")
    return found


def absent_packages() -> list[str]:
    """What part of the analysis does not work here, and how to get it."""
    from controlplane.machine.doctor import ANALYSIS, installed  # only here: most runs do not need it
    from ptxtools.machine.disassembler import PACKAGE, locate

    there = {PACKAGE: locate() is not None}  # CUDA's toolkit has it, too
    return [f"{name} is not installed: {why}" for name, why in ANALYSIS.items() if not there.get(name, installed(name))]


def _verify(launches: Launches, every: int) -> Iterator[str]:
    elsewhere = sum(launches.by_device.values())
    if launches.not_verified:
        yield f"{launches.not_verified} launches could not be (docs/policies.md says which cannot)"
    if launches.kept_home:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in launches.kept_reasons.items())
        yield f"{launches.kept_home} launches stayed home although a rule sent them elsewhere ({reasons})"
    if not (elsewhere or launches.graphs or launches.kept_home or launches.not_verified):
        yield "the program launched nothing"
    elif not launches.not_verified:
        yield (
            f"of {elsewhere} launches, none that runs elsewhere was the {every}th; --verify takes each one"
            if every > 1
            else f"of {elsewhere} launches, none ran elsewhere; which do, {_decides(launches)}"
        )


def _decides(launches: Launches) -> str:
    return "the policy's rules say" if launches.schedule is None else "the schedule decides (docs/schedule.md)"


def _checks(checks: CheckReport, analysis: AnalysisReport | None) -> str:
    seen = checks.known + checks.unknown
    if not seen:
        return "outside graphs the program launched nothing on the home GPU (without a policy: the first that it sees)"
    if not checks.known:
        return f"of {seen} launches none was known when it came; {_how_to_know(analysis)}"
    if checks.checked or checks.untested or checks.skipped:
        return f"of {seen} launches, {checks.known} were known; why none was is said above and in --json (check)"
    return f"of {checks.known} known launches none was drawn; without a number, each one is"


def _how_to_know(found: AnalysisReport | None) -> str:
    if found is None or not found.functions:
        return "no function was analysed; TESSERA_LOG=debug says more"
    if found.unknown == found.functions:
        why = "; ".join(absent_packages()) or "tessera analyze says why"
        return f"what its {found.functions} functions read and write is not understood; {why}"
    return (
        f"in a first run, kernels are analysed while the program runs, {found.known} of {found.functions} by its end: "
        "run it again, and these are known from the beginning"
    )
