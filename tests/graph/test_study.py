"""What is said of programs made by hand: gains, requests, branches, steps, and what chains them."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace

import networkx as nx
import pytest

from controlplane.base.screen import plain
from controlplane.graph import output, page, text
from controlplane.graph.nodes import Node, Program, Read, Span, What, Why, Write
from controlplane.graph.rule import Rule
from controlplane.graph.simulate import simulate
from controlplane.graph.study import Study, as_graph, study
from controlplane.graph.versions import dependencies
from tests.graph.programs import guided, modulated, requests, small, tensor, training

MANY = 25_000
LIMIT_S = 10.0


def studied(program: Program, gpus: int = 2) -> Study:
    return study(dependencies(program), gpus)


def test_requests_are_found_and_run_side_by_side() -> None:
    found = studied(requests())
    assert [len(part) for part in found.requests] == [32] * 8
    assert found.gain == pytest.approx(2.0, abs=0.15)
    assert found.several.moved_bytes == 0
    assert found.chains.links == []
    assert study(dependencies(requests(16)), 4).gain == pytest.approx(4.0, abs=0.3)


def test_requests_whose_results_meet_in_the_end_are_told_one_by_one() -> None:
    """The first one's result is old by then, so that it is a group of its own; the others are parts of one."""
    make = requests(8, 500)
    results = tuple(small(8 * request + 2) for request in range(8))
    last = Node(What.LAUNCH, "stack", 1000.0, tuple(Read(each) for each in results), (Write(small(100)),))
    found = studied(replace(make, nodes=[*make.nodes, last]))
    assert [len(part) for part in found.requests] == [502] * 8
    assert [unit.name for unit in found.units()] == ["request", "step"]


def test_branches_are_found_between_updates() -> None:
    found = studied(guided())
    assert [[len(part) for part in fan.parts] for fan in found.fans] == [[22, 22]] * 9
    assert found.steps is not None
    assert len({b - a for a, b in itertools.pairwise(found.steps.starts)}) == 1
    assert found.gain == pytest.approx(1.9, abs=0.1)
    assert 0 < found.several.moved_bytes <= 9 * 3 << 20
    assert [unit.name for unit in found.units()] == ["branch", "step"]


def test_what_belongs_together_stays_together() -> None:
    """A branch's long launches stay on one GPU; so do brief ones that read nothing (flags), as they did not when the
    rule saw them for the first time.
    """
    found = studied(modulated())
    nodes = found.found.program.nodes
    longest = max(node.ns for node in nodes)
    fans = found.fans[1:-1]
    assert len(fans) == 7
    for fan in fans:
        long = [[number for number in part if nodes[number].ns == longest] for part in fan.parts]
        gpus = [{found.several.gpu[number] for number in part} for part in long]
        assert sorted(map(len, gpus)) == [1, 1]
        assert gpus[0] != gpus[1]
        assert sum(found.moved(part) for part in fan.parts) == 1 << 20
    assert found.gain == pytest.approx(1.9, abs=0.1)


def test_a_program_that_is_one_chain_gains_little() -> None:
    """Its optimiser's launches alone need nothing of each other."""
    found = studied(training())
    assert 0.99 <= found.gain < 1.2
    assert not found.requests
    assert found.steps is not None
    assert found.chains.links == []
    assert sum(own.ns for own in found.chains.own) == pytest.approx(found.chains.path.ns)


def test_the_scan_that_chains_all_requests_is_named_first() -> None:
    found = studied(requests(scan=True))
    assert found.gain == pytest.approx(1.0, abs=0.1)
    assert found.chains.best == pytest.approx(2.0, abs=0.2)
    assert len(found.requests) == 8
    assert found.joined == 1
    link = found.chains.links[0]
    assert (link.name, link.why, link.launches) == ("scan", Why.WHOLE, 8 - 1)
    assert link.alone == pytest.approx(1.0, abs=0.1)
    assert link.without == pytest.approx(2.0, abs=0.2)
    first, second = link.example
    assert found.found.program.nodes[second].name == "scan"
    assert first < second


def test_writes_that_nobody_knows_to_overwrite_chain_requests() -> None:
    found = studied(requests(overwrites=False))
    assert found.gain == pytest.approx(1.0, abs=0.1)
    assert found.chains.best == pytest.approx(2.0, abs=0.2)
    assert {link.why for link in found.chains.links} == {Why.OLD}


def test_a_launch_that_may_touch_anything_is_a_fence_and_named() -> None:
    program = requests(6)
    nodes = list(program.nodes)
    for place in (170, 100, 40):
        nodes.insert(place, Node(What.LAUNCH, "mystery", 1000.0, unknown="a call through a pointer", stream="stream 1"))
    found = study(dependencies(Program(nodes)), 2, mark=-1)
    assert found.chains.links[0].name == "mystery"
    assert found.chains.links[0].cause == "a call through a pointer"
    assert found.chains.links[0].launches == 3
    assert found.gain < found.chains.best
    fence = found.several.start_ns[40]
    assert max(found.several.end_ns[:40]) <= fence
    assert found.several.gpu[40] == 0


@pytest.mark.parametrize(
    "program", [requests(), guided(), modulated(), training(), requests(scan=True), requests(overwrites=False)]
)
@pytest.mark.parametrize("gpus", [1, 2, 5])
def test_schedules_keep_the_order_of_the_bytes(program: Program, gpus: int) -> None:
    found = dependencies(program)
    schedule = simulate(found, gpus)
    assert schedule.gpu == simulate(found, gpus).gpu
    by_gpu: dict[int, float] = {}
    for number, node in enumerate(program.nodes):
        start, gpu = schedule.start_ns[number], schedule.gpu[number]
        assert start >= by_gpu.get(gpu, 0.0)
        by_gpu[gpu] = schedule.end_ns[number]
        assert schedule.end_ns[number] == start + node.ns
        for writer, _ in found.raw[number]:
            fence = 0.0 if schedule.gpu[writer] == gpu else Rule().fence_ns
            copied = any(schedule.gpu[other] == gpu for other in range(number))  # its bytes may be there already
            assert start >= schedule.end_ns[writer] + (0.0 if copied else fence)
    if gpus == 1:
        assert schedule.moved_bytes == 0


def test_bytes_are_moved_once_for_all_who_need_them_there() -> None:
    """The second launch on the other GPU finds what the first one got, whole or in part."""
    big, long_ns = Span(0, 1 << 20), 2e6
    nodes = [Node(What.LAUNCH, "make", 1000.0, writes=(Write(big),))]
    for part in (big, big, Span(0, 4096), Span(64, 4096)):
        out = Write(tensor(50 + len(nodes)))
        nodes.append(Node(What.LAUNCH, "use", long_ns, (Read(part),), (out,)))
    schedule = simulate(dependencies(Program(nodes)), 2)
    assert sorted(schedule.gpu[1:]) == [0, 0, 1, 1]
    assert schedule.moved_bytes == 1 << 20


def test_the_host_waits_where_the_program_does() -> None:
    read = Node(What.COPY, "copy to host", 1000.0, (Read(tensor(1)),))
    work = Node(What.LAUNCH, "work", 5e6, (), (Write(tensor(1)),), stream="s")
    other = Node(What.LAUNCH, "other", 5e6, (), (Write(tensor(2)),), stream="s")
    free = [work, read, other]
    assert simulate(dependencies(Program(free)), 2).length_ns < 6e6
    waiting = [work, read, Node(What.LAUNCH, "other", 5e6, (), (Write(tensor(2)),), stream="s", returned=(1,))]
    assert simulate(dependencies(Program(waiting)), 2).length_ns > 1e7
    synchronised = [work, read, Node(What.LAUNCH, "other", 5e6, (), (Write(tensor(2)),), stream="s", waits=(0,))]
    assert simulate(dependencies(Program(synchronised)), 2).length_ns >= 1e7


def test_the_graph_has_bytes_and_causes() -> None:
    program = requests(2, 3)
    graph = as_graph(dependencies(program))
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.nodes[0] == {"what": "launch", "name": "embed", "ns": 100000.0, "stream": "stream 1"}
    assert graph.edges[0, 1] == {"RAW": 1 << 20, "constant": False, "unsure": False, "stream": True}
    assert any("WAW" in data for _, _, data in graph.edges(data=True))
    assert any("WAR" in data for _, _, data in graph.edges(data=True))


def test_every_form_says_the_same() -> None:
    found = studied(requests(scan=True))
    said = json.loads(json.dumps(output.to_json(found)))
    assert said["gain"] == round(found.gain, 4)
    assert len(said["requests"]) == 8
    assert said["chains"][0]["kernel"] == "scan"
    lines = plain(text.to_text(found))
    assert "8 requests" in lines
    assert f"{found.gain:.2f} times one GPU" in lines
    drawn = list(output.to_dot(found))
    assert drawn[0] == "digraph program {"
    assert drawn[-1] == "}"
    assert sum(" -> " in line for line in drawn) > 200
    html = page.draw(found, "a <trace>")
    assert "a &lt;trace&gt;" in html
    assert not any(word in html for word in ("http://", "https://", "src=", "@import", "url("))
    data = json.loads(html.split('<script id="data" type="application/json">')[1].split("</script>")[0])
    assert len(data["name"]) == len(found.found.program.nodes)
    assert data["links"][0]["name"] == "scan"


@pytest.mark.full
def test_a_long_program_takes_seconds() -> None:
    """With six ranges each, small buffers used again and again, and weights."""
    nodes = []
    for number in range(MANY):
        layer = number % 250
        reads = [Read(tensor(3 * (layer % 7) + each)) for each in range(2)] + [Read(tensor(1000 + layer))]
        reads.append(Read(Span(1 << 50, (1 << 50) + (1 << 20), 4096, 512)))
        writes = [Write(tensor(3 * ((layer + 1) % 7) + each)) for each in range(2)]
        writes.append(Write(small(number % 300)))
        nodes.append(
            Node(
                What.LAUNCH, f"kernel{layer}", 20000.0, tuple(reads), tuple(writes), after=(number - 1,) * (number > 0)
            )
        )
    began = time.process_time()
    found = studied(Program(nodes))
    page.draw(found, "long")
    assert time.process_time() - began < LIMIT_S
