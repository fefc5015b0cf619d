"""Launches as PyTorch makes them, eagerly and one by one, of two models: with the kernels' times on an H200.

Written down from what was launched there: a diffusion transformer's steps with guidance (tests/frameworks/mmdit.py, 12
layers, 4 images), and requests to a Llama (16 layers of 4,096, 2,048 tokens), each of which begins with an answer that
the host waits for: whether its positions are of one sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from controlplane.graph.nodes import Node, Program, Read, Span, What, Write

IMAGE, TEXT, VECTOR, LATENT = 50_331_648, 1_892_352, 12_288, 2_097_152  # bytes
TOKENS, WIDE, ANGLES, ROWS = 16_777_216, 58_720_256, 1 << 20, 16_384
FIRST = 1 << 40


@dataclass(slots=True)
class Launches:
    """Each writes memory of its own; weights are there from the beginning."""

    nodes: list[Node] = field(default_factory=list)
    end: int = FIRST
    weights: dict[object, Span] = field(default_factory=dict)

    def memory(self, size: int) -> Span:
        first = self.end
        self.end += -(-size // 512) * 512
        return Span(first, first + size)

    def weight(self, *name: object) -> Span:
        return self.weights.setdefault(name, self.memory(1 << 20))

    def launch(self, name: str, us: float, reads: list[Span], size: int) -> Span:
        """What it writes: so many bytes."""
        out = self.memory(size)
        self.nodes.append(Node(What.LAUNCH, name, 1000 * us, tuple(map(Read, reads)), (Write(out),)))
        return out

    def chain(self, steps: list[tuple[str, float]], given: list[Span], size: int) -> Span:
        for name, us in steps:
            given = [self.launch(name, us, given, size)]
        return given[0]

    def memset(self) -> Span:
        """Of a product's semaphores."""
        return self.launch("set", 4.5, [], 8)


def size_of(span: Span) -> int:
    return span.end - span.first


def part(span: Span, number: int, count: int) -> Span:
    size = size_of(span) // count
    return Span(span.first + number * size, span.first + (number + 1) * size)


@dataclass(frozen=True, slots=True)
class Side:
    """What one kind of tokens takes in a layer, in us. copy: before a norm, of tokens that do not lie together."""

    name: str
    copy: float
    norm: float
    scale: float
    shift: float
    qkv: float
    out: float
    gate: float
    add: float
    mlp: tuple[float, float, float]
    sets: bool


SIDES = (
    Side("image", 174.9, 49.0, 72.5, 86.3, 311.8, 134.4, 72.5, 86.3, (311.8, 115.2, 134.4), True),
    Side("text", 0, 8.1, 8.0, 7.8, 19.2, 19.4, 8.0, 6.3, (23.3, 8.4, 19.4), False),
)


def modulated(to: Launches, side: Side, tokens: Span, parts: Span, number: int) -> Span:
    if side.copy:
        tokens = to.launch("copy", side.copy, [tokens], size_of(tokens))
    tokens = to.launch("norm", side.norm, [tokens], size_of(tokens))
    factor = to.launch("one more", 6.9, [part(parts, number, 6)], VECTOR)
    tokens = to.launch("scale", side.scale, [tokens, factor], size_of(tokens))
    return to.launch("shift", side.shift, [tokens, part(parts, number + 1, 6)], size_of(tokens))


def product(to: Launches, side: Side, name: str, us: float, of: Span, size: int, layer: int) -> Span:
    given = [of, to.weight(layer, side.name, name), *([to.memset()] if side.sets else [])]
    return to.launch(name, us, given, size)


def added(to: Launches, side: Side, tokens: Span, more: Span, gate: Span) -> Span:
    more = to.launch("gate", side.gate, [more, gate], size_of(more))
    return to.launch("add", side.add, [tokens, more], size_of(more))


def after(to: Launches, side: Side, tokens: Span, attended: Span, parts: Span, layer: int) -> Span:
    size = size_of(tokens)
    tokens = added(to, side, tokens, product(to, side, "out", side.out, attended, size, layer), part(parts, 2, 6))
    wide = product(to, side, "mlp", side.mlp[0], modulated(to, side, tokens, parts, 3), 4 * size, layer)
    wide = to.launch("gelu", side.mlp[1], [wide], 4 * size)
    return added(to, side, tokens, product(to, side, "mlp out", side.mlp[2], wide, size, layer), part(parts, 5, 6))


def branch(to: Launches, latent: Span, times: Span, layers: int) -> Span:
    angles = to.chain([("arange", 4.4), ("to float", 6.1), ("multiply", 6.3), ("exponent", 7.8)], [], 512)
    angles = to.launch("angles", 7.8, [angles, times], 2048)
    waves = [to.launch(name, us, [angles], 2048) for name, us in (("cosine", 8.9), ("sine", 8.0))]
    time = to.chain([("cat", 6.2), ("to half", 5.4)], waves, 4096)
    vectors = []
    for name, given in (("time", time), ("pooled", to.weight("prompt"))):
        first = to.launch("small product", 9.5, [given, to.weight(name, 0)], VECTOR)
        first = to.launch("silu", 5.7, [first], VECTOR)
        vectors.append(to.launch("small product", 9.5, [first, to.weight(name, 1)], VECTOR))
    condition = to.launch("add", 4.6, vectors, VECTOR)
    image = to.chain(
        [("convolve", 129.8), ("transpose", 86.3), ("positions", 86.3)], [latent, to.weight("patches")], IMAGE
    )
    tokens = [image, to.launch("text", 19.4, [to.weight("words"), to.weight("text")], TEXT)]
    for layer in range(layers):
        parts, joint = [], []
        for number, side in enumerate(SIDES):
            silu = to.launch("silu", 5.7, [condition], VECTOR)
            parts.append(to.launch("modulation", 17.0, [silu, to.weight(layer, side.name)], 6 * VECTOR))
            ready = modulated(to, side, tokens[number], parts[number], 0)
            joint.append(product(to, side, "qkv", side.qkv, ready, 3 * size_of(ready), layer))
        joint = [to.launch("cat", us, [each], size_of(each)) for us, each in zip((231.0, 14.6), joint, strict=True)]
        attended = to.launch("attend", 1106.1, [*joint, to.memset()], IMAGE + TEXT)
        for number, side in enumerate(SIDES):
            if number and layer == layers - 1:
                break
            own = to.launch("split", (174.9, 8.6)[number], [attended], size_of(tokens[number]))
            tokens[number] = after(to, side, tokens[number], own, parts[number], layer)
    silu = to.launch("silu", 5.7, [condition], VECTOR)
    parts_out = to.launch("modulation", 17.0, [silu, to.weight("modulation")], 6 * VECTOR)
    ready = modulated(to, SIDES[0], tokens[0], parts_out, 0)
    return to.chain([("out", 19.6), ("to image", 9.4)], [ready, to.weight("out")], LATENT)


def guidance(steps: int, layers: int = 12) -> Program:
    """Two branches in each step, with the prompt and without."""
    to = Launches()
    latent, times = to.launch("random", 5, [], LATENT), to.launch("times", 5, [], 1024)
    for _ in range(steps):
        with_prompt, without = branch(to, latent, times, layers), branch(to, latent, times, layers)
        more = to.chain([("subtract", 5.8), ("multiply", 5.5)], [with_prompt, without], LATENT)
        more = to.chain([("add", 5.8), ("divide", 5.3)], [without, more], LATENT)
        latent = to.launch("add", 5.8, [latent, more], LATENT)
    return Program(to.nodes)


def normed(to: Launches, tokens: Span, *weight: object) -> Span:
    wide = to.launch("to float", 28.4, [tokens], 2 * TOKENS)
    rows = to.launch("square", 21.5, [wide], 2 * TOKENS)
    rows = to.chain([("mean", 24.2), ("epsilon", 5.4), ("root", 4.9)], [rows], 8192)
    half = to.chain([("scale", 33.0), ("to half", 17.6)], [wide, rows], 2 * TOKENS)
    return to.launch("times weight", 30.2, [part(half, 0, 2), to.weight(*weight)], TOKENS)


def turned(to: Launches, heads: Span, cosine: Span, sine: Span, share: float) -> Span:
    size = size_of(heads)
    first = to.launch("times cosine", 30.2 * share, [heads, cosine], size)
    half = to.launch("negate", 14.3 * share, [heads], size // 2)
    both = to.launch("cat", 24.4 * share, [heads, half], size)
    return to.launch("add", 32.7 * share, [first, to.launch("times sine", 30.2 * share, [both, sine], size)], size)


def llama_layer(to: Launches, tokens: Span, cosine: Span, sine: Span, layer: int) -> Span:
    ready = normed(to, tokens, layer, "before")
    query, key, value = (
        to.launch("product", us, [ready, to.weight(layer, name)], TOKENS // share)
        for name, us, share in (("q", 159.6, 1), ("k", 31.8, 4), ("v", 31.8, 4))
    )
    query, key = turned(to, query, cosine, sine, 1), turned(to, key, cosine, sine, 0.4)
    heads = [query, *(to.launch("repeat", 20, [each], TOKENS) for each in (key, value))]
    attended = to.chain([("attend", 180), ("transpose", 20)], [*heads, to.memset()], TOKENS)
    more = to.launch("product", 159, [attended, to.weight(layer, "o"), to.memset()], TOKENS)
    tokens = to.launch("add", 20, [tokens, more], TOKENS)
    ready = normed(to, tokens, layer, "after")
    gate = to.chain([("product", 280), ("silu", 46)], [ready, to.weight(layer, "gate")], WIDE)
    wide = to.launch("multiply", 60, [gate, to.launch("product", 280, [ready, to.weight(layer, "up")], WIDE)], WIDE)
    return to.launch("add", 20, [tokens, to.launch("product", 280, [wide, to.weight(layer, "down")], TOKENS)], TOKENS)


def request(to: Launches, layers: int) -> None:
    tokens = to.launch("gather", 14, [to.weight("embedding")], TOKENS)
    rows = to.launch("arange", 5.4, [], ROWS)
    ahead = to.launch("add", 5.9, [rows], ROWS)
    one = to.launch("subtract", 5.3, [ahead], 8)
    steps = to.chain([("cat", 5.7), ("difference", 5.5), ("compare", 5.3), ("to number", 6.9)], [ahead, one], 2 * ROWS)
    scanned = to.launch("scan", 7.0, [steps, to.launch("scan begins", 5.0, [], 20_000)], ROWS)
    to.launch("to host", 5.2, [to.launch("all", 5.0, [scanned], 8)], 8)
    asked = len(to.nodes) - 1
    angles = to.chain([("angles", 12.5), ("cat", 14.4)], [rows, to.weight("frequencies")], ANGLES)
    cosine, sine = (
        to.chain([(name, 11.5), ("scale", 11.2), ("to half", 9.1)], [angles], ANGLES) for name in ("cos", "sin")
    )
    to.nodes[asked + 1] = replace(to.nodes[asked + 1], returned=(asked,))
    for layer in range(layers):
        tokens = llama_layer(to, tokens, cosine, sine, layer)
    to.launch("head", 81, [normed(to, tokens, "last"), to.weight("head")], 64_000)


def requests(count: int, layers: int = 16) -> Program:
    """One after another; their results are kept."""
    to = Launches()
    for _ in range(count):
        request(to, layers)
    return Program(to.nodes)
