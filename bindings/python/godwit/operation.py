# SPDX-License-Identifier: BSD-3-Clause
"""Operations that were posted, and what is done at their end."""
import errno as errors
import itertools
import os
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List, Optional

from . import memory
from .bounded import BoundedReport, report_of
from .library import Done, Error, error_of, forked_error, lib

# Operations that the library has, by the number it was given. They, and so their buffers, live until it says that they ended.
_open: "Dict[int, Operation]" = {}
_numbers = itertools.count(1)


def add(operation: "Operation") -> int:
    """Keeps an operation until its end; the number is the argument of its `done`."""
    number = next(_numbers)
    _open[number] = operation
    return number


def drop(number: int) -> None:
    """The library has refused it."""
    _open.pop(number, None)


def _forked() -> None:
    """In a child of this process: what the library has there is a copy, which nobody drives, so buffers are let go of."""
    for operation in _open.values():
        operation._error = forked_error()
        for piece in operation._memories:
            piece.release()
        # The old ones may have been locked by a thread that is not here.
        operation._lock, operation._event = threading.Lock(), threading.Event()
        operation._event.set()
    _open.clear()


os.register_at_fork(after_in_child=_forked)


@Done
def done(handle: int, number: int, result: Any) -> None:
    operation = _open.pop(number)
    status = result.contents.status
    if operation._bounded and status in (0, -errors.EIO):
        operation.report = report_of(handle, operation._comm.size)
    lib.gw_coll_close(handle)
    operation._end(error_of(operation._comm._handle, status) if status else None)


class Operation:
    """An operation that was posted. Its buffers must not be used until it has ended."""

    def __init__(self, comm: Any, name: str, result: Any, memories: "List[memory.Memory]") -> None:
        self._comm = comm
        self._name = name
        self._value = result
        self._memories = memories
        self._bounded = False
        self.report: Optional[BoundedReport] = None
        """Of a bounded operation that has ended: what arrived, and what did not."""
        self._error: Optional[BaseException] = None
        self._event = threading.Event()
        self._callbacks: "List[Callable[[Operation], None]]" = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        state = "open" if not self._event.is_set() else "ended" if self._error is None else f"failed: {self._error}"
        return f"<godwit {self._name}, {state}>"

    def _end(self, error: Optional[BaseException]) -> None:
        self._error = error
        for piece in self._memories:
            piece.release()
        self._memories = []
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        self._comm._driver.ended()
        for callback in callbacks:
            self._tell(callback)

    def _tell(self, callback: "Callable[[Operation], None]") -> None:
        try:
            callback(self)
        except Exception:
            print(f"godwit: a callback of {self._name} failed:", file=sys.stderr)
            traceback.print_exc()

    def add_done_callback(self, callback: "Callable[[Operation], None]") -> None:
        """Has callback(operation) called at the end, or now if that has come. It runs on the communicator's thread: what it
        does delays other operations, and it must not wait for one."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        self._tell(callback)

    def test(self) -> bool:
        """Whether it has ended, well or not. Without a service thread this also makes progress."""
        if not self._event.is_set():
            self._comm._driver.poll()
        return self._event.is_set()

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits for the end, for so many seconds at most, and returns the result: the buffer with what this rank got.
        TimeoutError: it is still open. Error: it failed."""
        if not self._comm.wait_for(self._event, timeout):
            raise TimeoutError(f"{self._name} has not ended in {timeout} s. {self._comm.explain_soon()}")
        return self.result

    @property
    def error(self) -> Optional[BaseException]:
        """Why it failed; None while it is open, and if it has not failed."""
        return self._error

    @property
    def result(self) -> Any:
        """The result of an operation that has ended; what it failed with is raised."""
        if not self._event.is_set():
            raise Error(errors.EBUSY, f"{self._name} has not ended")
        if self._error is not None:
            raise self._error
        return self._value
