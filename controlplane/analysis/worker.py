"""A process that analyses functions, one after the other, at low priority.

Its requests come over a SOCK_SEQPACKET socket: a message is a Task in JSON, with a descriptor of the image and one for
each source, then those of the images beside it. It answers with the encoded analysis (cache.encode) in a memory file.
It ends when the socket is closed. An analysis that crashes, or takes too much memory, harms this process only.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import socket
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice

from controlplane.analysis.cache import Cache, Key, encode
from controlplane.analysis.describe import unknown_description
from controlplane.analysis.kernel import Image, expect
from controlplane.analysis.result import Analysis
from controlplane.analysis.task import ANSWER, IMAGES_KEPT, KEPT_BYTES, MOST_DESCRIPTORS, ImageOf, Place, Task, image_of
from controlplane.base.content import content_hash
from controlplane.ipc.handover import end_with

NICE = 15
MEMORY_BYTES = 8 << 30
GARBAGE = 200_000  # objects to be made before unused ones are looked for: by default, that takes a fifth of the time


class Analyser:
    """Keeps the images seen last, which have been read as far as it was needed."""

    def __init__(self) -> None:
        self._images: OrderedDict[ImageOf, Image] = OrderedDict()

    def analyse(self, task: Task, descriptors: Sequence[int]) -> Analysis:
        left = iter(descriptors)
        try:
            image = self._image(task.key, task.places, left)
            with contextlib.suppress(Exception):  # what is wrong is told when the function is analysed
                expect([(image, (task.key.function, *task.next)), *self._ahead(task, left)])
            return image.analyse(task.key.function)
        except Exception as problem:
            failure = unknown_description(task.key.function, f"the analysis failed: {problem!r}")
            return Analysis(failure, is_lasting=False)

    def _ahead(self, task: Task, descriptors: Iterator[int]) -> list[tuple[Image, tuple[str, ...]]]:
        return [(self._image(each.key, each.places, descriptors), each.names) for each in task.beside]

    def _image(self, key: Key, places: Sequence[Place], descriptors: Iterator[int]) -> Image:
        files = list(islice(descriptors, len(places)))
        known = image_of(key)
        if known not in self._images:
            wanted = zip(files, places, (key.code, *key.sources), strict=True)
            data, *sources = [_contents(descriptor, place, expected) for descriptor, place, expected in wanted]
            self._images[known] = Image(data, key.architecture, key.ptx_only, sources, key.disassemble, key.clone)
            while len(self._images) > IMAGES_KEPT or (len(self._images) > 1 and self._kept_bytes() > KEPT_BYTES):
                self._images.popitem(last=False)
        self._images.move_to_end(known)
        return self._images[known]

    def _kept_bytes(self) -> int:
        return sum(len(image.data) for image in self._images.values())


def _contents(descriptor: int, place: Place, expected: int) -> bytes:
    """Errors: ValueError when the file has other contents than the program had in its memory."""
    data = os.pread(descriptor, place.size, place.offset)
    while len(data) < place.size:  # one call reads at most 2 GiB
        more = os.pread(descriptor, place.size - len(data), place.offset + len(data))
        if not more:
            break
        data += more
    if content_hash(data) != expected:
        raise ValueError("the file with the code has changed")
    return data


def main() -> int:
    end_with(int(sys.argv[2]))
    os.nice(NICE)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    sys.setrecursionlimit(20000)
    gc.freeze()
    gc.set_threshold(GARBAGE)
    peer = socket.socket(fileno=int(sys.argv[1]))
    cache, analyser = Cache(), Analyser()
    with contextlib.suppress(OSError):
        while True:
            data, descriptors, _, _ = socket.recv_fds(peer, 1 << 16, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            if not data:
                break
            task = Task.from_json(data)
            analysis = analyser.analyse(task, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            cache.put(task.key, analysis)
            _answer(peer, encode(task.key.to_json(), analysis))
    return 0


def _answer(peer: socket.socket, data: bytes) -> None:
    answer = os.memfd_create("tessera-analysis", os.MFD_CLOEXEC)
    with os.fdopen(answer, "wb") as stream:
        stream.write(data)
        stream.flush()
        socket.send_fds(peer, [ANSWER], [stream.fileno()])


if __name__ == "__main__":
    sys.exit(main())
