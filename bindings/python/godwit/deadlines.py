# SPDX-License-Identifier: BSD-3-Clause
"""Timeouts of process groups: an operation that has not ended in time ends with an error, on all ranks.

A future has no timeout, nor has DDP's backward pass, so a thread watches: it sleeps until the oldest operation of any group has
to end. Later operations of a group have later deadlines.
"""
import itertools
import os
import threading
import time
import weakref
from typing import Any, Dict, Tuple

# Longest sleep: a Condition does not take any number.
_LONGEST_S = 3600.0


class Deadlines:
    """The operations of a process group that have not ended."""

    def __init__(self, comm: Any, timeout_s: float) -> None:
        self._comm = comm
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        # Names and deadlines, oldest first.
        self._open: "Dict[int, Tuple[str, float]]" = {}
        _watch.add(self)

    def begin(self, name: str) -> int:
        number = next(self._numbers)
        with self._lock:
            self._open[number] = name, time.monotonic() + self.timeout_s
        return number

    def end(self, number: int) -> None:
        with self._lock:
            self._open.pop(number, None)

    def look(self, now: float) -> float:
        """Ends what is late, and returns when to look again."""
        with self._lock:
            name, deadline = next(iter(self._open.values()), ("", now + self.timeout_s))
            if deadline > now:
                return deadline
            self._open.clear()
        self._comm.give_up(f"{name} has not ended in {self.timeout_s:g} s, the timeout of the process group")
        return now + self.timeout_s


class _Watch:
    """The thread, and what it watches."""

    def __init__(self) -> None:
        self._groups: "weakref.WeakSet[Deadlines]" = weakref.WeakSet()
        self._changed = threading.Condition()
        self._started = False

    def add(self, group: Deadlines) -> None:
        with self._changed:
            self._groups.add(group)
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="godwit-deadlines", daemon=True).start()
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                again = min((group.look(now) for group in list(self._groups)), default=now + _LONGEST_S)
                self._changed.wait(min(_LONGEST_S, max(0.0, again - time.monotonic())))


_watch = _Watch()


def _forked() -> None:
    global _watch
    _watch = _Watch()


os.register_at_fork(after_in_child=_forked)
