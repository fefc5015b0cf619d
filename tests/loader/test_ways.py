"""Every way of reaching the driver leads to the shim, or is known to pass it and is told."""

import subprocess
from pathlib import Path

import pytest

from controlplane.machine import driver
from tests.command import TESSERA_RUN, with_native
from tests.loader.probes import Probes
from tests.loader.ways import CAUGHT, FUNCTIONS, PASSED, PAST, arguments
from tests.null_driver.calls import FUTURE, STRANGERS


@pytest.mark.parametrize("way", CAUGHT, ids=" ".join)
def test_caught(probes: Probes, way: tuple[str, ...]) -> None:
    done = probes.run(*arguments(probes, way), LD_LIBRARY_PATH=str(probes.directory))
    assert done.objects == dict.fromkeys(FUNCTIONS, probes.shim.resolve())
    assert done.calls == {"cuInit": 1, "cuDriverGetVersion": 1, "cuGetProcAddress_v2": 2}
    assert done.log == ""


@pytest.mark.parametrize("way", PASSED, ids=" ".join)
def test_what_passes_is_told(probes: Probes, way: tuple[str, ...]) -> None:
    done = probes.run(*arguments(probes, way), LD_LIBRARY_PATH=str(probes.directory))
    assert set(done.objects.values()) == {probes.driver.resolve()}
    assert done.calls["cuInit"] == 1
    assert done.calls[STRANGERS] == done.calls["cuGetProcAddress_v2"] == 2
    assert done.log.count("\n") == 1
    assert PAST in done.log
    assert "/libcuda.so.1" in done.log


def test_first_calls_of_16_threads(probes: Probes) -> None:
    """Linked, by name and by path, in 40 processes: each call reaches the driver once."""
    for _ in range(40):
        done = probes.run("linked", "race", probes.directory / "libcuda.so.1", LD_LIBRARY_PATH=str(probes.directory))
        assert done.calls == {"cuInit": 4, "cuDriverGetVersion": 4, "cuCtxSetLimit": 4, "cuCtxGetLimit": 4}


def test_look_ups_of_other_things_do_not_open_the_driver(probes: Probes) -> None:
    probes.run("details", "unconcerned", probes.driver)


def test_errno_and_dlerror(probes: Probes) -> None:
    probes.run("details", "errors")


def test_functions_newer_than_the_table(probes: Probes) -> None:
    assert probes.run("details", "newer", probes.driver).calls[FUTURE] == 2


def test_functions_that_the_driver_lacks(probes: Probes) -> None:
    old = probes.directory / "old" / "libcuda.so.1"
    probes.run("details", "older", old, TESSERA_DRIVER=str(old))


def test_functions_of_other_libraries(probes: Probes) -> None:
    probes.run("details", "others", probes.directory / "other.so")


def test_the_next_object_is_counted_from_the_caller(probes: Probes) -> None:
    probes.run("next")


def test_another_override_of_dlsym(probes: Probes) -> None:
    """After us it gets what does not concern the driver. Before us it may pass us over: tessera-run puts us first."""
    interposer = probes.directory / "interposer.so"
    after = probes.run("details", "unconcerned", probes.driver, LD_PRELOAD=f"{probes.shim}:{interposer}")
    assert after.lines == ["counted 2"]
    before = probes.run("opened", "dlopen", probes.directory / "libcuda.so", LD_PRELOAD=f"{interposer}:{probes.shim}")
    assert before.lines.pop() == "counted 3"
    assert set(before.objects.values()) == {probes.driver.resolve()}
    assert PAST in before.log


def test_a_process_that_uses_no_gpu_is_left_alone(probes: Probes) -> None:
    done = probes.run("next", TESSERA_LOG="debug", TESSERA_DRIVER="/none")
    assert (done.lines, done.log, done.calls) == ([], "", {})


@pytest.mark.parametrize("name", ["libcuda.so.1", "shim", "/none/libcuda.so.1"])
def test_a_driver_that_is_none(probes: Probes, name: str) -> None:
    named = str(probes.shim) if name == "shim" else name
    environment = {"TESSERA_DRIVER": named}
    with pytest.raises(AssertionError, match=r"TESSERA_DRIVER=.* cannot be used") as failure:
        probes.run("opened", "dlopen", "libcuda.so.1", **environment)
    reason = "cannot open shared object file" if name.startswith("/") else "leads to Tessera itself"
    assert reason in str(failure.value)


def test_without_a_name_the_driver_is_found_where_the_loader_would(
    probes: Probes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LD_LIBRARY_PATH leads to it, also in a directory with nothing but versioned names; we are never the answer.

    The control plane finds the same.
    """
    monkeypatch.setenv("TESSERA_NATIVE", str(probes.shim.parents[1]))
    (tmp_path / "libcuda.so.9.1").write_text("not a library")
    (tmp_path / "libcuda.so.580.10").symlink_to(probes.driver)
    for path in (f"{probes.shim.parent}:relative:{probes.directory}", f"/none::{tmp_path};{probes.shim.parent}"):
        done = probes.run("linked", "linked", LD_LIBRARY_PATH=path, TESSERA_DRIVER="", TESSERA_LOG="info")
        assert done.calls["cuInit"] == 1
        assert f"the driver is {driver.find({'LD_LIBRARY_PATH': path})}\n" in done.log


@pytest.mark.full
@pytest.mark.parametrize("front", [[], ["--shim"]], ids=["emulator", "shim"])
@pytest.mark.parametrize(
    "way", [("linked", "linked"), ("opened", "dlopen", "libcuda.so.1"), ("opened", "dlopen", "libcuda.so")]
)
def test_emulated(probes: Probes, way: tuple[str, ...], front: list[str]) -> None:
    """Under --emulate there is no driver for libcuda.so to lead to but ours."""
    native = probes.shim.parents[1]
    program, *rest = arguments(probes, way)
    command = [str(TESSERA_RUN), "--emulate", "1", *front, "--no-summary", "--", f"{probes.directory}/{program}", *rest]
    environment = with_native(native)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = {line.split(" ", 1)[1] for line in done.stdout.splitlines()}
    assert found == {str(probes.shim if front else native / "emulator" / "libcuda.so.1")}
