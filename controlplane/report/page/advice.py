"""What a reader of a report could do next: in the order of what it may bring."""

from __future__ import annotations

from controlplane.base.tables import amount
from controlplane.profile.model import Profile
from controlplane.profile.scale import error_of
from controlplane.simulate.comparison import Compared, carries
from controlplane.simulate.result import Result

WORTH = 1.1  # times one GPU, to be called a gain


def verdict(of: Compared, best: Result) -> str:
    """In a sentence. best: the placement that the page is about."""
    gpus = len(of.profile.machine.gpus)
    gain = of.gain(best)
    some = "both" if gpus == 2 else f"all {gpus}"
    if gpus == 1:
        return "There is one GPU: it does all the work."
    if gain >= WORTH:
        return f"With {some} GPUs the program would do {gain:.2f} times as much as on its own GPU alone ({best.name})."
    return f"A further GPU would bring this program little as it is: {gain:.2f} times as much ({best.name})."


def next_steps(of: Compared, best: Result, name: str) -> list[str]:
    """name: of the file that the report is on."""
    profile, gpus = of.profile, len(of.profile.machine.gpus)
    steps: list[str] = []
    if gpus == 1:
        steps.append(f"See what more GPUs would bring: tessera simulate {name} --devices h200,h200, or h200,l40s.")
    elif of.gain(best) >= WORTH:
        steps += _how(best.name, name)
    if carries(profile) and of.load.servers < 2:
        steps.append(
            "Each iteration needs what the one before left, so one client keeps one GPU busy at a time. With several "
            f"clients it is different: --requests {2 * gpus}."
        )
    host = sum(each.host_ns for each in profile.iteration.operations)
    if of.gain(best) < WORTH and host > 0.8 * of.results[0].period_ns:
        steps.append(
            "The program's own thread is what limits: it takes about as long to issue the launches as the GPU to run "
            "them. CUDA graphs or larger batches help, further GPUs do not."
        )
    steps += _unknown(profile)
    for number, kind in enumerate(profile.machine.types):
        if error_of(profile, number) > 0.05:
            steps.append(
                f"Times on {kind.name} are estimates (+-{error_of(profile, number):.0%}). Profile the program there, "
                "or let launches run there once under tessera-run --gpus all --profile, and they are measured."
            )
    if gpus > 1 and not any(each.name == "plan" for each in of.results):
        steps.append(
            f"Let the planner look for a better placement: tessera plan {name} -o PLAN, then --plan PLAN here."
        )
    return steps


def _how(best: str, name: str) -> list[str]:
    if best == "rule":
        return [
            "Let Tessera place each launch while the program runs, without a plan: tessera-run --gpus all -- program."
        ]
    if best == "router":
        return [
            "Serve whole requests on each GPU: a process for each behind a router, or `device: by_stream` in a policy."
        ]
    if best == "plan":
        return [f"Use the plan: it was made for {name}."]
    return []


def _unknown(profile: Profile) -> list[str]:
    coverage = profile.coverage
    steps = [
        f"{count} operations of the iteration may touch any memory, for all that is known ({reason}): everything waits "
        "for them. tessera analyze and tessera probe may find out more."
        for reason, count in coverage.unknown
    ]
    if coverage.whole:
        steps.append(
            f"{coverage.whole} launches are known to read something in an allocation, but not what: tessera graph says "
            "which of them hold the program up."
        )
    if coverage.untimed_share > 0.02:
        steps.append(
            f"{coverage.untimed_share:.0%} of the iteration's time was not measured: profile with --timing all."
        )
    need = profile.constant_bytes()
    small = [kind.name for kind in profile.machine.types if 0 < kind.memory_bytes < need]
    return steps + [f"Weights of {amount(need)} do not fit into {name}: they have to be divided." for name in small]
