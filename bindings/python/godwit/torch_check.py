# SPDX-License-Identifier: BSD-3-Clause
"""Which tensors and reductions an operation of godwit.torch takes. What does not fit raises before anything is posted, since the
library sees memory only, no tensors."""
from typing import Any, Dict, List, Optional

import torch
import torch.distributed as dist

_TYPES: "Dict[torch.dtype, str]" = {
    torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64",
    torch.int8: "int8", torch.uint8: "uint8", torch.int32: "int32", torch.int64: "int64",
}
_REDUCTIONS = [(dist.ReduceOp.SUM, "sum"), (dist.ReduceOp.AVG, "mean"), (dist.ReduceOp.MIN, "min"), (dist.ReduceOp.MAX, "max")]
_OTHER_REDUCTIONS = ("PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")


def reduction_of(op: Any) -> str:
    for known, name in _REDUCTIONS:
        if op == known:
            return name
    # A ReduceOp of PyTorch 1.13 prints as an address.
    names = [name for name in _OTHER_REDUCTIONS if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name)]
    raise RuntimeError(f"godwit: reduction {names[0] if names else op} is not supported; SUM, AVG, MIN and MAX are")


def type_of(tensor: torch.Tensor, reduction: str) -> str:
    if tensor.dtype == torch.bool and reduction in ("min", "max"):
        return "uint8"
    name = _TYPES.get(tensor.dtype)
    if name is None:
        raise RuntimeError(f"godwit: tensors of {tensor.dtype} cannot be reduced; those of {', '.join(_TYPES.values())} can")
    return name


def bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether its memory has its numbers one after the other, as they are."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself or a copy."""
    if is_plain(tensor):
        return tensor
    with torch.no_grad():
        return tensor.resolve_conj().resolve_neg().contiguous()


def one(tensors: "List[Any]", what: str) -> Any:
    if len(tensors) != 1:
        raise RuntimeError(f"godwit: {what} takes one tensor for each process, not {len(tensors)}")
    return tensors[0]


def check_pair(name: str, source: Optional[torch.Tensor], target: Optional[torch.Tensor], size: int) -> None:
    """What is sent and what is received of one operation among `size` ranks."""
    for tensor in (source, target):
        if tensor is not None and tensor.layout != torch.strided:
            raise RuntimeError(f"godwit: {name} of a tensor of layout {tensor.layout}: only dense tensors are supported")
    if source is None or target is None or source is target:
        return
    if source.dtype != target.dtype:
        raise RuntimeError(f"godwit: {name} from a tensor of {source.dtype} into one of {target.dtype}: both must have the same type")
    if source.device != target.device:
        raise RuntimeError(f"godwit: {name} from a tensor on {source.device} into one on {target.device}: both must be on the same device")
    sent = bytes_of(source) * (size if name == "allgather" else 1)
    received = bytes_of(target) * (size if name == "reduce_scatter" else 1)
    if sent != received:
        raise RuntimeError(f"godwit: {name} from {source.numel()} elements into {target.numel()} among {size} ranks: the sizes do not fit")


def check_parts(what: str, parts: "List[torch.Tensor]", like: torch.Tensor, size: int, verb: str) -> None:
    """A list of tensors, one for each rank, each with as many elements as `like`."""
    if len(parts) != size or any(part.numel() != like.numel() for part in parts):
        raise RuntimeError(f"godwit: {what} takes {size} tensors of {like.numel()} elements to {verb}")
    check_kinds(what, [like, *parts])


def check_kinds(what: str, tensors: "List[torch.Tensor]") -> None:
    """Tensors that are parts of one operation."""
    for kinds in ({str(tensor.dtype) for tensor in tensors}, {str(tensor.device) for tensor in tensors}):
        if len(kinds) > 1:
            raise RuntimeError(f"godwit: {what} takes tensors of one type on one device, not of {' and '.join(sorted(kinds))}")


def check_lengths(lengths: torch.Tensor) -> None:
    """Of an all_to_all: a row for each rank, with the elements that it sends to each rank, and then those that it expects of each. Every
    rank has all rows, and raises the same."""
    size = len(lengths)
    sent, expected = lengths[:, :size], lengths[:, size:].t()
    for sender, receiver in (sent != expected).nonzero()[:1].tolist():
        raise RuntimeError(f"godwit: all_to_all: rank {sender} sends {sent[sender, receiver]} elements where rank {receiver} expects "
                           f"{expected[sender, receiver]}")
