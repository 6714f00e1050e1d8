# SPDX-License-Identifier: BSD-3-Clause
"""The transformer of model.py split over ranks: each has a part of the heads and of the hidden units, and activations are summed
among the ranks twice a layer. One rank alone trains it; then requests are answered by all."""
import math
import os
import time

import torch
import torch.distributed as dist
from torch.nn import functional

from gpu import model as models

BATCH = 8  # sequences in a request
WARM_UP = 3  # rounds of requests
PROMPTS = 8  # requests in a round, of which the last one is answered to the end: first tokens are what percentiles are needed of


class Part:
    """One rank's part of a trained transformer. `reduce` sums a tensor among the ranks, in place."""

    def __init__(self, whole, rank, ranks, reduce):
        self.whole, self.reduce, self.ranks = whole, reduce, ranks
        self.blocks = []
        for block in whole.blocks:
            width = block.out.weight.shape[0]
            heads, wide = block.heads // ranks, width // ranks
            mine, hidden = slice(rank * wide, (rank + 1) * wide), slice(rank * 4 * wide, (rank + 1) * 4 * wide)
            mix = [(block.mix.weight[at * width:(at + 1) * width][mine], block.mix.bias[at * width:(at + 1) * width][mine]) for at in range(3)]
            self.blocks.append((block, heads, mix, block.out.weight[:, mine], (block.up.weight[hidden], block.up.bias[hidden]),
                                block.down.weight[:, hidden]))

    def forward(self, x, past, start):
        """Logits of the bytes `x`, which stand at `start`; `past` has keys and values of those before, by layer, and gets theirs."""
        length = x.shape[1]
        mask = self.whole.mask[start:start + length, :start + length]
        x = self.whole.bytes(x) + self.whole.places[start:start + length]
        for layer, (block, heads, mix, out, up, down) in enumerate(self.blocks):
            batch = x.shape[0]
            before = block.before(x)
            q, k, v = (functional.linear(before, weight, bias).view(batch, length, heads, -1).transpose(1, 2) for weight, bias in mix)
            if past[layer] is not None:
                k, v = torch.cat([past[layer][0], k], 2), torch.cat([past[layer][1], v], 2)
            past[layer] = (k, v)
            weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1)
            part = functional.linear((weights @ v).transpose(1, 2).reshape(batch, length, -1), out)
            x = x + self.reduce(part) + block.out.bias
            part = functional.linear(functional.gelu(functional.linear(block.after(x), *up)), down)
            x = x + self.reduce(part) + block.down.bias
        return self.whole.head(self.whole.norm(x))

    def nothing(self):
        return [None] * len(self.blocks)


def teacher(size, device, steps, path):
    """The job that trains the whole on one rank and writes its weights."""
    def job(_):
        if device == "cuda":
            torch.cuda.set_device(0)
        torch.manual_seed(1)
        text = torch.frombuffer(bytearray(models.text()[0]), dtype=torch.uint8)
        data, held_out = text[:-models.HELD_OUT], text[-models.HELD_OUT:]
        model = models.Transformer(size).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=models.RATE)
        generator, loss = torch.Generator().manual_seed(1), None
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = models.loss_of(model, models.batch_of(data, size, generator).to(device))
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), path)
        return {"loss": loss.item(), "held_out": models.evaluate(model, held_out, size, device)}
    return job


def reducer(way):
    """The sum of a tensor among the ranks, by the group's backend, or in bounded time by a method of godwit's, which is a mean."""
    if way.get("reduce"):
        reduce, ranks = getattr(dist.group.WORLD, way["reduce"]), dist.get_world_size()
        settings = way["hook_settings"]

        def bounded(tensor):
            reduce(tensor, **settings).wait()
            return tensor.mul_(ranks)
        return bounded

    def exact(tensor):
        dist.all_reduce(tensor)
        return tensor
    return exact


def server(way, size, path, tokens, seconds, together):
    """The job of a rank: answers requests for some seconds. A request is half a context of held-out bytes, and the answer is a byte, or of
    every PROMPTS-th request `tokens` bytes, the likeliest each. Then the loss on held-out text, through the same network."""
    def job(rank):
        device = way["device"]
        if device == "cuda":
            torch.cuda.set_device(0)
        models.join(way, rank, together)
        torch.manual_seed(1)
        whole = models.Transformer(size).to(device)
        whole.load_state_dict(torch.load(path, map_location=device))
        part = Part(whole, rank, together.size, reducer(way))
        wait = torch.cuda.synchronize if device == "cuda" else lambda: None
        held_out = torch.frombuffer(bytearray(models.text()[0]), dtype=torch.uint8)[-models.HELD_OUT:]
        half = whole.context // 2
        tokens_each = min(tokens, whole.context - half)
        generator = torch.Generator().manual_seed(2)
        firsts, nexts, rounds = [], [], 0
        with torch.no_grad():
            begun = time.monotonic()
            while True:
                over = rounds > WARM_UP and time.monotonic() - begun > seconds
                if together.barrier(rank, int(over) if rank == 0 else None):
                    break
                taken = []
                for _ in range(PROMPTS):
                    starts = torch.randint(0, len(held_out) - half, (BATCH,), generator=generator).tolist()
                    prompt = torch.stack([held_out[start:start + half] for start in starts]).long().to(device)
                    past, at = part.nothing(), time.perf_counter()
                    token = part.forward(prompt, past, 0)[:, -1:].argmax(-1)
                    wait()
                    taken.append(time.perf_counter() - at)
                    together.beat(rank)
                at = time.perf_counter()
                for more in range(tokens_each - 1):
                    token = part.forward(token, past, half + more)[:, -1:].argmax(-1)
                wait()
                if rounds >= WARM_UP:
                    firsts += taken
                    nexts.append((time.perf_counter() - at) / max(1, tokens_each - 1))
                rounds += 1
            generator = torch.Generator().manual_seed(1)
            losses = []
            for _ in range(models.EVALUATIONS):
                batch = models.batch_of(held_out, size, generator).to(device)
                logits = part.forward(batch[:, :-1], part.nothing(), 0)
                losses.append(functional.cross_entropy(logits.reshape(-1, 256), batch[:, 1:].reshape(-1)).item())
        together.barrier(rank)
        dist.destroy_process_group()
        about = {"torch": torch.__version__, "untuned": os.environ["GPU_UNTUNED"]}
        if device == "cuda":
            about.update(gpu=torch.cuda.get_device_name(0), nccl=".".join(map(str, torch.cuda.nccl.version())))
        return {"first_s": firsts, "next_s": nexts, "loss": sum(losses) / len(losses), "about": about}
    return job
