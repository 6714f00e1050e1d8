# SPDX-License-Identifier: BSD-3-Clause
"""What the ranks of python_test.py do where one waits for another, ends, or is forked: one function a role, run as
`python_lives_ranks.py ROLE [ARGUMENT...]`."""
import array
import os
import random
import signal
import sys
import threading
import time
from ctypes import byref, c_void_p

import godwit
from godwit.library import lib
from python_ranks import raises


def patience(service, go_on):
    """Rank 0 waits for rank 1, which waits for a file: timeouts, the explanation, and an interrupt from the keyboard."""
    with godwit.Communicator(service=service == "1") as comm:
        comm.barrier()
        if comm.rank == 1:
            while not os.path.exists(go_on):
                time.sleep(0.01)
            comm.barrier()
            return
        handle = comm.barrier(wait=False)
        raises(TimeoutError, lambda: handle.wait(0.2), "rank 1")
        raises(ValueError, lambda: handle.wait(-1), "not negative")
        assert not handle.test() and "barrier" in comm.explain(), comm.explain()
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            handle.wait()
            raise AssertionError("the interrupt did not come")
        except KeyboardInterrupt:
            assert time.monotonic() - start < 10
        with open(go_on, "x", encoding="ascii"):
            pass
        handle.wait(float("inf"))
        print("patience")


def many(service):
    """The end of other operations does not end a wait before its time."""
    with godwit.Communicator(service=service == "1") as comm:
        if comm.rank:
            time.sleep(0.3)
        pending = [comm.allreduce(array.array("f", [1] * 1000), wait=False) for _ in range(200)]
        if comm.rank:
            time.sleep(0.3)
        pending[-1].wait(5)
        for handle in pending:
            handle.wait(60)
        print("many")


def split_waits(go_on):
    """While a rank waits for the others in split(), timeouts are kept, and it can be interrupted."""
    with godwit.Communicator() as comm:
        comm.barrier()
        if comm.rank:
            while not os.path.exists(go_on):
                time.sleep(0.01)
            raises(godwit.Error, comm.barrier, "rank 0 aborted: KeyboardInterrupt")
            return
        handle = comm.barrier(wait=False)
        failed = []

        def split():
            try:
                comm.split(0)
            except godwit.Error as error:
                failed.append(error)

        thread = threading.Thread(target=split)
        thread.start()
        time.sleep(0.1)
        start = time.monotonic()
        raises(TimeoutError, lambda: handle.wait(0.3), "rank 1")
        assert time.monotonic() - start < 3
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            with comm:
                comm.split(0)
            raise AssertionError("the interrupt did not come")
        except KeyboardInterrupt:
            took = time.monotonic() - start
        with open(go_on, "x", encoding="ascii"):
            pass
        thread.join()
        assert failed and took < 8, (failed, took)
        print("split_waits")


def interrupted_split(service):
    """Rank 0 is interrupted in split() while rank 1 has not come yet. What is split off then is closed with the communicator."""
    comm = godwit.Communicator(service=service == "1")

    def barrier():
        godwit.Communicator.barrier(comm)
        if comm.rank:
            time.sleep(1)
        else:
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    comm.barrier = barrier
    if comm.rank:
        assert comm.split(0).size == 2
    else:
        try:
            comm.split(0)
            time.sleep(10)
            raise AssertionError("the interrupt did not come")
        except KeyboardInterrupt:
            pass
    comm.close()
    assert "closed" in repr(comm) and not any(thread.name == "godwit" for thread in threading.enumerate()), comm
    print("interrupted_split")


def refused_close():
    """A communicator that cannot be closed yet, since the library has one split off it that Python does not know, goes on."""
    comm = godwit.Communicator()
    part = c_void_p()
    assert comm._driver.call(lambda: lib.gw_comm_split(comm._handle, 0, 0, byref(part))) == 0
    for _ in range(2):
        raises(godwit.Error, comm.close, "busy")
    comm.barrier()
    # Of two threads that close it, neither is told that it is closed.
    told = []

    def close():
        try:
            comm.close()
        except godwit.Error as error:
            told.append(error)

    threads = [threading.Thread(target=close) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 2, told
    assert comm._driver.call(lambda: lib.gw_comm_close(part)) == 0
    comm.close()
    assert "closed" in repr(comm) and not any(thread.name == "godwit" for thread in threading.enumerate()), comm
    raises(godwit.Error, comm.barrier, "closed")
    print("refused_close")


def die(how):
    """The last rank ends while the others wait for it."""
    comm = godwit.Communicator(peer_timeout=3)
    comm.barrier()
    last = comm.size - 1
    if comm.rank == last:
        time.sleep(0.2)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "abort":
            comm.abort("no more data" + " évident" * 30)
        elif how == "exception":
            raise ValueError("no more data")
        elif how == "block":
            with comm:
                raise ValueError("no more data")
        comm.close()
        return
    start = time.monotonic()
    pending = [comm.allreduce(array.array("f", [1] * 1000), wait=False) for _ in range(3)]
    for handle in pending:
        error = raises(godwit.Error, lambda h=handle: h.wait(20))
        assert error.rank == last and error.errno, (error.rank, error.errno, str(error))
        assert how == "kill" or "no more data" in str(error), str(error)
        assert how != "abort" or str(error).endswith(" évident ..."), str(error)
    assert time.monotonic() - start < 10
    raises(godwit.Error, comm.barrier, str(error))
    comm.close()
    print("told:", error)


def fork(service):
    """A child of a rank can neither use its communicator nor does it close it; the parent goes on."""
    comm = godwit.Communicator(service=service == "1")
    data = bytearray(1000)
    pending = comm.broadcast(data, comm.size - 1, wait=False) if comm.rank < comm.size - 1 else None
    time.sleep(0.2)
    child = os.fork()
    if not child:
        for action in (comm.barrier, comm.explain, lambda: comm.split(0), lambda: comm.abort("?"), pending.wait if pending else comm.barrier):
            raises(godwit.Error, action, "belongs to the process that forked")
        data.clear()
        comm.close()
        with godwit.Communicator(0, 1) as own:
            own.barrier()
        print("child", flush=True)
        sys.exit()
    deadline = time.monotonic() + 8
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            raise AssertionError("the child did not end")
        time.sleep(0.01)
    assert ended == (child, 0), ended
    if not pending:
        comm.broadcast(data, comm.rank)
    comm.barrier()
    print("fork")


def several():
    """Several communicators, and one split off each, that the program forgets: they are closed at its end without waiting in vain."""
    size, rank, port = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    comms = [godwit.Communicator(rank, size, "127.0.0.1", port) for _ in range(6)]
    parts = [comm.split(0) for comm in comms]
    for comm in comms + parts:
        comm.allreduce(array.array("f", [1]))
    # Each rank forgets them in another order.
    random.Random(rank).shuffle(comms)
    print("several", time.time())


def split_off():
    """A communicator closes those split off it."""
    with godwit.Communicator() as comm:
        part = comm.split(0)
        assert part.split(comm.rank % 2) and comm.split(None) is None
        part.barrier()
    raises(godwit.Error, part.barrier, "closed")
    print("split_off")


def forget(service):
    """Ends without closing, one rank much earlier than the other."""
    comm = godwit.Communicator(service=service == "1")
    comm.allreduce(array.array("f", [1] * 100000))
    if comm.rank == 1:
        time.sleep(1)
    comm.allgather(array.array("f", [1]))
    print("forgotten")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
