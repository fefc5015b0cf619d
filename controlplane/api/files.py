"""What traces, profiles and plans hold, as objects; what the commands of these names do, as functions.

All that is returned is typed and immutable, but for networkx' graphs. Errors are ptxtools.errors.ConfigError, which say
what is wrong with a file and where. Nothing is printed. Each function imports what it needs, so that `import tessera`
takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import networkx as nx

    from controlplane.graph.study import Study
    from controlplane.observe.listing import LaunchRow
    from controlplane.observe.trace import Trace
    from controlplane.plan.planfile import Plan
    from controlplane.profile.model import Profile
    from controlplane.report.statistics import Report
    from controlplane.simulate.comparison import Compared
    from controlplane.simulate.place import Placement

FRAME_PIXELS = 640


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG, which notebooks show."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture of {len(self.svg):,} characters>"


@dataclass(frozen=True, slots=True)
class Page:
    """HTML that loads nothing, which notebooks show in a frame of its own."""

    html: str

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {FRAME_PIXELS}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<page of {len(self.html):,} characters>"


def read_trace(file: str | PathLike[str], process: int | None = None) -> Trace:
    """Of tessera-run --trace. process: this one alone."""
    from controlplane.observe import trace

    return trace.load(Path(file), process)


def statistics(trace: Trace) -> Report:
    """What --stats says of a run."""
    from controlplane.observe.report import report

    return report(trace.statistics())


def launches(trace: Trace, kernel: str | None = None, limit: int = 50) -> list[LaunchRow]:
    """The first ones. kernel: a glob, which names match as the driver or as people know them."""
    from controlplane.observe import listing

    return listing.launches(trace, kernel, limit)


def picture(trace: Trace, begin_ns: int = 0, end_ns: int | None = None) -> Picture:
    """Threads and GPUs from begin_ns to end_ns after the program's first call."""
    from controlplane.observe import svg, timeline

    window = timeline.Window(begin_ns) if end_ns is None else timeline.Window(begin_ns, end_ns)
    built = timeline.build(trace, window)
    ends = (slice_.end_ns for group in built.groups for track in group.tracks for slice_ in track.slices)
    last = max(ends, default=begin_ns + 1)
    return Picture(svg.draw(built, begin_ns, last if end_ns is None else min(last, end_ns)))


def study(trace: Trace, gpus: int = 2) -> Study:
    """What depends on what, and what could run at the same time; of a trace with --trace-parameters."""
    from controlplane.commands.graph import study_of

    return study_of(trace, gpus)


def dependencies(study: Study) -> nx.DiGraph[int]:
    """The graph for networkx: nodes are operations in the program's order."""
    from controlplane.graph.study import as_graph

    return as_graph(study.found)


def read_profile(file: str | PathLike[str]) -> Profile:
    """Of tessera-run --profile."""
    from controlplane.profile import file as profiles

    return profiles.read(Path(file))


def on_devices(profile: Profile, devices: str) -> Profile:
    """The same on other GPUs, the first of which is the program's own: "h100,l40s", as for --emulate."""
    from controlplane.commands.simulate import on_devices as scaled

    return scaled(profile, devices)


def make_plan(
    profile: Profile,
    objective: Literal["throughput", "latency", "cost", "energy"] = "throughput",
    requests: int | None = None,
) -> Plan:
    """Where the profile's launches should run. requests: in flight at once (default: the program's threads)."""
    from controlplane.plan import planfile, planner
    from controlplane.plan.judged import judge_of
    from controlplane.plan.problem import Objective
    from controlplane.plan.profiled import Wanted, problem_of

    wanted = Wanted(Objective(objective), requests or max(profile.iteration.threads, 1))
    given = problem_of(profile, wanted)
    planned = planner.plan(given.problem, judge=judge_of(profile, wanted.requests))
    return planfile.make(profile, planned, given.notes)


def read_plan(file: str | PathLike[str]) -> Plan:
    """Of tessera plan -o."""
    from controlplane.plan import planfile

    return planfile.read(Path(file))


def simulate(profile: Profile, requests: int | None = None, plan: Plan | None = None) -> Compared:
    """What the placements would bring. requests: so many at a time (default: as the program does)."""
    from controlplane.simulate.comparison import compare
    from controlplane.simulate.load import Load

    load = Load(0, threads=profile.iteration.threads) if requests is None else Load(0, (), requests)
    return compare(profile, load, _placements(profile, plan))


def report(profile: Profile, requests: int | None = None, plan: Plan | None = None) -> Page:
    """The page of `tessera report`."""
    from controlplane.commands.report import page

    return Page(page(profile, _placements(profile, plan), requests or 0, "program", "PROFILE"))


def _placements(profile: Profile, plan: Plan | None) -> Sequence[Placement]:
    from controlplane.plan import planfile
    from controlplane.simulate.place import Fixed

    return [] if plan is None else [Fixed("plan", planfile.patterns(plan, profile, Path("plan")))]
