"""Metrics for Prometheus: their names and values, the dashboard, and what asks for an address that cannot be."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from controlplane.commands import run
from controlplane.live.metrics import METRICS, Family, families
from controlplane.live.runs import Device, Run
from controlplane.policy.table import Copies, Launches, RuleUse, Schedule

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"
COPIES = Copies({1: 4096}, {1: 3}, {1: 12288}, {}, 0, 0, 0, 0, 0, 0, 0, {}, ())
COUNTED = Launches(
    {0: 1000, 1: 2500},
    40,
    {"ranges": 30, "capture": 10},
    7,
    1,
    2,
    graphs={1: 5},
    rules=(RuleUse(4, 2500), RuleUse(5, 0)),
    shared=COPIES,
    schedule=Schedule(10, 0, 0, 1, 1, 100, 150, 100, 0),
)
DEVICES = (Device(0, "NVIDIA H200", 1000, 2_000_000, 10**9), Device(1, "NVIDIA H200", 2500, 9_000_000, 0))
RUN = Run(4711, "python serve.py", 125.0, 20_000_000, DEVICES, (), COUNTED, 1.7e9)


def samples(shown: Run | None) -> dict[str, float]:
    """By name and labels, as Prometheus reads them."""

    class Told(Collector):
        def collect(self) -> list[Family]:
            return list(families(shown))

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told())
    text = generate_latest(registry).decode()
    return {
        f"{sample.name}{list(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_metric_has_the_value_of_its_counter() -> None:
    found = samples(RUN)
    assert found["tessera_run_info['python serve.py', '0.1.0']"] == 1
    assert found["tessera_run_start_time_seconds[]"] == 1.7e9
    assert [found[f"tessera_launches_total['{gpu}']"] for gpu in (0, 1)] == [1000, 2500]
    assert found["tessera_graph_launches_total['1']"] == 5
    assert found["tessera_kept_home_launches_total['ranges']"] == 30
    assert found["tessera_rule_launches_total['5']"] == 0
    outcomes = {
        each: found[f"tessera_verify_launches_total['{each}']"] for each in ("equal", "different", "not_verified")
    }
    assert outcomes == {"equal": 6, "different": 1, "not_verified": 2}
    assert found["tessera_pulls_total['1']"] == 3
    assert found["tessera_pulled_bytes_total['1']"] == 12288
    assert found["tessera_memory_copies_bytes['1']"] == 4096
    assert found["tessera_schedule_gain_ratio[]"] == 1.5
    assert found["tessera_gpu_memory_used_bytes['0']"] == 10**9
    assert found["tessera_gpu_busy_seconds_total['1']"] == 0.009
    assert found["tessera_virtual_time_seconds_total[]"] == 0.02
    assert {name.partition("[")[0] for name in found} == {each.name for each in METRICS}


def test_what_is_not_counted_has_no_value() -> None:
    real = replace(RUN, virtual_ns=None, devices=(Device(0, "", None),), counted=None)
    assert {name.partition("[")[0] for name in samples(real)} == {"tessera_run_info", "tessera_run_start_time_seconds"}
    assert samples(None) == {}


def test_the_dashboard_asks_for_metrics_that_exist_by_labels_that_they_have() -> None:
    labels = {each.name: set(each.labels) for each in METRICS}
    targets = [target for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
    asked: set[str] = set()
    for target in targets:
        names = re.findall(r"\btessera_\w+", target["expr"])
        used = {label for by in re.findall(r"by \((\w+)\)", target["expr"]) for label in [by]}
        used |= set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - {"instance"}
        assert names
        assert used <= set().union(*(labels[name] for name in names)), target
        asked |= set(names)
    assert len(asked) > 8


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no", "there is no such port"),
        ("99999", "there is no such port"),
        ("0.0.0.0:9464", "others could read the program's arguments there"),
        ("nowhere:9464", "'nowhere' is no address"),
        ("TAKEN", "Address already in use"),
    ],
)
def test_addresses_that_cannot_be_end_the_run_before_it_begins(
    place: str,
    said: str,
    native_build: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = place.replace("TAKEN", str(taken.getsockname()[1]))
        assert run.main(["--emulate", "1", "--metrics", asked, "--", "touch", str(tmp_path / "begun")]) == 2
    assert not (tmp_path / "begun").exists()
    assert f"--metrics {asked}: {said}; expected a port of the loopback" in capsys.readouterr().err


def test_nothing_is_counted_without_a_policy_or_emulated_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--metrics", "9464", "--", "true"]) == 2
    assert "expected --policy, --gpus or --emulate" in capsys.readouterr().err
