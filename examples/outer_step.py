#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""outer_step: two or more sites train one model and meet only every few steps (the pattern of DiLoCo).

    torchrun ... outer_step.py --backend godwit         or gloo, for comparison

Each site takes --inner steps of AdamW on data of its own. Then the sites average how far each has moved, and an outer
optimiser, SGD with Nesterov momentum, takes that as its gradient. Between two such meetings nothing crosses the network, so a
long and lossy path between the sites costs only what one all_reduce of the model costs there.

Rank 0 prints a JSON object: seconds of each outer step's all_reduce and of the inner steps before it, and the loss after each.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn


def parameters_as_vector(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def set_parameters(model, vector):
    at = 0
    for parameter in model.parameters():
        parameter.data.copy_(vector[at:at + parameter.numel()].view(parameter.shape))
        at += parameter.numel()


def batch(generator):
    x = torch.randn(32, 64, generator=generator)
    return x, torch.sin(x).sum(1, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="godwit")
    parser.add_argument("--inner", type=int, default=20)
    parser.add_argument("--outer", type=int, default=5)
    parser.add_argument("--width", type=int, default=960, help="of both hidden layers; the default makes a model of 4 MB")
    options = parser.parse_args()
    if options.backend == "godwit":
        import godwit.torch  # noqa: F401  registers the backend
    dist.init_process_group(options.backend)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, options.width), nn.GELU(), nn.Linear(options.width, options.width), nn.GELU(),
                          nn.Linear(options.width, 1))
    inner = torch.optim.AdamW(model.parameters(), 1e-3)
    agreed = nn.Parameter(parameters_as_vector(model))
    outer = torch.optim.SGD([agreed], 0.7, momentum=0.9, nesterov=True)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    told = {"backend": options.backend, "ranks": dist.get_world_size(), "bytes": 4 * agreed.numel(), "reduce_s": [],
            "inner_s": [], "loss": []}
    # The first all_reduce opens connections.
    dist.all_reduce(torch.zeros(1))
    for _ in range(options.outer):
        start = time.perf_counter()
        for _ in range(options.inner):
            x, y = batch(generator)
            loss = ((model(x) - y) ** 2).mean()
            inner.zero_grad()
            loss.backward()
            inner.step()
        agreed.grad = (agreed.detach() - parameters_as_vector(model)) / dist.get_world_size()
        told["inner_s"].append(time.perf_counter() - start)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(agreed.grad)
        told["reduce_s"].append(time.perf_counter() - start)
        outer.step()
        set_parameters(model, agreed.detach())
        told["loss"].append(loss.item())
    if dist.get_rank() == 0:
        print(json.dumps(told), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
