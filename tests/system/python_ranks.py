# SPDX-License-Identifier: BSD-3-Clause
"""What the ranks of python_test.py do: one function a role, run as `python_ranks.py ROLE [ARGUMENT...]`."""
import array
import gc
import random
import sys
import threading
import time

import godwit

FORMATS = {"float32": "f", "float64": "d", "int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q"}
REDUCTIONS = {"sum": sum, "min": min, "max": max, "mean": lambda values: sum(values) / len(values)}


def contributions(rng, size, kind, count):
    """Values of every rank, the same in each process. Up to 5 ranks, sums are exact in every type, and so are the means of reals."""
    return [array.array(FORMATS[kind], [rng.randrange(0, 5) * size for _ in range(count)]) for _ in range(size)]


def reduced(given, reduction, kind):
    whole = not kind.startswith("float")
    values = [REDUCTIONS[reduction](column) for column in zip(*given)]
    return array.array(FORMATS[kind], [int(value) for value in values] if whole else values)


def one(comm, rng, wait):
    """One operation drawn at random; returns what is to be checked at its end."""
    rank, size, kind = comm.rank, comm.size, rng.choice(sorted(FORMATS))
    name, count = rng.choice(["allreduce", "broadcast", "allgather", "reduce_scatter", "alltoall", "barrier"]), rng.choice(
        [0, 1, 3, 17, 1000])
    reduction = rng.choice(["sum", "min", "max"] + (["mean"] if kind.startswith("float") else []))
    given = contributions(rng, size, kind, count * (size if name in ("reduce_scatter", "alltoall") else 1))
    root, separate = rng.randrange(size), rng.random() < 0.5
    mine, wanted = array.array(FORMATS[kind], given[rank]), None
    if name == "barrier":
        return comm.barrier(wait=wait), None
    if name == "broadcast":
        wanted = given[root]
        handle = comm.broadcast(mine, root, wait=wait)
    elif name == "allgather":
        wanted = array.array(FORMATS[kind], [value for values in given for value in values])
        handle = comm.allgather(mine, array.array(FORMATS[kind], [0] * count * size) if separate else None, wait=wait)
    elif name == "alltoall":
        wanted = array.array(FORMATS[kind], [value for values in given for value in values[rank * count:(rank + 1) * count]])
        handle = comm.alltoall(mine, wait=wait)
    elif name == "reduce_scatter":
        wanted = reduced(given, reduction, kind)[rank * count:(rank + 1) * count]
        handle = comm.reduce_scatter(mine, array.array(FORMATS[kind], [0] * count), reduction, wait=wait)
    else:
        wanted = reduced(given, reduction, kind)
        handle = comm.allreduce(mine, array.array(FORMATS[kind], [0] * count) if separate else None, reduction, wait=wait)
    # The buffers are referenced by nothing but the operation from here on.
    return handle, (name, kind, reduction, count, wanted.tobytes())


def judge(result, wanted):
    if wanted is not None and bytes(result) != wanted[-1]:
        raise AssertionError(f"wrong result of {wanted[:-1]}")


def operations(seed, service):
    """Random operations, blocking ones and many in flight at once, on the communicator and on parts of it."""
    rng = random.Random(int(seed))
    with godwit.Communicator(service=service == "1") as comm:
        for _ in range(20):
            judge(*one(comm, rng, True))
        pending = [one(comm, rng, False) for _ in range(60)]
        gc.collect()
        for handle, wanted in pending:
            judge(handle.wait(60), wanted)
            assert handle.test() and handle.error is None
        part = comm.split(comm.rank % 2, -comm.rank % comm.size)
        assert part.size == (comm.size + 1 - comm.rank % 2) // 2 and not part.allreduce(array.array("i", [0]))[0]
        assert part.allgather(array.array("i", [comm.rank])) == array.array(
            "i", sorted(range(comm.rank % 2, comm.size, 2), key=lambda r: -r % comm.size)).tobytes()
        part.close()
        nobody = comm.split(None if comm.rank else 7)
        assert (nobody is None) == (comm.rank > 0)
        if nobody:
            nobody.close()
        print(f"operations {comm.size}")


def numpy_arrays():
    import numpy
    with godwit.Communicator() as comm:
        for kind in ("f2", "f4", "f8", "i1", "u1", "i4", "u4", "i8", "u8"):
            for name in ("sum", "min", "max"):
                made = comm.allreduce(numpy.arange(6, dtype=kind).reshape(2, 3), reduction=name)
                assert made.shape == (2, 3) and (made == numpy.arange(6).reshape(2, 3) * (comm.size if name == "sum" else 1)).all()
        gathered = comm.allgather(numpy.array([comm.rank], "c16"))
        assert gathered.dtype == "c16" and list(gathered) == list(range(comm.size))
        half = numpy.array([0x3f80], "u2")  # 1.0 as a bfloat16
        assert comm.allreduce(half, dtype="bfloat16")[0] == {1: 0x3f80, 2: 0x4000, 3: 0x4040}[comm.size]
        # Moved are any elements, but not parts of one, and not into those of another type or byte order.
        records = comm.allgather(numpy.array([(comm.rank, 1.5)], "i4,f8"))
        assert records["f0"].tolist() == list(range(comm.size)) and (records["f1"] == 1.5).all()
        assert comm.broadcast(numpy.array([comm.rank + 1], ">i4"))[0] == 1
        ones, zeros = numpy.ones(comm.size, "f4"), numpy.zeros(comm.size * comm.size, "f4")
        raises(ValueError, lambda: comm.alltoall(numpy.ones(comm.size * 2 + 1, "f4")), "elements of 4 bytes")
        for other in ("f8", "i4", ">f4"):
            raises(TypeError, lambda k=other: comm.allgather(ones[:1], ones.astype(k)), f"float32 to send and {numpy.dtype(other)} to receive")
        assert comm.allgather(ones, bytearray(zeros.nbytes)) == bytes(numpy.ones_like(zeros))
        raises(TypeError, lambda: comm.broadcast(numpy.array([{}], object)), "type object are references")
        raises(TypeError, lambda: comm.broadcast(numpy.zeros(2, "i4,O")), "are references")
        raises(TypeError, lambda: comm.allreduce(numpy.ones(2, ">f4")), "elements of type >f4")
        raises(TypeError, lambda: comm.allreduce(numpy.ones(4), dtype="float32"), "they have 8 bytes each, and float32 has 4")
        assert comm.allreduce(bytearray(numpy.ones(2)), dtype="float64") == bytes(numpy.full(2, float(comm.size)))
        raises(TypeError, lambda: comm.allreduce(numpy.array([1], "c16")), "elements of type complex128")
        growing = bytearray(8)
        raises((BufferError, ValueError), lambda: comm.allreduce(numpy.zeros((4, 4), "f4")[:, 1], growing), "contiguous")
        raises(TypeError, lambda: comm.allgather(numpy.array([{}], object), growing), "references")
        growing.clear()
        raises((BufferError, ValueError), lambda: comm.allreduce(numpy.zeros((4, 4), "f4")[:, 1]), "contiguous")
        print("arrays")


def bounded():
    """Bounded means: exact where nothing is late; without a rank that sleeps; and the same everywhere."""
    with godwit.Communicator() as comm:
        given = array.array("f", [comm.rank + 1] * 50000)
        for recovery in ("count", "zero", "keep", "hadamard", "coded"):
            data = array.array("f", given)
            # On a busy host packets may be dropped on the loopback too, but hardly ever.
            report = comm.bounded_allreduce(data, recovery=recovery, deadline=20)
            if report.arrived == report.expected:
                assert abs(data[0] - (comm.size + 1) / 2) < 1e-3 and report.end == "whole" and not sum(report.missing), report
            sure = comm.allgather(data)
            assert all(sure[i * len(data) * 4:(i + 1) * len(data) * 4] == data.tobytes() for i in range(comm.size))
        data, last = array.array("f", given), comm.size - 1
        if comm.rank == last:
            time.sleep(1)
        start = time.monotonic()
        handle = comm.bounded_allreduce(data, wait=False, deadline=0.1)
        handle.wait(30)
        if comm.size > 2:
            assert handle.report.late == 1 and handle.report.missing[last] == len(data) * 4, handle.report
            assert comm.rank == last or time.monotonic() - start < 0.9, handle.report
            assert abs(data[0] - comm.size / 2) < 1e-3 or handle.report.missing[0], handle.report
        bounded_moves(comm)
        raises(ValueError, lambda: comm.bounded_allreduce(data, recovery="hope"), "hadamard")
        raises(ValueError, lambda: comm.bounded_allreduce(data, recovery="previous", previous=array.array("f", [0])), "earlier")
        raises(godwit.Error, lambda: comm.bounded_allreduce(array.array("i", [1])), "refused: elements of type int32: bounded reductions take float32")
        raises(godwit.Error, lambda: comm.bounded_allreduce(data, recovery="previous"), "without `previous`")
        raises(godwit.Error, lambda: comm.bounded_allreduce(data, repair=True), "repair=True without a floor")
        raises(godwit.Error, lambda: comm.bounded_allreduce(data, reduction="max", recovery="hadamard"), "has sum and mean")
        raises(ValueError, lambda: comm.bounded_allreduce(data, deadline=-1), "deadline=-1")
        raises(ValueError, lambda: comm.bounded_allreduce(data, floor=2), "floor=2")
        print("bounded")


def bounded_moves(comm):
    """The other bounded operations, first all in time, then with a last rank that sleeps."""
    last = comm.size - 1
    for late in (False, True):
        late = late and comm.size > 2
        asleep = (lambda: time.sleep(1)) if late and comm.rank == last else (lambda: None)
        deadline = 0.1 if late else 20
        comm.barrier()
        asleep()
        got = array.array("f", [0] * 1000)
        report = comm.bounded_reduce_scatter(array.array("f", [comm.rank + 1] * 1000 * comm.size), got, deadline=deadline)
        whole = report.arrived == report.expected
        assert late or not whole or abs(got[7] - (comm.size + 1) / 2) < 1e-3, (report, got[7])
        comm.barrier()
        asleep()
        blocks = array.array("i", [-1] * 1000 * comm.size)
        report = comm.bounded_allgather(array.array("i", [comm.rank + 1] * 1000), blocks, deadline=deadline)
        wanted = [0 if late and rank == last else rank + 1 for rank in range(comm.size)]
        assert list(blocks[::1000]) == wanted and (report.missing[last] == 4000) == late, (report, list(blocks[::1000]), wanted)
        comm.barrier()
        asleep()
        data = array.array("i", [comm.rank] * 1000)
        comm.bounded_broadcast(data, min(1, last), deadline=deadline)
        assert data[999] == min(1, last), data[999]
    kept = array.array("i", [7] * 10 * comm.size)
    raises(ValueError, lambda: comm.bounded_allgather(array.array("i", [1] * 10), kept, recovery="previous", previous=kept[:5]), "earlier")


def raises(kind, action, words=""):
    try:
        action()
    except kind as error:
        if words not in str(error):
            raise AssertionError(f"{words!r} is not in {error!r}") from error
        return error
    raise AssertionError(f"{kind} was not raised ({words})")


def mistakes():
    """What is wrong raises before the operation is posted, so that the ranks stay in step."""
    with godwit.Communicator() as comm:
        data = array.array("f", [1, 2, 3])
        raises(BufferError, lambda: comm.allreduce(b"abcd"))
        raises(TypeError, lambda: comm.allreduce(3))
        raises(TypeError, lambda: comm.allreduce(data, array.array("d", [0])), "float32 and float64")
        raises(ValueError, lambda: comm.allreduce(data, array.array("f", [0])), "do not fit")
        raises(ValueError, lambda: comm.allreduce(data, reduction="product"), "sum, mean, min, max")
        raises(ValueError, lambda: comm.allreduce(data, algorithm="magic"), "ring")
        raises(ValueError, lambda: comm.allreduce(data, dtype="float128"), "bfloat16")
        for root in (9, -1, 2**32):
            error = raises(godwit.Error, lambda r=root: comm.broadcast(data, root=r), f"broadcast was refused: root {root} is not one of the 2 ranks")
            assert error.errno and error.rank is None
        raises(godwit.Error, lambda: comm.allreduce(data, algorithm="tree"), "algorithm='tree': this operation has ring, doubling, direct")
        both = memoryview(array.array("f", [0] * 100))
        raises(godwit.Error, lambda: comm.allreduce(both[1:], both[:-1]), "overlap")
        raises(TypeError, lambda: comm.allreduce(array.array("h", [1])), "elements of type format 'h'")
        raises(ValueError, lambda: comm.split(-1), "color=-1")
        raises(ValueError, lambda: comm.split(0, -5), "key=-5")
        for word, more in (("port=99999", {"port": 99999}), ("rank=1 without a size", {"rank": 1}), ("rank=5 and size=2", {"rank": 5, "size": 2}),
                           ("meet_timeout=-1", {"meet_timeout": -1}), ("threads=100000", {"threads": 100000}), ("rank=-1", {"rank": -1, "size": 2})):
            raises(ValueError, lambda m=more: godwit.Communicator(**m), word)
        if comm.rank == 1:
            # Rank 0 waits for this one.
            time.sleep(0.5)
        handle = comm.barrier(wait=False)
        if comm.rank == 0:
            raises(godwit.Error, lambda: handle.result, "not ended")
        handle.wait()
        growing = bytearray(100)
        if comm.rank == 1:
            # Of a broadcast the root need not wait, but rank 0 waits for it.
            time.sleep(0.5)
        handle = comm.broadcast(growing, root=1, wait=False)
        if comm.rank == 0:
            # The buffer is the library's, so it cannot be resized.
            raises(BufferError, growing.clear)
        handle.wait()
        growing.clear()
        assert comm.allreduce(data)[0] == comm.size
    raises(godwit.Error, comm.barrier, "closed")
    raises(godwit.Error, comm.explain, "closed")
    comm.close()
    print("mistakes")


def progress():
    """A thread makes progress while this one computes, and tells callbacks."""
    with godwit.Communicator() as comm:
        comm.barrier()
        told, data = [], array.array("f", [1] * 100000)
        handle = comm.allreduce(data, wait=False)
        handle.add_done_callback(told.append)
        handle.add_done_callback(lambda _: 1 / 0)
        deadline, turns = time.monotonic() + 30, 0
        while not told and time.monotonic() < deadline:
            turns += 1
        assert told == [handle] and handle.result is data and data[0] == comm.size, handle
        late = []
        handle.add_done_callback(late.append)
        assert late == [handle]
        waits = []

        def wait_inside(_):
            waits.append(raises(RuntimeError, comm.barrier, "must not wait"))

        # Large, so that it has not ended before it is asked to tell: this thread may wait for a barrier.
        other = comm.allreduce(array.array("f", [1] * 2000000), wait=False)
        other.add_done_callback(wait_inside)
        other.wait()
        # The barrier that was posted inside is met by all.
        comm.barrier()
        assert len(waits) == 1
        print("progress")


def threads():
    """Threads share a communicator of one rank; each waits for its own operations."""
    with godwit.Communicator(0, 1) as comm:
        failed = []

        def work():
            try:
                for i in range(200):
                    assert comm.allreduce(array.array("i", [i]))[0] == i
            except BaseException as error:
                failed.append(error)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not failed, failed
        print("threads")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
