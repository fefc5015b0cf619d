"""The layout of records as cffi reads it against what the C compiler makes of the same header."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI

from ptxtools.native import records
from tests.command import with_native

INCLUDE = Path(__file__).parents[2] / "interpose" / "include"


def _members(ffi: FFI, kind: Any, path: str = "") -> Iterator[tuple[str, int, int]]:
    """Path, offset and size of every member, those of nested structs, unions and elements of arrays included."""
    for name, field in kind.fields or ():
        here = f"{path}.{name}" if path else name
        yield here, field.offset, ffi.sizeof(field.type)
        inner = field.type
        while inner.kind == "array":
            inner = inner.item
        if inner.kind in ("struct", "union"):
            suffix = "[0]" * str(field.type).count("[")
            for deeper, offset, size in _members(ffi, inner, f"{here}{suffix}"):
                yield deeper, field.offset + offset, size


@pytest.mark.parametrize("header", ["records.h", "policy.h", "machine.h", "templates.h", "checks.h", "clones.h"])
@pytest.mark.usefixtures("native")
def test_cffi_and_the_compiler_agree(header: str, tmp_path: Path) -> None:
    ffi, _ = records.header.__wrapped__(header)
    assert not isinstance(ffi, FFI), "parsed, not read from layouts/"
    structs = [name for name in ffi.list_types()[1] if name.startswith("tsr_")]
    expected = {}
    for struct in structs:
        kind: Any = ffi.typeof(f"struct {struct}")
        expected[f"{struct} -"] = (0, ffi.sizeof(kind))
        expected |= {f"{struct} {member}": (offset, size) for member, offset, size in _members(ffi, kind)}
    lines = [
        f'    printf("%s %zu %zu\\n", "{struct} {member}", '
        + (
            "(size_t)0, sizeof(struct {0}));"
            if member == "-"
            else "offsetof(struct {0}, {1}), sizeof(((struct {0} *)0)->{1}));"
        ).format(struct, member)
        for struct, member in (key.split() for key in expected)
    ]
    source = tmp_path / "layout.c"
    source.write_text(
        "\n".join(
            [
                "#include <stddef.h>",
                "#include <stdio.h>",
                f"#include <tessera/{header}>",
                "int main(void)",
                "{",
                *lines,
                "}",
            ]
        )
    )
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, f"-I{INCLUDE}", "-o", tmp_path / "layout", source], check=True)
    out = subprocess.run([tmp_path / "layout"], text=True, capture_output=True, check=True).stdout
    measured = {
        f"{struct} {member}": (int(offset), int(size))
        for struct, member, offset, size in map(str.split, out.splitlines())
    }
    assert len(structs) >= 2
    assert measured == expected


def test_no_c_is_parsed_when_a_program_starts(native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ndevices: {home: 0, executors: [1]}\n")
    arguments = ["--emulate", "2", "--no-summary", "--policy", str(policy), "--check-writes=1", "--", "true"]
    code = f"""
import sys
from controlplane.commands.run import main
main({arguments})
print("ptxtools.native.records" in sys.modules, "pycparser" in sys.modules)
"""
    environment = with_native(native_build / "native")
    done = subprocess.run([sys.executable, "-c", code], env=environment, text=True, capture_output=True, check=True)
    assert done.stdout == "True False\n", done.stderr
