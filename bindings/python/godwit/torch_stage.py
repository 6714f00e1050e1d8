# SPDX-License-Identifier: BSD-3-Clause
"""How tensors of a device come to the CPU and back, and operations that wait for that keep their order."""
import queue
import threading
from typing import Callable, Optional, Tuple

import torch


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

    def mark(self) -> torch.cuda.Event:
        """An event that comes after all copies up to now."""
        event = torch.cuda.Event()
        event.record(self.stream)
        return event
