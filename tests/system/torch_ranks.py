# SPDX-License-Identifier: BSD-3-Clause
"""What the processes of torch_test.py do: one function a role, run as `torch_ranks.py ROLE [ARGUMENT...]`."""
import json
import os
import signal
import sys
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

import godwit.hadamard
import godwit.hooks
import godwit.torch

# PyTorch 1.13 calls the functions on whole tensors by private names.
gather_into = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
scatter_tensor = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
DEVICE = os.environ.get("TORCH_DEVICE", "cpu")
warnings.simplefilter("ignore")


def tensor(*arguments, **more):
    return torch.full(*arguments, device=DEVICE, **more)


def raises(action, words, kind=RuntimeError):
    try:
        action()
    except kind as error:
        assert words in str(error), f"{words!r} is not in {error!r}"
        return
    raise AssertionError(f"no error ({words})")


def operations(store_file=""):
    """Every operation, against what it must give. With a file the ranks meet through it, and no environment names a host."""
    if store_file:
        rank, size = int(os.environ.pop("RANK")), int(os.environ.pop("WORLD_SIZE"))
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name)
        dist.init_process_group("godwit", init_method=f"file://{store_file}", rank=rank, world_size=size)
    else:
        dist.init_process_group("godwit")
    r, n = dist.get_rank(), dist.get_world_size()
    total = n * (n - 1) / 2
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64):
        for op, wanted in ((dist.ReduceOp.SUM, total), (dist.ReduceOp.MIN, 0), (dist.ReduceOp.MAX, n - 1), (dist.ReduceOp.AVG, total / n)):
            if op != dist.ReduceOp.AVG or dtype.is_floating_point:
                x = tensor((7,), r, dtype=dtype)
                dist.all_reduce(x, op)
                assert (x == wanted).all(), (dtype, op, x, wanted)
    x = (torch.arange(6, dtype=torch.float32, device=DEVICE).view(2, 3).t() + r)
    dist.all_reduce(x)  # not contiguous
    assert (x.cpu() == torch.arange(6.).view(2, 3).t() * n + total).all(), x
    x = tensor((3,), r > 0, dtype=torch.bool)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert x.all() == (n > 1)
    dist.broadcast(x := tensor((3, 2), r, dtype=torch.complex64), n - 1)
    assert (x == n - 1).all()
    dist.reduce(x := tensor((3,), float(r)), 0)
    assert (x == (total if r == 0 else r)).all()
    outs = [tensor((2, 2), -1.0) for _ in range(n)]
    dist.all_gather(outs, tensor((2, 2), float(r)))
    assert all((x == i).all() for i, x in enumerate(outs))
    gather_into(x := tensor((n * 3,), 0.0), tensor((3,), float(r)))
    assert x.view(n, 3)[:, 1].tolist() == list(range(n))
    scatter_tensor(x := tensor((2,), 0.0), torch.arange(2. * n, device=DEVICE))
    assert x.tolist() == [n * 2 * r, n * (2 * r + 1)]
    dist.reduce_scatter(x := tensor((2,), 0.0), [tensor((2,), float(i)) for i in range(n)])
    assert (x == n * r).all()
    dist.all_to_all_single(x := tensor((n,), 0), torch.arange(n, device=DEVICE) + 10 * r)
    assert x.tolist() == [10 * i + r for i in range(n)]
    dist.all_to_all_single(x := tensor((n * (n + 1) // 2,), 0), tensor((n * (r + 1),), r),
                           list(range(1, n + 1)), [r + 1] * n)
    assert x.tolist() == [i for i in range(n) for _ in range(i + 1)], x
    dist.all_to_all(outs := [tensor((i + 1,), 0.0) for i in range(n)], [tensor((r + 1,), r * 10. + i) for i in range(n)])
    assert all((x == i * 10 + r).all() for i, x in enumerate(outs)), outs
    works = [dist.all_reduce(tensor((1000 * i,), float(r)), async_op=True) for i in range(20)]
    for i, work in enumerate(works):
        work.wait()
        assert work.is_completed()
    told = []
    work = dist.all_reduce(x := tensor((1000,), 1.0), async_op=True)
    future = work.get_future().then(lambda f: told.append(float(f.value()[0][0])))
    future.wait()
    assert told == [n], told
    objects = [None] * n
    if DEVICE == "cpu":
        dist.all_gather_object(objects, {"rank": r})
        assert [value["rank"] for value in objects] == list(range(n))
        dist.gather_object({"rank": r}, objects if r == n - 1 else None, n - 1)
        assert [value["rank"] for value in objects] == list(range(n))
        dist.broadcast_object_list(objects := [f"of {r}", r], n - 1)
        assert objects == [f"of {n - 1}", n - 1]
        dist.scatter_object_list(objects := [None], [{"for": i} for i in range(n)] if r == 0 else None, 0)
        assert objects == [{"for": r}], objects
    for root in range(n):
        outs = [tensor((2, 2), -1.0) for _ in range(n)]
        dist.gather(tensor((2, 2), float(r)), outs if r == root else None, root)
        assert all((x == (i if r == root else -1)).all() for i, x in enumerate(outs)), outs
        dist.scatter(x := tensor((3,), -1.0), [tensor((3,), 10. * root + i) for i in range(n)] if r == root else None, root)
        assert (x == 10 * root + r).all(), x
    dist.barrier()
    if n > 1:
        raises(lambda: dist.send(x, (r + 1) % n), "point-to-point calls are not supported")
        raises(lambda: dist.recv(x, (r + 1) % n), "point-to-point calls are not supported")
    raises(lambda: dist.all_reduce(x, dist.ReduceOp.PRODUCT), "SUM, AVG, MIN and MAX")
    raises(lambda: dist.all_reduce(x.bool()), "cannot be reduced")
    raises(lambda: dist.all_gather(outs[:1] + [tensor((99,), 0.0)] * n, outs[0]), "takes")
    if n > 2:
        group = dist.new_group([0, n - 1])
        if r in (0, n - 1):
            dist.all_reduce(x := tensor((1,), r), group=group)
            assert x == n - 1
        # Rank 0 has PyTorch's store, which the rank outside of the group may still ask whether all have made it.
        dist.barrier()
    dist.destroy_process_group()
    print(f"operations {n}")


def others():
    """A group with another backend for the tensors of the CPU, asked for in the way of PyTorch 2: the other one does the work."""
    dist.init_process_group("godwit")
    r, n = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("others", dist.distributed_c10d._get_default_store())

    class Config:
        def get_device_backend_map(self):
            return {"cpu": "gloo", "cuda": "godwit"}

    def _new_process_group_helper():
        backend_config = Config()
        return godwit.torch._create(store, r, n, timedelta(seconds=60)), backend_config

    group, _ = _new_process_group_helper()
    group.communicator.close()
    group.allreduce([x := torch.ones(3)]).wait()
    assert (x == n).all()
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = n - 1, 0
    group.broadcast([x := torch.full((3,), r)], options).wait()
    assert (x == n - 1).all()
    group.allgather([outs := [torch.zeros(2) for _ in range(n)]], [torch.full((2,), float(r))]).wait()
    assert [int(x[0]) for x in outs] == list(range(n))
    group.alltoall_base(x := torch.zeros(n, dtype=torch.long), torch.arange(n) + 10 * r, [], []).wait()
    assert x.tolist() == [10 * i + r for i in range(n)]
    raises(lambda: group.barrier().wait(), "closed")
    told = []

    class Old:
        _shutdown = staticmethod(lambda: told.append("old"))

    class New:
        shutdown = staticmethod(lambda: told.append("new"))

    group._others = {"cpu": Old, "cuda": New, "meta": object()}
    group.shutdown()
    assert sorted(told) == ["new", "old"], told
    print("others")


def mixed():
    """PyTorch 2 and a GPU: tensors of the CPU go by Godwit and those of the GPU by NCCL, in one group."""
    dist.init_process_group("cpu:godwit,cuda:nccl")
    r, n = dist.get_rank(), dist.get_world_size()
    for device in ("cpu", "cuda", "cpu"):
        for count in (1, 1000, 300001):
            dist.all_reduce(x := torch.full((count,), float(r + 1), device=device))
            assert (x == n * (n + 1) / 2).all(), (device, count, x)
            gather_into(x := torch.empty(n * count, device=device), torch.full((count,), float(r), device=device))
            assert x.view(n, count)[:, 0].tolist() == list(range(n)), (device, count, x)
    print(f"mixed {n}", flush=True)
    dist.destroy_process_group()


def losses(backend, steps, fixed=""):
    """Losses of a small model that DDP trains, every bit of them."""
    if fixed:
        godwit.torch.configure(fixed_order=True)
    dist.init_process_group(backend)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(), nn.Linear(200, 1)).to(DEVICE)
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    generator, told = torch.Generator().manual_seed(dist.get_rank()), []
    for _ in range(int(steps)):
        x = torch.randn(16, 20, generator=generator).to(DEVICE)
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        told.append(loss.item().hex())
    digest = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]).double().sum().item().hex()
    print(json.dumps([told, digest]), flush=True)
    dist.destroy_process_group()


def hooks(how, steps):
    """Loss of a small model after training by DDP with a hook, its digest, and what the hook tells of lost data."""
    dist.init_process_group("godwit")
    r = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1)).to(DEVICE)
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.2)
    state = None
    if how == "exact":
        model.register_comm_hook(None, godwit.hooks.exact_hook)
    else:
        recovery, _, device = how.partition("-")
        state = godwit.hooks.BoundedState(recovery=recovery, exact_steps=2, on_device=True if device else None)
        model.register_comm_hook(state, godwit.hooks.bounded_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    generator, late = torch.Generator().manual_seed(r), []
    for step in range(int(steps)):
        x = torch.randn(32, 20, generator=generator).to(DEVICE)
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        if step >= int(steps) * 3 // 4:
            late.append(loss.item())
    same = godwit.hooks.digest(model).hex()
    assert godwit.hooks.compare_replicas(model) == []
    wrong = dist.get_world_size() - 1
    if r == wrong:
        with torch.no_grad():
            next(model.parameters()).view(-1)[0] += 1e-3
    assert godwit.hooks.compare_replicas(model) == [wrong]
    assert godwit.hooks.resynchronise(model) == [wrong]
    assert godwit.hooks.digest(model).hex() == same
    told = {"loss": sum(late) / len(late), "digest": same}
    if state:
        assert state.reports and state.diverged == 0, state
        told.update(missing=state.missing_share, short=state.short, steps=state.steps)
    print(json.dumps(told), flush=True)
    dist.destroy_process_group()


def sharded(steps):
    """What FSDP does, by its calls: each rank keeps a shard of each layer's parameters, gathers a layer when it is needed, the next one
    while it computes, and scatters the reduced gradients of a layer while it computes those of the one before. Against replicas that
    are trained with all_reduce: in the fixed order, every bit is the same."""
    godwit.torch.configure(fixed_order=True)
    dist.init_process_group("godwit")
    r, n = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [torch.randn(width, 120) / 11 for width in (121, 121, 121)]
    padded = [-(-layer.numel() // n) * n for layer in layers]
    flat = [torch.cat([layer.reshape(-1), torch.zeros(size - layer.numel())]) for layer, size in zip(layers, padded)]
    shards = [whole.view(n, -1)[r].clone() for whole in flat]
    generator = torch.Generator().manual_seed(r)

    def forward(x, weights):
        for weight in weights:
            x = torch.tanh(torch.cat([x, torch.ones(len(x), 1)], 1) @ weight)
        return ((x - 0.1) ** 2).mean()

    told = []
    for _ in range(int(steps)):
        x = torch.randn(8, 120, generator=generator)
        # sharded
        wholes = [torch.empty(size) for size in padded]
        works = [gather_into(whole, shard, async_op=True) for whole, shard in zip(wholes, shards)]
        weights, at = [], x
        for work, whole, layer in zip(works, wholes, layers):
            work.wait()
            weights.append(whole[:layer.numel()].view(layer.shape).detach().requires_grad_())
        loss = forward(at, weights)
        grads = torch.autograd.grad(loss, weights)
        pieces, works = [], []
        for grad, shard in reversed(list(zip(grads, shards))):
            pieces.append(torch.empty_like(shard))
            given = torch.cat([grad.reshape(-1), torch.zeros(shard.numel() * n - grad.numel())])
            works.append(scatter_tensor(pieces[-1], given, dist.ReduceOp.AVG, async_op=True))
        for work, piece, shard in zip(works, pieces, reversed(shards)):
            work.wait()
            shard -= 0.5 * piece
        # replicated
        copies = [layer.detach().requires_grad_() for layer in layers]
        same = forward(x, copies)
        assert same.item() == loss.item(), (same, loss)
        for layer, grad in zip(layers, torch.autograd.grad(same, copies)):
            dist.all_reduce(grad, dist.ReduceOp.AVG)
            layer -= 0.5 * grad
        told.append(loss.item())
    assert told[-1] < told[0], told
    print(json.dumps([loss.hex() for loss in told]), flush=True)
    dist.destroy_process_group()


def transform():
    """The transform of godwit.hadamard, and that a bounded mean which uses it is the mean that the library computes."""
    block = godwit.hadamard.BLOCK
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < block:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    torch.manual_seed(3)
    x = torch.randn(2 * block + 100)
    whole = torch.cat([x, torch.zeros(3 * block - len(x))]).double().view(3, block)
    signs = godwit.hadamard.signs(3 * block, 7, torch.device("cpu")).double().view(3, block)
    wanted = ((whole * signs) @ matrix / block ** 0.5).reshape(-1)
    coefficients = godwit.hadamard.encode(x, 7)
    assert (coefficients.double() - wanted).abs().max() < 1e-5
    assert (godwit.hadamard.decode(coefficients, 7)[:len(x)] - x).abs().max() < 1e-5
    # A large number is spread over its block alone, and signs depend on block and seed, and are even.
    alone = godwit.hadamard.encode(torch.eye(1, block).reshape(-1).repeat(2) * torch.arange(2).repeat_interleave(block), 7)
    assert not alone[:block].any() and (alone[block:].abs() == 1 / 64).all()
    assert abs(signs.mean()) < 0.04 and abs((signs[0] * signs[1]).mean()) < 0.07
    assert abs((signs.reshape(-1) * godwit.hadamard.signs(3 * block, 8, torch.device("cpu"))).mean()) < 0.04

    dist.init_process_group("godwit")
    r, n = dist.get_rank(), dist.get_world_size()
    for count, kind, near in ((1, torch.float32, 1e-5), (4096, torch.float32, 1e-5), (100003, torch.float32, 1e-5), (5000, torch.bfloat16, 0.05)):
        every = [torch.randn(count, generator=torch.Generator().manual_seed(10 * rank)).to(kind) for rank in range(n)]
        mean = sum(one.float() for one in every) / n
        results, reports = [], []
        for on_device in (True, False):
            tensor = every[r].clone().to(DEVICE)
            dist.group.WORLD.bounded_allreduce(tensor, "hadamard", 10, told=reports.append, on_device=on_device).wait()
            results.append(tensor.float().cpu())
        assert all((one - mean).abs().max() < near for one in results), (count, kind)
        # What travelled were blocks of coefficients: a bucket of any size is padded to whole ones.
        assert reports[0].expected == -(-count // block) * block * (n - 1) * every[r].element_size(), (count, reports[0])
        assert all(one.arrived == one.expected for one in reports)
        same = [torch.empty_like(results[0]) for _ in range(n)]
        dist.all_gather(same, results[0])
        assert all(torch.equal(one, same[0]) for one in same), "ranks differ"
    print("transform", flush=True)
    dist.destroy_process_group()


def orders(backend, elements, fixed=""):
    """Sums of numbers whose sum depends on the order, and whether they are those of the order 0, 1, 2 and so on."""
    if fixed:
        godwit.torch.configure(fixed_order=True)
    dist.init_process_group(backend)
    r, n = dist.get_rank(), dist.get_world_size()
    given = [torch.randn(int(elements), generator=torch.Generator().manual_seed(i)) for i in range(n)]
    wanted = given[0].clone()
    for other in given[1:]:
        wanted += other
    mine = given[r].clone()
    dist.all_reduce(mine)
    assert torch.allclose(mine, wanted, atol=1e-5)
    print(json.dumps([bool(torch.equal(mine, wanted)), mine.double().sum().item().hex()]), flush=True)
    dist.destroy_process_group()


def death(how):
    """A rank is killed while DDP's backward pass, or a plain call, waits for it."""
    godwit.torch.configure(peer_timeout=3)
    dist.init_process_group("godwit")
    model = nn.parallel.DistributedDataParallel(nn.Linear(100, 100))
    for step in range(10):
        if step == 3 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        start = time.monotonic()
        try:
            if how == "plain":
                dist.all_reduce(torch.ones(100))
            else:
                model(torch.ones(1, 100)).sum().backward()
        except RuntimeError as error:
            # Rank 1 dies when it has its own result of step 2, which others may still wait for.
            assert "rank 1" in str(error) and step in (2, 3) and time.monotonic() - start < 10, (step, error)
            print("told:", error)
            return


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
