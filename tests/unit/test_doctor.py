"""`tessera doctor` on machines that lack something."""

import json
import os
import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.commands import doctor as command
from controlplane.commands import top
from controlplane.machine import gpus
from controlplane.machine.doctor import OPTIONAL, PACKAGES, UNLIMITED, Check, Facts, Kernel, State, diagnose
from controlplane.machine.gpus import Answer, Gpu, Link, Management
from controlplane.plan import solver_package
from tests import schemas
from tests.command import TESSERA, TESSERA_RUN

ROOT = Path(__file__).parents[2]
H200 = Gpu(0, "NVIDIA H200", "0000:04:00.0", 150_000_000_000, (9, 0), 132, True, True, True, 18, "4.0")
PAIR = (H200, replace(H200, number=1, pci="0000:05:00.0"))
LINKS = (Link(0, 1, True, True, 0, True), Link(1, 0, True, True, 0, True))
ANSWER = Answer(None, 13000, "580.159.04", PAIR, LINKS)
KERNEL = Kernel("Linux x86_64", None, None, None, 8 << 30, UNLIMITED, 4096, 65530, 0)
FACTS = Facts(
    python=(3, 12, 1),
    packages={"cffi": "2.1.1"},
    native={"shim/libcuda.so.1": None},
    kernel=KERNEL,
    emulated=False,
    driver=Path("/usr/lib64/libcuda.so.1"),
    answer=ANSWER,
)


def faults(facts: Facts) -> list[tuple[str, State]]:
    return [(check.name, check.state) for check in diagnose(facts).checks if check.state is not State.OK]


def test_a_machine_that_has_everything() -> None:
    report = diagnose(FACTS)
    assert (faults(FACTS), report.worst) == ([], State.OK)
    text = command.to_text(report)
    assert "driver /usr/lib64/libcuda.so.1, release 580.159.04, CUDA 13.0\n" in text
    assert (
        "GPU 1  NVIDIA H200, 139.7 GiB, compute capability 9.0, 132 SMs, 0000:05:00.0, 18 links of NVLink 4.0" in text
    )
    assert [line.split("  ") for line in text.splitlines() if line.startswith("GPU 0  ")][1][-1] == "NVLink, atomics"
    assert "279.4 GiB on 2 GPUs, less the reserve of each" in text
    assert text.endswith("\nEverything is usable.")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"driver": None, "answer": None}, [("driver", State.MISSING)]),
        ({"answer": Answer(error="cuInit: CUDA_ERROR_NO_DEVICE")}, [("driver", State.MISSING)]),
        ({"answer": replace(ANSWER, version=12020)}, [("driver", State.MISSING)]),
        ({"answer": replace(ANSWER, version=14000)}, [("driver", State.NOTE)]),
        ({"answer": Answer(version=13000)}, [("GPUs", State.MISSING)]),
        ({"answer": Answer(version=13000, gpus=PAIR[:1])}, [("GPUs", State.NOTE)]),
        (
            {"answer": replace(ANSWER, gpus=(PAIR[0], replace(PAIR[1], virtual_memory=False, green_contexts=False)))},
            [("virtual memory", State.MISSING), ("green contexts", State.NOTE)],
        ),
        (
            {"answer": replace(ANSWER, links=(LINKS[0], replace(LINKS[1], peer_access=False)))},
            [("peer access", State.NOTE)],
        ),
        ({"answer": ANSWER.split(2), "parts": 2}, [("GPUs", State.NOTE)]),
        ({"python": (3, 10, 9)}, [("Python", State.BROKEN)]),
        ({"packages": {"cffi": None}}, [("cffi", State.BROKEN)]),
        ({"packages": {"cffi": "2", "zstandard": None}}, [("zstandard", State.NOTE)]),
        ({"native": {"shim/libcuda.so.1": "file too short"}}, [("shim/libcuda.so.1", State.BROKEN)]),
        ({"kernel": replace(KERNEL, machine="Linux aarch64")}, [("system", State.BROKEN)]),
        ({"kernel": replace(KERNEL, memory_file_error="Not permitted")}, [("memory files", State.BROKEN)]),
        ({"kernel": replace(KERNEL, socket_error="Connection refused")}, [("sockets", State.BROKEN)]),
        ({"kernel": replace(KERNEL, reservation_error="No memory")}, [("2 TiB of addresses", State.MISSING)]),
        (
            {"kernel": replace(KERNEL, shared_bytes=64 << 20, locked_bytes=8 << 20, descriptors=256, mappings=1000)},
            [
                ("/dev/shm", State.NOTE),
                ("locked memory", State.NOTE),
                ("open files", State.NOTE),
                ("mappings", State.NOTE),
            ],
        ),
        ({"kernel": replace(KERNEL, overcommit=2)}, [("overcommit", State.NOTE)]),
    ],
)
def test_what_is_missing(change: dict[str, object], expected: list[tuple[str, State]]) -> None:
    facts = Facts(**{**{name: getattr(FACTS, name) for name in Facts.__slots__}, **change})
    assert faults(facts) == expected
    report = diagnose(facts)
    text = command.to_text(report)
    for check in report.checks:
        assert check.state is State.OK or check.remedy, "what to do is said"
        assert check.remedy in text or check.state is State.OK
    assert command.EXIT_CODES.get(report.worst, 0) == {"missing": 1, "broken": 70}.get(report.worst, 0)


def test_the_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    extra = [*extras["plan"], *extras["top"]]
    assert extra == [solver_package.REQUIREMENT, top.REQUIREMENT]
    assert solver_package.REQUIREMENT in OPTIONAL["ortools"]
    assert top.REQUIREMENT in OPTIONAL["textual"]
    needs = [re.split(r"[<>=]", need)[0].lower() for need in [*project["dependencies"], *extra]]
    assert sorted(name.lower() for name in (*PACKAGES, *OPTIONAL)) == sorted(needs)


def test_the_worst_counts() -> None:
    facts = replace(FACTS, answer=None, packages={"cffi": None})
    assert diagnose(facts).worst is State.BROKEN
    assert replace(diagnose(facts), checks=(Check("a", State.NOTE, ""), Check("b", State.OK, ""))).worst is State.NOTE


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, native_build: Path) -> None:
    """No driver is named, and the native parts are those of this checkout."""
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    for name in ("TESSERA_DRIVER", "TESSERA_MACHINE", "LD_PRELOAD", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=120, check=False)


@pytest.mark.usefixtures("clean")
def test_under_emulation() -> None:
    shape: list[str | Path] = [
        TESSERA_RUN,
        "--emulate",
        "h100,l40s",
        "--no-summary",
        "--",
        TESSERA,
        "doctor",
    ]
    done = run(*shape, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["emulated"], found["driver"]["cuda"]) == (True, 13000)
    assert [gpu["name"] for gpu in found["gpus"]] == ["NVIDIA H100 80GB HBM3", "NVIDIA L40S"]
    assert [(link["source"], link["target"], link["peer_access"]) for link in found["links"]] == [
        (0, 1, True),
        (1, 0, True),
    ]
    assert run(*shape).stdout.startswith("driver emulated, CUDA 13.0\nGPU 0  NVIDIA H100")


@pytest.mark.usefixtures("clean")
def test_a_driver_of_the_system(native_build: Path) -> None:
    """The null driver, which has neither virtual memory nor a second GPU."""
    driver = native_build / "null_driver" / "libcuda.so.1"
    for variables in ({"TESSERA_DRIVER": str(driver)}, {"LD_LIBRARY_PATH": str(driver.parent)}):
        done = run(TESSERA, "doctor", "--json", **variables)
        assert done.returncode == 1, done.stderr
        found = json.loads(done.stdout)
        schemas.check("doctor", found)
        assert (found["verdict"], found["driver"]["path"]) == ("missing", str(driver))
        assert found["gpus"][0]["name"] == "Null device"


@pytest.mark.usefixtures("clean")
def test_mistakes_and_broken_installations(tmp_path: Path, native_build: Path) -> None:
    assert run(TESSERA, "doctor", "--colour").returncode == 2
    assert run(TESSERA, "doctor", TESSERA_DRIVER="/none/libcuda.so.1").returncode == 2
    for part in ("include", "emulator", "cudart", "executor"):
        (tmp_path / part).symlink_to(native_build / "native" / part)
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim" / "libcuda.so.1").write_text("")
    done = run(TESSERA, "doctor", TESSERA_NATIVE=str(tmp_path))
    assert (done.returncode, "file too short" in done.stdout) == (70, True)


FAULTY_DRIVERS = {
    "return *(volatile int *)0;": "it crashed with SIGSEGV",
    "for (;;) ;": "it did not answer within 2 s",
    "return 100;": "cuInit: CUDA_ERROR_NO_DEVICE",
}


@pytest.mark.full
@pytest.mark.parametrize(("body", "error"), FAULTY_DRIVERS.items(), ids=FAULTY_DRIVERS.values())
def test_a_faulty_driver_hurts_nobody(body: str, error: str, tmp_path: Path) -> None:
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(
        f"int cuInit(void) {{ {body} }}\n"
        "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }\n"
        'int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_NO_DEVICE"; return 0; }\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-w", source, "-o", library], check=True)
    assert gpus.ask(library, os.environ, timeout_s=2).error == error


MANAGEMENT = """
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned bytes) { strncpy(text, "580.1", bytes); return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, long *handle) { *handle = pci[6]; return 0; }
int nvmlDeviceGetNvLinkState(long handle, unsigned link, unsigned *active) { *active = link % 2; return link > 5; }
int nvmlDeviceGetNvLinkVersion(long handle, unsigned link, unsigned *version) { *version = 6; return 0; }
int nvmlDeviceGetP2PStatus(long from, long to, int capability, int *status) { *status = from < to ? 0 : 1; return 0; }
"""


def test_the_management_library_adds_links(tmp_path: Path) -> None:
    source, library = tmp_path / "nvml.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(MANAGEMENT)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", source, "-o", library], check=True)
    management = Management.open(str(library))
    assert management
    answer = gpus.with_links(ANSWER, management)
    assert (answer.release, answer.gpus[0].nvlinks, answer.gpus[0].nvlink_version) == ("580.1", 3, "4.0")
    assert [link.nvlink for link in answer.links] == [True, False]
    assert Management.open("libnone.so.1") is None
