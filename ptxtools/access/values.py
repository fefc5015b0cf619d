"""Values of a PTX function as nodes of a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxtools.access.effects import elements, width
from ptxtools.access.elements import Place, element
from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.lanes import lane_node
from ptxtools.access.template import Node, Op
from ptxtools.access.uniform import is_uniform
from ptxtools.access.walk import Walk
from ptxtools.isa.types import Type
from ptxtools.reader.function import Function
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.module import Module
from ptxtools.reader.operand import Address, Group, Number, Operand, Register, Symbol

_MEMORY = {"ld", "ldu", "atom"}
_CONSTANT = {"%tid", "%ntid", "%ctaid", "%nctaid", "%laneid"}  # special registers that never change in a thread
_FULL = (1 << 32) - 1
_PARAMETER_SPACES = {"param", "param::entry"}


WINDOW = "generic window"  # the name of a symbol: where private memory begins among generic addresses

# Of each parameter of a called function, by byte offset: the node that was passed, and its bits.
Arguments = Mapping[str, Mapping[int, tuple[int, int]]]


class Values(Walk):
    """Nodes of a PTX function's registers and operands."""

    def __init__(
        self, module: Module, function: Function, flow: Flow, graph: Graph, arguments: Arguments | None = None
    ) -> None:
        super().__init__(function.body.instructions, flow, graph)
        self._arguments = arguments or {}
        self._module, self._function = module, function
        self._slots = {slot.name: slot.offset for slot in function.parameters}

    def operand(self, operand: Operand, block: int, index: int) -> int:
        """The value of a source operand of instruction `index`."""
        if isinstance(operand, Register):
            value = self.name(operand.name, block, index)
            return self._graph.add(Node(Op.OPPOSITE, (value,))) if operand.negated else value
        if isinstance(operand, Number) and operand.value is not None:
            return self._graph.number(operand.value)
        if isinstance(operand, Symbol):
            return self.displaced(self.name(operand.name, block, index), operand.displacement)
        if isinstance(operand, Group) and operand.bracket == "{":
            parts = tuple(self.operand(part, block, index) for part in operand.parts)
            bits = width(self._function.body.instructions[index].parts) // max(len(parts), 1)
            return self._graph.add(
                Node(Op.PACK, parts, bits, block=self._at(block), condition=self._flow.conditions[block])
            )
        return self.opaque(64, block)

    def displaced(self, value: int, displacement: int) -> int:
        if displacement == 0:
            return value
        return self._graph.add(Node(Op.ADD, (value, self._graph.number(displacement)), 64))

    def name(self, name: str, block: int, index: int) -> int:
        """The value of a register, special register or variable's address."""
        body = self._function.body
        if body.register_type(name) is not None:
            return self.register(name, block, index)
        if name in self._slots:
            return self.displaced(self.symbol("param"), self._slots[name])
        if name in body.variables or name in self._module.variables:
            return self.symbol(name)
        if name.partition(".")[0] in _CONSTANT:
            return self._graph.add(Node(Op.SPECIAL, name=name[1:]))
        return self.opaque(64, block)

    def symbol(self, name: str) -> int:
        template = self._graph.template
        variable = self._function.body.variables.get(name) or self._module.variables.get(name)
        if variable is None or variable.space not in ("global", "const"):
            template.private.add(name)
        else:
            template.sizes[name] = variable.size
        return self._graph.add(Node(Op.SYMBOL, name=name))

    def _computed(self, instruction: Instruction, name: str, block: int, index: int) -> int:
        parts = instruction.parts
        if parts[0] in _MEMORY:
            return self._loaded(instruction, parts, name, block, index)
        if parts[0] == "cvta":
            return self._generic(parts, self.operand(instruction.operand(1), block, index))
        target = instruction.operand(0)
        position = _position(target, name)
        if parts[0] == "mov" and isinstance(target, Group) and target.bracket == "{":
            return self._unpacked(instruction, target, position, block, index)

        def value(number: int) -> int:
            return self.operand(instruction.operand(number), block, index)

        if parts[:3] == ["shfl", "sync", "idx"] and position == 0:
            shuffled = self._of_first_lane([value(number) for number in range(1, instruction.operand_count)])
            if shuffled is not None:
                return shuffled
        kind = self._function.body.register_type(name)
        bits = Type(kind).bits if kind in _TYPES else 64
        at, condition = self._at(block), self._flow.conditions[block]
        node = lane_node(self._graph, instruction, position, bits, value, at, condition)
        return self.opaque(bits, block) if node is None else node

    def _of_first_lane(self, operands: Sequence[int]) -> int | None:
        """The value of lane 0 of all 32, when the lanes do not differ in it."""
        value, *others = operands
        numbers = [self._graph.number_of(each) for each in others]
        return value if numbers in ([0, 31, -1], [0, 31, _FULL]) and is_uniform(self._graph, value) else None

    def _generic(self, parts: list[str], value: int) -> int:
        """Addresses of global memory stay; private memory has a window among the generic addresses."""
        if "global" in parts or "const" in parts:
            return value
        window = self._graph.add(Node(Op.SYMBOL, name=WINDOW))
        self._graph.template.private.add(WINDOW)
        return self._graph.add(Node(Op.SUB if "to" in parts else Op.ADD, (value, window), 64))

    def _unpacked(self, instruction: Instruction, target: Group, position: int, block: int, index: int) -> int:
        bits = width(instruction.parts) // len(target.parts)
        source = instruction.operand(1)
        if isinstance(source, Group) and len(source.parts) == len(target.parts):
            return self.operand(source.parts[position], block, index)
        whole = self.operand(source, block, index)
        args = (whole, self._graph.number(position * bits), self._graph.number(bits))
        condition = self._flow.conditions[block]
        return self._graph.add(
            Node(Op.EXTRACT, args, bits * len(target.parts), block=self._at(block), condition=condition)
        )

    def _loaded(self, instruction: Instruction, parts: list[str], name: str, block: int, index: int) -> int:
        bits, signed = width(parts), any(part in ("s8", "s16", "s32", "s64") for part in parts)
        if parts[0] == "ld" and not _PARAMETER_SPACES.isdisjoint(parts):
            address = instruction.operand(1)
            displacement = _position(instruction.operand(0), name) * bits // 8
            if isinstance(address, Address):
                found = self._parameter(address, displacement, bits, signed, block, index)
                if found is None and self._function.is_kernel:
                    number = self._function.line(instruction.offset)
                    like = Node(Op.LOADED, width=bits, signed=signed, number=number, block=self._at(block))
                    found = self._element(address, displacement, like, block, index)
                if found is not None:
                    return found
        if elements(parts) == 1 and parts[0] == "atom":
            signed = False
        line = self._function.line(instruction.offset)
        return self._graph.fresh(Node(Op.LOADED, width=bits or 64, signed=signed, number=line, block=self._at(block)))

    def _parameter(
        self, address: Address, displacement: int, bits: int, signed: bool, block: int, index: int
    ) -> int | None:
        """The value of a parameter, of the launch or passed by the caller."""
        if not self._function.is_kernel:
            passed = self._arguments.get(address.base or "", {}).get(address.displacement + displacement)
            return passed[0] if passed is not None and passed[1] == bits else None
        offset = self._parameter_offset(address, block, index)
        if offset is None:
            return None
        return self._graph.add(Node(Op.PARAMETER, width=bits, signed=signed, number=offset + displacement))

    def _element(self, address: Address, displacement: int, like: Node, block: int, index: int) -> int | None:
        """The value at a place in the parameter block that an index says; None when it is no such place."""
        if address.base is None or address.base in self._function.body.variables or like.width not in (8, 16, 32, 64):
            return None
        begin, varying = self._parameter_terms(self.name(address.base, block, index))
        offset = begin + address.displacement + displacement
        slot = next((each for each in self._function.parameters if 0 <= offset - each.offset < each.size), None)
        if begin < 0 or slot is None or not varying:
            return None
        place, condition = self._at(block), self._flow.conditions[block]
        total = varying[0]
        for term in varying[1:]:
            total = self._graph.add(Node(Op.ADD, (total, term), 64, block=place, condition=condition))

        def select(predicate: int, a: int, b: int, width: int) -> int:
            return self._graph.add(Node(Op.SELECT, (predicate, a, b), width, block=place, condition=condition))

        at = Place(self._graph, place, condition, select)
        return element(at, total, offset, slot.offset + slot.size, like, 64)

    def _parameter_terms(self, value: int) -> tuple[int, list[int]]:
        """(offset, other terms) of a sum that begins with the address of the parameters; (-1, []) of other values."""
        offset, varying, is_parameter, left = 0, list[int](), False, [value]
        while left:
            resolved = self._graph.resolve(left.pop())
            node, number = self._graph.nodes[resolved], self._graph.number_of(resolved)
            if node.op is Op.ADD and node.width == 64:
                left += node.args
            elif number is not None:
                offset += number
            elif node.op is Op.SYMBOL and node.name == "param" and not is_parameter:
                is_parameter = True
            else:
                varying.append(resolved)
        return (offset, varying) if is_parameter else (-1, [])

    def _parameter_offset(self, address: Address, block: int, index: int) -> int | None:
        """Where in the parameter block an address lies; None when it is not one number."""
        if address.base is None:
            return None
        if address.base in self._function.body.variables:
            return None
        value = self._graph.resolve(self.name(address.base, block, index))
        offset = address.displacement
        node = self._graph.nodes[value]
        while node.op is Op.ADD:
            added = self._graph.number_of(node.args[1])
            if added is None:
                return None
            offset += added
            node = self._graph.nodes[self._graph.resolve(node.args[0])]
        return offset if node.op is Op.SYMBOL and node.name == "param" else None


_TYPES = {kind.value for kind in Type if kind.value}


def _position(target: Operand, name: str) -> int:
    """Which of an instruction's destinations a register is."""
    if isinstance(target, Group):
        for number, part in enumerate(target.parts):
            if isinstance(part, Register) and part.name == name:
                return number
    return 0
