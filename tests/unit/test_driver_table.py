"""The driver table against the sources, cuda.h, its own routes and the library that is built from it."""

import ctypes
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from interpose.api.header import read_prototypes
from interpose.api.sources import defined_functions
from interpose.api.support import render
from interpose.api.table import Row, Status, TableError, read_routes, read_rows

ROOT = Path(__file__).parents[2]
API = ROOT / "interpose" / "api"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows(API / "driver.def")


@pytest.fixture(scope="module")
def driver(native_build: Path) -> Path:
    return native_build / "native" / "emulator" / "libcuda.so.1"


def exported_functions(library: Path) -> set[str]:
    """The functions in the dynamic symbol table."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {name for kind, name in re.findall(r"^\w+ ([A-Z]) (\w+)$", listing, flags=re.MULTILINE) if kind in "TW"}


def test_every_function_of_driver_580_has_one_row(rows: list[Row]) -> None:
    lines = (ROOT / "tests" / "corpus" / "driver" / "exports-580.159.04.txt").read_text().splitlines()
    symbols = [line.split() for line in lines if not line.startswith("#")]
    assert sorted(name for kind, name in symbols if kind == "T") == sorted(row.symbol for row in rows)
    variables = [name for kind, name in symbols if kind != "T"]
    assert len(variables) == 25
    assert all(name.startswith("cudbg") for name in variables), "only the debugger's are left out"


def test_status_says_what_the_sources_define(rows: list[Row]) -> None:
    defined = defined_functions()
    emulated = {row.symbol for row in rows if row.status is Status.EMULATED and row.base is None}
    assert emulated - defined == set(), "EMULATED without a definition: scripts/gen status"
    assert defined - emulated == set(), "defined, but UNSUPPORTED in the table: scripts/gen status"


def test_no_clone_is_written_by_hand() -> None:
    assert not [name for name in defined_functions() if name.endswith(("_ptsz", "_ptds"))]


def test_routes_lead_to_rows_and_reach_every_public_one(rows: list[Row]) -> None:
    routes = read_routes(API / "routes.tsv")
    reached = {step.symbol for route in routes.by_name for step in (*route.legacy, *route.per_thread)}
    assert reached <= {row.symbol for row in rows}
    unreached = {row.symbol for row in rows if row.group != "private"} - reached
    assert unreached == set()
    for route in routes.by_name:
        for steps in (route.legacy, route.per_thread):
            versions = [step.version for step in steps]
            assert versions == sorted(set(versions))
            assert versions[-1] <= routes.driver_version


def test_every_prototype_of_cuda_h_has_a_row(rows: list[Row], cuda_header: Path) -> None:
    declared = set(read_prototypes(cuda_header))
    assert declared <= {row.symbol for row in rows}
    typed = {row.symbol for row in rows if row.pfn is not None}
    assert typed <= declared


@pytest.fixture(scope="module")
def cuda_header() -> Path:
    code = (
        "import pathlib, nvidia;"
        "print(next(str(h) for p in nvidia.__path__ if (h := pathlib.Path(p, 'cu13', 'include', 'cuda.h')).exists()))"
    )
    return Path(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())


def test_support_page_is_current(rows: list[Row]) -> None:
    assert (API / "SUPPORT.md").read_text() == render(rows, read_routes(API / "routes.tsv")), "scripts/gen support"


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    table = tmp_path / "driver.def"
    table.write_text("/* head */\nTSR_DRIVER(cuInit, driver, SOMETIMES, PFN_cuInit_v2000)\n")
    with pytest.raises(TableError, match=r"driver\.def:2: .*SOMETIMES"):
        read_rows(table)


def test_a_broken_route_is_named(tmp_path: Path) -> None:
    table = tmp_path / "routes.tsv"
    table.write_text("driver_version\t13000\ncuInit\t2000=cuInit\n")
    with pytest.raises(TableError, match=r"routes\.tsv:2: "):
        read_routes(table)


def test_library_exports_the_table_and_nothing_else(rows: list[Row], driver: Path) -> None:
    assert exported_functions(driver) == {row.symbol for row in rows}


def test_the_shim_also_overrides_dlsym(rows: list[Row], native_build: Path) -> None:
    shim = native_build / "native" / "shim" / "libcuda.so.1"
    assert exported_functions(shim) == {row.symbol for row in rows} | {"dlsym"}


@pytest.mark.parametrize("place", ["emulator", "shim"])
def test_library_is_bound_to_itself(place: str, native_build: Path) -> None:
    """No call or table entry may lead to a function of the same name in another library."""
    driver = native_build / "native" / place / "libcuda.so.1"
    listing = subprocess.run(["readelf", "-d", driver], capture_output=True, text=True, check=True).stdout
    assert re.search(r"\(SYMBOLIC\)|SYMBOLIC", listing)
    assert "Library soname: [libcuda.so.1]" in listing
    relocations = subprocess.run(["readelf", "-rW", driver], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\b(cu[A-Z]\w*|dlsym)\b", relocations)


def test_unsupported_functions_say_so(rows: list[Row], driver: Path) -> None:
    library = ctypes.CDLL(str(driver))
    for row in rows:
        if row.status is Status.UNSUPPORTED:
            assert library[row.symbol]() == 801, row.symbol


def test_header_names_every_argument(cuda_header: Path) -> None:
    prototypes = read_prototypes(cuda_header)
    assert prototypes["cuMemAlloc_v2"].arguments == ("dptr", "bytesize")
    assert prototypes["cuMemAlloc"].parameters.startswith("CUdeviceptr_v1")
    assert prototypes["cuCtxSynchronize"].arguments == ()
    assert len(prototypes["cuLaunchKernel"].arguments) == struct.calcsize("11c")
