# SPDX-License-Identifier: BSD-3-Clause
"""A small transformer over bytes, text for it that any machine has, and the training loop of one rank."""
import datetime
import glob
import hashlib
import itertools
import math
import os
import random
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

SIZES = {"small": (256, 4, 4, 128, 16), "tiny": (32, 1, 2, 16, 4)}  # width, layers, heads, context, sequences a rank
TEXT_BYTES = 4 << 20
HELD_OUT = 1 << 16  # bytes at the end of the text that nobody trains on
RATE = 1e-3
WARM_UP_STEPS = 20
# Steps that a rank may do before it hears that the run ends.
AHEAD = 6
EVALUATIONS = 8  # batches of the held-out text


def text():
    """Licences and Python's own sources, in the order of their names: bytes, and their hash."""
    names = sorted(glob.glob("/usr/share/common-licenses/*")) + sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))
    whole, left = [], TEXT_BYTES
    for name in names:
        if os.path.isfile(name) and not os.path.islink(name) and left > 0:
            with open(name, "rb") as file:
                whole.append(file.read(left))
            left -= len(whole[-1])
    whole = b"".join(whole)
    return whole, hashlib.sha256(whole).hexdigest()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.mix(self.before(x)).chunk(3, -1))
        # Written out: fused kernels need not add in the same order in every run.
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width // self.heads) + mask, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.after(x))))


class Transformer(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, layers, heads, self.context, _ = SIZES[size]
        self.bytes, self.places = nn.Embedding(256, width), nn.Parameter(torch.randn(self.context, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)
        self.register_buffer("mask", torch.full((self.context, self.context), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        x = self.bytes(x) + self.places
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


def loss_of(model, batch):
    return functional.cross_entropy(model(batch[:, :-1]).reshape(-1, 256), batch[:, 1:].reshape(-1))


def batch_of(data, model_size, generator):
    _, _, _, context, sequences = SIZES[model_size]
    starts = torch.randint(0, len(data) - context - 1, (sequences,), generator=generator)
    return torch.stack([data[start:start + context + 1] for start in starts.tolist()]).long()


def evaluate(model, held_out, size, device):
    """Loss on held-out text: always the same batches."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        found = [loss_of(model, batch_of(held_out, size, generator).to(device)).item() for _ in range(EVALUATIONS)]
    return sum(found) / len(found)


class Wrapped:
    """How gradients are reduced: DDP with its backend, DDP with a hook of godwit.hooks, or FSDP."""

    def __init__(self, way, model, device):
        self.state = None
        if way.get("fsdp"):
            from torch.distributed.fsdp import FullyShardedDataParallel
            self.model = FullyShardedDataParallel(model, device_id=torch.cuda.current_device() if device == "cuda" else None)
            return
        self.model = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
        if way.get("hook"):
            import godwit.hooks
            self.state = godwit.hooks.BoundedState(**way.get("hook_settings", {}))
            self.model.register_comm_hook(self.state, getattr(godwit.hooks, way["hook"]))


def digest(tensors):
    whole = hashlib.sha256()
    for tensor in tensors:
        whole.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return whole.hexdigest()


def parts_ms(reports):
    """What bounded operations took: bytes that an operation expects, which tell buckets apart -> how many there were, and medians of the
    time until the plan, of stage 1 and of the whole."""
    buckets = {}
    for report in reports:
        buckets.setdefault(report.expected, []).append(report)
    return {str(size): {"operations": len(those), "plan": 1e3 * statistics.median(one.waited for one in those),
                        "stage_1": 1e3 * statistics.median(one.gathered for one in those),
                        "whole": 1e3 * statistics.median(one.elapsed for one in those)} for size, those in sorted(buckets.items())}


def join(way, rank, together):
    """Opens the process group of a rank."""
    if way["backend"] == "godwit":
        sys.path.insert(0, way["package"])
        import godwit.torch  # registers the backend
        godwit.torch.configure(**way.get("communicator", {}))
    timeout = datetime.timedelta(seconds=120)
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), together.size, rank == 0, timeout)
    dist.init_process_group(way["backend"], store=store, rank=rank, world_size=together.size, timeout=timeout)


def trainer(way, size, steps, seed, seconds, together, straggler=None):
    """The job of a rank: losses and times of each step, and what the model came to. `way`: backend, hook, fsdp."""
    def job(rank):
        device = "cuda" if way["device"] == "cuda" else "cpu"
        # The same sums in every run, so that exact transports give the same losses, bit by bit.
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True, warn_only=True)
        if device == "cuda":
            torch.cuda.set_device(0)
        join(way, rank, together)
        whole, _ = text()
        data = torch.frombuffer(bytearray(whole), dtype=torch.uint8)
        train, held_out = data[:-HELD_OUT], data[-HELD_OUT:]
        torch.manual_seed(seed)
        inner = Transformer(size).to(device)
        wrapped = Wrapped(way, inner, device)
        model = wrapped.model
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP_STEPS))
        generator = torch.Generator().manual_seed(1000 * seed + rank)
        lateness = straggler.times(random.Random(seed)) if straggler else itertools.repeat(0.0)
        losses, ends = [], []
        together.set_steps(steps)
        together.barrier(rank)
        begun = time.perf_counter()
        step, ending = 0, False
        while step < together.steps():
            batch = batch_of(train, size, generator).to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model, batch)
            late = next(lateness)
            if straggler and straggler.rank == rank:
                time.sleep(late)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())  # waits for the GPU
            ends.append(time.perf_counter() - begun)
            step += 1
            together.beat(rank)
            # Rank 0 ends the run early, once.
            if rank == 0 and ends[-1] > seconds and not ending:
                ending = True
                # Others may be many steps ahead. Each had one beat before the first.
                together.set_steps(min(steps, together.most_beats() - 1 + AHEAD))
        result = {"losses": [loss.hex() for loss in losses], "ends_s": ends, "bytes": sum(p.numel() * 4 for p in inner.parameters())}
        if wrapped.state:
            result["missing"] = wrapped.state.missing_share
            result["parts_ms"] = parts_ms(wrapped.state.reports)
        if not way.get("fsdp"):
            result["digest"] = digest(inner.parameters())
            result["held_out"] = evaluate(inner, held_out, size, device)
        together.barrier(rank)
        dist.destroy_process_group()
        result["about"] = {"torch": torch.__version__, "untuned": os.environ["GPU_UNTUNED"]}
        if device == "cuda":
            result["about"].update(gpu=torch.cuda.get_device_name(0), nccl=".".join(map(str, torch.cuda.nccl.version())))
        return result
    return job
