"""The figures of the rule and its guard have one place, tessera/place.h."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from controlplane.graph import rule
from ptxtools.native import records

INTERPOSE = Path(__file__).parents[2] / "interpose"
_FIGURES = re.compile(r"(#define TSR_(?:PLACE|GUARD)_\w+(?:_NS|_PERMILLE)) \d+")


@pytest.mark.usefixtures("native")
def test_simulations_have_the_figures_of_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    ffi, text = records.header("place.h")
    changed, count = _FIGURES.subn(r"\1 4711", text)
    monkeypatch.setattr(records, "header", lambda _name: (ffi, changed))
    own = {"host_ns", "strategies", "careful"}
    both = (rule.Rule(), rule.GuardRule())
    figures = [getattr(given, of.name) for given in both for of in fields(given) if of.name not in own]
    assert count == 10
    assert figures == [4711.0] * len(figures)


@pytest.mark.usefixtures("native")
def test_the_lead_is_that_of_the_option() -> None:
    options = (INTERPOSE / "base" / "options.def").read_text()
    default = re.search(r'"TESSERA_LEAD", COUNT, "(\d+)"', options)
    assert default
    assert rule.Rule().lead_ns == float(default[1])
