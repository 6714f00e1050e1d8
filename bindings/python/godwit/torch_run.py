# SPDX-License-Identifier: BSD-3-Clause
"""An operation of godwit.torch on tensors, from where it is posted to its end."""
from datetime import timedelta
from typing import Any, Callable, Dict, Optional

import torch

from .communicator import Communicator
from .deadlines import Deadlines
from .library import BoundedAttr
from .memory import Memory
from .operation import Operation
from .torch_check import bytes_of, check_pair, is_plain, plain, reduction_of, type_of
from .torch_stage import Side, Stager
from .torch_work import Unclaimed, Work


def _memory(tensor: torch.Tensor) -> Memory:
    return Memory(tensor.data_ptr(), bytes_of(tensor), None, tensor)


class Runner:
    """Posts the operations of one process group."""

    def __init__(self, comm: Communicator, timeout: timedelta) -> None:
        self._comm = comm
        self._deadlines = Deadlines(comm, timeout.total_seconds())
        self._stager = Stager()
        self._sides: "Dict[torch.device, Side]" = {}
        self.unclaimed: Unclaimed = {}

    def _side(self, device: torch.device) -> Optional[Side]:
        if device.type == "cpu":
            return None
        if device.type != "cuda":
            raise RuntimeError(f"godwit: tensors on {device.type} are not supported; those of the CPU and of CUDA are")
        if device not in self._sides:
            self._sides[device] = Side(device)
        return self._sides[device]

    def run(self, group: Any, name: str, source: Optional[torch.Tensor], target: Optional[torch.Tensor], parts: int, result: Any,
            finish: "Optional[Callable[[torch.Tensor], None]]" = None, op: Any = None, root: int = 0,
            bounded: Optional[BoundedAttr] = None, told: "Optional[Callable[[Any], None]]" = None) -> Work:
        """Posts an operation from `source` to `target`, which may be the same. `source` holds `parts` times `count` elements.
        `finish` is called at the end with the memory that was received, on the CPU; without it that is copied to `target`
        where it is not the target's own. `told` gets the report of a bounded operation before that. Both run on the communicator's
        thread. The group lives until the end."""
        self._comm.check()
        check_pair(name, source, target, self._comm.size)
        reduction = reduction_of(op) if op is not None else "sum"
        anything = target if target is not None else source
        side = None if anything is None else self._side(anything.device)
        ready: Optional[Callable[[], None]] = None
        given, taken = source, target
        if source is not None:
            given = plain(source)
            if side is not None:
                given, ready = side.fetch(given)
        if target is not None:
            if source is target:
                taken = given
            elif side is not None:
                taken = torch.empty(target.shape, dtype=target.dtype, pin_memory=True)
            elif not is_plain(target):
                taken = torch.empty(target.shape, dtype=target.dtype)
        if given is None:
            kind, count = "uint8", 0
        elif op is not None:
            kind, count = type_of(given, reduction), given.numel() // parts
        else:
            kind, count = "uint8", bytes_of(given) // parts
        mode = torch.inference_mode if torch.is_inference_mode_enabled() else torch.no_grad
        work = Work(self._comm, name, result, side, self.unclaimed)
        number = self._deadlines.begin(name)

        def complete() -> None:
            # The caller's mode is not that of this thread, and what an operation writes is not part of a graph.
            with mode():
                if taken is not None and finish is not None:
                    finish(taken)
                elif taken is not None and taken is not target and target is not None:
                    target.copy_(taken, non_blocking=True)

        def ended(operation: Operation, group: Any = group) -> None:
            self._deadlines.end(number)
            error: Optional[Exception] = None
            try:
                if told is not None:
                    told(operation.report)
                if operation.error is not None:
                    error = RuntimeError(f"godwit: {operation.error}")
                elif side is None:
                    complete()
                else:
                    with torch.cuda.stream(side.stream):
                        complete()
            except Exception as failure:
                error = failure
            work.end(error)

        def post() -> None:
            operation = self._comm.post(name, None if given is None else _memory(given), None if taken is None else _memory(taken),
                                        count, kind, None, reduction, root, bounded=bounded)
            operation.add_done_callback(ended)

        try:
            self._stager.post(ready, post)
        except BaseException:
            self._deadlines.end(number)
            raise
        return work
