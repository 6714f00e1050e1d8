# SPDX-License-Identifier: BSD-3-Clause
"""What godwit.torch hands PyTorch for an operation, and how tensors of a device come to the CPU and back."""
import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch._C import _distributed_c10d as c10d

# Works that a process group keeps although nobody has asked for their end.
_UNCLAIMED_MAX = 256


class Stager:
    """Keeps the order of operations when some wait for a copy from a device: a thread posts them, one after the other. An
    operation that waits for nothing is posted at once if no other is before it."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None

    def post(self, ready: Optional[Callable[[], None]], post: Callable[[], None]) -> None:
        with self._lock:
            if ready is None and not self._waiting:
                post()
                return
            self._waiting += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="godwit-stage", daemon=True)
                self._thread.start()

        def both() -> None:
            if ready is not None:
                ready()
            post()

        self._queue.put(both)

    def _run(self) -> None:
        while True:
            self._queue.get()()
            with self._lock:
                self._waiting -= 1


class Side:
    """A CUDA device: the stream on which tensors are copied to pinned memory and back."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def fetch(self, tensor: torch.Tensor) -> "Tuple[torch.Tensor, Callable[[], None]]":
        """A copy in pinned memory, and what waits until it is there."""
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            copy.copy_(tensor, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.stream)
        tensor.record_stream(self.stream)
        return copy, event.synchronize


def raise_error(future: Any) -> Any:
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


class Work(c10d.Work):  # type: ignore[misc]
    """An operation under way. PyTorch can make one out of a future, but the wait() of that reports no errors."""

    def __init__(self, promise: Any, unclaimed: "Dict[int, Work]") -> None:
        super().__init__()
        # An exception that is set on a future of PyTorch is a value to the C++ behind it; one that a callback raises is an error
        # there too.
        self._future = promise.then(raise_error)
        self._error: Optional[Exception] = None
        # PyTorch's C++ keeps a pointer to this object, but not what Python has added to it, until it asks for the future or waits.
        self._unclaimed = unclaimed
        unclaimed[id(self)] = self
        if len(unclaimed) > _UNCLAIMED_MAX:
            unclaimed.pop(next(iter(unclaimed)))

    def get_future(self) -> Any:
        self._unclaimed.pop(id(self), None)
        return self._future

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        self._unclaimed.pop(id(self), None)
        try:
            self._future.wait()
        except Exception:
            if self._error is None:
                raise
            raise self._error from None
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return bool(self._future.done())

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error

    def result(self) -> Any:
        return self._future.value()
