"""Settings in which programs that launch graphs run: under policies, or with launches placed one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.emulated import ALL_GPUS, Machine, Ran, with_copies
from tests.emulated import run as run_emulated

HERE = Path(__file__).parent
RANDOM, REPLAY = HERE / "random_guest.py", HERE / "replay_guest.py"


@dataclass(frozen=True, slots=True)
class Setting:
    """rules: of a policy with copies of memory; "": `options` alone. The GPUs are 0 to gpus - 1."""

    gpus: int = 2
    rules: str = ""
    order: str = "data"
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


HALF = "rules: [{match: {share: {fraction: 0.5, seed: 3}}, device: 1}]"
THIRDS = (
    "rules:\n  - {match: {share: {fraction: 0.33, seed: 5}}, device: 1}\n"
    "  - {match: {share: {fraction: 0.5, seed: 6}}, device: 2}"
)
PLACED = {"TESSERA_LEAD": "0"}
SETTINGS = {
    "away": Setting(rules="default: 1"),
    "half": Setting(rules=HALF),
    "half in stream order": Setting(rules=HALF, order="stream"),
    "thirds": Setting(gpus=3, rules=THIRDS),
    "streams": Setting(gpus=4, rules="default: by_stream"),
    "placed": Setting(options=ALL_GPUS, variables=PLACED),
    "placed on four": Setting(gpus=4, options=ALL_GPUS, variables=PLACED),
}


def run(
    native: Path,
    place: Path,
    program: Sequence[object],
    setting: Setting | None = None,
    gpu: str = "",
    disorder: int = 0,
    model: str = "h200",
) -> Ran:
    """setting: None: without a policy. gpu: what a GPU has other than the catalogue's of that model."""
    setting = setting or Setting()
    return run_emulated(
        native,
        place,
        Machine(setting.gpus, gpu, model=model),
        program,
        setting.options,
        policy=with_copies(setting.gpus, setting.rules, setting.order) if setting.rules else "",
        variables={"TESSERA_DISORDER": str(disorder), **setting.variables},
        timeout_s=300,
    )
