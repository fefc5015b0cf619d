"""The keys of a policy file and what they mean, as JSON Schema (2020-12): for editors, and for read.py.

read.py knows no other keys; what JSON Schema cannot say (that a rule's device is one of the policy's GPUs, that a
pattern compiles) it checks itself.
"""

from typing import TypeAlias

from controlplane.policy.language import EXECUTORS, GIVEN, GPUS, PATTERN_BYTES, RULES, Order
from ptxtools.machine.consent import Consent

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def _object(required: list[str], properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list[Json](required),
        "properties": properties,
    }


def _described(description: str, **schema: Json) -> dict[str, Json]:
    return {"description": description, **schema}


def _pattern(description: str) -> dict[str, Json]:
    return _described(description, type="string", minLength=1, maxLength=PATTERN_BYTES)


_GPU: dict[str, Json] = {"type": "integer", "minimum": 0, "maximum": GPUS - 1}
_PLACE: dict[str, Json] = {"anyOf": [{"enum": ["home", *GIVEN]}, _GPU]}
_AMOUNT: dict[str, Json] = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}

_EXECUTOR = _object(
    ["gpu"],
    {
        "gpu": _described("Number of the GPU.", **_GPU),
        "sm_limit": _described("SMs it may use, rounded up to what the GPU can set apart.", type="integer", minimum=1),
        "memory_limit": _described("Memory it may allocate on its GPU: 20GiB, 512MiB, or bytes.", **_AMOUNT),
    },
)
_DEVICES = _object(
    ["executors"],
    {
        "home": _described("The GPU that the program uses (0).", **_GPU),
        "executors": _described(
            "The further GPUs: numbers, or mappings with limits.",
            type="array",
            maxItems=EXECUTORS,
            items={"anyOf": [_GPU, _EXECUTOR]},
        ),
    },
)
_GRID = _object(
    [],
    {
        "blocks": _described('Blocks of the grid: ">= 128", "< 64", "128..1024", or a number.', **_AMOUNT),
        "threads": _described("Threads of the whole grid, compared in the same way.", **_AMOUNT),
        "block_threads": _described("Threads of one block, compared in the same way.", **_AMOUNT),
    },
)
_NTH = _object(
    ["every"],
    {
        "every": _described(
            "The launches whose number has a remainder, when divided by this, of", type="integer", minimum=1
        ),
        "offset": _described("this (0).", type="integer", minimum=0),
    },
)
_SHARE = _object(
    ["fraction"],
    {
        "fraction": _described("Part of the launches, from 0 to 1.", type="number", minimum=0, maximum=1),
        "seed": _described("Another seed chooses other launches (0).", type="integer", minimum=0),
    },
)
_VERIFY = _object(
    ["every"],
    {
        "every": _described("Which launches, as above.", type="integer", minimum=0),
        "memory_limit": _described("None while the program has more memory than this on the home GPU.", **_AMOUNT),
    },
)
_MEMORY = _object(
    [],
    {
        "place": _described(
            "Where memory lies that the program allocates on the home GPU: on a GPU of the policy, home, or, with "
            "follow, on the GPU whose launches use it; with copies, each GPU has a copy of what its launches use "
            "(copies if rules use several GPUs, else, and with disassemble: none, follow).",
            anyOf=[{"enum": ["copies", "follow", "home"]}, _GPU],
        ),
        "move_after": _described(
            "With follow: how many more launches of another GPU must have used memory before it moves there; 0: at "
            "every occasion, for tests (16).",
            type="integer",
            minimum=0,
        ),
        "pool": _described(
            "Whether the memory of all the policy's GPUs is one pool for the program (docs/pool.md; experimental), "
            "with place: copies (false).",
            type="boolean",
        ),
        "reserve": _described(
            "With a pool: memory of each GPU that is left to copies and drivers: 2GiB, 512MiB, or bytes (2GiB).",
            **_AMOUNT,
        ),
        "host": _described(
            "With a pool: page-locked host memory that it has besides, for what fits no GPU any more: 64GiB, 512MiB, "
            "or bytes (none).",
            **_AMOUNT,
        ),
        "limit": _described(
            "With a pool: what of each GPU's memory is used at most, as if it had no more: 40GiB, 512MiB, or bytes "
            "(all).",
            **_AMOUNT,
        ),
    },
)
USE = "use"
OBSERVED = (USE, "ignore")
_ANALYSIS = _object(
    [],
    {
        "observed": _described(
            "Whether what tessera probe saw of a launch, which proves nothing, counts as known of it in tessera "
            "analyze --policy (ignore).",
            enum=list[Json](OBSERVED),
        ),
    },
)
_MATCH = _object(
    [],
    {
        "function": _pattern(
            "Glob over the function's name: as the driver knows it (C++ names are mangled), as its declaration "
            "(void scale<float>(float*, int)), or as the name in that (scale<float>).",
        ),
        "function_regex": _pattern("POSIX extended regular expression that is found anywhere in that name."),
        "module": _pattern(
            "Glob over the file name of the library or executable that holds the code, or over the hash of its image "
            "(16 hexadecimal digits, as traces show it)."
        ),
        "process": _pattern("Glob over the executable's file name, or over the name the process gave itself."),
        "library_call": _pattern(
            "Glob over the call of cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSPARSE or cuRAND that the launch happens in."
        ),
        "grid": _described("Sizes of the launch.", **_GRID),
        "stream": _described(
            "Number of the stream in the order in which the program makes them, from 1; default: a default stream.",
            anyOf=[{"const": "default"}, {"type": "integer", "minimum": 1}],
        ),
        "nth": _described(
            "Which launches of the function, counted from 1 in each process: one number, or every n-th.",
            anyOf=[{"type": "integer", "minimum": 1}, _NTH],
        ),
        "share": _described(
            "A part of the launches, chosen as if at random, the same in every run.",
            anyOf=[{"type": "number", "minimum": 0, "maximum": 1}, _SHARE],
        ),
    },
)
_MATCH["minProperties"] = 1
_RULE = _object(
    ["match", "device"],
    {
        "match": _described("Conditions; all must hold.", **_MATCH),
        "device": _described(
            "Where launches that match run: a GPU of the policy, or home; by_stream, by_thread: each new stream, or "
            "thread, is given the GPU with the least to do and stays there.",
            **_PLACE,
        ),
    },
)
SCHEMA: dict[str, Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Tessera policy",
    **_object(
        ["version", "devices"],
        {
            "version": _described("Of this language.", const=1),
            "devices": _described("The GPUs.", **_DEVICES),
            "rules": _described(
                "Tried in order; the first that matches a launch decides.", type="array", maxItems=RULES, items=_RULE
            ),
            "default": _described("Where launches run that no rule matches; as a rule's device (home).", **_PLACE),
            "verify": _described(
                "Every n-th launch that runs elsewhere is run at home too and compared: n, 0 for none (0).",
                anyOf=[{"type": "integer", "minimum": 0}, _VERIFY],
            ),
            "memory": _described("The program's memory.", **_MEMORY),
            "order": _described(
                "What launches of one stream that run on different GPUs wait for: stream: for those before them; data: "
                "only where data flows between them, with memory: {place: copies} (stream).",
                enum=[each.value for each in Order],
            ),
            "schedule": _described(
                "auto, instead of default: launches that no rule matches are placed one by one, with order: data "
                "(docs/schedule.md; experimental).",
                const="auto",
            ),
            "log": _described("decisions: log what is first decided for each function.", enum=["off", "decisions"]),
            "disassemble": _described(
                "Whose machine code --analyze may disassemble; open: all but NVIDIA's closed libraries (open).",
                enum=[each.value for each in Consent],
            ),
            "analysis": _described("What is known of launches.", **_ANALYSIS),
        },
    ),
}


def _keys(schema: dict[str, Json]) -> frozenset[str]:
    properties = schema["properties"]
    assert isinstance(properties, dict)
    return frozenset(properties)


TOP, DEVICES, EXECUTOR, RULE = _keys(SCHEMA), _keys(_DEVICES), _keys(_EXECUTOR), _keys(_RULE)
MATCH, GRID, NTH, SHARE = _keys(_MATCH), _keys(_GRID), _keys(_NTH), _keys(_SHARE)
VERIFY, MEMORY, ANALYSIS = _keys(_VERIFY), _keys(_MEMORY), _keys(_ANALYSIS)
