# SPDX-License-Identifier: BSD-3-Clause
"""Communicators."""
import ctypes
import errno as errors
import threading
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, List, Optional, Union

from . import lifetime, memory, operation
from .library import (ALGORITHMS, CLEAR, FIXED_ORDER, NO_COLOR, RECOVERIES, REDUCTIONS, REPAIR, SERVED, TYPES, BoundedAttr, CollAttr,
                      CommAttr, Error, abort_text, closed_error, error_of, lib)
from .operation import Operation
from .refusals import check_numbers, check_place, check_share, check_times, why_refused
from .service import CallerDrives, ElsewhereDrives, ServiceThread, in_service

_EXPLAIN_BYTES = 1024
# How long somebody whose time is over waits for an explanation.
_EXPLAIN_S = 0.5

Driver = Union[ServiceThread, CallerDrives, ElsewhereDrives]


def bounded_attr(recovery: str, deadline: float, floor: float, repair: bool) -> BoundedAttr:
    check_times(deadline=deadline)
    check_share("floor", floor)
    return BoundedAttr(recovery=_choice(RECOVERIES, "recovery", recovery), flags=REPAIR if repair else 0,
                       deadline_ns=int(deadline * 1e9), floor_ppm=int(floor * 1e6))


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


def _choice(table: "Dict[str, int]", what: str, name: str) -> int:
    if name not in table:
        raise ValueError(f"{what} {name!r}: one of {', '.join(table)} is expected")
    return table[name]


def _new_like(thing: Any, factor: int, divisor: int) -> Any:
    """A new buffer with factor / divisor times as many elements: an array for an array, else bytes."""
    if type(thing).__module__ == "numpy" and hasattr(thing, "dtype"):
        import numpy
        return numpy.empty(thing.size * factor // divisor, thing.dtype)
    return bytearray(memoryview(thing).nbytes * factor // divisor)


class Communicator:
    """A group of processes, ranks 0 to size - 1. Every rank opens it, and calls the same operations in the same order.

    Without a size, rank, size and rank 0's address come from the environment that torchrun, mpirun and srun set. With
    `service` a thread makes progress; otherwise operations make progress while a thread waits for one, and only one thread may
    use the communicator.

    Operations take anything with the buffer protocol that is contiguous. They return the buffer with what this rank got or,
    with wait=False, an Operation. `dtype` names the type of the elements where the buffer does not, as for "bfloat16".
    """

    def __init__(self, rank: int = 0, size: int = 0, root: Optional[str] = None, port: int = 0, *, fixed_order: bool = False,
                 clear: bool = False, fabric: Optional[str] = None, secret_file: Optional[str] = None,
                 congestion: Optional[str] = None, rate_bps: int = 0, meet_timeout: float = 0, peer_timeout: float = 0, tracks: int = 0,
                 segment_bytes: int = 0, threads: int = 0, ahead: int = 0, service: bool = True) -> None:
        self._handle: Optional[int] = None
        self._fixed_order = fixed_order
        check_place(rank, size)
        check_numbers(port=port, tracks=tracks, segment_bytes=segment_bytes, threads=threads, ahead=ahead, rate_bps=rate_bps)
        check_times(meet_timeout=meet_timeout, peer_timeout=peer_timeout)
        attr = CommAttr(rank=rank, size=size, root=_bytes(root), port=port,
                        flags=(FIXED_ORDER if fixed_order else 0) | (CLEAR if clear else 0) | (SERVED if service else 0),
                        fabric=_bytes(fabric), secret_file=_bytes(secret_file), congestion=_bytes(congestion),
                        rate_bps=rate_bps, meet_ns=int(meet_timeout * 1e9), peer_timeout_ns=int(peer_timeout * 1e9),
                        tracks=tracks, segment_bytes=segment_bytes, threads=threads, ahead=ahead)
        handle = c_void_p()
        status = lib.gw_comm_open(byref(attr), byref(handle))
        if status:
            raise error_of(None, status)
        assert handle.value
        self._begin(handle.value, ServiceThread(handle.value) if service else CallerDrives(handle.value), None)
        self._number = lifetime.opened(self)

    def _begin(self, handle: int, driver: Driver, parent: "Optional[Communicator]") -> None:
        self._handle = handle
        self._driver: Driver = driver
        self._parent = parent
        #: those that were split off this one
        self._children: "List[Communicator]" = []
        self._rank = int(lib.gw_comm_rank(handle))
        self._size = int(lib.gw_comm_size(handle))

    def __repr__(self) -> str:
        state = "" if self._handle else ", closed"
        return f"<godwit.Communicator, rank {self._rank} of {self._size}{state}>"

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    # ---- the end ----

    def close(self) -> None:
        """Waits, for the peer timeout at most, until every rank closes. Those split off this one are closed first."""
        if in_service():
            raise RuntimeError("godwit: a callback must not close a communicator: it runs on a thread that ends operations")
        self.begin_to_close()()

    def begin_to_close(self) -> "Callable[[], None]":
        """Returns what waits for the end of close(). With a service thread, closing goes on without that."""
        try:
            closed = self._driver.start(self._close)
        except Error:
            # It is closed, or is being closed.
            return self._closed_elsewhere

        def end() -> None:
            closed()
            if self._parent is None:
                # Python does not end well while a thread does.
                self._driver.join()

        return end

    def _closed_elsewhere(self) -> None:
        """Waits for a close that another thread has begun."""
        self._driver.join()
        if self._handle is not None:
            # It was refused; this one says why.
            self.begin_to_close()()

    def _close(self) -> None:
        """What the thread that drives it does."""
        if self._handle is None:
            return
        for child in list(self._children):
            child._close()
        if self._parent is None:
            # Before that, since who puts something into the queue wakes the communicator.
            self._driver.stop()
        status = 0
        try:
            status = lib.gw_comm_close(self._handle)
            if status:
                self._driver.go_on()
                raise error_of(self._handle, status)
        finally:
            # Also if an interrupt has come meanwhile: the library has closed it.
            if not status:
                self._handle = None
        if self._parent is None:
            lifetime.closed(self._number)
        else:
            self._parent._children.remove(self)

    def leave(self) -> None:
        """In a process that was forked: this one is the parent's, and is not closed here."""
        self._handle = None
        self._driver = ElsewhereDrives()
        for child in self._children:
            child.leave()

    def check(self) -> None:
        """Raises an error in a process that was forked."""
        self._driver.check()

    def abort(self, why: str) -> None:
        """Ends every operation of every rank with an error that says why. The communicator can then only be closed."""
        def abort() -> None:
            if self._handle is None:
                raise closed_error()
            self._abort(why)

        self._driver.call(abort)

    def give_up(self, why: str) -> None:
        """As abort(), with what explain() says, but without waiting until that is done."""
        def give_up() -> None:
            if self._handle is not None:
                self._abort(f"{why}. {self._explain()}")

        try:
            self._driver.submit(give_up)
        except Error:
            # It is closed.
            pass

    def _abort(self, why: str) -> None:
        lib.gw_comm_abort(self._handle, abort_text(why))
        lib.gw_comm_progress(self._handle)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None and self._handle is not None:
            self.abort(lifetime.reason(error))
        self.close()

    def explain(self) -> str:
        """A sentence or two about the oldest open operation: which it is, and which rank it waits for."""
        return str(self._driver.call(self._explain))

    def explain_soon(self) -> str:
        """The same for somebody who has waited long enough."""
        try:
            return str(self._driver.start(self._explain)(_EXPLAIN_S))
        except TimeoutError:
            return "Its thread is busy: with split() or close(), or in a callback."

    def _explain(self) -> str:
        if self._handle is None:
            raise closed_error()
        text = ctypes.create_string_buffer(_EXPLAIN_BYTES)
        lib.gw_comm_explain(self._handle, text, _EXPLAIN_BYTES)
        return text.value.decode(errors="replace")

    def wait_for(self, event: threading.Event, timeout: Optional[float]) -> bool:
        """Waits, for other bindings, until the end of an operation has set an event. Returns whether it was set in time."""
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"a timeout of {timeout} s: a number that is not negative, or None, is expected")
        return self._driver.wait(event, None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def split(self, color: Optional[int], key: int = 0) -> "Optional[Communicator]":
        """Makes a communicator of the ranks that give the same color, in the order of their keys; every rank calls this. None
        for a rank whose color is None. Blocks. The new one is closed with this one at the latest."""
        check_numbers(color=0 if color is None else color, key=key)

        def split() -> "Optional[Communicator]":
            if self._handle is None:
                raise closed_error()
            out = c_void_p()
            child: "Optional[Communicator]" = None
            try:
                status = lib.gw_comm_split(self._handle, NO_COLOR if color is None else color, key, byref(out))
                if status:
                    raise error_of(self._handle, status)
            finally:
                # Also if an interrupt has come meanwhile: this one cannot be closed before the child is.
                if out.value:
                    child = self._adopt(out.value)
            return child

        # The library's call occupies the thread until all ranks have come. In a barrier this one can be interrupted, and the thread does
        # what others ask for.
        self.barrier()
        return self._driver.call(split)

    def _adopt(self, handle: int) -> "Communicator":
        """A communicator that was split off this one. The thread that drives it calls this, even if nobody waits for split() any more."""
        child = Communicator.__new__(Communicator)
        child._fixed_order = self._fixed_order
        child._begin(handle, self._driver, self)
        self._children.append(child)
        return child

    # ---- operations ----

    def post(self, name: str, send: "Optional[memory.Memory]", recv: "Optional[memory.Memory]", count: int, type_name: str,
             result: Any = None, reduction: str = "sum", root: int = 0, algorithm: str = "auto",
             bounded: Optional[BoundedAttr] = None) -> Operation:
        """Posts an operation on memory, for other bindings. It never blocks; what is wrong shows at the operation's end."""
        call = getattr(lib, "gw_" + name)
        more = () if bounded is None else (byref(bounded),)
        attr = CollAttr(send=send.address if send else None, recv=recv.address if recv else None, count=count,
                        type=TYPES[type_name][0], reduction=_choice(REDUCTIONS, "reduction", reduction), root=root if 0 <= root < self._size else 0,
                        algorithm=_choice(ALGORITHMS, "algorithm", algorithm), done=operation.done)
        posted = Operation(self, name, result, [piece for piece in (send, recv) if piece])
        posted._bounded = bounded is not None
        if not 0 <= root < self._size:
            posted._end(Error(errors.EINVAL, f"{name} was refused: root {root} is not one of the {self._size} ranks"))
            return posted

        def post() -> None:
            if self._handle is None:
                posted._end(closed_error())
                return
            attr.arg = number = operation.add(posted)
            handle = c_void_p()
            status = call(self._handle, byref(attr), *more, byref(handle))
            if status:
                operation.drop(number)
                why = ""
                if status == -errors.EINVAL:
                    why = why_refused(name, self._fixed_order, send, recv, type_name, reduction, algorithm, bounded)
                failed = bool(lib.gw_comm_error(self._handle))
                posted._end(error_of(self._handle, status) if failed else
                            Error(-status, f"{name} was refused: {why or error_of(self._handle, status)}"))

        try:
            self._driver.submit(post)
        except Error as error:
            posted._end(error)
        return posted

    def _start(self, name: str, send: Any, recv: Any, parts: "tuple[int, int]", dtype: Optional[str], wait: bool,
               reduction: Optional[str] = None, root: int = 0, algorithm: str = "auto",
               bounded: Optional[BoundedAttr] = None) -> Any:
        """Posts an operation on buffers. parts: how many times `count` elements `send` and `recv` hold."""
        held: "List[memory.Memory]" = []
        try:
            target = memory.of_buffer(recv, True, dtype)
            held.append(target)
            source = target if send is recv else memory.of_buffer(send, False, dtype)
            held.append(source)
            kind, unit = (memory.moved if reduction is None else memory.elements)(name, source, target)
            count, rest = divmod(source.length, parts[0] * unit)
            if rest or target.length != count * unit * parts[1]:
                raise ValueError(f"{name}: {source.length} bytes to send and {target.length} to receive do not fit {self._size} "
                                 f"ranks with elements of {unit} bytes")
            posted = self.post(name, source, target, count * unit // TYPES[kind][1], kind, recv, reduction or "sum", root,
                               algorithm, bounded)
        except BaseException:
            for piece in held:
                piece.release()
            raise
        return posted.wait() if wait else posted

    def barrier(self, *, wait: bool = True) -> Any:
        """Ends when every rank has called it."""
        posted = self.post("barrier", None, None, 0, "uint8")
        return posted.wait() if wait else posted

    def broadcast(self, buffer: Any, root: int = 0, *, algorithm: str = "auto", wait: bool = True) -> Any:
        """The root's buffer is copied into that of every rank."""
        return self._start("broadcast", buffer, buffer, (1, 1), None, wait, None, root, algorithm)

    def allgather(self, send: Any, recv: Any = None, *, algorithm: str = "auto", wait: bool = True) -> Any:
        """Every rank gets what all send, in the order of ranks. Without `recv` a new buffer is made."""
        recv = _new_like(send, self._size, 1) if recv is None else recv
        return self._start("allgather", send, recv, (1, self._size), None, wait, None, 0, algorithm)

    def reduce_scatter(self, send: Any, recv: Any = None, reduction: str = "sum", *, dtype: Optional[str] = None,
                       algorithm: str = "auto", wait: bool = True) -> Any:
        """Rank r gets the r-th part of the reduction of what all send. Without `recv` a new buffer is made."""
        recv = _new_like(send, 1, self._size) if recv is None else recv
        return self._start("reduce_scatter", send, recv, (self._size, 1), dtype, wait, reduction, 0, algorithm)

    def allreduce(self, send: Any, recv: Any = None, reduction: str = "sum", *, dtype: Optional[str] = None,
                  algorithm: str = "auto", wait: bool = True) -> Any:
        """Every rank gets the reduction of what all send: "sum", "mean", "min" or "max". Without `recv`, in place."""
        recv = send if recv is None else recv
        return self._start("allreduce", send, recv, (1, 1), dtype, wait, reduction, 0, algorithm)

    def bounded_allreduce(self, send: Any, recv: Any = None, reduction: str = "mean", *, recovery: str = "count",
                          deadline: float = 0, floor: float = 0, repair: bool = False, previous: Any = None,
                          dtype: Optional[str] = None, wait: bool = True) -> Any:
        """As allreduce(), with what arrived in time; the same result on every rank. Returns the BoundedReport or, with
        wait=False, an Operation, whose `report` it is at the end.

        recovery: what stands for numbers that did not arrive: "count" (a mean is over those that did), "zero", "keep",
        "previous" (an earlier result, the same on all ranks), "hadamard" or "coded". deadline: seconds; 0: by what earlier
        operations took. floor: least part that must arrive; below that the operation fails with EIO, or with `repair`
        is repaired first."""
        recv = send if recv is None else recv
        return self._bounded("bounded_allreduce", send, recv, (1, 1), dtype, wait, reduction,
                             bounded_attr(recovery, deadline, floor, repair), previous)

    def bounded_reduce_scatter(self, send: Any, recv: Any, reduction: str = "mean", *, recovery: str = "count", deadline: float = 0,
                               floor: float = 0, repair: bool = False, previous: Any = None, dtype: Optional[str] = None,
                               wait: bool = True) -> Any:
        """As reduce_scatter(), with what arrived in time. A late rank gets its own share alone. The rest as of bounded_allreduce()."""
        return self._bounded("bounded_reduce_scatter", send, recv, (self._size, 1), dtype, wait, reduction,
                             bounded_attr(recovery, deadline, floor, repair), previous)

    def bounded_allgather(self, send: Any, recv: Any, *, recovery: str = "zero", deadline: float = 0, previous: Any = None,
                          wait: bool = True) -> Any:
        """As allgather(), without ranks that are late: their blocks are zeros on every rank or, with recovery="previous", those of an
        earlier result. Returns a BoundedReport or an Operation, as bounded_allreduce() does."""
        return self._bounded("bounded_allgather", send, recv, (1, self._size), None, wait, None,
                             bounded_attr(recovery, deadline, 0, False), previous)

    def bounded_broadcast(self, buffer: Any, root: int = 0, *, deadline: float = 0, wait: bool = True) -> Any:
        """As broadcast(), but waits for nobody but the root. Returns a BoundedReport or an Operation, as bounded_allreduce() does."""
        return self._bounded("bounded_broadcast", buffer, buffer, (1, 1), None, wait, None,
                             bounded_attr("zero", deadline, 0, False), None, root)

    def _bounded(self, name: str, send: Any, recv: Any, parts: "tuple[int, int]", dtype: Optional[str], wait: bool,
                 reduction: Optional[str], attr: BoundedAttr, previous: Any, root: int = 0) -> Any:
        earlier = memory.of_buffer(recv if previous is None else previous, False, dtype)
        try:
            if earlier.length != memoryview(recv).nbytes:
                raise ValueError(f"{name}: an earlier result of {earlier.length} bytes for {memoryview(recv).nbytes}")
            attr.previous = None if previous is None else earlier.address
            posted = self._start(name, send, recv, parts, dtype, False, reduction, root, bounded=attr)
        except BaseException:
            earlier.release()
            raise
        posted.add_done_callback(lambda _: earlier.release())
        if not wait:
            return posted
        posted.wait()
        return posted.report

    def alltoall(self, send: Any, recv: Any = None, *, algorithm: str = "auto", wait: bool = True) -> Any:
        """The r-th part of what this rank sends goes to rank r. Without `recv` a new buffer is made."""
        recv = _new_like(send, 1, 1) if recv is None else recv
        return self._start("alltoall", send, recv, (self._size, self._size), None, wait, None, 0, algorithm)
