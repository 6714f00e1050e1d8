# SPDX-License-Identifier: BSD-3-Clause
"""Who drives a communicator, and those split off it.

ServiceThread: a thread owns them. It sleeps and makes progress in gw_comm_serve(), without Python's lock, and returns to Python
only to run what others have put into its queue and to end operations. So operations go on while the program computes, and
complete without it.

CallerDrives: there is no thread. Calls run where they are made, and operations go on while somebody waits for one.

ElsewhereDrives: this process was forked from the one that has the communicator. Every use is an error.
"""
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Optional

from .library import FOREVER, closed_error, forked_error, lib

_here = threading.local()


def in_service() -> bool:
    """Whether this thread drives a communicator, and therefore must not wait."""
    return getattr(_here, "drives", False)


# Longest sleep in C of a thread that may be the main thread, in ns: a signal that another thread receives is seen after it.
_NAP_NS = 100_000_000
# How often somebody who waits for the end of a thread looks whether it goes on.
_LOOK_S = 0.1


class CallerDrives:
    """Everything happens in the thread that calls."""

    def __init__(self, comm: int) -> None:
        self._comm = comm

    def check(self) -> None:
        """Raises an error where the communicator is another process's."""

    def submit(self, action: Callable[[], None]) -> None:
        """Runs an action that does not block."""
        action()

    def start(self, action: Callable[[], Any]) -> Callable[..., Any]:
        """Returns what runs an action and returns what that returns."""
        return lambda limit=None: action()

    def call(self, action: Callable[[], Any]) -> Any:
        """Runs an action and returns what it returns."""
        return action()

    def ended(self) -> None:
        """An operation has ended: wait() looks."""
        lib.gw_comm_wake(self._comm)

    def wait(self, event: threading.Event, timeout: Optional[float]) -> bool:
        """Makes progress until the event is set. Returns whether it was."""
        # A serve ends early when any operation does.
        end = None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
        while not event.is_set():
            left = _NAP_NS if end is None else end - time.monotonic_ns()
            if left <= 0:
                break
            lib.gw_comm_serve(self._comm, min(left, _NAP_NS))
        return event.is_set()

    def poll(self) -> None:
        """Gives operations a chance to end, for somebody who asks whether they have."""
        lib.gw_comm_progress(self._comm)

    def stop(self) -> None:
        pass

    def go_on(self) -> None:
        pass

    def join(self) -> None:
        pass


class ElsewhereDrives:
    """The communicator belongs to the process that this one was forked from."""

    def check(self) -> None:
        raise forked_error()

    def submit(self, action: Callable[[], None]) -> None:
        raise forked_error()

    def start(self, action: Callable[[], Any]) -> Callable[..., Any]:
        raise forked_error()

    def call(self, action: Callable[[], Any]) -> Any:
        raise forked_error()

    def ended(self) -> None:
        pass

    def wait(self, event: threading.Event, timeout: Optional[float]) -> bool:
        raise forked_error()

    def poll(self) -> None:
        raise forked_error()

    def stop(self) -> None:
        pass

    def go_on(self) -> None:
        pass

    def join(self) -> None:
        pass


class ServiceThread:
    """A thread that owns a communicator."""

    def __init__(self, comm: int) -> None:
        self._comm = comm
        self._queue: Deque[Callable[[], None]] = deque()
        self._stopping = False
        # Held again where the collector of garbage closes something meanwhile.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="godwit", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        _here.drives = True
        while not self._stopping:
            while self._queue:
                self._queue.popleft()()
            if not self._stopping:
                lib.gw_comm_serve(self._comm, FOREVER)

    def check(self) -> None:
        pass

    def submit(self, action: Callable[[], None]) -> None:
        """Has the thread run an action that does not raise."""
        # Under the lock, so that the communicator is not freed between the look and the call.
        with self._lock:
            if self._stopping:
                raise closed_error()
            self._queue.append(action)
            lib.gw_comm_wake(self._comm)

    def start(self, action: Callable[[], Any]) -> Callable[..., Any]:
        """Has the thread run an action. Returns what waits for that, for so many seconds, and returns what it returns."""
        over = threading.Event()
        outcome: "list[Any]" = [None, None]

        def run() -> None:
            try:
                outcome[0] = action()
            except BaseException as error:
                outcome[1] = error
            over.set()

        def end(limit: Optional[float] = None) -> Any:
            if not over.wait(limit):
                raise TimeoutError()
            if outcome[1] is not None:
                raise outcome[1]
            return outcome[0]

        self.submit(run)
        return end

    def call(self, action: Callable[[], Any]) -> Any:
        """Has the thread run an action, waits for it, and returns what it returns."""
        return action() if threading.current_thread() is self._thread else self.start(action)()

    def ended(self) -> None:
        pass

    def wait(self, event: threading.Event, timeout: Optional[float]) -> bool:
        if threading.current_thread() is self._thread:
            raise RuntimeError("godwit: a callback must not wait for an operation: it runs on the thread that ends operations")
        return event.wait(timeout)

    def poll(self) -> None:
        pass

    def stop(self) -> None:
        """Called on the thread: it ends after this action."""
        with self._lock:
            self._stopping = True

    def go_on(self) -> None:
        """Called on the thread, in the action that called stop(): it does not end, since the communicator is still open."""
        with self._lock:
            self._stopping = False

    def join(self) -> None:
        """Waits after stop() until the thread has ended or, by go_on(), does not."""
        if threading.current_thread() is not self._thread:
            while self._stopping and self._thread.is_alive():
                self._thread.join(_LOOK_S)
