"""The likeliest mistakes of people: each is answered with its cause and with what to do next.

A GPU without room for copies of memory is in tests/placement/test_copies.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from test_doctor import ANSWER, FACTS, LINKS

from controlplane.commands import doctor as doctor_command
from controlplane.commands import run
from controlplane.commands.main import COMMANDS, main
from controlplane.demo import branches
from controlplane.machine.doctor import diagnose
from controlplane.policy.reasons import WORDS
from ptxtools.native import records
from tests.command import TESSERA_RUN

CORPUS = Path(__file__).parents[1] / "corpus"
ALL = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'
LOAD = """
import ctypes, pathlib, sys
driver, context, module = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
image = pathlib.Path(sys.argv[1]).read_bytes()
assert not driver.cuInit(0) and not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not driver.cuCtxSetCurrent(context)
sys.exit(driver.cuModuleLoadData(ctypes.byref(module), image))
"""
FILES = {
    "p.yaml": ALL,
    "gpu7.yaml": ALL.replace("[1]", "[7]").replace("device: 1", "device: 7"),
    "typo.yaml": ALL.replace("match", "mach"),
    "value.yaml": ALL.replace("device: 1", "device: gpu1"),
    "bracket.yaml": ALL.replace('"*"', '"vector_[*"'),
    "tabs.yaml": "version: 1\ndevices:\n\t- home: 0\n",
    "machine.yaml": "devices: [h200, h200]\nlinkk: nvlink4\n",
    "no_peer.yaml": "devices: [h200, h200]\nlink: pcie5-no-peer\n",
    "follow.yaml": ALL + "memory: {place: follow}\n",
    "nothing.yaml": ALL.replace('"*"', '"trun"'),
    "notes.txt": "not a trace\n",
    "app.py": "print('hello')\n",
    "load.py": LOAD,
}
PROGRAM = [sys.executable, branches.__file__, "1"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """words: those of tessera, or of tessera-run if they begin with an option. cause, step: what the answer has."""

    words: list[str]
    cause: str
    step: str
    code: int = 2
    variables: dict[str, str] = field(default_factory=dict)


MISTAKES = {
    "no driver": Mistake(["--", "true"], "no CUDA driver found", "install one, name it in TESSERA_DRIVER, or", 1),
    "a driver that is not there": Mistake(
        ["--", "true"], "TESSERA_DRIVER=/none is not there", "expected the path of", 2, {"TESSERA_DRIVER": "/none"}
    ),
    "one GPU": Mistake(
        ["--emulate", "1", "--policy", "p.yaml", "--", "true"],
        "p.yaml:2: GPU 1 does not exist: the machine has 1 GPU",
        "expected GPUs that exist: 0",
    ),
    "one GPU for all": Mistake(
        ["--emulate", "1", "--gpus", "all", "--no-summary", "--", "true"], "there is one GPU", "--emulate 2 has more", 0
    ),
    "more GPUs than there are": Mistake(
        ["--emulate", "2", "--gpus", "3", "--", "true"], "--gpus 3: this machine has 2", "expected all, or as many"
    ),
    "a GPU that is missing": Mistake(
        ["--emulate", "2", "--policy", "gpu7.yaml", "--", "true"],
        "gpu7.yaml:2: GPU 7 does not exist: the machine has 2 GPUs",
        "expected GPUs that exist: 0, 1",
    ),
    "a policy that is not there": Mistake(
        ["--emulate", "2", "--policy", "none.yaml", "--", "true"], "none.yaml: cannot be read (No such", "a YAML file"
    ),
    "a typo in a key": Mistake(
        ["--emulate", "2", "--policy", "typo.yaml", "--", "true"],
        "typo.yaml:4: rules: unknown key 'mach', did you mean 'match'?",
        "expected one of device, match",
    ),
    "a typo in a value": Mistake(
        ["policy", "check", "value.yaml"],
        "value.yaml:4: rules.device: 'gpu1' is not a place to run",
        "expected home, by_stream, by_thread, or a GPU of this policy: 0, 1",
    ),
    "a glob that is not closed": Mistake(
        ["policy", "check", "bracket.yaml"], "bracket.yaml:4: rules.match.function: the bracket", "expected a glob such"
    ),
    "tabs": Mistake(["policy", "check", "tabs.yaml"], "tabs.yaml:3: not YAML: found character", "expected a YAML file"),
    "a typo in a machine": Mistake(
        ["--emulate", "machine.yaml", "--", "true"],
        "machine.yaml:2: unknown key 'linkk', did you mean 'link'?",
        "expected one of devices",
    ),
    "a GPU that nobody makes": Mistake(
        ["--emulate", "h20", "--", "true"], "no GPU 'h20' in the catalogue, did you mean h200?", "`tessera devices`"
    ),
    "an option with a typo": Mistake(
        ["--emulat", "2", "--", "true"], "unrecognized arguments: --emulat; did you mean --emulate?", "--help"
    ),
    "an option without its value": Mistake(["--emulate", "--", "true"], "expected one argument", "--help"),
    "a command with a typo": Mistake(["analyse"], "'analyse'", "did you mean analyze?"),
    "no program": Mistake(["--emulate", "2"], "no program is given", "expected tessera-run [options] -- program"),
    "a program that is not in PATH": Mistake(
        ["--emulate", "2", "--", "app.py"], "app.py: No such file or directory", "needs its path: ./app.py", 127
    ),
    "a program that is none": Mistake(
        ["--emulate", "2", "--", "./app.py"], "./app.py: Permission denied", "to run it: python ./app.py", 126
    ),
    "a report that cannot be written": Mistake(
        ["--emulate", "2", "--json", "/none/x", "--", "true"],
        "--json /none/x: No such file",
        "expected a writable file",
    ),
    "no trace": Mistake(["trace", "show", "notes.txt"], "notes.txt: offset 0: this is no trace", "tessera-run --trace"),
    "verifying without rules": Mistake(
        ["--emulate", "2", "--verify", "--", "true"],
        "compares launches that run elsewhere",
        "expected --policy with a policy file, --gpus or --plan",
    ),
    "fewer GPUs than none": Mistake(["--emulate", "-1", "--", "true"], "not a usable number", "expected 1 to 16"),
    "the home GPU is hidden": Mistake(
        ["--emulate", "2", "--policy", "p.yaml", "--", "true"],
        "CUDA_VISIBLE_DEVICES=1 hides the home GPU 0",
        "expected as home a GPU that it sees: 1",
        2,
        {"CUDA_VISIBLE_DEVICES": "1"},
    ),
    "an installation that is broken": Mistake(
        ["--emulate", "2", "--", "true"],
        "TESSERA_NATIVE=/none is not usable",
        "expected",
        2,
        {"TESSERA_NATIVE": "/none"},
    ),
}
RUNS = {
    "no GPU of those is visible": Mistake(
        ["--emulate", "2", "--", *PROGRAM],
        "no process initialised the driver: CUDA_VISIBLE_DEVICES=5 is set",
        "the emulated GPUs are 0, 1",
        1,
        {"CUDA_VISIBLE_DEVICES": "5"},
    ),
    "a rule that matches nothing": Mistake(
        ["--emulate", "2", "--policy", "nothing.yaml", "--", *PROGRAM],
        "the rule in line 4 matched no launch",
        "did you mean turn?",
        0,
    ),
    "no peer access": Mistake(
        ["--emulate", "no_peer.yaml", "--policy", "follow.yaml", "--", *PROGRAM],
        "memory_not_shared: they are given memory that other GPUs cannot use",
        "without peer access, say memory: {place: copies}",
        0,
    ),
    "a first run": Mistake(
        ["--emulate", "2", "--policy", "p.yaml", "--check-writes", "--", "true"],
        "nothing was checked",
        "launched nothing",
        3,
    ),
    "the CUDA runtime inside": Mistake(
        ["--emulate", "2", "--", "./static"], "has the CUDA runtime inside itself", "link it with -cudart shared", 0
    ),
    "machine code on emulated GPUs": Mistake(
        ["--emulate", "h200", "--", sys.executable, "load.py", str(CORPUS / "image" / "plain.cubin")],
        "only machine code for sm_80",
        "build it with PTX, too",
        209,
    ),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_build: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    for name in ("CUDA_VISIBLE_DEVICES", "TESSERA_DRIVER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def ended(call: Callable[[], int]) -> object:
    try:
        return call()
    except SystemExit as end:
        return end.code


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered(name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    mistake = MISTAKES[name]
    monkeypatch.setattr("controlplane.machine.driver.find", lambda _: None)
    for variable, value in mistake.variables.items():
        monkeypatch.setenv(variable, value)
    begin = run.main if mistake.words[0].startswith("-") else main
    assert ended(lambda: begin(mistake.words)) == mistake.code
    said = capfd.readouterr().err
    assert mistake.cause in said
    assert mistake.step in said


@pytest.mark.parametrize("name", RUNS)
def test_a_mistake_is_answered_after_the_run(name: str, place: Path) -> None:
    mistake = RUNS[name]
    source = 'char code[] __attribute__((section(".nv_fatbin"))) = "code";\nint main(void) { return code[0] == 0; }\n'
    if "./static" in mistake.words:
        (place / "static.c").write_text(source)
        subprocess.run([os.environ.get("CC", "cc"), "-o", place / "static", place / "static.c"], check=True)
    environment = {**os.environ, "XDG_CACHE_HOME": str(place / "cache"), **mistake.variables}
    done = subprocess.run(
        [TESSERA_RUN, *mistake.words], text=True, capture_output=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == mistake.code, done.stderr
    assert mistake.cause in done.stderr
    assert mistake.step in done.stderr


@pytest.mark.parametrize(
    ("change", "cause", "step"),
    [
        ({"answer": replace(ANSWER, version=12020)}, "CUDA 12.2", "install a driver for CUDA"),
        ({"answer": replace(ANSWER, links=(LINKS[0], replace(LINKS[1], peer_access=False)))}, "peer access", "copies"),
        ({"driver": None, "answer": None}, "driver", "--emulate"),
    ],
    ids=["an old driver", "no peer access", "no driver"],
)
def test_the_doctor_answers(change: dict[str, object], cause: str, step: str) -> None:
    facts = {name: getattr(FACTS, name) for name in FACTS.__slots__}
    text = doctor_command.to_text(diagnose(type(FACTS)(**{**facts, **change})))
    assert cause in text
    assert step in text


def test_every_reason_is_told_in_words() -> None:
    found = records.header("records.h")[0].typeof("enum tsr_reason").relements
    assert set(WORDS) == {name.removeprefix("TSR_REASON_").lower() for name in found} - {"none"}


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    said = capsys.readouterr().out
    assert all(f"    {name} " in said or f"    {name}\n" in said for name in COMMANDS)
    assert "tessera demo  " in said


@pytest.mark.parametrize(
    ("module", "words"),
    [("plan", "['plan', 'app.profile']"), ("run", "['run', '--', 'true']"), ("graph", "['graph', 'app.trace']")],
)
def test_ctrl_c_ends_a_command_without_a_word(module: str, words: str) -> None:
    """By the signal, so that a shell's loop of such commands ends, too."""
    main = "controlplane.commands.main.main"
    run = "_run" if module == "run" else "run"
    text = (
        "import os, signal, controlplane.commands.main\n"
        f"import controlplane.commands.{module} as command\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs in the background ignore it from the start
        f"command.{run} = lambda options: os.kill(os.getpid(), signal.SIGINT)\n"
        f"{main}({words})\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
