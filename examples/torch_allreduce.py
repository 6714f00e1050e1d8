#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks an all_reduce of PyTorch, by NCCL if there is a GPU and else by Gloo: torchrun --nproc-per-node 2 torch_allreduce.py

Every rank is a host of its own for NCCL, so that data goes through the network also between ranks that share one. Ranks may share a
GPU.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

COUNT, TIMES = 1 << 22, 20


def main():
    gpus = torch.cuda.device_count()
    os.environ.setdefault("NCCL_HOSTID", f"host{os.environ['RANK']}")
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % gpus)
    dist.init_process_group("nccl" if gpus else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    values = torch.arange(COUNT, dtype=torch.float32, device="cuda" if gpus else "cpu") % 1000
    right = True
    begin = None
    for _ in range(TIMES):
        mine = values * (rank + 1)
        dist.all_reduce(mine)
        right = right and torch.equal(mine, values * (ranks * (ranks + 1) // 2))
        begin = begin or time.monotonic()  # the first one sets connections up
    each = (time.monotonic() - begin) / (TIMES - 1)
    if rank == 0:
        print(f"{ranks} ranks, {COUNT * 4 >> 20} MiB: {'the sum is right' if right else 'THE SUM IS WRONG'}, {each * 1e3:.1f} ms", flush=True)
    dist.destroy_process_group()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
