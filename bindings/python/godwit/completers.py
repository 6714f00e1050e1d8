# SPDX-License-Identifier: BSD-3-Clause
"""Threads that run what may wait for an operation: callbacks of PyTorch's futures.

A callback runs on the thread that completes its future. If that were the thread that drives the communicator, a callback that
posts an operation and waits for it, as PowerSGD's does, would wait for ever. Here one thread completes futures in the order in
which operations ended; while all threads are inside callbacks and there is more to complete, another one is started. So callbacks may
wait, to any depth, and there are as many threads as callbacks that wait, and one.

A thread that comes back to Python from PyTorch's C++ after the interpreter has ended takes the process down with it. So a program that
ends waits until all futures are completed.
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
        lock = threading.Lock()
        #: there is something in the queue
        self._changed = threading.Condition(lock)
        #: an action has ended
        self._ended = threading.Condition(lock)
        #: threads that are not inside a callback: they look at the queue
        self._free = 0
        #: actions that have begun and not ended
        self._running = 0

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
                if self._queue:
                    self._free -= 1
                    self._run_one()
                    self._free += 1
            self._free -= 1

    def _run_one(self) -> None:
        """Runs the oldest action. Called with the lock, which others have meanwhile."""
        action = self._queue.popleft()
        self._running += 1
        if self._queue and not self._free:
            self._begin()
        self._changed.release()
        try:
            action()
        except BaseException:
            # Also SystemExit: it would end this thread alone, and drain() would wait for the action.
            traceback.print_exc()
        # It may be the last to know of the future, which is C++ as well.
        del action
        self._changed.acquire()
        self._running -= 1
        self._ended.notify_all()

    def drain(self, limit_s: float) -> bool:
        """Waits until no action is left. False: none has ended for so many seconds."""
        with self._changed:
            while self._queue or self._running:
                if self._queue and not self._free:
                    self._begin()
                if self._queue and not self._free and not self._running:
                    # From Python 3.12 on there can be no new threads when the program ends.
                    self._run_one()
                elif not self._ended.wait(limit_s):
                    return not self._queue and not self._running
        return True


_completers = Completers()


def complete(action: "Callable[[], None]") -> None:
    """Has a thread run an action, which may block."""
    _completers.put(action)


def drain(limit_s: float) -> bool:
    """Waits until all actions have been run. False: none has ended for so many seconds."""
    return _completers.drain(limit_s)


def _forked() -> None:
    global _completers
    _completers = Completers()


os.register_at_fork(after_in_child=_forked)
