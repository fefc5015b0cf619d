"""SUPPORT.md: what the emulated driver supports, from the driver table."""

from collections.abc import Iterable

from interpose.api.table import Routes, Row, Status

INTRODUCTION = """# What the emulated driver supports

Generated from `driver.def` by `scripts/gen support`; do not edit. The emulated `libcuda.so.1` exports every function
that the CUDA driver 580 exports. An unsupported one answers `CUDA_ERROR_NOT_SUPPORTED`, and `cuGetProcAddress` finds it
as the driver does. Per-thread forms (`_ptsz`, `_ptds`) share the status of the function they belong to and are not
listed.
"""


def render(rows: Iterable[Row], routes: Routes) -> str:
    """The page: totals per class, then the names."""
    every = list(rows)
    listed = [row for row in every if row.base is None]
    groups = list(dict.fromkeys(row.group for row in listed))
    major, minor = divmod(routes.driver_version, 1000)
    out = [
        INTRODUCTION,
        f"Functions of CUDA {major}.{minor // 10}: {len(every)} exports, {len(routes.by_name)} names.\n",
    ]
    out += ["| class | supported | not supported |", "|---|---|---|"]
    for group in groups:
        members = [row for row in listed if row.group == group]
        emulated = sum(row.status is Status.EMULATED for row in members)
        out.append(f"| {group} | {emulated} | {len(members) - emulated} |")
    out.append("")
    for group in groups:
        members = [row for row in listed if row.group == group]
        out.append(f"## {group}\n")
        for title, status in (("Supported", Status.EMULATED), ("Not supported", Status.UNSUPPORTED)):
            names = sorted(f"`{row.symbol}`" for row in members if row.status is status)
            if names:
                out.append(f"{title}: {', '.join(names)}.\n")
    return "\n".join(out).rstrip() + "\n"
