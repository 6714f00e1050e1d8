# SPDX-License-Identifier: BSD-3-Clause
"""Times Gloo's collectives (torch.distributed) as ranks.h times others: operations one after another, the mean of them, and the
slowest rank's mean. Rank 0 prints a JSON object a line.

Usage: gloo_ranks.py OPERATION:BYTES:WARMUP:ITERATIONS...
"""
import datetime
import json
import sys
import time

import torch
import torch.distributed as dist


def operation(name, given, got):
    if name == "allreduce":
        # In place, as DDP calls it: the first result is checked, later ones are sums of sums.
        return lambda: dist.all_reduce(given)
    if name == "allgather":
        parts = list(got.chunk(dist.get_world_size()))
        mine = given[: parts[0].numel()]
        return lambda: dist.all_gather(parts, mine)
    return lambda: dist.broadcast(given, 0)


def expected(name, ranks):
    """The first and the last number of the first result, where every rank gives its number and one."""
    return {"allreduce": (ranks * (ranks + 1) / 2,) * 2, "allgather": (1, ranks), "broadcast": (1, 1)}[name]


def measure(name, size, warmup, iterations):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    given, got = torch.full((size // 4,), float(rank + 1)), torch.zeros(size // 4)
    run = operation(name, given, got)
    result, ends = got if name == "allgather" else given, []

    def several(count):
        begin = time.monotonic()
        for _ in range(count):
            run()
            ends.append((result[0].item(), result[-1].item()))
        return time.monotonic() - begin

    several(warmup)
    dist.barrier()
    mean = torch.tensor(several(iterations) / iterations, dtype=torch.float64)
    dist.all_reduce(mean, dist.ReduceOp.MAX)
    right = torch.tensor(float(ends[0] == expected(name, ranks)))
    dist.all_reduce(right, dist.ReduceOp.MIN)
    if rank == 0:
        print(json.dumps({"operation": name, "bytes": size, "mean_us": mean.item() * 1e6, "right": bool(right.item())}), flush=True)


torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
for word in sys.argv[1:]:
    what, bytes_, before, timed = word.split(":")
    measure(what, int(bytes_), int(before), int(timed))
dist.barrier()
