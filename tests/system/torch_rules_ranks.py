# SPDX-License-Identifier: BSD-3-Clause
"""What the processes of torch_test.py do to try what godwit.torch promises beside results: one function a role, run as
`torch_rules_ranks.py ROLE [ARGUMENT...]`."""
import json
import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

import godwit.torch
from torch_ranks import gather_into, raises, scatter_tensor


def in_group(*roles):
    """Roles that share a group, since it takes a second to load PyTorch."""
    dist.init_process_group("godwit")
    for role in roles:
        globals()[role]()
    dist.destroy_process_group()
    print(*roles)


def kinds():
    """Tensors that do not fit each other are refused before anything is posted, and no memory beside them is written."""
    n = dist.get_world_size()
    pool = torch.zeros(64 * n, dtype=torch.float16)
    raises(lambda: gather_into(pool[:2 * n], torch.ones(2)), "allgather from a tensor of torch.float32 into one of torch.float16")
    raises(lambda: scatter_tensor(pool[:2], torch.ones(2 * n)), "reduce_scatter from a tensor of torch.float32 into one of torch.float16")
    # PyTorch refuses these in some releases itself, in its own words.
    group = dist.group.WORLD
    raises(lambda: group.alltoall_base(pool[:n], torch.ones(n), [], []), "alltoall from a tensor of torch.float32 into one of torch.float16")
    for action in (lambda: group.alltoall_base(pool[:n], torch.ones(n), [1] * n, [1] * n), lambda: group.allgather([[pool[:2]] * n], [torch.ones(2)]),
                   lambda: group.reduce_scatter([pool[:2]], [[torch.ones(2)] * n])):
        raises(action, "not of torch.float16 and torch.float32")
    raises(lambda: gather_into(torch.zeros(2 * n), torch.ones(3)), "3 elements into")
    raises(lambda: dist.all_reduce(torch.eye(3).to_sparse()), "sparse")
    raises(lambda: godwit.torch.configure(service=False), "nothing else completes its futures", ValueError)
    raises(lambda: dist.all_reduce(torch.ones(1), dist.ReduceOp.PRODUCT), "reduction PRODUCT is not supported")
    # All ranks are told of sizes that do not fit each other, also ranks that are not concerned.
    r, last = dist.get_rank(), n - 1
    for more in (1, -1):
        given, taken = [2] * n, [2] * n
        if r == last:
            given[0] += more
        raises(lambda: dist.all_to_all_single(torch.empty(sum(taken)), torch.empty(sum(given)), taken, given),
               f"rank {last} sends {2 + more} elements where rank 0 expects 2")
    raises(lambda: dist.all_to_all([torch.empty(1 + (r == 0))] * n, [torch.empty(1)] * n), "rank 0 sends 1 elements where rank 0 expects 2")
    assert not pool.any(), pool
    dist.all_reduce(x := torch.ones(2))
    assert (x == n).all()


def modes():
    """Tensors that are not contiguous get their result in the mode of the caller: parameters under no_grad(), and inference."""
    r, n = dist.get_rank(), dist.get_world_size()
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(r)
            dist.broadcast(parameter, n - 1)
            assert (parameter == n - 1).all() and parameter.requires_grad and parameter.is_leaf
        parts = [nn.Parameter(torch.zeros(2)) for _ in range(n)]
        dist.all_gather(parts, torch.full((2,), float(r)))
        assert [int(part[1]) for part in parts] == list(range(n))
    with torch.inference_mode():
        dist.all_reduce(x := torch.ones(2, 3).t())
        assert (x == n).all() and x.is_inference()
    x = torch.full((2,), 1 + 1j * (r + 1)).conj()
    dist.broadcast(x, 0)
    assert (x == 1 - 1j).all(), x


def callbacks():
    """Callbacks of futures may post operations and wait for them, to any depth."""
    n = dist.get_world_size()

    def deeper(depth):
        def callback(future):
            x = future.value()[0]
            return dist.all_reduce(x, async_op=True).get_future().then(deeper(depth - 1)).wait() if depth else x
        return callback

    future = dist.all_reduce(torch.ones(1000), async_op=True).get_future().then(deeper(5))
    assert future.wait()[0] == n ** 6, future.wait()
    dist.all_reduce(x := torch.ones(1), async_op=True).get_future().then(lambda f: dist.all_reduce(f.value()[0])).wait()
    assert x == n ** 2
    # Futures of many operations are completed, also if they have ended before somebody asks.
    works = [dist.all_reduce(torch.full((10,), 1.0), async_op=True) for _ in range(200)]
    futures = [work.get_future().then(lambda f: float(f.value()[0][0])) for work in works]
    assert [future.wait() for future in futures] == [n] * 200
    threads = sum(thread.name == "godwit-complete" for thread in threading.enumerate())
    assert threads <= 20, threads
    works[0].wait()
    assert works[0].get_future().done() and works[0].is_success() and works[0].result()[0][0] == n
    model = nn.parallel.DistributedDataParallel(nn.Linear(100, 100))
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for i in range(5):
        model.zero_grad()
        model(torch.ones(4, 100) * (i + dist.get_rank())).pow(2).mean().backward()
    grads = [torch.zeros(100, 100) for _ in range(n)]
    dist.all_gather(grads, model.module.weight.grad)
    assert all(torch.equal(grad, grads[0]) for grad in grads) and grads[0].any()


def timeouts():
    """The timeout of a wait, and that of the process group, which futures know as well."""
    dist.init_process_group("godwit", timeout=timedelta(seconds=3))
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(2), async_op=True)
        raises(lambda: work.wait(timedelta(seconds=0.2)), "allreduce has not ended in 0.2 s. allreduce number 0")
        store.set("first", "over")
        work.wait()
        start = time.monotonic()
        future = dist.all_reduce(torch.ones(2), async_op=True).get_future()
        raises(future.wait, "the timeout of the process group. allreduce number")
        assert 2.5 < time.monotonic() - start < 10
        store.set("second", "over")
    else:
        store.get("first")
        dist.all_reduce(torch.ones(2))
        store.wait(["second"], timedelta(seconds=20))
        raises(lambda: dist.all_reduce(torch.ones(2)), "rank 0 aborted: allreduce has not ended in 3 s, the timeout of the process group")
    print("timeouts", flush=True)


def groups():
    """Groups that live until the end of the program, which the collector of garbage finds in another order on each rank."""
    dist.init_process_group("godwit")
    made = [dist.new_group() for _ in range(6)]
    for group in made:
        dist.all_reduce(torch.ones(1), group=group)
    made = made if dist.get_rank() else made[::-1]
    dist.destroy_process_group()
    print("groups", time.time(), flush=True)


def unfinished():
    """A program that ends while callbacks of its futures run, and others have not begun."""
    dist.init_process_group("godwit")

    def callback(future):
        time.sleep(0.05)
        # At once, since callbacks run beside each other.
        os.write(1, b"callback\n")
        return future.value()

    for _ in range(4):
        dist.all_reduce(torch.ones(1000), async_op=True).get_future().then(callback)


def loopback():
    """On rank 0 its own name stands for an address of the loopback, as in Debian's /etc/hosts; the other rank is on another host."""
    if os.environ["RANK"] == "0":
        os.environ["MASTER_ADDR"] = "127.0.1.1"
    dist.init_process_group("godwit", timeout=timedelta(seconds=20))
    dist.all_reduce(x := torch.ones(1))
    print(json.dumps(x.tolist()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
