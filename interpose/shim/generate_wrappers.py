"""Wrappers of the driver functions that are not wrapped by hand.

    python generate_wrappers.py --layers "driver;object;..." --cuda-header cuda.h --output DIR

What a function needs is said by its class (classes.py). What the shim's sources wrap by hand is found in them:
definitions `CUresult CUDAAPI cuXxx(`, `TSR_ENGAGED(cuXxx)(` and `TSR_REDIRECTED(cuXxx)(` (engaged.h says what they are
for), also those that a macro of the same file makes. Writes wrappers.c and wrapped_rows.h. Run by the native build;
standard library only.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

INTERPOSE = Path(__file__).parents[1]
sys.path.insert(0, str(INTERPOSE.parent))

from interpose.api.header import Prototype, read_prototypes  # noqa: E402
from interpose.api.table import Row, read_rows  # noqa: E402
from interpose.shim.classes import (  # noqa: E402
    AFTER_ALL,
    AFTER_OWN,
    AFTERWARDS,
    AT_ONCE,
    AWAITS_DEFERRED,
    BEFOREHAND,
    NEEDS_ROOM,
    ONLY_FORWARDED,
    QUERIES,
    apart_of,
    deferred_by,
    name_of,
    order_of,
    record_of,
    set_bytes,
    staged_if,
    stream_of,
    touches_of,
)

INCLUDES = """#include "launch/copy_apart.h"
#include "launch/copy_shape.h"
#include "record/definitions.h"
#include "lane/executors.h"
#include "launch/call_memory.h"
#include "lane/functions.h"
#include "order/order.h"
#include "shim/graph_launch.h"
#include "memory/copies.h"
#include "memory/migrate.h"
#include "memory/pool.h"
#include "memory/room.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "record/recorder.h"
#include "record/timing.h"
#include "schedule/automatic.h"
#include "shim/deferred.h"
"""
# A fence of a failed executor may close once more for a moment: its error is told all the same.
QUERY = [
    "    if (outcome == CUDA_ERROR_NOT_READY && tsr_order_state() != CUDA_SUCCESS)",
    "        outcome = tsr_order_state();",
]
STAGED = """    if (outcome == CUDA_SUCCESS && tsr_has_role(TSR_REDIRECTING) && ({staged}))
        outcome = tsr_real.cuStreamSynchronize(tsr_stream_named(NULL, {per_thread}));"""
DEFINITION = r"CUresult CUDAAPI {}"
ENGAGED = r"TSR_ENGAGED\({}\)"
REDIRECTED = r"TSR_REDIRECTED\({}\)"
MACRO = re.compile(r"^#define (\w+)\(([^)]*)\)((?:.*\\\n)*.*)", re.MULTILINE)


def wrapped_by_hand(source: str, form: str) -> set[str]:
    """The driver functions that a C file defines in this form, itself or through its macros."""
    found = set(re.findall("^" + form.format(r"(cu\w+)") + r"\(", source, re.MULTILINE))
    pasted = re.compile(form.format(r"(\w+(?:\s*##\s*\w+)*)"))
    for name, parameters, body in MACRO.findall(source):
        made = [re.sub(r"\s", "", pattern) for pattern in pasted.findall(body)]
        uses = re.findall(rf"^{name}\(([^)]*)\)", source, re.MULTILINE) if made else []
        for use in uses:
            values = dict(zip(_words(parameters), _words(use), strict=False))
            for pattern in made:
                found.add("".join(values.get(part, part) for part in pattern.split("##")))
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def wrapper(row: Row, prototype: Prototype, redirected: bool) -> str | None:
    """The C text of a row's wrapper; None when it is only forwarded. `redirected`: it has a hand-written part."""
    if ONLY_FORWARDED.match(row.symbol):
        return None
    deferring = _deferring(row, prototype)
    clock = ["    uint64_t began = tsr_record_start();"] if record_of(row, prototype) else []
    stream = _timed_stream(row, prototype)
    timed = [f"    struct tsr_timing_pair *timed = tsr_timing_begin_work(began, {stream});"] if stream else []
    mark = ["    if (timed)", f"        tsr_timing_mark(timed, {stream}, outcome == CUDA_SUCCESS);"] if stream else []
    end = ["    if (timed)", "        tsr_timing_end_work(timed, record != NULL);"] if stream else []
    end += [f"    {_told(row, prototype)};"] if _enqueues(row, prototype) else []
    lines = [
        *deferring,
        *clock,
        *timed,
        *_calling(row, prototype, redirected),
        *mark,
        *_recording(row, prototype),
        *end,
    ]
    declaration = f"__typeof__({row.symbol}) redirected_{row.symbol};\n" if redirected else ""
    return (
        f"{declaration}TSR_ENGAGED({row.symbol})({prototype.parameters})\n{{\n"
        + "\n".join([*lines, "    return outcome;\n}"])
        + "\n"
    )


def _waits_for_stream(row: Row, prototype: Prototype) -> bool:
    """Copies and memsets without a stream are in the default one."""
    named = stream_of(prototype) is not None or row.group in ("copy", "memset")
    return named and not AFTER_ALL.match(row.symbol)


def _engaged(row: Row, waits_itself: bool) -> str:
    """The form of an export whose wrapper is for processes in which the shim acts (driver/wrapped.h)."""
    if waits_itself or AT_ONCE.match(row.symbol):
        return "TSR_AT_ONCE"
    return "TSR_AFTER_OWN" if AFTER_OWN.match(row.symbol) else "TSR_WHEN_ENGAGED"


def _deferring(row: Row, prototype: Prototype) -> list[str]:
    """What comes first, where work may be deferred: this is, or it waits for that of its stream."""
    deferred = deferred_by(row)
    if deferred:
        return ["    CUresult deferred;", f"    if ({deferred})", "        return deferred;"]
    if AT_ONCE.match(row.symbol) or name_of(row) in AWAITS_DEFERRED or not _waits_for_stream(row, prototype):
        return []
    named = f"tsr_stream_named({stream_of(prototype) or 'NULL'}, {'true' if row.base else 'false'})"
    return [
        f"    CUresult deferred = tsr_deferred_wait_for({named});",
        "    if (deferred != CUDA_SUCCESS)",
        "        return deferred;",
    ]


def _enqueues(row: Row, prototype: Prototype) -> bool:
    record = record_of(row, prototype)
    return record is not None and record.kind in ("COPY", "MEMSET", "HOST")


def _told(row: Row, prototype: Prototype) -> str:
    """What library calls are told of the work that was given to the GPU."""
    if row.group != "memset" or "N" not in prototype.arguments:
        return "tsr_call_enqueued()"
    return f"tsr_call_enqueued_bytes(dstDevice, {set_bytes(row)})"


def _timed_stream(row: Row, prototype: Prototype) -> str | None:
    """The stream of a function whose time on the GPU is measured."""
    record, stream = record_of(row, prototype), stream_of(prototype)
    if record is None or stream is None or record.kind not in ("COPY", "MEMSET"):
        return None
    return f"tsr_stream_named({stream}, {'true' if row.base else 'false'})"


def _calling(row: Row, prototype: Prototype, redirected: bool) -> list[str]:
    arguments = f"{row.symbol}({', '.join(prototype.arguments)})"
    order = order_of(row, prototype)
    staged, per_thread = staged_if(row), "true" if row.base else "false"
    before, after = BEFOREHAND.get(name_of(row)), AFTERWARDS.get(name_of(row))
    if after is not None:
        named = f"tsr_stream_named({stream_of(prototype) or 'NULL'}, {per_thread})"
        after = after.replace("{stream}", named)
    if redirected:
        redirect = f"tsr_has_role(TSR_REDIRECTING) ? redirected_{arguments} : tsr_real.{arguments}"
        lines = [f"    CUresult outcome = {redirect};"]
    elif order:
        touches = touches_of(row, prototype) if "loose" in order.before else None
        apart = apart_of(row)
        real = f"is_apart ? tsr_copy_apart(NULL, {per_thread}, &peers) : " if apart else ""
        lines = [
            *(["    CUDA_MEMCPY3D_PEER peers;", f"    bool is_apart = {apart};"] if apart else []),
            *(["    struct tsr_order_hold hold;"] if order.holds else []),
            f"    CUresult outcome = {order.before};",
            *(["    if (outcome == CUDA_SUCCESS)", f"        outcome = {touches};"] if touches else []),
            "    if (outcome == CUDA_SUCCESS)",
            f"        outcome = {real}tsr_real.{arguments};",
            *(STAGED.format(staged=staged, per_thread=per_thread).splitlines() if staged else []),
            *(["    tsr_copies_loose_end();"] if touches else []),
            *(["    tsr_order_leave(&hold);"] if order.holds else []),
            "    if (outcome == CUDA_SUCCESS)",
            "        outcome = tsr_order_state();",
            *(QUERY if name_of(row) in QUERIES else []),
        ]
    elif NEEDS_ROOM.match(row.symbol):
        lines = [
            "    struct tsr_room room = {.device = TSR_ROOM_CURRENT};",
            "    CUresult outcome;",
            "    do",
            f"        outcome = tsr_real.{arguments};",
            "    while (tsr_room_is_made(&room, outcome));",
        ]
    else:
        lines = [f"    CUresult outcome = tsr_real.{arguments};"]
    first = ["    if (tsr_has_role(TSR_REDIRECTING))", f"        {before}"] if before else []
    return first + lines + (["    if (outcome == CUDA_SUCCESS)", f"        {after}"] if after else [])


def _recording(row: Row, prototype: Prototype) -> list[str]:
    record = record_of(row, prototype)
    symbol = f"TSR_ROW_{row.symbol}"
    if record is None:
        return [f"    tsr_record_failure({symbol}, outcome);"]
    begin = f"begin(began, {symbol}, TSR_RECORD_{record.kind}, outcome"
    if record.on_stream:
        stream, per_thread = stream_of(prototype) or "NULL", "true" if row.base else "false"
        begin = f"begin_on(began, {symbol}, TSR_RECORD_{record.kind}, outcome, {stream}, {per_thread}"
    lines = [f"    struct tsr_record *record = tsr_record_{begin});", "    if (record) {"]
    lines += [f"        {field}" for field in record.fields]
    if record.checked:
        lines += [
            "        if (outcome == CUDA_SUCCESS) {",
            *(f"            {field}" for field in record.checked),
            "        }",
        ]
    return [*lines, "        tsr_record_commit(record);", "    }"]


def write(path: Path, text: str) -> None:
    """Leaves an unchanged file alone, so that what is made from it is not made again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


@dataclass(frozen=True, slots=True)
class ByHand:
    """What the sources define, by form."""

    always: set[str]
    engaged: set[str]
    redirected: set[str]


def read_by_hand(sources: Iterable[str]) -> ByHand:
    """All forms of all sources."""
    texts = list(sources)
    forms = (DEFINITION, ENGAGED, REDIRECTED)
    return ByHand(*(set[str]().union(*(wrapped_by_hand(text, form) for text in texts)) for form in forms))


def generate(rows: Iterable[Row], prototypes: dict[str, Prototype], by_hand: ByHand) -> tuple[str, str]:
    """The texts of wrappers.c and wrapped_rows.h."""
    note = "/* Generated by shim/generate_wrappers.py. */"
    body = [note, INCLUDES]
    wrapped = [note]
    for row in rows:
        prototype = prototypes.get(row.symbol) or prototypes.get(row.base or "")
        whole = row.symbol in by_hand.always or row.symbol in by_hand.engaged
        text = wrapper(row, prototype, row.symbol in by_hand.redirected) if prototype and not whole else None
        if text:
            body.append(text)
        if text or whole:
            waits_itself = text is not None and prototype is not None and _waits_for_stream(row, prototype)
            when = "TSR_ALWAYS" if row.symbol in by_hand.always else _engaged(row, waits_itself)
            wrapped.append(f"#define TSR_WRAPS_{row.symbol} {when}")
    return "\n".join(body), "\n".join(wrapped) + "\n"


def _sources(layers: Iterable[str]) -> list[Path]:
    return sorted(path for layer in layers for path in (INTERPOSE / layer).glob("*.c"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda-header", type=Path, required=True)
    parser.add_argument("--layers", type=lambda text: text.split(";"), required=True, help="directories of the shim")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    by_hand = read_by_hand(path.read_text() for path in _sources(arguments.layers))
    rows = read_rows(INTERPOSE / "api" / "driver.def")
    wrappers, wrapped = generate(rows, read_prototypes(arguments.cuda_header), by_hand)
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(arguments.output / "wrappers.c", wrappers)
    write(arguments.output / "wrapped_rows.h", wrapped)


if __name__ == "__main__":
    main()
