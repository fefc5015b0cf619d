"""Which GPU a new stream or thread is given (schedule/assign.h), done here: for trying a policy on a recorded trace."""

from dataclasses import dataclass, field

LATELY_NS = 60 * 10**9


@dataclass(slots=True)
class _Owner:
    gpu: int
    launches: int
    seen: int
    used_ns: int


@dataclass(slots=True)
class Assigner:
    """Gives streams and threads of one process one of `gpus`, home first, at their first launch that is asked for."""

    gpus: tuple[int, ...]
    _owners: dict[object, _Owner] = field(default_factory=dict)

    def gpu_of(self, owner: object, now_ns: int) -> int:
        """Where the owner's next launch goes, which is counted; now_ns: of any clock."""
        if owner not in self._owners:
            self._owners[owner] = _Owner(self._least(now_ns), 0, 0, now_ns)
        found = self._owners[owner]
        found.launches += 1
        return found.gpu

    def end(self, owner: object) -> None:
        """The stream has been destroyed, or the thread has ended."""
        self._owners.pop(owner, None)

    def _least(self, now_ns: int) -> int:
        """The GPU with the fewest that have launched lately; of these, with the fewest at all."""
        used, alive = dict.fromkeys(self.gpus, 0), dict.fromkeys(self.gpus, 0)
        for owner in self._owners.values():
            if owner.launches != owner.seen:
                owner.seen, owner.used_ns = owner.launches, now_ns
            used[owner.gpu] += now_ns - owner.used_ns < LATELY_NS
            alive[owner.gpu] += 1
        return min(self.gpus, key=lambda gpu: (used[gpu], alive[gpu]))
