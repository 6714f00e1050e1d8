# SPDX-License-Identifier: BSD-3-Clause
"""What a rank of bench/gpu does: one process group, and every cell (an operation and a size) through it.

Before each operation the ranks meet at a barrier in shared memory; the time is from there to the end on the GPU, and the slowest
rank's counts. So a loss is counted once, in the operation that it delayed.
"""
import datetime
import os
import resource
import time

import torch
import torch.distributed as dist

WARM_UP = 5  # operations, or a second
SMOOTH_S = 0.3  # a cell of short operations goes on for so long, for the sake of its p99
MOST = 5000  # operations in a cell
PATTERN = 1000


def processor_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Operation:
    """Buffers for one cell, and what must come out."""

    def __init__(self, name, size, device, rank, ranks):
        self.name, self.rank, self.ranks = name, rank, ranks
        self.whole = size // 4 // ranks * ranks
        self.part = self.whole // ranks
        self.index = torch.arange(self.whole, device=device, dtype=torch.float32) % PATTERN
        self.out = torch.zeros(self.whole if name != "reduce_scatter" else self.part, device=device)
        if name == "all_gather":
            self.source = self.mine(self.index) * (rank + 1)
        elif name == "reduce_scatter":
            self.source = self.index * (rank + 1)
        # Only Gloo of old PyTorch lacks the calls on whole tensors.
        self.parts = list(self.out.chunk(ranks)) if name == "all_gather" else None

    def mine(self, tensor):
        return tensor[self.rank * self.part:(self.rank + 1) * self.part].clone()

    def fill(self):
        if self.name == "all_reduce":
            self.out.copy_(self.index * (self.rank + 1))

    def run(self):
        if self.name == "all_reduce":
            dist.all_reduce(self.out)
        elif self.name == "reduce_scatter":
            dist.reduce_scatter_tensor(self.out, self.source)
        elif dist.get_backend() == "gloo":
            dist.all_gather(self.parts, self.source)
        else:
            dist.all_gather_into_tensor(self.out, self.source)

    def right(self):
        total = self.ranks * (self.ranks + 1) // 2
        if self.name == "all_reduce":
            wanted = self.index * total
        elif self.name == "reduce_scatter":
            wanted = self.mine(self.index) * total
        else:
            factors = torch.arange(1, self.ranks + 1, device=self.out.device, dtype=torch.float32)
            wanted = self.index * factors.repeat_interleave(self.part)
        return bool(torch.equal(self.out, wanted))


def measure(cell, device, rank, together, limits):
    """Seconds of each operation, and processor time of the process meanwhile. limits: least operations, most seconds."""
    operation = Operation(*cell, device, rank, together.size)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    operation.fill()
    wait()
    times, start, count, cpu, warm_until = [], time.monotonic(), 0, 0.0, None
    begin = start
    while True:
        # Rank 0 announces: 0 the end, 1 a warm-up, 2 a measurement.
        now, announced = time.monotonic(), None
        if rank == 0:
            if warm_until is None and (count == 0 or (count < WARM_UP and now - start < 1)):
                announced = 1
            else:
                if warm_until is None:
                    warm_until, begin = count, now
                done, spent = count - warm_until, now - begin
                over = (done >= limits[0] and spent >= SMOOTH_S) or (spent >= limits[1] and done) or done >= MOST
                announced = 0 if over else 2
        announced = together.barrier(rank, announced)
        if announced == 0:
            break
        if announced == 2 and not times:
            cpu = processor_s()
        begun = time.perf_counter()
        operation.run()
        wait()
        took = time.perf_counter() - begun
        if count == 0 and not operation.right():
            raise RuntimeError(f"{cell}: wrong data on rank {rank}")
        if announced == 2:
            times.append(took)
        count += 1
        if count % 20 == 0 and operation.name == "all_reduce":
            operation.out.zero_()  # sums of sums become infinite, and slow on a CPU
            wait()
    return {"times": times, "cpu_s": processor_s() - cpu}


def rank_of(cells, backend, together, limits):
    """The job of a rank: a function of its number."""
    def job(rank):
        device = "cuda" if backend == "nccl" else "cpu"
        if device == "cuda":
            torch.cuda.set_device(0)
        timeout = datetime.timedelta(seconds=90)
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), together.size, rank == 0, timeout)
        dist.init_process_group(backend, store=store, rank=rank, world_size=together.size, timeout=timeout)
        found = []
        for cell in cells:
            if backend == "gloo" and cell[0] == "reduce_scatter":
                found.append(None)
                continue
            found.append(measure(cell, device, rank, together, limits))
            if device == "cuda":
                torch.cuda.empty_cache()
        together.barrier(rank)
        dist.destroy_process_group()
        about = {"torch": torch.__version__, "untuned": os.environ["GPU_UNTUNED"]}
        if device == "cuda":
            about["gpu"] = torch.cuda.get_device_name(0)
            about["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        return {"cells": found, "about": about}
    return job
