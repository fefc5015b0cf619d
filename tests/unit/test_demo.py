"""`tessera demo`: what README shows first."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from controlplane.commands.main import main
from tests import schemas
from tests.command import TESSERA, with_native


def test_a_second_gpu_helps(native_build: Path) -> None:
    environment = {**with_native(native_build / "native"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([TESSERA, "demo"], text=True, capture_output=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"done ([\d.]+) times as early, with the same result", done.stdout)
    assert found
    assert float(found[1]) > 1.5


@pytest.mark.full
def test_it_prints_the_same_as_json(native_build: Path) -> None:
    environment = with_native(native_build / "native")
    done = subprocess.run(
        [TESSERA, "demo", "--json"], text=True, capture_output=True, env=environment, timeout=120, check=True
    )
    found = json.loads(done.stdout)
    schemas.check("demo", found)
    assert found["is_same"]
    assert found["gain"] == found["alone"]["virtual_ns"] / found["placed"]["virtual_ns"] > 1.5
    assert sum(found["alone"]["launches"]) == sum(found["placed"]["launches"])


def test_one_gpu_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--gpus", "1"]) == 2
    assert "--gpus 1 is not usable here; expected from 2 to 8" in capsys.readouterr().err
