# SPDX-License-Identifier: BSD-3-Clause
"""Threads that run what may wait for an operation: callbacks of PyTorch's futures.

A callback runs on the thread that completes its future. If that were the thread that drives the communicator, a callback that
posts an operation and waits for it, as PowerSGD's does, would wait for ever. Here one thread completes futures in the order in
which operations ended; while all threads are inside callbacks and there is more to complete, another one is started. So callbacks may
wait, to any depth, and there are as many threads as callbacks that wait, and one.
"""
import os
import threading
import traceback
from collections import deque
from typing import Callable, Deque

# How long a thread that is not needed stays.
_IDLE_S = 5


class Completers:
    """Threads and their queue."""

    def __init__(self) -> None:
        self._queue: "Deque[Callable[[], None]]" = deque()
        self._changed = threading.Condition(threading.Lock())
        #: threads that are not inside a callback: they look at the queue
        self._free = 0

    def put(self, action: "Callable[[], None]") -> None:
        """Has a thread run an action, which may block."""
        with self._changed:
            self._queue.append(action)
            if self._free:
                self._changed.notify()
            else:
                self._begin()

    def _begin(self) -> None:
        self._free += 1
        try:
            threading.Thread(target=self._run, name="godwit-complete", daemon=True).start()
        except RuntimeError:
            # There can be no more threads: one that comes back from its callback takes what is in the queue.
            self._free -= 1

    def _run(self) -> None:
        with self._changed:
            while self._queue or self._changed.wait(_IDLE_S) or self._queue or self._free == 1:
                if not self._queue:
                    continue
                action = self._queue.popleft()
                self._free -= 1
                if self._queue and not self._free:
                    self._begin()
                self._changed.release()
                try:
                    action()
                except Exception:
                    traceback.print_exc()
                del action
                self._changed.acquire()
                self._free += 1
            self._free -= 1


_completers = Completers()


def complete(action: "Callable[[], None]") -> None:
    """Has a thread run an action, which may block."""
    _completers.put(action)


def _forked() -> None:
    global _completers
    _completers = Completers()


os.register_at_fork(after_in_child=_forked)
