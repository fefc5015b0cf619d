"""Reading PTX text. `read` looks only at what stands outside function bodies; a body is read when it is asked for."""

from ptxtools.reader.function import Function
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.module import Module, read
from ptxtools.reader.operand import Address, Group, Number, Operand, Register, Symbol
from ptxtools.reader.parameter import Parameter
from ptxtools.reader.variable import Variable

__all__ = [
    "Address",
    "Function",
    "Group",
    "Instruction",
    "Module",
    "Number",
    "Operand",
    "Parameter",
    "Register",
    "Symbol",
    "Variable",
    "read",
]
