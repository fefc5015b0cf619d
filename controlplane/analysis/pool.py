"""The worker processes of analyses: a few, each with one task at a time; other tasks wait in a queue.

A worker that dies or takes too long loses its task, whose result is then unknown, and is replaced. Functions of one
image go to the same worker, which caches what it has read of it, unless many of them wait. A worker that begins with an
image also gets other images for which functions wait, and disassembles them all at once.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from controlplane.analysis.cache import decode
from controlplane.analysis.describe import unknown_description
from controlplane.analysis.result import Analysis
from controlplane.analysis.share import assigned, choose
from controlplane.analysis.task import ANSWER, ImageOf, Task, image_of
from controlplane.ipc.loop import Loop

FEW_WORKERS, MOST_WORKERS = 4, 8  # on a machine with few cores, with many
CORES_PER_WORKER = 4  # then: the program needs most of them
TASK_SECONDS = 60.0
MOST_FAILURES = 8  # of workers that could not even be asked
LARGEST_ANSWER = 256 << 20

Done = Callable[[Analysis], None]


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    peer: socket.socket
    task: Task | None = None
    images: frozenset[ImageOf] = frozenset()  # that its last task named
    done: Done | None = None
    deadline: float = 0.0


class Pool:
    """Belongs to a loop, or to whoever calls wait(); nothing else blocks. Workers start with the first task."""

    def __init__(self, workers: int = 0) -> None:
        cores = len(os.sched_getaffinity(0))
        self._most = workers or max(min(FEW_WORKERS, cores), min(MOST_WORKERS, cores // CORES_PER_WORKER))
        self._workers: list[_Worker] = []
        self._waiting: deque[tuple[Task, list[int], Done]] = deque()
        self._loop: Loop | None = None
        self._failures = 0

    def start(self, loop: Loop) -> None:
        self._loop = loop

    @property
    def is_idle(self) -> bool:
        return not self._waiting and all(worker.task is None for worker in self._workers)

    def ask(self, task: Task, descriptors: Sequence[int], done: Done) -> None:
        """done is called with the analysis, later and maybe never. The descriptors stay the caller's."""
        self._waiting.append((task, [os.dup(descriptor) for descriptor in descriptors], done))
        self._hand_out()

    def tick(self) -> float | None:
        """Ends what takes too long. Seconds until the next may."""
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.task is not None and now >= worker.deadline:
                self._lose(worker, f"the analysis took longer than {TASK_SECONDS:.0f} s")
        deadlines = [worker.deadline for worker in self._workers if worker.task is not None]
        return max(min(deadlines) - now, 0.01) if deadlines else None

    def wait(self, seconds: float) -> bool:
        """Until everything is done, or this time is over. Whether everything is."""
        deadline = time.monotonic() + seconds
        while not self.is_idle and (left := deadline - time.monotonic()) > 0:
            due = self.tick()
            busy = {worker.peer: worker for worker in self._workers if worker.task is not None}
            ready, _, _ = select.select(list(busy), [], [], left if due is None else min(left, due))
            for peer in ready:
                self._receive(busy[peer])
        return self.is_idle

    def finish(self) -> None:
        """Whatever is not done stays undone."""
        for _, descriptors, _ in self._waiting:
            _close(descriptors)
        self._waiting.clear()
        for worker in list(self._workers):
            self._end(worker)

    def _hand_out(self) -> None:
        while (picked := self._pick()) is not None:
            worker, place = picked
            task, descriptors, done = self._waiting[place]
            del self._waiting[place]
            try:
                asked, files = self._asked(worker, task)
                socket.send_fds(worker.peer, [asked.to_json()], [*descriptors, *files])
                worker.task, worker.done, worker.deadline = task, done, time.monotonic() + TASK_SECONDS
            except OSError as problem:
                self._end(worker)
                self._failures += 1
                done(_unknown(task, f"no process could analyse it: {problem}"))
            finally:
                _close(descriptors)

    def _pick(self) -> tuple[_Worker, int] | None:
        """A worker without a task, and the place of the task that it gets."""
        idle = [worker for worker in self._workers if worker.task is None]
        if not self._waiting or not (idle or self._may_begin):
            return None
        waiting = [image_of(task.key) for task, _, _ in self._waiting]
        busy = [worker.images for worker in self._workers if worker.task is not None]
        chosen = choose(waiting, [worker.images for worker in idle], busy)
        if chosen is None:
            return None
        number, place = chosen
        worker = idle[number] if number < len(idle) else self._begin()
        return None if worker is None else (worker, place)

    def _asked(self, worker: _Worker, task: Task) -> tuple[Task, list[int]]:
        """The task with what waits besides it, whose images become the worker's; with the descriptors of those."""
        others = {image for each in self._workers if each is not worker for image in each.images}
        waiting = ((each, descriptors) for each, descriptors, _ in self._waiting)
        asked, files = assigned(task, waiting, worker.images, others, self._most)
        if image_of(task.key) not in worker.images:
            worker.images = frozenset(map(image_of, (asked.key, *(each.key for each in asked.beside))))
        return asked, files

    @property
    def _may_begin(self) -> bool:
        return len(self._workers) < self._most and self._failures < MOST_FAILURES

    def _begin(self) -> _Worker | None:
        if not self._may_begin:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "controlplane.analysis.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        ours.setblocking(False)
        worker = _Worker(process, ours)
        self._workers.append(worker)
        if self._loop is not None:
            self._loop.watch(ours, partial(self._receive, worker))
        return worker

    def _receive(self, worker: _Worker) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(worker.peer, 64, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            if data != ANSWER or len(descriptors) != 1 or worker.task is None:
                self._lose(worker, "the analysis ended its process")
                return
            self._answered(worker, worker.task, descriptors[0])
        finally:
            _close(descriptors)
        self._hand_out()

    def _answered(self, worker: _Worker, task: Task, descriptor: int) -> None:
        done, worker.task, worker.done = worker.done, None, None
        size = os.fstat(descriptor).st_size
        found = decode(os.pread(descriptor, size, 0), task.key.to_json()) if size <= LARGEST_ANSWER else None
        if done is not None:
            done(found or _unknown(task, "the analysis gave no answer"))

    def _lose(self, worker: _Worker, why: str) -> None:
        task, done = worker.task, worker.done
        self._end(worker)
        if task is not None and done is not None:
            done(_unknown(task, why))
        self._hand_out()

    def _end(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        if self._loop is not None:
            self._loop.forget(worker.peer)
        worker.peer.close()
        worker.process.kill()
        worker.process.wait()


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _unknown(task: Task, why: str) -> Analysis:
    return Analysis(unknown_description(task.key.function, why))
