"""What came of a run: what there is to say at its end is said of this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.policy.table import Launches
    from controlplane.report.statistics import AnalysisReport, Report
    from controlplane.run.checks import CheckReport
    from controlplane.run.planned import Outcome as PlanOutcome


@dataclass(frozen=True, slots=True)
class Outcome:
    """The program's exit code, what the policy did if there was one, statistics and checks if they were asked for, and
    what the analysis knew and what became of the plan if there was one.
    """

    code: int
    launches: Launches | None = None
    report: Report | None = None
    checks: CheckReport | None = None
    analysis: AnalysisReport | None = None
    plan: PlanOutcome | None = None
