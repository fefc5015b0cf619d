"""What the rule gains of models that PyTorch launches eagerly, at the pace at which a host does that."""

from dataclasses import replace

import pytest

from controlplane.graph.paths import only_sure
from controlplane.graph.rule import GuardRule, Rule
from controlplane.graph.simulate import simulate
from controlplane.graph.versions import dependencies
from tests.graph import eager


@pytest.mark.parametrize(
    ("name", "gpus", "host_us", "wanted"),
    [
        ("guidance", 2, 5, 1.95),
        pytest.param("guidance", 2, 35, 1.85, marks=pytest.mark.full),
        ("requests", 2, 5, 1.9),
        ("requests", 2, 20, 1.8),
        pytest.param("requests", 4, 1, 3.7, marks=pytest.mark.full),
    ],
    ids=["guidance", "guidance, slow host", "requests", "requests, slow host", "requests on four"],
)
def test_independent_work_runs_at_the_same_time(name: str, gpus: int, host_us: float, wanted: float) -> None:
    """The host is ahead by a branch or a request at most, and, of the Llama's, waits for an answer within each."""
    program = eager.guidance(8) if name == "guidance" else eager.requests(16)
    found, rule = dependencies(program), replace(Rule(), host_ns=1000 * host_us)
    home = simulate(found, gpus, rule, only_sure, pins=lambda _: 0)
    placed = simulate(found, gpus, rule, only_sure, guard=GuardRule())
    assert home.length_ns / placed.length_ns > wanted
