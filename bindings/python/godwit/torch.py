# SPDX-License-Identifier: BSD-3-Clause
"""A backend for torch.distributed.

    import godwit.torch
    torch.distributed.init_process_group("godwit")                      # or, from PyTorch 2 on:
    torch.distributed.init_process_group("cpu:godwit,cuda:nccl")

The ranks meet through the store that PyTorch gives every backend; no environment is needed. configure() sets attributes of the
communicators made after it.

Operations are posted by the calling thread and ended by the communicator's thread: DDP overlaps them with the backward pass.
Other threads complete PyTorch's futures, so that callbacks may wait for operations. CPU tensors that are contiguous are used where they are; CUDA tensors go through
pinned memory. A process group written in Python takes over all devices of its group, so for "cpu:godwit,cuda:nccl" this one
creates the other backends itself and hands them their tensors.

Limits: no point-to-point calls; sums, means, minima and maxima only. gather is an allgather of which the root keeps the result,
scatter a broadcast of which each rank keeps its part. PyTorch's timeout bounds the meeting of the ranks and each operation; a
rank that ends, or is silent for the peer timeout of the communicator, is lost earlier.
"""
import sys
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import hadamard
from .communicator import Communicator, bounded_attr
from .library import TRANSFORMED
from .meeting import free_port, root_address, tell_host
from .refusals import TIME_MAX
from .torch_check import check_kinds, check_lengths, check_parts, one
from .torch_run import Runner
from .torch_work import Together, Work

BACKEND = "godwit"
_ROOT_KEY = "godwit/root"
# Numbers of a tensor that its own device transforms: fifty kernels are started for that, which takes as long as the CPU needs for these.
_TRANSFORM_LEAST = 16 * hadamard.BLOCK

_configuration: "Dict[str, Any]" = {}


def configure(**attributes: Any) -> None:
    """Keyword arguments of godwit.Communicator for process groups made from now on, as fixed_order=True."""
    if not attributes.get("service", True):
        raise ValueError("service=False: a process group needs the thread that makes progress, since nothing else completes its futures")
    _configuration.update(attributes)


# ---- meeting ----


def _open(store: Any, rank: int, size: int, timeout: timedelta) -> Communicator:
    attributes = dict(_configuration)
    if rank == 0:
        root = attributes.pop("root", None) or root_address(store, size)
        port = attributes.pop("port", 0) or free_port(root)
        store.set(_ROOT_KEY, f"{port} {root}")
    else:
        tell_host(store, rank)
        text = store.get(_ROOT_KEY).decode()
        port, root = int(text.split(" ", 1)[0]), text.split(" ", 1)[1]
        attributes.pop("root", None)
        attributes.pop("port", None)
    attributes.setdefault("meet_timeout", min(timeout.total_seconds(), TIME_MAX))
    return Communicator(rank, size, root, port, **attributes)


class ProcessGroup(dist.ProcessGroup):
    """What torch.distributed calls. Each method returns a Work."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, others: "Optional[Dict[str, Any]]" = None) -> None:
        super().__init__(rank, size)
        self._rank = rank
        self._size = size
        #: backends of devices that are not this one's
        self._others = others or {}
        #: tensors that were transformed on their own device
        self._transforms = 0
        self._comm = _open(store, rank, size, timeout)
        self._runner = Runner(self._comm, timeout)

    def __del__(self) -> None:
        comm = getattr(self, "_comm", None)
        if comm is not None and not sys.is_finalizing():
            end = comm.begin_to_close()
            # PyTorch before 2 ends a group by forgetting it, and the process may end without more ado then. Where the program forgets
            # groups, or the collector of garbage finds them, the order differs from rank to rank: no close may wait for another.
            frame = sys._getframe().f_back
            if frame is not None and frame.f_code.co_name == "destroy_process_group":
                end()

    def getBackendName(self) -> str:
        return BACKEND

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<godwit.torch.ProcessGroup, rank {self._rank} of {self._size}>"

    @property
    def communicator(self) -> Communicator:
        return self._comm

    def shutdown(self) -> None:
        self._end_others("shutdown")
        self._comm.close()

    def abort(self) -> None:
        self._end_others("abort")
        self._comm.abort("the process group was aborted")

    def _end_others(self, how: str) -> None:
        """PyTorch sees this group only. Backends of some releases have no such method, or one with a private name."""
        for other in self._others.values():
            end = getattr(other, how, None) or getattr(other, f"_{how}", None)
            if end is not None:
                end()

    # ---- what all operations share ----

    def _other(self, tensor: torch.Tensor) -> Any:
        return self._others.get(tensor.device.type)

    def _run(self, *arguments: Any, **more: Any) -> Work:
        """See Runner.run()."""
        return self._runner.run(self, *arguments, **more)

    # ---- operations ----

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        tensor = one(tensors, "allreduce")
        other = self._other(tensor)
        opts = opts or c10d.AllreduceOptions()
        if other is not None:
            return other.allreduce(tensors, opts)
        return self._run("allreduce", tensor, tensor, 1, tensors, op=opts.reduceOp)

    def bounded_allreduce(self, tensor: torch.Tensor, recovery: str = "hadamard", deadline: float = 0, floor: float = 0,
                          repair: bool = False, told: "Optional[Callable[[Any], None]]" = None,
                          on_device: Optional[bool] = None) -> Any:
        """The mean over ranks of what arrived in time, in place; see Communicator.bounded_allreduce(). `told` gets the report, or
        None if the operation failed. on_device: with "hadamard", whether the tensor's own device transforms it; unless told, if
        that is not the CPU and the tensor has 65536 numbers or more. All ranks of an operation say the same."""
        attr = bounded_attr(recovery, deadline, floor, repair)
        if on_device is None:
            on_device = tensor.device.type != "cpu" and tensor.numel() >= _TRANSFORM_LEAST
        if not on_device or recovery != "hadamard":
            return self._run("bounded_allreduce", tensor, tensor, 1, tensor, op=dist.ReduceOp.AVG, bounded=attr, told=told)
        attr.flags |= TRANSFORMED
        # All ranks call the same operations in the same order, and so count the same.
        self._transforms += 1
        seed = self._transforms
        coefficients = hadamard.encode(tensor.reshape(-1), seed)

        def finish(taken: torch.Tensor) -> None:
            mean = hadamard.decode(taken.to(tensor.device, non_blocking=True), seed)
            tensor.copy_(mean[:tensor.numel()].view(tensor.shape))

        return self._run("bounded_allreduce", coefficients, coefficients, 1, tensor, finish, dist.ReduceOp.AVG, bounded=attr, told=told)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        other = self._other(tensors[0])
        opts = opts or c10d.AllreduceCoalescedOptions()
        if other is not None:
            return other.allreduce_coalesced(tensors, opts)
        check_kinds("allreduce", tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])

        def finish(taken: torch.Tensor) -> None:
            at = 0
            for tensor in tensors:
                tensor.copy_(taken[at:at + tensor.numel()].view(tensor.shape))
                at += tensor.numel()

        return self._run("allreduce", flat, flat, 1, tensors, finish, opts.reduceOp)

    def reduce(self, tensors: Any, opts: Any) -> Any:
        """An allreduce of which only the root keeps the result."""
        tensor = one(tensors, "reduce")
        other = self._other(tensor)
        if other is not None:
            return other.reduce(tensors, opts)
        mine = tensor if opts.rootRank == self._rank else tensor.clone()
        return self._run("allreduce", mine, mine, 1, tensors, op=opts.reduceOp)

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        tensor = one(tensors, "broadcast")
        other = self._other(tensor)
        if other is not None:
            return other.broadcast(tensors, opts)
        return self._run("broadcast", tensor, tensor, 1, tensors, root=opts.rootRank)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        source, targets = one(inputs, "allgather"), one(outputs, "allgather")
        other = self._other(source)
        if other is not None:
            return other.allgather(outputs, inputs, opts or c10d.AllgatherOptions())
        check_parts("allgather", targets, source, self._size, "receive into")
        whole = torch.empty((self._size, source.numel()), dtype=source.dtype, device=source.device)

        def finish(taken: torch.Tensor) -> None:
            for target, part in zip(targets, taken):
                target.copy_(part.view(target.shape), non_blocking=True)

        return self._run("allgather", source, whole, 1, outputs, finish)

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """An allgather of which only the root keeps the result."""
        source = one(inputs, "gather")
        other = self._other(source)
        if other is not None:
            return other.gather(outputs, inputs, opts)
        if opts.rootRank == self._rank:
            return self.allgather(outputs, inputs)
        whole = torch.empty((self._size, source.numel()), dtype=source.dtype, device=source.device)
        return self._run("allgather", source, whole, 1, outputs)

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        """A broadcast of all parts, of which each rank keeps its own."""
        target = one(outputs, "scatter")
        other = self._other(target)
        if other is not None:
            return other.scatter(outputs, inputs, opts)
        whole = torch.empty((self._size, target.numel()), dtype=target.dtype, device=target.device)
        if opts.rootRank == self._rank:
            sources = one(inputs, "scatter")
            check_parts("scatter", sources, target, self._size, "send")
            for row, source in zip(whole, sources):
                row.copy_(source.reshape(-1))

        def finish(taken: torch.Tensor) -> None:
            target.copy_(taken[self._rank].view(target.shape), non_blocking=True)

        return self._run("broadcast", whole, whole, 1, outputs, finish, root=opts.rootRank)

    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        other = self._other(source)
        if other is not None:
            return other._allgather_base(output, source, opts or c10d.AllgatherOptions())
        return self._run("allgather", source, output, 1, output)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        target, sources = one(outputs, "reduce_scatter"), one(inputs, "reduce_scatter")
        opts = opts or c10d.ReduceScatterOptions()
        other = self._other(target)
        if other is not None:
            return other.reduce_scatter(outputs, inputs, opts)
        check_parts("reduce_scatter", sources, target, self._size, "send")
        whole = torch.cat([source.reshape(-1) for source in sources])
        return self._run("reduce_scatter", whole, target, self._size, outputs, op=opts.reduceOp)

    def _reduce_scatter_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Any:
        opts = opts or c10d.ReduceScatterOptions()
        other = self._other(source)
        if other is not None:
            return other._reduce_scatter_base(output, source, opts)
        return self._run("reduce_scatter", source, output, self._size, output, op=opts.reduceOp)

    def alltoall_base(self, output: torch.Tensor, source: torch.Tensor, output_sizes: "List[int]", input_sizes: "List[int]",
                      opts: Any = None) -> Any:
        other = self._other(source)
        if other is not None:
            return other.alltoall_base(output, source, output_sizes, input_sizes, opts or c10d.AllToAllOptions())
        if not output_sizes and not input_sizes:
            if source.numel() % self._size or output.numel() != source.numel():
                raise RuntimeError(f"godwit: all_to_all of {source.numel()} elements into {output.numel()} among {self._size} "
                                   "ranks without split sizes")
            return self._run("alltoall", source, output, self._size, output)
        outputs = list(output.split(output_sizes or [output.shape[0] // self._size] * self._size))
        inputs = list(source.split(input_sizes or [source.shape[0] // self._size] * self._size))
        return self._alltoall_uneven(outputs, inputs, output)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        other = self._other(inputs[0])
        if other is not None:
            return other.alltoall(outputs, inputs, opts or c10d.AllToAllOptions())
        return self._alltoall_uneven(outputs, inputs, outputs)

    def _alltoall_uneven(self, outputs: Any, inputs: Any, result: Any) -> Any:
        """Parts of different sizes, padded to the largest of any rank. To learn the sizes, this waits for a small allgather."""
        if len(inputs) != self._size or len(outputs) != self._size:
            raise RuntimeError(f"godwit: all_to_all takes {self._size} tensors to send and as many to receive into")
        check_kinds("all_to_all", [*inputs, *outputs])
        mine = torch.tensor([tensor.numel() for tensor in [*inputs, *outputs]])
        lengths = torch.empty((self._size, len(mine)), dtype=mine.dtype)
        self._run("allgather", mine, lengths, 1, None).wait()
        check_lengths(lengths)
        width = int(lengths.max())
        source = torch.zeros((self._size, width), dtype=inputs[0].dtype, device=inputs[0].device)
        for row, tensor in zip(source, inputs):
            row[:tensor.numel()].copy_(tensor.reshape(-1))

        def finish(taken: torch.Tensor) -> None:
            for target, row in zip(outputs, taken):
                target.copy_(row[:target.numel()].view(target.shape), non_blocking=True)

        return self._run("alltoall", source, torch.empty_like(source), self._size, result, finish)

    def barrier(self, opts: Any = None) -> Any:
        return self._run("barrier", None, None, 1, None)

    # ---- operations on several tensors, which FSDP posts together ----

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._last([self._allgather_base(output, source, opts) for output, source in zip(outputs, inputs)], outputs)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._last([self._reduce_scatter_base(output, source, opts) for output, source in zip(outputs, inputs)], outputs)

    def _last(self, works: "List[Any]", result: Any) -> Any:
        return Together(works, result, self._runner.unclaimed)

    # ---- what there is not ----

    def _missing(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("godwit: point-to-point calls are not supported; the collectives are broadcast, all_gather, gather, scatter, "
                           "reduce_scatter, all_reduce, reduce, all_to_all and barrier")

    send = recv = recv_anysource = allgather_coalesced = monitored_barrier = _missing


# ---- how PyTorch makes one ----


def _asked() -> "Dict[str, str]":
    """Backend of each device type of the group that is being made. PyTorch does not tell a backend of the others, so the
    variable of its function that makes process groups is read; {} where there is none, as before PyTorch 2."""
    frame = sys._getframe(1)
    while frame is not None:
        config = frame.f_locals.get("backend_config")
        if frame.f_code.co_name == "_new_process_group_helper" and hasattr(config, "get_device_backend_map"):
            return dict(config.get_device_backend_map())
        frame = frame.f_back  # type: ignore[assignment]
    return {}


def _create_other(name: str, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    store = dist.PrefixStore(f"godwit/{name}", store)
    if name == "nccl":
        return c10d.ProcessGroupNCCL(store, rank, size, timeout)
    if name == "gloo":
        return c10d.ProcessGroupGloo(store, rank, size, timeout)
    raise RuntimeError(f"godwit: beside it a group can have the backends nccl and gloo, not {name}")


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    asked = _asked()
    # The plain name "godwit" stands for all devices.
    others = {device: _create_other(name, store, rank, size, timeout) for device, name in asked.items() if name != BACKEND}
    return ProcessGroup(store, rank, size, timeout, others)


def _register() -> None:
    arguments: "Dict[str, Any]" = {}
    if "devices" in dist.Backend.register_backend.__code__.co_varnames:
        arguments["devices"] = ["cpu", "cuda"]
    dist.Backend.register_backend(BACKEND, _create, **arguments)


_register()
