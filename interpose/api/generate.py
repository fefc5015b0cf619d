"""Expands the driver table into C.

    python -m interpose.api.generate --cuda-header cuda.h --output DIR      (from the root of the repository)

writes tsr_driver_stubs.c (what is not supported), tsr_driver_variants.c (per-thread forms), tsr_driver_routes.inc (the
table of look_up.c) and the linker's version scripts tsr_driver_exports.map and tsr_shim_exports.map. Run by the
native build; standard library only.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from interpose.api.header import Prototype, read_prototypes
from interpose.api.table import Route, Routes, Row, Status, Step, read_routes, read_rows

HERE = Path(__file__).parent
NOTE = "/* Generated from interpose/api/driver.def. */\n"


def stubs(rows: Iterable[Row], prototypes: dict[str, Prototype]) -> str:
    """A function for each unsupported row."""
    out = [NOTE, '#include "api/driver.h"\n#include "api/unsupported.h"\n', _untyped(rows, prototypes)]
    out.append('#pragma GCC diagnostic ignored "-Wunused-parameter"\n')
    for row in rows:
        if row.status is Status.UNSUPPORTED:
            parameters = prototypes[row.symbol].parameters if row.symbol in prototypes else "void"
            out.append(
                f"CUresult CUDAAPI {row.symbol}({parameters})\n{{\n"
                f"    static int told;\n"
                f'    return tsr_driver_unsupported("{row.symbol}", &told);\n}}\n'
            )
    return "\n".join(out)


def variants(rows: Iterable[Row], prototypes: dict[str, Prototype]) -> str:
    """Each per-thread form calls its base with the per-thread default stream in force."""
    out = [NOTE, '#include "api/driver.h"\n']
    for row in rows:
        if row.base and row.status is Status.EMULATED:
            prototype = prototypes[row.base]
            out.append(
                f"CUresult CUDAAPI {row.symbol}({prototype.parameters})\n{{\n"
                f"    int before = tsr_driver_per_thread;\n"
                f"    tsr_driver_per_thread = 1;\n"
                f"    CUresult result = {row.base}({', '.join(prototype.arguments)});\n"
                f"    tsr_driver_per_thread = before;\n"
                f"    return result;\n}}\n"
            )
    return "\n".join(out)


def exports(rows: Iterable[Row], *others: str) -> str:
    """A version script: exactly the symbols of the table and the others."""
    names = "".join(f"        {name};\n" for name in (*(row.symbol for row in rows), *others))
    return f"{{\n    global:\n{names}    local: *;\n}};\n"


def routes_table(routes: Routes, rows: list[Row], prototypes: dict[str, Prototype]) -> str:
    """Names in strcmp order; each with its steps for the legacy and the per-thread default stream."""
    out = [NOTE, _untyped(rows, prototypes), f"#define TSR_ROUTES_DRIVER_VERSION {routes.driver_version}\n"]
    out.append("static const struct route_step route_steps[] = {")
    entries: list[str] = []
    position = 0
    for route in routes.by_name:
        entries.append(_entry(route, position))
        steps = route.legacy + (() if route.per_thread == route.legacy else route.per_thread)
        out += [_step(step) for step in steps]
        position += len(steps)
    out.append("};\n\nstatic const struct route routes[] = {")
    return "\n".join(out + entries) + "\n};\n"


def _entry(route: Route, position: int) -> str:
    shared = route.per_thread == route.legacy
    second = position if shared else position + len(route.legacy)
    return f'    {{"{route.name}", {{{position}, {len(route.legacy)}}}, {{{second}, {len(route.per_thread)}}}}},'


def _step(step: Step) -> str:
    return f"    {{{step.version}, (void *){step.symbol}}},"


def _untyped(rows: Iterable[Row], prototypes: dict[str, Prototype]) -> str:
    """Declarations of the functions that no header declares."""
    names = [row.symbol for row in rows if row.symbol not in prototypes and row.pfn is None]
    return "".join(f"TSR_DRIVER_EXPORT CUresult CUDAAPI {name}(void);\n" for name in names)


def write(path: Path, text: str) -> None:
    """Leaves an unchanged file alone, so that what is made from it is not made again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda-header", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    rows = read_rows(HERE / "driver.def")
    routes = read_routes(HERE / "routes.tsv")
    prototypes = read_prototypes(options.cuda_header)
    options.output.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("tsr_driver_stubs.c", stubs(rows, prototypes)),
        ("tsr_driver_variants.c", variants(rows, prototypes)),
        ("tsr_driver_routes.inc", routes_table(routes, rows, prototypes)),
        ("tsr_driver_exports.map", exports(rows)),
        ("tsr_shim_exports.map", exports(rows, "dlsym")),
    ):
        write(options.output / name, text)


if __name__ == "__main__":
    main()
