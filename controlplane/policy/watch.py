"""Edits of a policy while the program runs: the file is checked periodically, and its rules replace those in use.

A service of the control plane (controlplane/ipc/loop.py). A file that cannot be used, for whatever reason, changes
nothing: the mistake is reported, and the old rules stay in use. Rules are taken over once the file has not changed for
one interval, so that half-written files are not read. Home and executors are fixed for a run: an edit that changes them
is refused.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from controlplane.policy.language import AUTO, Order, Signature
from controlplane.policy.read import read_policy, signature
from controlplane.policy.table import (
    devices_of,
    live_devices,
    live_has_pool,
    live_is_scheduled,
    live_library_calls,
    live_memory,
    live_order,
    live_verify,
    replace_rules,
)
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

INTERVAL_S = 0.2


class Watcher:
    """Keeps the rules of a live decision table (a writable mapping) as the policy's file has them.

    used: the state of the file whose rules the table holds. verify: what the command line asked for, which an edit does
    not change; None: the file decides; order: the same. disassemble: what the file said when the run began.
    """

    def __init__(
        self,
        file: Path,
        used: Signature | None,
        table: Any,
        say: Callable[[str], None],
        verify: int | None = None,
        disassemble: Consent = Consent.OPEN,
        order: Order | None = None,
    ) -> None:
        self._file, self._table, self._say, self._verify = file, table, say, verify
        self._disassemble, self._order = disassemble, order
        self._used = self._last = used
        self._may_verify = live_verify(table) != 0

    def start(self, _loop: object) -> None:
        """Nothing to watch but the file."""

    def tick(self) -> float:
        """Takes over an edit if there is one. Seconds until it is worth looking again."""
        now = signature(self._file)
        if now != self._used and now == self._last:
            self._used = now
            self._take_over()
        self._last = now
        return INTERVAL_S

    def finish(self) -> None:
        """Nothing is open."""

    def _take_over(self) -> None:
        try:
            policy = read_policy(self._file)
            if devices_of(policy) != live_devices(self._table):
                raise ConfigError(
                    "the devices cannot change while the program runs",
                    expected="the home GPU and the executors that the run began with",
                    file=self._file,
                    line=policy.devices_line,
                )
            memory_place, move_after = live_memory(self._table)
            if not policy.says_memory:
                policy = replace(policy, memory_place=memory_place, move_after=move_after)
            other_place = (policy.memory_place, policy.move_after) != (memory_place, move_after)
            if other_place or (policy.pool and not live_has_pool(self._table)):
                raise ConfigError(
                    "where memory lies cannot change while the program runs",
                    expected="the memory that the run began with",
                    file=self._file,
                )
            order = live_order(self._table)
            if not policy.says_order or self._order is not None:
                policy = replace(policy, order=order)
            if policy.order is not order:
                raise ConfigError(
                    "the order of launches cannot change while the program runs",
                    expected=f"order: {order.value}, as the run began with",
                    file=self._file,
                )
            if (policy.default == AUTO) is not live_is_scheduled(self._table):
                raise ConfigError(
                    "whether launches are placed one by one cannot change while the program runs",
                    expected="schedule as the run began with",
                    file=self._file,
                )
            if policy.marks_library_calls and not live_library_calls(self._table):
                raise ConfigError(
                    "library calls cannot be told apart in this run",
                    expected="a run that began with a rule that has library_call",
                    file=self._file,
                )
            if policy.disassemble is not self._disassemble:
                raise ConfigError(
                    "whose machine code may be disassembled cannot change while the program runs",
                    expected=f"disassemble: {self._disassemble.value}, as the run began with",
                    file=self._file,
                )
            if self._verify is not None:
                policy = replace(policy, verify=self._verify)
            if policy.verify and not self._may_verify:
                raise ConfigError(
                    "verifying cannot begin while the program runs",
                    expected="verify: 0, or a run that began with another number",
                    file=self._file,
                )
            replace_rules(self._table, policy)
        except ConfigError as error:
            self._say(f"{error}; the rules before this edit stay in use")
            return
        except Exception as error:  # nothing that is written into the file ends the run that reads it
            what = f"{type(error).__name__}: {error}"
            self._say(f"{self._file}: internal error ({what}); the rules before this edit stay in use")
            return
        self._say(f"{self._file}: the edited rules are in use")
