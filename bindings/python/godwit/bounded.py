# SPDX-License-Identifier: BSD-3-Clause
"""What a bounded operation reports (see <godwit/bounded_collective.h>)."""
from ctypes import byref, c_uint64
from typing import List, NamedTuple

from .library import ENDS, BoundedReportFields, lib


class BoundedReport(NamedTuple):
    """What became of a bounded operation. Times are in seconds."""

    expected: int
    """Bytes of shares that the owners of shards expected of other ranks."""
    arrived: int
    missing: "List[int]"
    """Bytes that did not arrive, by rank."""
    end: str
    """Why the first stage ended: "whole", "lost" (packets), "deadline", or "late" (ranks)."""
    late: int
    """Ranks that came too late to take part."""
    diverged: int
    """Ranks whose earlier results differ from those of the others."""
    incast: int
    deadline: float
    elapsed: float
    waited: float
    gathered: float


def report_of(handle: int, size: int) -> BoundedReport:
    """The report of an operation that has ended."""
    fields, bytes_missing = BoundedReportFields(), c_uint64()
    lib.gw_bounded_report(handle, byref(fields))
    missing = []
    for rank in range(size):
        lib.gw_bounded_missing(handle, rank, byref(bytes_missing))
        missing.append(bytes_missing.value)
    return BoundedReport(fields.expected, fields.arrived, missing, ENDS[fields.end], fields.late, fields.diverged,
                         fields.incast, fields.deadline_ns / 1e9, fields.elapsed_ns / 1e9, fields.waited_ns / 1e9,
                         fields.gathered_ns / 1e9)
