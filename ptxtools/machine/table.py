"""Machine instructions: how many registers each writes, its effect on memory, and its result.

An instruction that is not listed is unknown. One without a meaning may write any values. Opcodes are those of Turing to
Blackwell; those of the uniform datapath have a U before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache


class Width(Enum):
    """How many registers of 32 bits the result has."""

    NONE = "none"
    ONE = "one"
    TWO = "two"
    BY_SIZE = "by size"  # of what is loaded
    BY_WIDE = "by wide"  # two with .WIDE, .64, .U64 or .S64
    BY_TYPE = "by type"  # two when the type it converts to has 64 bits
    EIGHT = "eight"
    FRAGMENT = "fragment"  # of a matrix: eight of the oldest shape, otherwise at most four
    MATRIX = "matrix"  # by the number of matrices
    ALL = "all"  # from the first one on, as many as there are


class Effect(Enum):
    """On memory that others see."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    UNKNOWN = "unknown"


class Through(Enum):
    """Where the address of an access is. BULK: one of two is in global memory, as the opcode says."""

    ADDRESS = "address"
    TENSOR_MAP = "tensor map"
    BULK = "bulk"


class Meaning(Enum):
    """How the result is computed; see `values`."""

    ANY = "any"
    COPY = "copy"
    ADD = "add"
    MULTIPLY = "multiply"
    LEA = "lea"
    SHIFT = "shift"
    FUNNEL = "funnel"
    LOGIC = "logic"
    SELECT = "select"
    MINMAX = "minmax"
    ADD_MINMAX = "add, then minmax"
    ABSOLUTE = "absolute"
    COMPARE = "compare"
    PREDICATES = "predicates"
    FROM_PREDICATES = "from predicates"
    TO_PREDICATE = "to predicate"
    PERMUTE = "permute"
    SIGN_EXTEND = "sign extend"
    SPECIAL = "special"
    CONSTANT = "constant"
    STORED = "stored"
    LOADED = "loaded"
    SHUFFLE = "shuffle"
    HALVES = "halves"
    TO_FLOAT = "to float"
    RECIPROCAL = "reciprocal"
    FROM_FLOAT = "from float"


@dataclass(frozen=True, slots=True)
class Row:
    width: Width
    effect: Effect = Effect.NONE
    meaning: Meaning = Meaning.ANY
    generic: bool = False
    reason: str = ""
    through: Through = Through.ADDRESS


def _rows(names: str, width: Width, meaning: Meaning = Meaning.ANY) -> dict[str, Row]:
    return {name: Row(width, meaning=meaning) for name in names.split()}


def _unknown(names: str, reason: str) -> dict[str, Row]:
    return {name: Row(Width.ALL, Effect.UNKNOWN, reason=reason) for name in names.split()}


_READ, _WRITE, _ATOMIC = Effect.READ, Effect.WRITE, Effect.ATOMIC

ROWS: dict[str, Row] = {
    # Integers.
    **_rows("MOV UMOV MOV64IUR R2UR IMOV", Width.BY_WIDE, Meaning.COPY),
    **_rows("IADD3 UIADD3 VIADD UVIADD IADD UIADD IADD32I", Width.BY_WIDE, Meaning.ADD),
    **_rows("IMAD UIMAD", Width.BY_WIDE, Meaning.MULTIPLY),
    **_rows("LEA ULEA", Width.ONE, Meaning.LEA),
    **_rows("SHF USHF", Width.ONE, Meaning.FUNNEL),
    **_rows("SHL USHL SHR USHR", Width.BY_WIDE, Meaning.SHIFT),
    **_rows("LOP3 ULOP3 LOP LOP32I", Width.ONE, Meaning.LOGIC),
    **_rows("SEL USEL", Width.BY_WIDE, Meaning.SELECT),
    **_rows("IMNMX UIMNMX VIMNMX UVIMNMX", Width.BY_WIDE, Meaning.MINMAX),
    **_rows("VIADDMNMX UVIADDMNMX", Width.ONE, Meaning.ADD_MINMAX),
    **_rows("IABS UIABS", Width.ONE, Meaning.ABSOLUTE),
    **_rows("ISETP UISETP", Width.NONE, Meaning.COMPARE),
    **_rows("PLOP3 UPLOP3", Width.NONE, Meaning.PREDICATES),
    **_rows("PRMT UPRMT", Width.ONE, Meaning.PERMUTE),
    **_rows("SGXT USGXT", Width.ONE, Meaning.SIGN_EXTEND),
    **_rows("S2R S2UR", Width.BY_WIDE, Meaning.SPECIAL),
    **_rows("CS2R CS2UR", Width.TWO, Meaning.SPECIAL),
    **_rows("LDC ULDC LDCU", Width.BY_SIZE, Meaning.CONSTANT),
    **_rows("HFMA2", Width.ONE, Meaning.HALVES),
    **_rows("BMSK UBMSK BREV UBREV FLO UFLO POPC UPOPC IDP IDP4A I2I I2IP VABSDIFF VABSDIFF4 IMUL ISCADD", Width.ONE),
    **_rows("VIMNMX3 UVIMNMX3 VIADDMNMX3 VHMNMX VOTE VOTEU REDUX CREDUX UREDUX ISET ICMP", Width.ONE),
    **_rows("R2B B2R FCHK PSETP CSETP ELECT UELECT BMOV USHFL MATCH", Width.ONE),
    **_rows("SHFL", Width.ONE, Meaning.SHUFFLE),
    **_rows("P2R P2UR UP2UR", Width.ONE, Meaning.FROM_PREDICATES),
    **_rows("R2P R2UP UR2UP", Width.NONE, Meaning.TO_PREDICATE),
    **_rows("LEPC GETLMEMBASE", Width.TWO),
    # Numbers with a point.
    **_rows("FADD FMUL FFMA FMNMX FSEL FSET FSWZADD FADD32I FMUL32I FFMA32I FMNMX3 UFADD UFMUL UFFMA", Width.ONE),
    **_rows("UFMNMX UFSEL UFSET UFMNMX3 F2FP UF2FP F2IP UF2IP", Width.ONE),
    **_rows("I2FP UI2FP", Width.ONE, Meaning.TO_FLOAT),
    **_rows("HADD2 HMUL2 HMNMX2 HSET2 HADD2_32I HMUL2_32I HFMA2_32I UHADD2 UHFMA2 HMNMX HADD HFMA", Width.ONE),
    **_rows("F2F UF2F FRND UFRND", Width.BY_TYPE),
    **_rows("FADD2 FMUL2 FFMA2 DADD DMUL DFMA DMNMX", Width.TWO),
    **_rows("FSETP DSETP HSETP2 UFSETP UHSETP2", Width.NONE),
    **_rows("MUFU UMUFU", Width.ONE, Meaning.RECIPROCAL),
    **_rows("I2F UI2F", Width.BY_TYPE, Meaning.TO_FLOAT),
    **_rows("F2I UF2I", Width.BY_TYPE, Meaning.FROM_FLOAT),
    # Matrices.
    **_rows("HMMA IMMA BMMA QMMA OMMA", Width.FRAGMENT),
    **_rows("DMMA", Width.EIGHT),
    **_rows("HGMMA IGMMA BGMMA QGMMA", Width.ALL),
    **_rows("LDSM MOVM", Width.MATRIX),
    **_rows("LDT LDTM UTCLD", Width.ALL),
    **_rows("WARPGROUP WARPGROUPSET STT STTM UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCBAR UTCCP UTCSHIFT", Width.NONE),
    **_rows("UTCATOMSWS", Width.ONE),
    # Memory of a block or thread.
    **_rows("LDS", Width.BY_SIZE, Meaning.LOADED),
    **_rows("LDL", Width.BY_SIZE, Meaning.LOADED),
    **_rows("ATOMS", Width.BY_SIZE),
    **_rows("ATOMSWS SYNCS", Width.TWO),
    **_rows("STL", Width.NONE, Meaning.STORED),
    **_rows("STS STSM STAS REDAS", Width.NONE),
    # Global memory.
    "LDG": Row(Width.BY_SIZE, _READ, Meaning.LOADED),
    "LD": Row(Width.BY_SIZE, _READ, Meaning.LOADED, generic=True),
    "STG": Row(Width.NONE, _WRITE),
    "ST": Row(Width.NONE, _WRITE, generic=True),
    "LDGSTS": Row(Width.NONE, _READ),
    "RED": Row(Width.NONE, _ATOMIC),
    "REDG": Row(Width.NONE, _ATOMIC),
    "ATOMG": Row(Width.BY_SIZE, _ATOMIC, Meaning.LOADED),
    "ATOM": Row(Width.BY_SIZE, _ATOMIC, Meaning.LOADED, generic=True),
    "UTMALDG": Row(Width.NONE, _READ, through=Through.TENSOR_MAP),
    "UTMASTG": Row(Width.NONE, _WRITE, through=Through.TENSOR_MAP),
    "UTMAREDG": Row(Width.NONE, _ATOMIC, through=Through.TENSOR_MAP),
    "UBLKCP": Row(Width.NONE, _READ, through=Through.BULK),
    "UBLKRED": Row(Width.NONE, _ATOMIC, through=Through.BULK),
    **_unknown("LDGMC REDGMC", "multimem reaches other devices' memory"),
    **_unknown("TEX TLD TLD4 TMML TXD TXQ SULD SUST SURED SUATOM SUQUERY", "texture or surface"),
    # No registers and no memory of the program.
    **_rows(
        "NOP BAR DEPBAR LDGDEPBAR LDG_DEPBAR MEMBAR ERRBAR FENCE CCTL CCTLL CCTLT UCCTL WARPSYNC YIELD NANOSLEEP",
        Width.NONE,
    ),
    **_rows("BSSY BSYNC BREAK BPT PMTRIG UTMAPF UBLKPF UTMACCTL UTMACMDFLUSH ARRIVES UARRIVES", Width.NONE),
    **_rows(
        "UCGABAR_ARV UCGABAR_WAIT UCGABAR_SET USETMAXREG USETSHMSZ ACQBULK PREEXIT KILL SETCTAID",
        Width.NONE,
    ),
    **_rows("UVIRTCOUNT ENDCOLLECTIVE CGAERRBAR RPCMOV SETLMEMBASE UGETNEXTWORKID ACQSHMINIT UPREFETCH", Width.NONE),
    **_rows("QSPC UCGABAR_GET", Width.ONE),
}

CONTROL = {"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "EXIT", "RET", "CALL", "BSYNC", "BREAK", "WARPSYNC", "KILL"}


_INTEGERS = ("S8", "U8", "S16", "U16", "S32", "U32", "S64", "U64")
_FLOATS = ("F16", "BF16", "F32", "F64")


_SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "U64": 8, "S64": 8, "F64": 8, "128": 16, "256": 32}
_PACKED = {"F16X4": 8, "BF16X4": 8, "F32X2": 8, "F16X8": 16, "BF16X8": 16, "F32X4": 16}


@cache
def words(opcode: str) -> int:
    """How many registers the result of an opcode has, as far as that is bounded by it; 256 for all."""
    parts = opcode.split(".")
    row = ROWS.get(parts[0])
    if row is None:
        return 256
    return _words(row.width, parts)


def accessed_bytes(parts: Sequence[str]) -> int:
    """How many bytes an instruction loads, stores or changes, by the parts of its opcode."""
    for part in parts[1:]:
        found = _SIZES.get(part) or _PACKED.get(part.upper().partition("_")[0])
        if found:
            return found
    return 4


def _words(width: Width, parts: Sequence[str]) -> int:
    if width is Width.BY_SIZE:
        return 3 if "96" in parts else max(accessed_bytes(parts) // 4, 1)
    if width is Width.BY_WIDE:
        return 2 if {"WIDE", "64", "U64", "S64"} & set(parts) else 1
    if width is Width.BY_TYPE:
        made = _INTEGERS if "F2I" in parts[0] else _FLOATS  # the type that is written stands first
        return 2 if next((part for part in parts if part in made), "").endswith("64") else 1
    if width is Width.MATRIX:
        return (int(parts[-1]) if parts[-1] in ("2", "4") else 1) * (1 if {"M88", "MT88"} & set(parts) else 2)
    if width is Width.FRAGMENT:
        return 8 if "884" in parts else 4
    return _COUNTS[width]


_COUNTS = {Width.NONE: 0, Width.ONE: 1, Width.TWO: 2, Width.EIGHT: 8, Width.ALL: 256}
