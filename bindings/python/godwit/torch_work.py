# SPDX-License-Identifier: BSD-3-Clause
"""What godwit.torch hands PyTorch for an operation."""
import threading
from datetime import timedelta
from typing import Any, Dict, List, Optional

import torch
from torch._C import _distributed_c10d as c10d

from .communicator import Communicator
from .completers import complete
from .torch_stage import Side

# Works that a process group keeps although nobody has asked for their end.
_UNCLAIMED_MAX = 256

Unclaimed = Dict[int, Any]


def _raise_error(future: Any) -> Any:
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


class _Claimed(c10d.Work):  # type: ignore[misc]
    """PyTorch's C++ keeps a pointer to a work, but not what Python has added to it, until it asks for the future or waits. So it is kept
    here until then."""

    def __init__(self, unclaimed: Unclaimed) -> None:
        super().__init__()
        self._unclaimed = unclaimed
        unclaimed[id(self)] = self
        if len(unclaimed) > _UNCLAIMED_MAX:
            unclaimed.pop(next(iter(unclaimed)))

    def _claim(self) -> None:
        self._unclaimed.pop(id(self), None)

    def synchronize(self) -> None:
        self.wait()


class Work(_Claimed):
    """An operation under way. The thread that drives the communicator calls end(), which lets wait() return. A future is made when PyTorch
    asks for it, and completed by another thread, since its callbacks may wait for other operations."""

    def __init__(self, comm: Communicator, name: str, result: Any, side: Optional[Side], unclaimed: Unclaimed) -> None:
        super().__init__(unclaimed)
        self._comm = comm
        self._name = name
        self._result = result
        self._side = side
        #: on a CUDA device, what follows the copy back
        self._copied: Any = None
        self._error: Optional[Exception] = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._promise: Any = None
        self._future: Any = None

    def end(self, error: Optional[Exception]) -> None:
        """The operation has ended, and what it received is, or with a CUDA device is being, copied."""
        if self._side is not None:
            self._copied = self._side.mark()
        with self._lock:
            self._error = error
            self._over.set()
            asked = self._promise is not None
        if asked:
            complete(self._complete)

    def _complete(self) -> None:
        value = self._result if self._error is None else self._error
        if self._side is None:
            self._promise.set_result(value)
            return
        # The future records the stream on which the copy back is under way.
        with torch.cuda.stream(self._side.stream):
            self._promise.set_result(value)

    def get_future(self) -> Any:
        self._claim()
        with self._lock:
            if self._future is not None:
                return self._future
            self._promise = torch.futures.Future(devices=[self._side.device]) if self._side is not None else torch.futures.Future()
            # An exception that is set on a future of PyTorch is a value to the C++ behind it; one that a callback raises is an error
            # there too.
            self._future = self._promise.then(_raise_error)
            over = self._over.is_set()
        if over:
            self._complete()
        return self._future

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Without a timeout, or with 0, until it has ended, which it does within the timeout of the process group."""
        self._claim()
        limit = timeout.total_seconds() if timeout is not None and timeout > timedelta(0) else None
        if not self._comm.wait_for(self._over, limit):
            raise RuntimeError(f"godwit: {self._name} has not ended in {limit:g} s. {self._comm.explain_soon()}")
        if self._error is not None:
            raise self._error
        if self._copied is not None and self._side is not None:
            torch.cuda.current_stream(self._side.device).wait_event(self._copied)
        return True

    def is_completed(self) -> bool:
        return self._over.is_set()

    def is_success(self) -> bool:
        return self._over.is_set() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error

    def result(self) -> Any:
        return self._result


class Together(_Claimed):
    """Several operations that PyTorch takes for one."""

    def __init__(self, works: "List[Any]", result: Any, unclaimed: Unclaimed) -> None:
        super().__init__(unclaimed)
        self._works = works
        self._result = result

    def get_future(self) -> Any:
        self._claim()
        whole = torch.futures.collect_all([work.get_future() for work in self._works])

        def result(_: Any) -> Any:
            for work in self._works:
                if work.exception() is not None:
                    raise work.exception()
            return self._result

        return whole.then(result)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        self._claim()
        return all([work.wait(timeout or timedelta(0)) for work in self._works])

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Optional[Exception]:
        return next((work.exception() for work in self._works if work.exception() is not None), None)

    def result(self) -> Any:
        return self._result
