"""What the generated wrapper of a driver function has to do besides forwarding, by class and signature.

Order (order.h): whatever an application enqueues at home, or waits for, must come after the work of the same stream
that runs elsewhere. What enqueues holds its stream meanwhile, unless it may wait on the host, as copies do. Afterwards
the error of an executor that failed meanwhile is the answer.

Recording: a function is recorded with the kind of its class (include/tessera/records.h); one that has none is recorded
as a CALL if it fails. What a record tells is read from the arguments by their names in cuda.h.
"""

import re
from dataclasses import dataclass

from interpose.api.header import Prototype
from interpose.api.table import Row

STREAM = re.compile(r"\bCUstream (\w+)$")
NO_ORDER = re.compile(
    r"cuStreamGet|cuStreamIsCapturing|cuStreamSetAttribute|cuStreamCopyAttributes|cuStreamUpdateCapture|cuMemPool|cuStreamAttachMem"
)
WAITS_FOR_STREAM = {"cuStreamSynchronize", "cuStreamQuery"}
WAITS_FOR_EVENT = {"cuEventSynchronize", "cuEventQuery"}
QUERIES = {"cuStreamQuery", "cuEventQuery"}
# Their hand-written part waits for deferred work.
AWAITS_DEFERRED = {"cuStreamQuery"}
WAITS_FOR_ALL = {"cuCtxSynchronize"}
# Give all streams of a context something.
ENTERS_ALL = {"cuCtxRecordEvent", "cuCtxWaitEvent", "cuGreenCtxRecordEvent", "cuGreenCtxWaitEvent"}
# Fails in a context that an executor's failure has broken; nothing to order.
NEEDS_CONTEXT = {"cuEventCreate"}
WAITS_FOR_ALL |= {"cuMemFreeHost", "cuMemHostUnregister", "cuMemUnmap", "cuMemRelease"}

# Takes memory of the current context's GPU, in which copies of memory make room for it (memory/room.h).
NEEDS_ROOM = re.compile(r"cu(Array|Array3D|MipmappedArray)Create|cuCtxSetLimit$")

# Called before the process has a driver, and by the loader of runtimes; their failure says nothing.
ONLY_FORWARDED = re.compile(r"cuGetError|cuDriverGetVersion|cuGetExportTable")
# Neither enqueue work nor show how much of deferred launches (deferred.h) is done, which are given to GPUs before an
# event is recorded behind them; and what may be deferred.
AT_ONCE = re.compile(
    r"cuMemsetD(8|16|32)Async$|cuMemcpyDtoDAsync_v2$|cuLaunch(|Grid|GridAsync|Kernel|KernelEx|CooperativeKernel)(_ptsz)?$|cuGraphLaunch(_ptsz)?$"
    r"|cu(Ctx|Device|Func|Kernel|Library|Module)Get|cuCtx(Push|Pop|Set)Current|cuDevicePrimaryCtxGetState|cuOccupancy"
    r"|cuDevice(CanAccessPeer|TotalMem|ComputeCapability)|cuPointerGet|cuMemGetAddressRange|cuMemHostGet|cuEvent(Create|Query|Synchronize|ElapsedTime|Destroy)"
    r"|cuStream(Get(Flags|Priority|Id|Ctx|Device)|IsCapturing)|cuThreadExchangeStreamCaptureMode|cuTensorMap|cuMemGetInfo"
)
# Concern deferred launches of the calling thread alone: nothing that others launched depends on when they are called,
# but for attributes of functions, which wait for their launches themselves (modules.c).
AFTER_OWN = re.compile(
    r"cu(Event|FuncSet|KernelSet|MemAlloc|MemHost(Alloc|Register)|MemCreate|MemMap|MemSetAccess|MemAddressReserve"
    r"|MemPool(Create|Set|Get)|ModuleLoad|LibraryLoad|Link|StreamCreate|CtxCreate|DevicePrimaryCtxRetain"
    r"|GraphCreate|GraphAdd|GraphInstantiate)"
)
# Names a stream, but other threads' deferred work has to have been given to GPUs before in any case: it may be on the
# memory that is gone for the driver from then on, or be a launch of the graph, of which the driver wants one call at a
# time.
AFTER_ALL = re.compile(r"cuMemFreeAsync|cuGraphUpload")
# Says or changes something about a stream without enqueuing anything.
NOT_ENQUEUED = re.compile(
    r"cuStreamGet|cuStreamIsCapturing|cuStreamSetAttribute|cuStreamCopyAttributes|cuStreamUpdateCapture|cuStreamQuery"
)


@dataclass(frozen=True, slots=True)
class Order:
    """`before`: the C expression that is CUDA_SUCCESS when the call may be made. `holds`: it fills in `hold`."""

    before: str
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """`fields`: statements that fill in `record`. `checked`: those that may only be run after a success."""

    kind: str
    fields: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    on_stream: bool = False


def stream_of(prototype: Prototype) -> str | None:
    """Name of the first parameter that is a stream, if there is one."""
    for parameter in prototype.parameters.split(","):
        match = STREAM.search(parameter.strip())
        if match:
            return match[1]
    return None


def name_of(row: Row) -> str:
    """The function's name without version and per-thread suffixes."""
    return re.sub(r"_v\d+$", "", row.base or row.symbol)


def staged_if(row: Row) -> str | None:
    """Of copies from the host that may come back when the bytes lie in the driver's own memory, and not yet on the GPU:
    when they are such, as a C expression of their parameters; None: never.

    A program whose next launch, in a stream that does not wait for the copy's, sees them all the same because one GPU
    takes what it is given in this order; another GPU does not.
    """
    if re.fullmatch(r"cuMemcpy(Hto[DA])?", name_of(row)):
        return "true"
    shaped = re.fullmatch(r"cuMemcpy(2D|2DUnaligned|3D)", name_of(row))
    return (
        "pCopy->srcMemoryType == CU_MEMORYTYPE_HOST || pCopy->srcMemoryType == CU_MEMORYTYPE_UNIFIED"
        if shaped
        else None
    )


# Give a stream something that touches no memory of which GPUs may have copies.
TOUCHES_NOTHING = re.compile(
    r"cuEvent|cuStream(WaitEvent|Query|Synchronize|Destroy|AddCallback|BeginCapture|EndCapture|GetCapture)|cuLaunchHostFunc"
    r"|cuMemAlloc|cuMemFree|cuCtx|cuThreadExchange|cuGreenCtx|cuGraphUpload"
)


def touches_of(row: Row, prototype: Prototype) -> str | None:
    """What a copy or memset touches of memory of which GPUs may have copies (memory/copies.h), as a C expression that
    brings it home; None: order_of says it."""
    name, arguments = name_of(row), prototype.arguments
    where = f"{stream_of(prototype) or 'NULL'}, {'true' if row.base else 'false'}"
    if row.group not in ("copy", "memset"):
        return None
    letters = re.match(r"cuMemcpy([HD])to([HD])", name)
    if letters:
        to = "dstDevice" if letters[2] == "D" else "0"
        source = "srcDevice" if letters[1] == "D" else "0"
        return f"tsr_copies_loose_bytes({where}, {to}, {source}, ByteCount)"
    if name in ("cuMemcpy", "cuMemcpyAsync"):
        return f"tsr_copies_loose_bytes({where}, dst, src, ByteCount)"
    if name in ("cuMemcpyPeer", "cuMemcpyPeerAsync"):
        return f"tsr_copies_loose_bytes({where}, dstDevice, srcDevice, ByteCount)"
    if row.group == "memset" and "N" in arguments and "loose" in (order_of(row, prototype) or Order("")).before:
        return f"tsr_copies_loose_bytes({where}, dstDevice, 0, {set_bytes(row)})"
    opened = apart_of(row) is not None
    return f"tsr_copies_loose_{'open' if opened else 'all'}({where})"


def apart_of(row: Row) -> str | None:
    """Whether a copy is between GPUs that are no peers (launch/copy_apart.h), as a C expression that finds `peers`."""
    per_thread = "true" if row.base else "false"
    if name_of(row) == "cuMemcpy":
        return f"tsr_copy_is_apart(NULL, {per_thread}, dst, src, ByteCount, &peers)"
    if re.fullmatch(r"cuMemcpy2D(Unaligned)?_v2(_ptds)?", row.symbol):
        return f"tsr_copy_rows_are_apart(NULL, {per_thread}, pCopy, &peers)"
    return None


def set_bytes(row: Row) -> str:
    """How much a memset of one row sets, as a C expression of its parameters."""
    element = int(re.search(r"D(8|16|32)(Async)?$", name_of(row))[1]) // 8  # type: ignore[index]
    return f"(uint64_t)N * {element}"


def deferred_by(row: Row) -> str | None:
    """What defers a memset or a copy, as a C expression that is true if it did; launches are wrapped by hand."""
    if row.symbol == "cuMemcpyDtoDAsync_v2":
        return "tsr_deferred_copy(dstDevice, srcDevice, ByteCount, hStream, &deferred)"
    shaped = re.fullmatch(r"cuMemsetD(8|16|32)Async", row.symbol)
    value = {"8": "uc", "16": "us", "32": "ui"}
    if not shaped:
        return None
    what = f"dstDevice, {value[shaped[1]]}, {int(shaped[1]) // 8}, N, hStream"
    return f"tsr_deferred_set(TSR_ROW_{row.symbol}, {what}, &deferred)"


def order_of(row: Row, prototype: Prototype) -> Order | None:
    """What keeps calls of the function in order; None when they need nothing."""
    name, stream, per_thread = name_of(row), stream_of(prototype), "true" if row.base else "false"
    if NO_ORDER.match(name):
        return None
    if name in NEEDS_CONTEXT:
        return Order("tsr_order_state()")
    if name in WAITS_FOR_ALL:
        return Order("tsr_order_join_all()")
    if name in ENTERS_ALL:
        return Order("tsr_order_enter_all()")
    if name == "cuStreamDestroy":
        return Order(f"tsr_graph_destroy_stream({stream})")
    if name in WAITS_FOR_EVENT:
        return Order("CUDA_SUCCESS")
    if name in WAITS_FOR_STREAM:
        return Order(f"tsr_order_join({stream}, {per_thread})")
    if row.group == "copy" or (row.group == "memset" and not stream):
        return Order(f"tsr_order_enter_loose({stream or 'NULL'}, {per_thread}, &hold)", holds=True)
    if stream and not TOUCHES_NOTHING.match(name):
        return Order(f"tsr_copies_enter_all({stream}, {per_thread}, &hold)", holds=True)
    return Order(f"tsr_order_enter({stream}, {per_thread}, &hold)", holds=True) if stream else None


def record_of(row: Row, prototype: Prototype) -> Record | None:
    """How calls of the function are recorded; None: only its failures."""
    name, arguments = name_of(row), prototype.arguments
    if row.group == "copy":
        return _copy(name, arguments)
    if row.group == "memset":
        return _memset(name, arguments)
    if name in MEMORY:
        return MEMORY[name]
    if name in OTHERS:
        return OTHERS[name]
    if stream_of(prototype) and not NOT_ENQUEUED.match(name):
        return Record("HOST", on_stream=True)
    return None


LETTERS = {"H": "CU_MEMORYTYPE_HOST", "D": "CU_MEMORYTYPE_DEVICE", "A": "CU_MEMORYTYPE_ARRAY"}


def _copy(name: str, arguments: tuple[str, ...]) -> Record:
    blocking = [] if name.endswith("Async") else ["record->flags |= TSR_RECORD_BLOCKING;"]
    letters = re.match(r"cuMemcpy([HDA])to([HDA])", name)
    if letters:
        source, destination = letters[1], letters[2]
        if source != "H" and destination != "H":
            blocking = []
        fields = [
            f"record->u.copy.destination = {_place(arguments, 'dst', destination)};",
            f"record->u.copy.source = {_place(arguments, 'src', source)};",
            "record->u.copy.bytes = ByteCount;",
            f"record->u.copy.to = {LETTERS[destination]};",
            f"record->u.copy.from = {LETTERS[source]};",
        ]
        return Record("COPY", (*fields, *blocking), on_stream=True)
    if "ByteCount" in arguments:
        first, second = ("dst", "src") if "dst" in arguments else ("dstDevice", "srcDevice")
        fields = [
            f"record->u.copy.{field} = {value};"
            for field, value in (("destination", first), ("source", second), ("bytes", "ByteCount"))
        ]
        return Record("COPY", (*fields, *(blocking if "Peer" not in name else [])), on_stream=True)
    if "pCopy" in arguments:
        return Record("COPY", tuple(blocking), (_shaped(name),), on_stream=True)
    if "sizes" in arguments:
        return Record("COPY", (), ("tsr_record_copy_batch(record, dsts, srcs, sizes, count);",), on_stream=True)
    return Record("COPY", on_stream=True)


def _place(arguments: tuple[str, ...], which: str, letter: str) -> str:
    kind = {"H": "Host", "D": "Device", "A": "Array"}[letter]
    assert f"{which}{kind}" in arguments
    return f"{which}Device" if letter == "D" else f"(uintptr_t){which}{kind}"


def _shaped(name: str) -> str:
    macro = "TSR_RECORD_COPY_3D" if "3D" in name else "TSR_RECORD_COPY_2D"
    return f"{macro}(record, pCopy);"


def _memset(name: str, arguments: tuple[str, ...]) -> Record:
    element = int(re.search(r"D(8|16|32)(Async)?$", name)[1]) // 8  # type: ignore[index]
    count = "N" if "N" in arguments else "Width * Height"
    value = next(argument for argument in arguments if argument in ("uc", "us", "ui"))
    fields = (
        "record->u.memset.address = dstDevice;",
        f"record->u.memset.bytes = (uint64_t){count} * {element};",
        f"record->u.memset.value = {value};",
        f"record->detail = {element};",
    )
    return Record("MEMSET", fields, on_stream=True)


def _allocation(address: str, size: str, on_stream: bool = False) -> Record:
    fields = (f"record->u.memory.bytes = {size};",)
    return Record("ALLOCATE", fields, (f"record->u.memory.address = {address};",), on_stream)


def _known(kind: str, address: str, size: str | None = None, on_stream: bool = False) -> Record:
    fields = [f"record->u.memory.address = {address};"] + ([f"record->u.memory.bytes = {size};"] if size else [])
    return Record(kind, tuple(fields), on_stream=on_stream)


MEMORY = {
    "cuMemAlloc": _allocation("*dptr", "bytesize"),
    "cuMemAllocManaged": _allocation("*dptr", "bytesize"),
    "cuMemAllocPitch": Record(
        "ALLOCATE", (), ("record->u.memory.address = *dptr;", "record->u.memory.bytes = (uint64_t)*pPitch * Height;")
    ),
    "cuMemAllocHost": _allocation("(uintptr_t)*pp", "bytesize"),
    "cuMemHostAlloc": _allocation("(uintptr_t)*pp", "bytesize"),
    "cuMemAllocAsync": _allocation("*dptr", "bytesize", on_stream=True),
    "cuMemAllocFromPoolAsync": _allocation("*dptr", "bytesize", on_stream=True),
    "cuMemHostRegister": _known("ALLOCATE", "(uintptr_t)p", "bytesize"),
    "cuMemMap": _known("ALLOCATE", "ptr", "size"),
    "cuMemFree": _known("FREE", "dptr"),
    "cuMemFreeHost": _known("FREE", "(uintptr_t)p"),
    "cuMemFreeAsync": _known("FREE", "dptr", on_stream=True),
    "cuMemHostUnregister": _known("FREE", "(uintptr_t)p"),
    "cuMemUnmap": _known("FREE", "ptr", "size"),
}

_CREATED = ("record->u.stream.handle = (uintptr_t)*phStream;",)
_EVENT = "record->u.event.event = (uintptr_t)hEvent;"
_WITH_FLAGS = "record->detail = {};"

OTHERS = {
    "cuStreamCreate": Record("STREAM", (_WITH_FLAGS.format("Flags"),), _CREATED),
    "cuStreamCreateWithPriority": Record(
        "STREAM", (_WITH_FLAGS.format("flags"), "record->u.stream.priority = priority;"), _CREATED
    ),
    "cuGreenCtxStreamCreate": Record(
        "STREAM", (_WITH_FLAGS.format("flags"), "record->u.stream.priority = priority;"), _CREATED
    ),
    "cuStreamDestroy": Record("STREAM", ("record->u.stream.handle = (uintptr_t)hStream;",)),
    "cuEventRecord": Record("EVENT_RECORD", (_EVENT,), on_stream=True),
    "cuEventRecordWithFlags": Record("EVENT_RECORD", (_EVENT, _WITH_FLAGS.format("flags")), on_stream=True),
    **dict.fromkeys(("cuCtxRecordEvent", "cuGreenCtxRecordEvent"), Record("EVENT_RECORD", (_EVENT,))),
    "cuStreamWaitEvent": Record("EVENT_WAIT", (_EVENT, _WITH_FLAGS.format("Flags")), on_stream=True),
    **dict.fromkeys(("cuCtxWaitEvent", "cuGreenCtxWaitEvent"), Record("EVENT_WAIT", (_EVENT,))),
    "cuStreamSynchronize": Record("SYNCHRONIZE", on_stream=True),
    "cuEventSynchronize": Record("SYNCHRONIZE", (_EVENT,)),
    "cuCtxSynchronize": Record("SYNCHRONIZE"),
}

# The host waits for the default stream.
WAITING_COPIES = ("cuMemcpyDtoH", "cuMemcpyHtoD", "cuMemcpy")
# Before the driver is called, in a process whose launches may run elsewhere.
BEFOREHAND = {
    "cuStreamDestroy": "tsr_pool_stream_ends(hStream), tsr_copies_stream_ends(hStream);",
    **dict.fromkeys(
        ("cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", *WAITING_COPIES),
        "tsr_automatic_wait_begins();",
    ),
}
# After a success: handles that the driver may give out again, settings that the executors are to have, too, and memory
# that may be a library's.
_GOT, _GAVE = "tsr_call_got_memory({}, {});", "tsr_call_gave_memory({});"
AFTERWARDS = {
    "cuStreamDestroy": "tsr_stream_gone(hStream);",
    **dict.fromkeys(("cuCtxWaitEvent", "cuGreenCtxWaitEvent"), "tsr_order_touch_all();"),
    "cuGreenCtxDestroy": "tsr_handles_changed();",
    "cuFuncSetCacheConfig": "outcome = tsr_function_set_cache(hfunc, config);",
    "cuKernelSetCacheConfig": "outcome = tsr_function_set_cache(kernel, config);",
    "cuCtxSetLimit": "tsr_executors_limit(limit, value);",
    "cuMemAlloc": _GOT.format("*dptr", "bytesize"),
    "cuMemAllocAsync": _GOT.format("*dptr", "bytesize"),
    "cuMemAllocFromPoolAsync": _GOT.format("*dptr", "bytesize"),
    "cuMemAllocPitch": _GOT.format("*dptr", "(size_t)*pPitch * Height"),
    "cuMemAllocManaged": _GOT.format("*dptr", "bytesize"),
    "cuMemAllocHost": _GOT.format("(uintptr_t)*pp", "bytesize"),
    "cuMemHostAlloc": _GOT.format("(uintptr_t)*pp", "bytesize"),
    "cuMemMap": _GOT.format("ptr", "size"),
    "cuMemFree": _GAVE.format("dptr"),
    "cuMemFreeAsync": _GAVE.format("dptr"),
    "cuMemFreeHost": _GAVE.format("(uintptr_t)p"),
    "cuMemUnmap": _GAVE.format("ptr"),
    "cuEventSynchronize": "tsr_migrate_consider(), tsr_automatic_waited_event(hEvent);",
    "cuCtxSynchronize": "tsr_migrate_consider(), tsr_automatic_waited(NULL);",
    **dict.fromkeys(WAITING_COPIES, "tsr_migrate_consider(), tsr_automatic_waited({stream});"),
    **dict.fromkeys(("cuEventRecord", "cuEventRecordWithFlags"), "tsr_automatic_recorded(hEvent, {stream});"),
    "cuStreamWaitEvent": "tsr_automatic_follows({stream}, hEvent);",
    "cuStreamSynchronize": "tsr_migrate_consider(), tsr_automatic_waited({stream});",
}
