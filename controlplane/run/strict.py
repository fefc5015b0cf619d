"""What --strict takes for a failure besides checks that checked nothing: differences, and rules without effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.policy.table import Launches
    from controlplane.run.checks import CheckReport

SHOWN_RULES = 10


def failures(launches: Launches | None, checks: CheckReport | None) -> Iterator[str]:
    """A sentence each."""
    if launches is not None and launches.different:
        yield f"{launches.different} of {launches.verified} verified launches gave other bytes"
    host = launches.pool.host if launches is not None and launches.pool is not None else None
    if host is not None and host.refused:
        yield "the driver refused host memory that the pool was to have"
    if checks is not None and checks.violations:
        yield f"{checks.violations} launches touched what they were not predicted to"
    idle = [str(rule.line) for rule in launches.rules if not rule.launches] if launches is not None else []
    if idle:
        shown = ", ".join(idle[:SHOWN_RULES]) + (f" and {len(idle) - SHOWN_RULES} more" * (len(idle) > SHOWN_RULES))
        yield f"rules matched no launch: line {shown} of the policy"
