"""Launches that PTX leaves open: it says of the quotient of a division by zero only that there is one."""

from __future__ import annotations

from contextlib import suppress

from ptxtools.access.depth import deep
from ptxtools.access.template import Op, Template
from ptxtools.ranges import Launch
from ptxtools.ranges.evaluate import Evaluation
from ptxtools.ranges.form import TooMuchError


def divides_by_zero(template: Template, launch: Launch) -> bool:
    """Whether the launch may get to a division by what is zero in all its threads. False when that is not known."""
    of = Evaluation(template, launch.parameters, launch.grid, launch.block, launch.variables)
    divisions = [node for node in template.nodes if node.op in (Op.DIV, Op.REM)]
    with deep(), suppress(TooMuchError, RecursionError):
        return any(
            of.symbols.number(of.viewed(node.args[1], node.width, node.signed, node.context)) == 0
            and of.facts(node.context) is not None
            for node in divisions
        )
    return False
