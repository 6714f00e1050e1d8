# SPDX-License-Identifier: BSD-3-Clause
"""Communication hooks for DistributedDataParallel over godwit.torch, and replicas compared and made equal again.

    import godwit.torch, godwit.hooks
    torch.distributed.init_process_group("godwit")
    model = DistributedDataParallel(model)
    state = godwit.hooks.BoundedState(recovery="hadamard")
    model.register_comm_hook(state, godwit.hooks.bounded_hook)

bounded_hook() averages gradients in bounded time, with what arrived: it does not wait for a rank that is late, nor for packets that
are lost. All ranks get the same bits. exact_hook() averages everything, as DDP does without a hook. What became of the latest
buckets is in the state.

All ranks of a bounded operation end equal, and each operation carries a digest of the one before: a state counts ranks that have drifted
apart in `diverged`. Memory that was corrupted, or a rank that was restarted from another checkpoint, shows in compare_replicas():

    if step % 1000 == 0 and godwit.hooks.compare_replicas(model):
        godwit.hooks.resynchronise(model)
"""
import hashlib
from collections import deque
from typing import Any, Deque, List, Optional, Tuple

import torch
import torch.distributed as dist

from .bounded import BoundedReport
from .torch import ProcessGroup


def _group_of(process_group: Any) -> ProcessGroup:
    group = dist.group.WORLD if process_group is None else process_group
    if not isinstance(group, ProcessGroup):
        raise RuntimeError('godwit: a hook needs a process group of the backend "godwit": init_process_group("godwit")')
    return group


class BoundedState:
    """What bounded_hook() does and has done.

    recovery: as of Communicator.bounded_allreduce(). deadline: seconds; 0: by what earlier buckets of that size took. floor: least
    part of each bucket that must arrive; below that backward() raises an error, or with `repair` the bucket is repaired first.
    exact_steps: buckets that are averaged exactly at the start, while the loss falls fastest, counted in passes of backward().
    on_device: with "hadamard", whether a bucket is transformed on its own device; unless told, as bounded_allreduce() of the process
    group decides."""

    def __init__(self, process_group: Any = None, recovery: str = "hadamard", deadline: float = 0, floor: float = 0,
                 repair: bool = False, exact_steps: int = 0, keep: int = 256, on_device: Optional[bool] = None) -> None:
        self.group = _group_of(process_group)
        self.recovery, self.deadline, self.floor, self.repair = recovery, deadline, floor, repair
        self.exact_steps, self.on_device = exact_steps, on_device
        #: passes of backward() whose last bucket was given to the hook
        self.steps = 0
        #: reports of the latest buckets
        self.reports: "Deque[BoundedReport]" = deque(maxlen=keep)
        #: bytes that were expected and that arrived, buckets that came short, and those that some rank was late for
        self.expected = self.arrived = self.short = self.late = 0
        #: largest number of ranks whose earlier results differed
        self.diverged = 0

    def _told(self, report: Optional[BoundedReport]) -> None:
        if report is None:
            return
        self.reports.append(report)
        self.expected += report.expected
        self.arrived += report.arrived
        self.short += report.arrived < report.expected
        self.late += report.late > 0
        self.diverged = max(self.diverged, report.diverged)

    @property
    def missing_share(self) -> float:
        """Share of the bytes expected so far that did not arrive."""
        return 1 - self.arrived / self.expected if self.expected else 0.0

    def __repr__(self) -> str:
        return (f"<godwit.hooks.BoundedState: {self.steps} steps, {100 * self.missing_share:.3g} % of the bytes missing, {self.late} buckets "
                f"with late ranks, {self.diverged} ranks diverged>")


def exact_hook(process_group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook(): the mean of everything. The state is a process group, or None."""
    tensor = bucket.buffer()
    return _group_of(process_group)._run("allreduce", tensor, tensor, 1, tensor, op=dist.ReduceOp.AVG).get_future()


def bounded_hook(state: BoundedState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook(): the mean of what arrived in time."""
    exact = state.steps < state.exact_steps
    state.steps += bucket.is_last()
    if exact:
        return exact_hook(state.group, bucket)
    work = state.group.bounded_allreduce(bucket.buffer(), state.recovery, state.deadline, state.floor, state.repair, state._told,
                                         state.on_device)
    return work.get_future()


# ---- replicas ----


def _tensors(module: torch.nn.Module) -> "List[Tuple[str, torch.Tensor]]":
    state = module.state_dict()
    return [(name, state[name]) for name in sorted(state) if isinstance(state[name], torch.Tensor)]


def digest(module: torch.nn.Module) -> bytes:
    """A hash of every parameter and buffer, bit by bit."""
    whole = hashlib.blake2b(digest_size=16)
    for name, tensor in _tensors(module):
        flat = tensor.detach().contiguous().reshape(-1).cpu()
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        whole.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return whole.digest()


def compare_replicas(module: torch.nn.Module, process_group: Any = None) -> "List[int]":
    """Ranks whose replica differs from that of most ranks; the same answer on every rank. All ranks call it."""
    size = dist.get_world_size(process_group)
    mine = torch.tensor(list(digest(module)), dtype=torch.uint8)
    every = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(every, mine, group=process_group)
    digests = [bytes(one.tolist()) for one in every]
    # Of equally many the one that the lower rank has.
    common = max(digests, key=lambda one: (digests.count(one), -digests.index(one)))
    return [rank for rank, one in enumerate(digests) if one != common]


def resynchronise(module: torch.nn.Module, process_group: Any = None) -> "List[int]":
    """Gives every rank the replica that most ranks have. Returns the ranks whose replica differed. All ranks call it."""
    differing = compare_replicas(module, process_group)
    if differing:
        size = dist.get_world_size(process_group)
        root = next(rank for rank in range(size) if rank not in differing)
        if process_group is not None:
            root = dist.get_global_rank(process_group, root)
        with torch.no_grad():
            for _, tensor in _tensors(module):
                dist.broadcast(tensor, root, group=process_group)
    return differing
