# SPDX-License-Identifier: BSD-3-Clause
"""The C library, through ctypes: finding it, and its structures and calls (see <godwit/collective.h>,
<godwit/bounded_collective.h>)."""
import ctypes
import errno as errors
import os
import re
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Optional

SONAME = "libgodwit.so.0"
FOREVER = 2**64 - 1
NO_COLOR = 2**32 - 1
FIXED_ORDER = 1
CLEAR = 2
SERVED = 4

# Numbers of enum gw_type and bytes of an element.
TYPES = {
    "float32": (0, 4), "float16": (1, 2), "bfloat16": (2, 2), "float64": (3, 8), "int8": (4, 1), "uint8": (5, 1),
    "int32": (6, 4), "uint32": (7, 4), "int64": (8, 8), "uint64": (9, 8),
}
REDUCTIONS = {"sum": 0, "mean": 1, "min": 2, "max": 3}
RECOVERIES = {"count": 0, "zero": 1, "keep": 2, "previous": 3, "hadamard": 4, "coded": 5}
ENDS = ("whole", "lost", "deadline", "late")
REPAIR = 1
TRANSFORMED = 2
ALGORITHMS = {"auto": 0, "ring": 1, "doubling": 2, "tree": 3, "direct": 4, "multicast": 5}

# Most that gw_comm_abort() takes of a text.
_ABORT_BYTES = 200
_MORE = b" ..."


class Error(OSError):
    """What the library reports. `errno` is the number, str() the library's sentence, and `rank` the rank that the sentence
    names first, or None."""

    rank: Optional[int]

    def __init__(self, number: int, sentence: str) -> None:
        super().__init__(number, sentence)
        named = re.search(r"\branks? (\d+)", sentence)
        self.rank = int(named.group(1)) if named else None

    def __str__(self) -> str:
        return str(self.strerror)


class CommAttr(Structure):
    _fields_ = [
        ("rank", c_uint32), ("size", c_uint32), ("root", c_char_p), ("port", c_uint16), ("threads", c_uint16),
        ("flags", c_uint32), ("fabric", c_char_p), ("secret_file", c_char_p), ("congestion", c_char_p),
        ("rate_bps", c_uint64), ("meet_ns", c_uint64), ("peer_timeout_ns", c_uint64), ("tracks", c_uint32),
        ("segment_bytes", c_uint32), ("ahead", c_uint64), ("reserved", c_uint64 * 7),
    ]


class CollResult(Structure):
    _fields_ = [("status", c_int), ("reserved", c_uint32)]


Done = CFUNCTYPE(None, c_void_p, c_void_p, POINTER(CollResult))


class CollAttr(Structure):
    _fields_ = [
        ("send", c_void_p), ("recv", c_void_p), ("count", c_uint64), ("type", c_int), ("reduction", c_int),
        ("root", c_uint32), ("algorithm", c_int), ("done", Done), ("arg", c_void_p), ("send_mr", c_void_p),
        ("recv_mr", c_void_p), ("reserved", c_uint64 * 6),
    ]


class BoundedAttr(Structure):
    _fields_ = [
        ("recovery", c_int), ("flags", c_uint32), ("deadline_ns", c_uint64), ("floor_ppm", c_uint32), ("rows", c_uint32),
        ("previous", c_void_p), ("reserved", c_uint64 * 6),
    ]


class BoundedReportFields(Structure):
    _fields_ = [
        ("expected", c_uint64), ("arrived", c_uint64), ("deadline_ns", c_uint64), ("elapsed_ns", c_uint64),
        ("waited_ns", c_uint64), ("gathered_ns", c_uint64), ("end", c_uint32), ("late", c_uint32), ("diverged", c_uint32),
        ("incast", c_uint32), ("reserved", c_uint64 * 3),
    ]


_POST = (c_int, [c_void_p, POINTER(CollAttr), POINTER(c_void_p)])
CALLS = {
    "gw_version": (c_char_p, []),
    "gw_comm_open": (c_int, [POINTER(CommAttr), POINTER(c_void_p)]),
    "gw_comm_close": (c_int, [c_void_p]),
    "gw_comm_rank": (c_uint32, [c_void_p]),
    "gw_comm_size": (c_uint32, [c_void_p]),
    "gw_comm_split": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(c_void_p)]),
    "gw_comm_abort": (c_int, [c_void_p, c_char_p]),
    "gw_comm_error": (c_char_p, [c_void_p]),
    "gw_comm_progress": (c_int, [c_void_p]),
    "gw_comm_serve": (c_int, [c_void_p, c_uint64]),
    "gw_comm_wake": (c_int, [c_void_p]),
    "gw_comm_explain": (c_int, [c_void_p, c_char_p, c_size_t]),
    "gw_coll_close": (c_int, [c_void_p]),
    "gw_barrier": _POST, "gw_broadcast": _POST, "gw_allgather": _POST, "gw_reduce_scatter": _POST, "gw_allreduce": _POST,
    "gw_alltoall": _POST,
    **{f"gw_bounded_{name}": (c_int, [c_void_p, POINTER(CollAttr), POINTER(BoundedAttr), POINTER(c_void_p)])
       for name in ("allreduce", "reduce_scatter", "allgather", "broadcast")},
    "gw_bounded_report": (c_int, [c_void_p, POINTER(BoundedReportFields)]),
    "gw_bounded_missing": (c_int, [c_void_p, c_uint32, POINTER(c_uint64)]),
}


def _candidates() -> "list[str]":
    named = os.environ.get("GODWIT_LIBRARY")
    if named:
        return [named]
    return [os.path.join(os.path.dirname(os.path.abspath(__file__)), SONAME), SONAME]


def _load() -> ctypes.CDLL:
    reasons = []
    for path in _candidates():
        try:
            loaded = ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
            continue
        for name, (result, arguments) in CALLS.items():
            try:
                call = getattr(loaded, name)
            except AttributeError:
                raise ImportError(f"godwit: {path} is older than this Python package: it has no {name}(). Install the library "
                                  "of the same release, or name its file in GODWIT_LIBRARY.") from None
            call.restype, call.argtypes = result, arguments
        return loaded
    raise ImportError(f"godwit: the C library cannot be loaded ({'; '.join(reasons)}). Install {SONAME} where the system's "
                      "loader finds it, put it beside the Python package, or name its file in GODWIT_LIBRARY.")


lib = _load()


def library_version() -> str:
    """Release of the C library."""
    return lib.gw_version().decode()


def sentence(comm: Optional[int], status: int) -> str:
    """What the library says about a failure of a communicator, or of the last opening if `comm` is None."""
    text = lib.gw_comm_error(comm)
    return text.decode(errors="replace") if text else os.strerror(-status)


def abort_text(text: str) -> bytes:
    """What other ranks are told of a reason to abort: one that is too long is cut between two words."""
    whole = text.encode()
    if len(whole) <= _ABORT_BYTES:
        return whole
    part = whole[:_ABORT_BYTES - len(_MORE)]
    end = part.rfind(b" ", _ABORT_BYTES // 2)
    return part[:end if end > 0 else None].decode(errors="ignore").encode() + _MORE


def error_of(comm: Optional[int], status: int) -> Error:
    return Error(-status, sentence(comm, status))


def closed_error() -> Error:
    return Error(errors.EBADF, "the communicator is closed")


def forked_error() -> Error:
    return Error(errors.EBADF, "this communicator belongs to the process that forked: a child opens one of its own")
