"""Programs as the graph sees them, made by hand: like those of real models, with a few dozen launches each."""

from __future__ import annotations

from controlplane.graph.nodes import Node, Program, Read, Span, What, Why, Write

SIZE = 1 << 20  # bytes of a tensor
US = 1000.0
SEGMENT = 1 << 40  # where small tensors lie in one allocation


def tensor(number: int) -> Span:
    return Span((number + 1) * SIZE, (number + 2) * SIZE)


def small(number: int) -> Span:
    return Span(SEGMENT + 64 * number, SEGMENT + 64 * (number + 1))


class Maker:
    """Launches in one stream."""

    def __init__(self, us: float = 100.0) -> None:
        self.us, self.nodes = us, list[Node]()

    def launch(self, name: str, reads: tuple[Read | Span, ...], *writes: Span, overwrites: bool = True) -> int:
        """overwrites false: it is not known to overwrite what it writes."""
        needs = tuple(read if isinstance(read, Read) else Read(read) for read in reads)
        needs += () if overwrites else tuple(Read(span, Why.OLD) for span in writes)
        number = len(self.nodes)
        after = (number - 1,) if number else ()
        made = tuple(Write(span) for span in writes)
        self.nodes.append(Node(What.LAUNCH, name, self.us * US, needs, made, stream="stream 1", after=after))
        return number

    def program(self) -> Program:
        return Program(self.nodes)


def requests(count: int = 8, layers: int = 30, *, scan: bool = False, overwrites: bool = True) -> Program:
    """One after another through the same buffers; with `scan`, one launch of each reads all of a segment in which each
    leaves something small, and passes it on to its layers.
    """
    make = Maker()
    for request in range(count):
        make.launch("embed", (), small(8 * request), tensor(0), overwrites=overwrites)
        if scan:
            whole = Read(Span(SEGMENT, SEGMENT + 4096), Why.WHOLE)
            make.launch("scan", (whole, small(8 * request)), small(8 * request + 1), overwrites=overwrites)
        for layer in range(layers):
            position = (small(8 * request + 1),) if scan else ()
            reads = (tensor(layer % 2), tensor(100 + layer), *position)
            make.launch(f"layer{layer % 3}", reads, tensor(1 - layer % 2), overwrites=overwrites)
        make.launch("head", (tensor(layers % 2),), small(8 * request + 2), overwrites=overwrites)
    return make.program()


def guided(steps: int = 9, layers: int = 20, *, overwrites: bool = True) -> Program:
    """Each step has two branches from the same bytes, and an update of those from both."""
    make = Maker()
    latent = tensor(0)
    for _ in range(steps):
        for branch in (1, 2):
            make.launch("begin", (latent,), tensor(8), overwrites=overwrites)
            for layer in range(layers):
                make.launch(f"block{layer % 2}", (tensor(8 + layer % 2),), tensor(9 - layer % 2), overwrites=overwrites)
            make.launch("end", (tensor(8 + layers % 2),), tensor(branch), overwrites=overwrites)
        make.launch("update", (tensor(1), tensor(2), latent), latent, overwrites=overwrites)
    return make.program()


def modulated(steps: int = 9, layers: int = 20) -> Program:
    """As `guided`; each layer also gets a flag that is set anew, and a number made of what its branch begins with."""
    make, brief = Maker(), Maker(5.0)
    brief.nodes = make.nodes
    latent, flag, scale, condition = tensor(0), small(0), small(1), small(2)
    for _ in range(steps):
        for branch in (1, 2):
            brief.launch("condition", (), condition)
            make.launch("begin", (latent,), tensor(8))
            for layer in range(layers):
                brief.launch("scale", (condition,), scale)
                brief.launch("flag", (), flag)
                make.launch(f"block{layer % 2}", (tensor(8 + layer % 2), scale, flag), tensor(9 - layer % 2))
            make.launch("end", (tensor(8 + layers % 2),), tensor(branch))
        make.launch("update", (tensor(1), tensor(2), latent), latent)
    return make.program()


def training(steps: int = 6, layers: int = 20) -> Program:
    """Each step needs the weights that the one before has changed."""
    make = Maker()
    for _ in range(steps):
        make.launch("embed", (tensor(200),), tensor(0))
        for layer in range(layers):
            make.launch("forward", (tensor(layer), tensor(200 + layer)), tensor(layer + 1))
        make.launch("loss", (tensor(layers),), tensor(100))
        for layer in reversed(range(layers)):
            make.launch(
                "backward", (tensor(100), tensor(layer + 1), tensor(200 + layer)), tensor(100), tensor(300 + layer)
            )
        for layer in range(layers):
            make.launch("optimiser", (tensor(300 + layer), tensor(200 + layer)), tensor(200 + layer))
    return make.program()
