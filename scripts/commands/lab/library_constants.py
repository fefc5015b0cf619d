"""Compares what interpose/calls knows of NVIDIA's libraries with their headers.

    scripts/lab library-constants INCLUDE...

INCLUDE: directories with cublas_api.h, cublasLt.h, library_types.h, cufft.h, cusparse.h, cudnn_graph.h and nccl.h, as
the wheels nvidia-cublas, nvidia-cuda-runtime, nvidia-cufft, nvidia-cusparse, nvidia-cudnn-cu13 and nvidia-nccl-cu13
have them. Compared are the values of types.h, the kinds of arguments that the rows of blas_rows.h name, and for every
entry point, that there is one and that it has no more arguments than are copied. Ends with 1 when something differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of

ROOT = Path(__file__).resolve().parents[3]
CALLS = ROOT / "interpose" / "calls"
LIBRARY_CALLS = ROOT / "interpose" / "include" / "tessera" / "library_calls.h"
HEADERS = (
    "cublas_api.h",
    "cublasLt.h",
    "library_types.h",
    "cufft.h",
    "cufftXt.h",
    "cusparse.h",
    "cudnn_graph.h",
    "nccl.h",
)
OLDER = re.compile(r"cudnn(?!Backend|Create$)|curand")  # in headers that are not looked at
OWN = {"CUBLASLT_EPILOGUE_BGRAD", "CUBLASLT_EPILOGUE_AUX", "CUBLASLT_EPILOGUE_FORWARD", "CUBLASLT_EPILOGUE_ANY_RELU"}
MOST_ARGUMENTS = 6 + 256 // 8


def headers(directories: list[Path]) -> str:
    """All headers' texts without comments."""
    texts = []
    for name in HEADERS:
        found = next((file for file in (directory / name for directory in directories) if file.exists()), None)
        if found is None:
            sys.exit(f"library-constants: no {name} in the directories")
        texts.append(found.read_text())
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", "\n".join(texts), flags=re.DOTALL)


def wrong_values(text: str) -> Iterator[str]:
    """Numbers of types.h that a header gives another value."""
    for name, value in re.findall(r"\b(CU\w+) = (0x[0-9a-f]+|\d+)[,\s]", (CALLS / "types.h").read_text()):
        if name in OWN:
            continue
        found = value_of(text, name)
        if found != int(value, 0):
            yield f"{name} is {value} here and {found} there"


def value_of(text: str, name: str) -> int | None:
    """An enumerator's value; one without a number counts on from the one before it."""
    for body in re.findall(r"enum\s*\w*\s*\{([^}]*)\}", text):
        next_value = 0
        for entry in body.split(","):
            match = re.match(r"\s*(\w+)[^=]*(?:=\s*([^\s].*))?\Z", entry, re.DOTALL)
            if match is None:
                continue
            if match[2]:
                number = re.match(r"\(?(?:(0x[0-9a-fA-F]+|\d+)|(\w+)\Z)", match[2].strip())
                found = number and (int(number[1], 0) if number[1] else value_of(text, number[2]))
                if found is None:
                    continue
                next_value = found
            if match[1] == name:
                return next_value
            next_value += 1
    return None


def prototype(text: str, name: str) -> list[str] | None:
    """The parameters of a function."""
    match = re.search(rf"\b{name}\s*\(([^;{{]*?)\)\s*(?:;|CUDNN|__)", text)
    if match is None:
        return None
    parameters = [" ".join(each.split()) for each in match[1].split(",")]
    return [] if parameters in ([""], ["void"]) else parameters


def wrong_rows(text: str) -> Iterator[str]:
    """Rows of blas_rows.h whose arguments are not what their places want."""
    source = '#include "calls/blas_rows.h"\nBLAS_ROWS\n'
    command = [os.environ.get("CC", "cc"), "-E", "-P", f"-I{ROOT / 'interpose'}", "-x", "c", "-"]
    rows = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    kinds = {
        "MATRIX": ("pointer", "type", "op", "int", "int", "int", "int", "int"),
        "VECTOR": ("pointer", "type", "op", "int", "int", "int"),
        "SQUARE": ("pointer", "type", "op", "int", "int", "int"),
        "SCALAR": ("pointer", "type"),
        "BETA": ("pointer", "type", "compute", "type", "int", "int"),
    }
    for kind, arguments in re.findall(r"\b(MATRIX|VECTOR|SQUARE|SCALAR|BETA)\(((?:[^()]|\([^()]*\))*)\)", rows):
        call, *places = [each.strip() for each in arguments.split(",")]
        places = places if kind == "BETA" else places[1:]
        parameters = prototype(text, call) or []
        for want, place in zip(kinds[kind], places, strict=True):
            number = re.sub(r"ARGUMENT\((\d+)\)", r"\1", place)
            if number.isdigit() and int(number) and not fits(want, parameters, int(number)):
                yield f"{kind}({arguments}): argument {number} is no {want}"


def fits(want: str, parameters: list[str], number: int) -> bool:
    """Whether a parameter is of the kind that a place wants."""
    if number > len(parameters):
        return False
    parameter = parameters[number - 1]
    patterns = {
        "pointer": r"\*",
        "type": r"^cudaDataType",
        "compute": r"^cublasComputeType_t",
        "op": r"^cublas(Operation|SideMode)_t",
        "int": r"^(int|int64_t|long long int) \w+$",
    }
    return re.search(patterns[want], parameter) is not None


def wrong_entry_points(text: str) -> Iterator[str]:
    """Entry points that the headers lack, or that have more arguments than are copied."""
    for name in re.findall(r"^\s*[XW]\(\w+, (\w+)\)", LIBRARY_CALLS.read_text(), re.MULTILINE):
        parameters = prototype(text, name)
        if parameters is None and not OLDER.match(name):
            yield f"{name} is in no header"
        elif parameters is not None and len(parameters) > MOST_ARGUMENTS:
            yield f"{name} has {len(parameters)} arguments"


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("include", metavar="INCLUDE", type=Path, nargs="+")
    text = headers(parser.parse_args(words).include)
    wrong = [*wrong_values(text), *wrong_rows(text), *wrong_entry_points(text)]
    print("\n".join(wrong) if wrong else "values, arguments and entry points are those of the headers")
    return 1 if wrong else 0
