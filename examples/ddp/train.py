"""train.py - a small data-parallel job on the CPU (torch, Gloo), recorded by hindmost_probe; one rank may be slow, and the job stamps
what it did by itself, so that a recording can be held against it.

    for r in 0 1 2; do RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29511 GLOO_SOCKET_IFNAME=lo python3 train.py --slow 1:3 & done; wait

Own work is slept inside autograd functions, so that many ranks fit a few cores.
"""

import argparse
import hashlib
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "probe"))

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hindmost_probe as probe

spent = {"forward": 0.0, "backward": 0.0}


def work(phase, seconds):
    begin = time.monotonic()
    time.sleep(seconds)
    spent[phase] += time.monotonic() - begin


class Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        work("forward", seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        work("backward", 2 * ctx.seconds)
        return gradient, None


class Block(torch.nn.Module):
    def __init__(self, width, seconds):
        super().__init__()
        self.linear, self.seconds = torch.nn.Linear(width, width), seconds

    def forward(self, x):
        return torch.relu(self.linear(Work.apply(x, self.seconds)))


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--seconds", type=float, default=0.004, help="own work of a block's forward; its backward takes twice that")
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--blocks", type=int, default=3)
    p.add_argument("--slow", default="", help="RANK:FACTOR")
    p.add_argument("--probe", choices=("on", "off", "alternate", "hook", "detach"), default="on",
                   help="alternate: every other step without; hook: with a communication hook of our own; detach: half way")  # fmt: skip
    p.add_argument("--truth", default="", help="a file for rank,step,phase,seconds as the job stamps them")
    return p.parse_args()


def own_hook(state, bucket):
    state.append(bucket.index())
    tensor = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0])


def main():
    a = arguments()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    slow, _, factor = a.slow.partition(":")
    seconds = a.seconds * (float(factor) if slow and int(slow) == rank else 1.0)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = DistributedDataParallel(torch.nn.Sequential(*[Block(a.width, seconds) for _ in range(a.blocks)]), bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(a.steps * 8, a.width, generator=torch.Generator().manual_seed(100 + rank))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=8)
    seen = []
    attached = None
    if a.probe != "off":
        attached = probe.attach(model, optimizer, loader, comm_hook=(seen, own_hook) if a.probe == "hook" else None)
    truth, took = [], []
    for step, (x,) in enumerate(loader):
        if a.probe == "alternate":
            attached.active = step % 2 == 0
        if a.probe == "detach" and step == a.steps // 2:
            probe.detach()
        spent.update(forward=0.0, backward=0.0)
        begin = time.monotonic()
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        took.append(time.monotonic() - begin)
        truth += ["%d,%d,%s,%.9f" % (rank, step, phase, s) for phase, s in spent.items()]
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]
    if a.truth:
        with open("%s.%d" % (a.truth, rank), "w") as f:
            f.write("\n".join(truth) + "\n")
    if rank == 0:
        print("parameters %s, own hook called %d times" % (digest, len(seen)))
        if a.probe == "alternate":
            print("steps " + " ".join("%.6f" % s for s in took))
    dist.barrier()
    dist.destroy_process_group()


main()
