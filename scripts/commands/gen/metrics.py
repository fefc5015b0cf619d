"""The table in docs/metrics.md and the dashboard docs/grafana.json, from controlplane/live/metrics.py.

scripts/gen metrics [--check]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from controlplane.live.metrics import METRICS
from scripts.commands.marked import generate

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE, DASHBOARD = DOCS / "metrics.md", DOCS / "grafana.json"
WIDTH, HEIGHT, COLUMNS = 12, 8, 2
RATE = "sum by (%s) (rate(%s[$__rate_interval]))"
VIRTUAL = "sum(rate(tessera_virtual_time_seconds_total[$__rate_interval]))"
PANELS = (  # title, unit as Grafana calls it, query, legend
    ("Launches per second, by GPU", "ops", RATE % ("gpu", "tessera_launches_total"), "GPU {{gpu}}"),
    ("Kept home per second, by reason", "ops", RATE % ("reason", "tessera_kept_home_launches_total"), "{{reason}}"),
    ("Launches per second, by rule", "ops", RATE % ("line", "tessera_rule_launches_total"), "line {{line}}"),
    ("Pulled from other GPUs", "Bps", RATE % ("gpu", "tessera_pulled_bytes_total"), "to GPU {{gpu}}"),
    ("Memory of copies", "bytes", "sum by (gpu) (tessera_memory_copies_bytes)", "GPU {{gpu}}"),
    ("Graphs per second, by GPU", "ops", RATE % ("gpu", "tessera_graph_launches_total"), "GPU {{gpu}}"),
    ("Estimated gain", "none", "tessera_schedule_gain_ratio", "{{instance}}"),
    ("Verified per second", "ops", RATE % ("outcome", "tessera_verify_launches_total"), "{{outcome}}"),
    (
        "Emulated GPUs: busy, of virtual time",
        "percentunit",
        f"{RATE % ('gpu', 'tessera_gpu_busy_seconds_total')} / on () group_left {VIRTUAL}",
        "GPU {{gpu}}",
    ),
    ("Emulated GPUs: memory", "bytes", "sum by (gpu) (tessera_gpu_memory_used_bytes)", "GPU {{gpu}}"),
)


def table() -> str:
    rows = (
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.meaning} |\n"
        for each in METRICS
    )
    return "".join(["| name | kind | labels | meaning |\n", "|---|---|---|---|\n", *rows])


def dashboard() -> str:
    source = {"type": "prometheus", "uid": "${source}"}
    panels = [
        {
            "id": place + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {"x": place % COLUMNS * WIDTH, "y": place // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [{"refId": "A", "datasource": source, "expr": query, "legendFormat": legend}],
        }
        for place, (title, unit, query, legend) in enumerate(PANELS)
    ]
    variable = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    board = {
        "title": "Tessera",
        "uid": "tessera",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [variable]},
        "panels": panels,
    }
    return json.dumps(board, indent=1) + "\n"


def main(words: Sequence[str]) -> int:
    status = generate(__name__, __doc__, words, PAGE, {"metrics": table()})
    if "--check" in words:
        return status if DASHBOARD.is_file() and DASHBOARD.read_text() == dashboard() else 1
    DASHBOARD.write_text(dashboard())
    return status
