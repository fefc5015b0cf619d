"""Random programs that keep graphs and launch them again and again: `random_guest.py FIRST COUNT OPS`.

Graphs are built node by node or captured, with kernels (some of them programmatic launches), copies, memsets, empty
nodes, child graphs and, now and then, events and host functions, which change page-locked memory. They are launched in
several streams between ordinary launches and copies, changed node by node or as a whole, switched off in part, and
dropped. A graph that is launched in a second stream waits for nothing there: CUDA orders its launches. Now and then
that is also what orders two streams: a small graph of its own, launched in one and in the other. Prints, for each of
COUNT programs from seed FIRST on, a digest of all bytes at its end.
"""

import ctypes
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import PROGRAMMATIC, call, launch
from tests.placement.order_guest import KERNELS, RELAXED, WORDS, Machine, Program

WORDS_OF_ROW, PITCH = 64, 128
KEPT = 4
TURN_WORDS = 64
RARE = frozenset(("event", "wait", "call", "values"))
STEPS = ("kernel",) * 6 + ("copy", "rows", "set", "set", "empty", "child", "event", "wait", "call", "values")
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FEATURES = frozenset(("streams", "legacy", "copies", "sets", "waits", "reads", "host", "replace", "values", "pinned"))


@dataclass(slots=True)
class Step:
    """One node. to, source: numbers of buffers; begins: the first words of each part."""

    kind: str
    to: int
    source: int
    begins: tuple[int, int]
    words: int
    name: str
    salt: int
    node: Any = None


@dataclass(slots=True, eq=False)
class Kept:
    """A graph that has been instantiated; stream: of its last launch."""

    steps: list[Step]
    graph: Any
    instance: Any = None
    stream: int | None = None
    others: list[Any] = field(default_factory=list)

    @property
    def buffers(self) -> set[int]:
        return {number for step in self.steps for number in (step.to, step.source)}


class GraphProgram(Program):
    """used_by: by buffer, the graph that used it last; None: something else did."""

    def __init__(self, machine: Machine, seed: int) -> None:
        super().__init__(machine, seed, FEATURES)
        self._graphs: list[Kept] = []
        self._used_by: list[Kept | None] = [None] * len(self._buffers)
        self._event = call(driver.cuEventCreate(2))
        self._context = call(driver.cuCtxGetCurrent())
        self._calls: list[Any] = []
        self._turn_words = call(driver.cuMemAlloc(2 * 4 * TURN_WORDS))
        call(driver.cuMemsetD32(self._turn_words, 1, 2 * TURN_WORDS))
        call(driver.cuCtxSynchronize())
        self._turn = self._turn_graph()

    def _turn_graph(self) -> Any:
        graph = call(driver.cuGraphCreate(0))
        node = driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = self._machine.functions["mix_a"]
        node.gridDimX, node.gridDimY, node.gridDimZ = 1, 1, 1
        node.blockDimX, node.blockDimY, node.blockDimZ = TURN_WORDS, 1, 1
        given = int(self._turn_words), int(self._turn_words) + 4 * TURN_WORDS, TURN_WORDS, 1
        node.kernelParams = (given, (ctypes.c_uint64,) * 2 + (ctypes.c_uint32,) * 2)
        call(driver.cuGraphAddKernelNode(graph, [], 0, node))
        instance = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphDestroy(graph))
        return instance

    def _wait(self, earlier: int, later: int) -> None:
        if self._draw.random() < 0.2:
            for stream in (earlier, later):
                call(driver.cuGraphLaunch(self._turn, self._machine.streams[stream]))
        else:
            super()._wait(earlier, later)

    def _order(self, buffer: int, stream: int) -> None:
        super()._order(buffer, stream)
        self._used_by[buffer] = None

    def _step(self, kinds: tuple[str, ...] = STEPS) -> Step:
        kind = self._draw.choice(kinds)
        if kind in RARE and (self._draw.random() < 0.6 or (kind == "call" and not self._pinned)):
            kind = "kernel"
        to, source = self._draw.sample(range(len(self._buffers)), 2)
        (begin, words), (other, less) = self._part(), self._part()
        count = min(words, less)
        if kind == "rows":
            count = min(count, 1024)
        if kind == "call":
            to = source = len(self._buffers) - 1
        return Step(kind, to, source, (begin, other), count, self._draw.choice(KERNELS), self._draw.randrange(2**31))

    def _addresses(self, step: Step) -> tuple[int, int]:
        return self._buffers[step.to] + 4 * step.begins[0], self._buffers[step.source] + 4 * step.begins[1]

    def _conflict(self, one: Step, other: Step) -> bool:
        return one.to in (other.to, other.source) or one.source == other.to

    # Parameters of nodes.

    def _kernel(self, step: Step) -> Any:
        found = driver.CUDA_KERNEL_NODE_PARAMS()
        found.func = self._machine.functions[step.name]
        found.gridDimX, found.gridDimY, found.gridDimZ = -(-step.words // 128), 1, 1
        found.blockDimX, found.blockDimY, found.blockDimZ = 128, 1, 1
        to, source = self._addresses(step)
        found.kernelParams = ((to, source, step.words, step.salt), (ctypes.c_uint64,) * 2 + (ctypes.c_uint32,) * 2)
        return found

    def _copy(self, step: Step) -> Any:
        to, source = self._addresses(step)
        found = driver.CUDA_MEMCPY3D()
        found.srcMemoryType = found.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        found.srcDevice, found.dstDevice = driver.CUdeviceptr(source), driver.CUdeviceptr(to)
        found.WidthInBytes, found.Height, found.Depth = 4 * step.words, 1, 1
        if step.kind == "rows":
            found.WidthInBytes, found.Height = 4 * WORDS_OF_ROW, max(1, step.words // PITCH)
            found.srcPitch = found.dstPitch = 4 * PITCH
            found.srcHeight = found.dstHeight = found.Height
            if step.words < PITCH:
                found.WidthInBytes = 4 * min(WORDS_OF_ROW, step.words)
        return found

    def _set(self, step: Step) -> Any:
        found = driver.CUDA_MEMSET_NODE_PARAMS()
        found.dst, found.value = driver.CUdeviceptr(self._addresses(step)[0]), step.salt
        found.elementSize, found.width, found.height = 4, step.words, 1
        return found

    def _values(self, step: Step) -> Any:
        found, write = driver.CUDA_BATCH_MEM_OP_NODE_PARAMS(), driver.CUstreamBatchMemOpParams()
        write.writeValue.operation = driver.CUstreamBatchMemOpType.CU_STREAM_MEM_OP_WRITE_VALUE_32
        write.writeValue.address = driver.CUdeviceptr(self._addresses(step)[0])
        write.writeValue.value = driver.cuuint32_t(step.salt)
        found.ctx, found.count, found.paramArray, found.flags = self._context, 1, [write], 0
        return found

    def _call(self, step: Step) -> Any:
        """Of the host, on its own memory."""
        words = numpy.ctypeslib.as_array((ctypes.c_uint32 * WORDS).from_address(self._pinned))
        part, salt = words[step.begins[0] : step.begins[0] + step.words], step.salt

        def change(_data: object) -> None:
            part[:] = part * numpy.uint32(3) + numpy.uint32(salt)

        self._calls.append(Callback(change))
        found = driver.CUDA_HOST_NODE_PARAMS()
        found.fn = driver.CUhostFn(ctypes.cast(self._calls[-1], ctypes.c_void_p).value)
        return found

    def _add(self, kept: Kept, step: Step, before: list[Any]) -> None:
        graph, count = kept.graph, len(before)
        if step.kind == "kernel":
            step.node = call(driver.cuGraphAddKernelNode(graph, before, count, self._kernel(step)))
        elif step.kind in ("copy", "rows"):
            step.node = call(driver.cuGraphAddMemcpyNode(graph, before, count, self._copy(step), self._context))
        elif step.kind == "set":
            step.node = call(driver.cuGraphAddMemsetNode(graph, before, count, self._set(step), self._context))
        elif step.kind == "child":
            child = self._child(step)
            step.node = call(driver.cuGraphAddChildGraphNode(graph, before, count, child))
            call(driver.cuGraphDestroy(child))
        elif step.kind == "event":
            step.node = call(driver.cuGraphAddEventRecordNode(graph, before, count, self._event))
        elif step.kind == "wait":
            step.node = call(driver.cuGraphAddEventWaitNode(graph, before, count, self._event))
        elif step.kind == "values":
            step.node = call(driver.cuGraphAddBatchMemOpNode(graph, before, count, self._values(step)))
        elif step.kind == "call":
            step.node = call(driver.cuGraphAddHostNode(graph, before, count, self._call(step)))
        else:
            step.node = call(driver.cuGraphAddEmptyNode(graph, before, count))

    def _child(self, step: Step) -> Any:
        child = Kept([], call(driver.cuGraphCreate(0)))
        first, second = (Step("kernel", *self._spread(step), name, step.salt) for name in ("mix_a", "take_b"))
        self._add(child, first, [])
        self._add(child, second, [first.node])
        return child.graph

    def _spread(self, step: Step) -> tuple[int, int, tuple[int, int], int]:
        return step.to, step.source, step.begins, step.words

    def _enqueue(self, step: Step, handle: Any) -> None:
        to, source = self._addresses(step)
        if step.kind == "copy":
            call(driver.cuMemcpyDtoDAsync(to, source, 4 * step.words, handle))
        elif step.kind == "rows":
            call(driver.cuMemcpy2DAsync(self._flat(step), handle))
        elif step.kind == "set":
            call(driver.cuMemsetD32Async(to, step.salt, step.words, handle))
        else:
            values = ((to, source, step.words, step.salt), (ctypes.c_uint64,) * 2 + (ctypes.c_uint32,) * 2)
            function, attributes = self._machine.functions[step.name], [PROGRAMMATIC] * (self._draw.random() < 0.3)
            launch(function, -(-step.words // 128), 128, handle, values, *attributes)

    def _flat(self, step: Step) -> Any:
        deep, flat = self._copy(step), driver.CUDA_MEMCPY2D()
        for name in ("srcMemoryType", "dstMemoryType", "srcDevice", "dstDevice", "WidthInBytes", "Height"):
            setattr(flat, name, getattr(deep, name))
        flat.srcPitch = flat.dstPitch = 4 * PITCH
        return flat

    # Graphs.

    def build(self) -> Kept:
        kept = Kept([self._step() for _ in range(self._draw.randint(1, 6))], call(driver.cuGraphCreate(0)))
        for number, step in enumerate(kept.steps):
            earlier = kept.steps[:number]
            before = [other.node for other in earlier if self._conflict(step, other) or self._draw.random() < 0.2]
            self._add(kept, step, before)
        return kept

    def capture(self) -> Kept:
        """In one stream, and now and then a step in a second one."""
        steps = [self._step(("kernel", "kernel", "copy", "rows", "set")) for _ in range(self._draw.randint(1, 5))]
        return Kept(steps, self._captured(steps))

    def _captured(self, steps: list[Step]) -> Any:
        handle, beside = self._machine.streams[0], self._machine.streams[4]
        call(driver.cuStreamBeginCapture(handle, RELAXED))
        for step in steps:
            if self._draw.random() < 0.3:
                for earlier, later in ((handle, beside), (beside, handle)):
                    if later is handle:
                        self._enqueue(step, beside)
                    event = call(driver.cuEventCreate(2))
                    call(driver.cuEventRecord(event, earlier))
                    call(driver.cuStreamWaitEvent(later, event, 0))
                    call(driver.cuEventDestroy(event))
            else:
                self._enqueue(step, handle)
        return call(driver.cuStreamEndCapture(handle))

    def make(self, _stream: int) -> None:
        if len(self._graphs) == KEPT:
            self._drop(self._graphs[0])
        kept = self.capture() if self._draw.random() < 0.4 else self.build()
        kept.instance = call(driver.cuGraphInstantiate(kept.graph, 0))
        self._graphs.append(kept)

    def _drop(self, kept: Kept) -> None:
        """While it may still be under way."""
        self._graphs.remove(kept)
        self._used_by = [None if used is kept else used for used in self._used_by]
        call(driver.cuGraphExecDestroy(kept.instance))
        for graph in (kept.graph, *kept.others):
            call(driver.cuGraphDestroy(graph))

    def again(self, stream: int) -> None:
        if not self._graphs:
            return
        kept = self._draw.choice(self._graphs)
        if self._draw.random() < 0.5 and kept.stream in self._choices:
            stream = kept.stream
        if not all(self._used_by[buffer] is kept for buffer in kept.buffers):
            for buffer in sorted(kept.buffers):
                self._order(buffer, stream)
        for buffer in kept.buffers:
            self._used[buffer] = {stream}
            self._used_by[buffer] = kept
        kept.stream = stream
        for _ in range(self._draw.choice((1, 1, 1, 2))):
            call(driver.cuGraphLaunch(kept.instance, self._machine.streams[stream]))

    def change(self, _stream: int) -> None:
        """Some node of a graph, in what was instantiated; others' parts of the same buffers, and numbers."""
        if not self._graphs:
            return
        kept = self._draw.choice(self._graphs)
        step = self._draw.choice(kept.steps)
        if kept.others or step.node is None:
            return
        self._redraw(step)
        if step.kind == "kernel":
            call(driver.cuGraphExecKernelNodeSetParams(kept.instance, step.node, self._kernel(step)))
        elif step.kind == "copy":
            call(driver.cuGraphExecMemcpyNodeSetParams(kept.instance, step.node, self._copy(step), self._context))
        elif step.kind == "set":
            call(driver.cuGraphExecMemsetNodeSetParams(kept.instance, step.node, self._set(step), self._context))
        elif step.kind == "child":
            child = self._child(step)
            call(driver.cuGraphExecChildGraphNodeSetParams(kept.instance, step.node, child))
            call(driver.cuGraphDestroy(child))
        elif step.kind == "values":
            step.salt = self._draw.randrange(2**31)
            call(driver.cuGraphExecBatchMemOpNodeSetParams(kept.instance, step.node, self._values(step)))
        elif step.kind == "call":
            step.salt = self._draw.randrange(2**31)
            call(driver.cuGraphExecHostNodeSetParams(kept.instance, step.node, self._call(step)))

    def _redraw(self, step: Step) -> None:
        if step.kind not in ("kernel", "copy", "set", "child"):
            return
        (begin, words), (other, less) = self._part(), self._part()
        if step.kind in ("copy", "set"):  # a copy or memset stays as long as it was
            words = less = step.words
            begin, other = (self._draw.randrange(0, 4096 - words + 1, 64) for _ in range(2))
        step.begins, step.words, step.salt = (begin, other), min(words, less), self._draw.randrange(2**31)

    def renew(self, _stream: int) -> None:
        """All that it does, from its own graph or from another of the same shape."""
        kept = self._draw.choice(self._graphs) if self._graphs else None
        if kept is None or any(step.kind == "child" for step in kept.steps):
            return
        graph = kept.graph
        for step in kept.steps:
            self._redraw(step)
        if kept.steps[0].node is not None:
            for step in kept.steps:
                if step.kind == "kernel":
                    call(driver.cuGraphKernelNodeSetParams(step.node, self._kernel(step)))
                elif step.kind == "copy":
                    call(driver.cuGraphMemcpyNodeSetParams(step.node, self._copy(step)))
                elif step.kind == "set":
                    call(driver.cuGraphMemsetNodeSetParams(step.node, self._set(step)))
        else:
            state = self._draw.getstate()
            graph = self._captured(kept.steps)
            self._draw.setstate(state)
            kept.others.append(graph)
        result = driver.cuGraphExecUpdate(kept.instance, graph)
        if int(result[0]) != 0:  # of another shape: another instance
            call(driver.cuGraphExecDestroy(kept.instance))
            kept.instance = call(driver.cuGraphInstantiate(graph, 0))
            self._used_by = [None if used is kept else used for used in self._used_by]

    def switch(self, _stream: int) -> None:
        kept = self._draw.choice(self._graphs) if self._graphs else None
        steps = [step for step in kept.steps if step.kind in ("kernel", "copy", "set")] if kept else []
        if not kept or not steps or kept.others or steps[0].node is None:
            return
        call(driver.cuGraphNodeSetEnabled(kept.instance, self._draw.choice(steps).node, self._draw.randrange(2)))

    def drop(self, _stream: int) -> None:
        if self._graphs:
            self._drop(self._draw.choice(self._graphs))

    def replace(self, stream: int) -> None:
        """Without graphs that hold its address."""
        before = list(self._buffers)
        state = self._draw.getstate()
        victim = self._draw.randrange(6)
        self._draw.setstate(state)
        for kept in [each for each in self._graphs if victim in each.buffers]:
            self._drop(kept)
        super().replace(stream)
        for number, address in enumerate(self._buffers):
            if address != before[number]:
                self._used_by[number] = None
        self._used_by[victim] = None

    def waits(self, stream: int) -> None:
        super().waits(stream)

    def run(self, operations: int) -> str:
        weights = {
            "again": 40,
            "launch": 20,
            "make": 8,
            "change": 8,
            "renew": 3,
            "switch": 2,
            "drop": 1,
            "copies": 5,
            "sets": 4,
            "reads": 4,
            "waits": 3,
            "host": 2,
            "replace": 1,
            "pinned": 1,
        }
        names = list(weights)
        for _ in range(3):
            self.make(0)
        for _ in range(operations):
            stream = self._draw.choice(self._choices)
            getattr(self, self._draw.choices(names, list(weights.values()))[0])(stream)
        for kept in list(self._graphs):
            self._drop(kept)
        digest = super().run(0)
        call(driver.cuGraphExecDestroy(self._turn))
        call(driver.cuMemFree(self._turn_words))
        return digest


def main() -> None:
    first, count, operations = map(int, sys.argv[1:4])
    machine = Machine()
    for seed in range(first, first + count):
        print(seed, GraphProgram(machine, seed).run(operations), flush=True)


if __name__ == "__main__":
    main()
