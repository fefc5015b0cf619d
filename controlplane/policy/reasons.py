"""Why launches that a rule sent elsewhere stayed home (enum tsr_reason), and what to do about it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

SHOWN = 3
NOT_SHARED = "they are given memory that other GPUs cannot use"
WORDS = {
    "capture": "they are recorded into CUDA graphs; the graphs themselves may leave",
    "attribute": "they have a launch attribute that other processes cannot be told",
    "parameters": "the layout of their parameters is not known, or they are too many",
    "shape": "the driver would refuse them; the program gets that error",
    "module": "their code cannot be sent to another process",
    "executor": "the other GPU's process could not take them; the log says why, and so may `tessera doctor`",
    "verify": "their results were different elsewhere; the log names function and byte",
    "variable": "they use a variable of their module, of which each GPU has its own",
    "printf": "they print: their lines would come in another order",
    "heap": "they call malloc or free, whose memory each GPU has for itself",
    "code": "they call code by address, or store such an address in memory: code lies elsewhere on each GPU",
    "address": "they follow pointers in memory, where their module stores addresses of variables or of the heap",
    "other_gpus": "they are NCCL's: they reach other GPUs' memory themselves",
    "architecture": "their code does not exist for the other GPU: build for it, too, or embed PTX",
    "ranges": "it is not known, or not yet, what they touch: run it again, or say memory: {place: follow}",
    "memory_managed": f"{NOT_SHARED}: managed memory",
    "memory_registered": f"{NOT_SHARED}: the program's own, page-locked; cuMemHostAlloc gives some that can",
    "memory_ipc": f"{NOT_SHARED}: of another process, or of another interface",
    "memory_variable": f"{NOT_SHARED}: a module's variable",
    "memory_other_device": f"{NOT_SHARED}: of a GPU that the program uses itself",
    "memory_graph": f"{NOT_SHARED}: a graph allocated it",
    "graph_node": "they launch CUDA graphs with a node that other GPUs do not get, such as a condition",
    "graph_memory": "they launch CUDA graphs, and GPUs have no copies of memory: say memory: {place: copies}",
    "memory_pool": f"{NOT_SHARED}: of a pool for other processes, or for the host",
    "memory_fixed": f"{NOT_SHARED}: another GPU of the program, or another process, uses it, too",
    "memory_not_shared": f"{NOT_SHARED}, not mapped there: without peer access, say memory: {{place: copies}}",
}


def explained(kept: Mapping[str, int]) -> Iterator[str]:
    """Of the most frequent ones, a line each."""
    for reason in sorted(kept, key=lambda name: -kept[name])[:SHOWN]:
        if reason in WORDS:
            yield f"{reason}: {WORDS[reason]}"
