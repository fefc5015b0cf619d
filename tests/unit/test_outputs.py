"""Files that a run writes at its end, and that are looked at before the program starts."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.run.outputs import Output
from ptxtools.errors import ConfigError
from tests.command import TESSERA_RUN, with_native

NOBODY = 65534


def as_nobody(work: Callable[[], None]) -> int:
    """The exit code of a child that is another user, if this one may become it: root may write everywhere."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def output(file: Path) -> Output:
    return Output("--json ", file)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file, link = tmp_path / "report.json", tmp_path / "link"
    link.symlink_to(file)
    output(link).check()
    assert [each.name for each in tmp_path.iterdir()] == ["link"]
    output(link).write("first")
    assert (file.read_text(), link.is_symlink()) == ("first", True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask()
    file.chmod(0o640)
    with file.open() as before:
        output(file).check()
        assert file.read_text() == "first"
        output(file).write("second")
        assert before.read() == "first"
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("second", 0o640)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "report.json"]


def umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "none" / "report.json", Path("/proc/none"), Path("/dev/null/report.json")):
        with pytest.raises(ConfigError, match=f"--json {file}: .*; expected a writable file"):
            output(file).check()


def test_anothers_place_is_refused_and_left(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("place")
    for folder in (place, *place.parents[:3]):  # pytest's folders, one more under pytest-xdist
        if not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(0o755)
    closed, open_, there = place / "closed", place / "open", place / "open" / "there"
    closed.mkdir(0o555)
    open_.mkdir()
    open_.chmod(0o777)
    there.write_text("kept")
    there.chmod(0o444)
    if os.geteuid() != 0:
        open_.chmod(0o755)

    def work() -> None:
        for file in (closed / "report.json", there):
            with pytest.raises(ConfigError, match="Permission denied"):
                output(file).check()
        output(open_ / "new").write("x")

    assert as_nobody(work) == 0
    assert there.read_text() == "kept"
    assert (open_ / "new").read_text() == "x"


def test_pipes_and_files_of_several_names_are_written_in_their_place(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("before")
    other.hardlink_to(one)
    output(one).write("x")
    assert other.read_text() == "x"
    reading, writing = os.pipe()
    pipe = Path(f"/proc/self/fd/{writing}")
    output(pipe).check()
    output(pipe).write("through")
    assert os.read(reading, 100) == b"through"
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("option", ["--json", "--stats", "--trace"])
def test_nothing_runs_when_a_file_cannot_be_written(option: str, fake_native: Path, tmp_path: Path) -> None:
    ran, kept = tmp_path / "ran", tmp_path / "kept"
    kept.write_text("kept")
    files = [*([] if option == "--json" else ["--json", str(kept)]), option, "/proc/none"]
    command = [str(TESSERA_RUN), "--emulate", "1", *files, "--", "touch", str(ran)]
    done = subprocess.run(command, env=with_native(fake_native), text=True, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert re.search(f"{option}[ =]/proc/none: No such file or directory; expected a writable file", done.stderr)
    assert (ran.exists(), kept.read_text()) == (False, "kept")


def test_a_program_that_is_not_there_leaves_files_as_they_were(fake_native: Path, tmp_path: Path) -> None:
    kept, trace = tmp_path / "kept", tmp_path / "trace"
    for file in (kept, trace):
        file.write_text("kept")
    options = ["--emulate", "1", "--json", str(kept), "--trace", str(trace), "--stats", str(tmp_path / "none")]
    command = [str(TESSERA_RUN), *options, "--", str(tmp_path / "program")]
    done = subprocess.run(command, env=with_native(fake_native), text=True, capture_output=True, timeout=60)
    assert (done.returncode, kept.read_text(), trace.read_text()) == (127, "kept", "kept")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept", "trace"]
