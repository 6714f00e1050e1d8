# SPDX-License-Identifier: BSD-3-Clause
"""Times Gloo's collectives (torch.distributed) as `godwit coll` times ours: operations one after another, the mean of them, and
the slowest rank's mean. Rank 0 prints a JSON object a line.

Usage: gloo_ranks.py WARMUP OPERATION:BYTES:ITERATIONS...
"""
import datetime
import json
import sys
import time

import torch
import torch.distributed as dist


def operation(name, given, got):
    if name == "allreduce":
        # In place, as DDP calls it; the values are overwritten, and checked by their first result.
        return lambda: dist.all_reduce(given)
    if name == "allgather":
        parts = list(got.chunk(dist.get_world_size()))
        mine = given[: parts[0].numel()]
        return lambda: dist.all_gather(parts, mine)
    return lambda: dist.broadcast(given, 0)


def measure(name, size, iterations, warmup):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    given, got = torch.full((size // 4,), float(rank + 1)), torch.zeros(size // 4)
    run = operation(name, given, got)
    run()
    first = {"allreduce": given, "allgather": got, "broadcast": given}[name].clone()
    last = {"allreduce": ranks * (ranks + 1) / 2, "allgather": ranks, "broadcast": 1}[name]
    right = torch.tensor(float(first[0] == (last if name == "allreduce" else 1) and first[-1] == last))
    given.zero_()
    for _ in range(warmup - 1):
        run()
    dist.barrier()
    begin = before = time.monotonic()
    times = []
    for _ in range(iterations):
        run()
        now = time.monotonic()
        times.append(now - before)
        before = now
    mean = torch.tensor((before - begin) / iterations, dtype=torch.float64)
    dist.all_reduce(mean, dist.ReduceOp.MAX)
    dist.all_reduce(right, dist.ReduceOp.MIN)
    times.sort()
    if rank == 0:
        print(json.dumps({"operation": name, "bytes": size, "mean_us": mean.item() * 1e6, "p50_us": times[len(times) // 2] * 1e6,
                          "worst_us": times[-1] * 1e6, "right": bool(right.item())}), flush=True)


torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
for word in sys.argv[2:]:
    what, bytes_, count = word.split(":")
    measure(what, int(bytes_), int(count), int(sys.argv[1]))
dist.barrier()
