# SPDX-License-Identifier: BSD-3-Clause
"""The communicators that this process has open: they are closed when the program ends, and left alone in a child.

They are kept here until then, also if the program has forgotten them: others may still need data of this rank.
"""
import atexit
import itertools
import os
import sys
from typing import Any, Dict

from . import completers

# How long a program that ends waits for a callback.
_CALLBACK_S = 10

_numbers = itertools.count(1)
# By the order in which they were opened, which is the same on all ranks that share any.
_open: "Dict[int, Any]" = {}


def opened(comm: Any) -> int:
    """Keeps a communicator, and returns its number for closed()."""
    number = next(_numbers)
    _open[number] = comm
    return number


def closed(number: int) -> None:
    _open.pop(number, None)


def reason(error: BaseException) -> str:
    """What other ranks are told of an exception that ends this one."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _forked() -> None:
    """In a child of this process, which has none of its threads: the communicators are its parent's."""
    for comm in _open.values():
        comm.leave()
    _open.clear()


os.register_at_fork(after_in_child=_forked)


def _close_all() -> None:
    """The other ranks may still need this one, so it waits for them; unless it ends for an exception, of which they are told.
    All threads begin to close before the first one is waited for: whatever the other ranks close first, it is being closed here."""
    failure = getattr(sys, "last_value", None)
    ends = []
    for comm in [comm for _, comm in sorted(_open.items())]:
        try:
            if failure is not None:
                comm.abort(reason(failure))
        except Exception:
            # It has failed, or another thread is closing it.
            pass
        ends.append(comm.begin_to_close())
    for end in ends:
        try:
            end()
        except Exception:
            # The others see this process end.
            pass


@atexit.register
def _end() -> None:
    try:
        _close_all()
    finally:
        # After that, since closing ends operations.
        if not completers.drain(_CALLBACK_S):
            print(f"godwit: the program ends although a callback of a future has been running for {_CALLBACK_S} s", file=sys.stderr)
