# SPDX-License-Identifier: BSD-3-Clause
"""What is wrong with an argument, in a sentence. The library says "Invalid argument", and ctypes cuts numbers that are too large."""
from typing import Optional

from .library import RECOVERIES, REPAIR, BoundedAttr
from .memory import Memory

# Largest values, from <godwit/collective.h>
RANKS_MAX = 4096
_MOST = {"rank": RANKS_MAX - 1, "size": RANKS_MAX, "port": 2**16 - 1, "tracks": 16, "threads": 64, "ahead": 2**16, "segment_bytes": 2**32 - 1,
         "rate_bps": 2**64 - 1, "color": 2**32 - 2, "key": 2**32 - 1}
# In seconds: nanoseconds have 64 bits.
TIME_MAX = 2**64 // 10**9 - 1

_ALGORITHMS = {
    "broadcast": ("ring", "tree", "direct", "multicast"), "allgather": ("ring", "doubling", "direct", "multicast"),
    "reduce_scatter": ("ring", "doubling", "direct"), "allreduce": ("ring", "doubling", "direct"), "alltoall": ("direct",),
}
_REALS = ("float32", "float16", "bfloat16", "float64")


def check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if isinstance(value, float) or not 0 <= value <= _MOST[name]:
            raise ValueError(f"{name}={value!r}: a whole number from 0 to {_MOST[name]} is expected")


def check_times(**times: float) -> None:
    for name, value in times.items():
        if not 0 <= value <= TIME_MAX:
            raise ValueError(f"{name}={value!r}: seconds from 0 to {TIME_MAX} are expected")


def check_place(rank: int, size: int) -> None:
    check_numbers(rank=rank, size=size)
    if rank and not size:
        raise ValueError(f"rank={rank} without a size: give both, or neither to take them from the environment")
    if size and rank >= size:
        raise ValueError(f"rank={rank} and size={size}: ranks are 0 to {size - 1}")


def check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r}: a share from 0 to 1 is expected")


def why_refused(name: str, fixed_order: bool, send: Optional[Memory], recv: Optional[Memory], type_name: str, reduction: str,
                algorithm: str, bounded: Optional[BoundedAttr]) -> str:
    """Why the library may have refused an operation; "" if nothing is known."""
    fitting = _ALGORITHMS.get(name)
    if fitting is not None and algorithm not in ("auto", *fitting):
        return f"algorithm={algorithm!r}: this operation has {', '.join(fitting)}"
    if fixed_order and name in ("allreduce", "reduce_scatter") and algorithm not in ("auto", "direct"):
        return f"algorithm={algorithm!r}: with fixed_order reductions are \"direct\""
    if bounded is not None:
        why = _why_bounded(name, type_name, reduction, bounded)
        if why:
            return why
    if send is not None and recv is not None and send.address < recv.address + recv.length and recv.address < send.address + send.length:
        return "the buffers to send and to receive overlap, and one is not this rank's part of the other"
    return ""


def _why_bounded(name: str, type_name: str, reduction: str, attr: BoundedAttr) -> str:
    recovery = next(known for known, number in RECOVERIES.items() if number == attr.recovery)
    if recovery == "previous" and not attr.previous:
        return "recovery=\"previous\" without `previous`"
    if attr.flags & REPAIR and not attr.floor_ppm:
        return "repair=True without a floor"
    if name in ("bounded_allgather", "bounded_broadcast"):
        fitting = ("count", "zero", "previous")
        return "" if recovery in fitting else f"recovery={recovery!r}: this operation has {', '.join(fitting)}"
    if type_name not in _REALS:
        return f"elements of type {type_name}: bounded reductions take {', '.join(_REALS)}"
    if recovery == "hadamard" and type_name not in ("float32", "bfloat16"):
        return f"elements of type {type_name}: recovery=\"hadamard\" takes float32 and bfloat16"
    if recovery == "hadamard" and reduction not in ("sum", "mean"):
        return f"reduction={reduction!r}: recovery=\"hadamard\" has sum and mean"
    return ""
