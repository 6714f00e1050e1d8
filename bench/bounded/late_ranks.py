# SPDX-License-Identifier: BSD-3-Clause
"""Allreduces among ranks of which the last is late at times: Gloo, Godwit's exact ones, or its bounded ones.

Usage: late_ranks.py gloo|exact|RECOVERY BYTES COMPUTE_MS DELAYS

DELAYS is a file with a line for each operation: the milliseconds that the last rank computes longer before it. Rank 0 prints
one JSON object: the times of all operations on all ranks in milliseconds, whether exact results were right, and of bounded ones what
arrived and the mean-squared error in variances of what a rank gives.
"""
import datetime
import json
import sys
import time

import torch
import torch.distributed as dist

how, size, compute_ms = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with open(sys.argv[4], encoding="ascii") as file:
    delays = [float(line) for line in file]
if how != "gloo":
    import godwit.torch  # noqa: F401  registers the backend
torch.set_num_threads(1)
dist.init_process_group("gloo" if how == "gloo" else "godwit", timeout=datetime.timedelta(seconds=120))
rank, ranks = dist.get_rank(), dist.get_world_size()
given = [torch.randn(size // 4, generator=torch.Generator().manual_seed(each)) for each in range(ranks)]
mean = sum(one.double() for one in given) / ranks
times, reports, error, right = [], [], 0.0, True
dist.barrier()
for delay in delays:
    time.sleep((compute_ms + (delay if rank == ranks - 1 else 0)) / 1e3)
    tensor = given[rank].clone()
    begin = time.monotonic()
    if how in ("gloo", "exact"):
        dist.all_reduce(tensor)
        times.append(1e3 * (time.monotonic() - begin))
        right = right and bool((tensor / ranks - mean).abs().max() < 1e-4)
    else:
        dist.group.WORLD.bounded_allreduce(tensor, how, told=reports.append).wait()
        times.append(1e3 * (time.monotonic() - begin))
        error += float(((tensor - mean) ** 2).mean()) / len(delays)
dist.barrier()
mine = torch.tensor(times)
every = [torch.empty_like(mine) for _ in range(ranks)]
dist.all_gather(every, mine)
if rank == 0:
    told = {"times_ms": [round(each, 3) for each in torch.cat(every).tolist()], "right": right}
    if reports:
        told.update(mse=error, arrived=sum(one.arrived for one in reports) / sum(one.expected for one in reports),
                    late=sum(one.late > 0 for one in reports) / len(reports))
    print(json.dumps(told), flush=True)
dist.barrier()
dist.destroy_process_group()
