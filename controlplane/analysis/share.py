"""Which worker gets which of the functions that wait, and which others its task names. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from controlplane.analysis.task import IMAGES_KEPT, KEPT_BYTES, MOST_DESCRIPTORS, Ahead, ImageOf, Task, image_of

MOST_QUEUED = 8  # functions that wait for the worker that has their image; of more, others take some
MOST_NAMES_BYTES = 24 << 10  # of functions that a task names besides its own
LEAST_SHARE = 4  # images that a worker is given at once, if so many wait
MOST_SHARE = IMAGES_KEPT // 2
MOST_SHARE_BYTES = KEPT_BYTES // 2

Waiting = Iterable[tuple[Task, Sequence[int]]]  # each with its descriptors


def choose(
    waiting: Sequence[ImageOf], idle: Sequence[Collection[ImageOf]], busy: Sequence[Collection[ImageOf]]
) -> tuple[int, int] | None:
    """Which worker without a task gets which of those that wait; with none such, number 0 is a new one.

    `waiting`: the tasks' images; `idle`: the images that workers without a task have; `busy`: those of the others.
    """
    for number, images in enumerate(idle):
        own = next((place for place, image in enumerate(waiting) if image in images), None)
        if own is not None:
            return number, own
    taken = {image for images in busy for image in images}
    free = (place for place, image in enumerate(waiting) if image not in taken)
    many = [images for images in busy if sum(image in images for image in waiting) > MOST_QUEUED]
    queued = (place for place, image in enumerate(waiting) if any(image in images for images in many))
    place = next(free, max(queued, default=None))
    return None if place is None else (0, place)


def assigned(
    task: Task, waiting: Waiting, own: Collection[ImageOf], others: Collection[ImageOf], workers: int
) -> tuple[Task, list[int]]:
    """A task that names what waits besides it, and the descriptors of the images that this is in.

    `own`: images that the worker has; `others`: those that others have. With an image that nobody has, the worker is
    given its share of all such images.
    """
    image = image_of(task.key)
    by_image: dict[ImageOf, list[tuple[Task, Sequence[int]]]] = defaultdict(list)
    for another, descriptors in waiting:
        by_image[image_of(another.key)].append((another, descriptors))
    free = [each for each in by_image if each != image and each not in own and each not in others]
    names = _named([another for another, _ in by_image[image]], MOST_NAMES_BYTES)
    left = MOST_NAMES_BYTES - sum(map(len, names))
    size = task.key.code_bytes
    beside: list[Ahead] = []
    files: list[int] = []
    share = 1 if image in own or image in others else max(-(-(1 + len(free)) // workers), LEAST_SHARE)
    for each in free[: min(share, MOST_SHARE) - 1]:
        first, descriptors = by_image[each][0]
        found = _named([another for another, _ in by_image[each]], left)
        size += first.key.code_bytes
        if not found or size > MOST_SHARE_BYTES or len(task.places) + len(files) + len(descriptors) > MOST_DESCRIPTORS:
            break
        beside.append(Ahead(first.key, first.places, found))
        files += descriptors
        left -= sum(map(len, found))
    return replace(task, next=names, beside=tuple(beside)), files


def _named(tasks: Iterable[Task], most_bytes: int) -> tuple[str, ...]:
    """Their functions, as many as there is room for."""
    names: list[str] = []
    for task in tasks:
        most_bytes -= len(task.key.function)
        if most_bytes < 0:
            break
        names.append(task.key.function)
    return tuple(names)
