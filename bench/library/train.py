#!/usr/bin/python3
"""One rank of compare.py's training in PyTorch.

    bench/library/train.py MODE STEPS WIDTH [--tuned]

The twin of train.cc, on DistributedDataParallel over Gloo; started with RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT. Prints what train.cc prints. --tuned: 1 MB buckets, and gradients
that are views into them.
"""
import os
import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy"))
import arguments  # noqa: E402

MODES = ("plain", "no-sync", "unused", "uneven")


def parse():
    parser = arguments.Parser(__doc__)
    parser.add_argument("mode", metavar="MODE", choices=MODES)
    parser.add_argument("steps", metavar="STEPS", type=int)
    parser.add_argument("width", metavar="WIDTH", type=int)
    parser.add_argument("--tuned", action="store_true")
    return parser.parse_args()


OPTIONS = parse()  # before torch, which takes seconds to load

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.join import Join  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import compute  # noqa: E402
import rendezvous  # noqa: E402

BATCH = 16
PASSES = 3  # of mode no-sync, for each step


def block(ins, outs):
    """A convolution of 3 x 3 without bias, and its normalization."""
    return nn.Sequential(nn.Conv2d(ins, outs, 3, padding=1, bias=False), nn.BatchNorm2d(outs))


class Net(nn.Module):
    """A net for images of 28 x 28, with a branch that a pass may leave out.

    It is smooth throughout (GELU, mean pooling). At the kinks of ReLU and max pooling the last bit
    of a mean, whichever program summed it, can change a loss by a thousandth within 30 steps.
    """

    def __init__(self, width):
        super().__init__()
        self.first = block(1, width)
        self.second = block(width, 2 * width)
        self.third = block(2 * width, 4 * width)
        self.branch = block(4 * width, 4 * width)
        self.hidden = nn.Linear(4 * width * 7 * 7, 256)
        self.head = nn.Linear(256, 10)

    def forward(self, images, with_branch=True):
        x = functional.avg_pool2d(functional.gelu(self.first(images)), 2)
        x = functional.avg_pool2d(functional.gelu(self.second(x)), 2)
        x = functional.gelu(self.third(x))
        if with_branch:
            x = functional.gelu(x + self.branch(x))
        return self.head(functional.gelu(self.hidden(x.flatten(1))))


def make_batch():
    """Returns noise over a wave whose frequency is the class."""
    images, labels = torch.randn(BATCH, 1, 28, 28), torch.randint(10, (BATCH,))
    places = torch.linspace(0, 6, 28 * 28).view(1, 1, 28, 28)
    return images + 0.3 * torch.sin((labels.view(-1, 1, 1, 1) + 1) * places), labels


def loss_of(outputs, labels):
    """Cross entropy with a penalty on large outputs."""
    return functional.cross_entropy(outputs, labels) + 1e-3 * outputs.square().mean()


class Run:
    def __init__(self, mode, width, tuned):
        self.rank = int(os.environ["RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        tuning = {"bucket_cap_mb": 1, "gradient_as_bucket_view": True} if tuned else {}
        self.net = DistributedDataParallel(Net(width), find_unused_parameters=mode == "unused",
                                           **tuning)
        self.adam = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.losses, self.seconds = [], []

    def one_pass(self, with_branch=True):
        images, labels = make_batch()
        loss = loss_of(self.net(images, with_branch), labels)
        loss.backward()
        self.losses.append(loss.item())

    def step(self, passes):
        start = time.perf_counter()
        self.adam.zero_grad()
        passes()
        self.adam.step()
        self.seconds.append(time.perf_counter() - start)


def plain(run, steps):
    for _ in range(steps):
        run.step(run.one_pass)


def no_sync(run, steps):
    def passes():
        with run.net.no_sync():
            for _ in range(1, PASSES):
                run.one_pass()
        run.one_pass()

    for _ in range(steps):
        run.step(passes)


def unused(run, steps):
    """Odd ranks leave the branch out of each pass; in every third step all ranks do."""
    for step in range(steps):
        with_branch = run.rank % 2 == 0 and step % 3 != 2
        run.step(lambda: run.one_pass(with_branch))


def uneven(run, steps):
    """Gives rank r 2r batches more than rank 0."""
    with Join([run.net]):
        plain(run, steps - 2 * (run.world_size - 1 - run.rank))


def final_loss(run):
    torch.manual_seed(7)
    images, labels = make_batch()
    run.net.eval()
    with torch.no_grad():
        return loss_of(run.net.module(images), labels).item()


def main():
    mode, steps, width = OPTIONS.mode, OPTIONS.steps, OPTIONS.width
    compute.use_threads(1)
    master = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rendezvous.join(types.SimpleNamespace(master=master, rank=rank, world_size=world_size))
    torch.manual_seed(744 + rank)  # all ranks get rank 0's weights
    run = Run(mode, width, OPTIONS.tuned)
    torch.manual_seed(1000 + rank)
    {"plain": plain, "no-sync": no_sync, "unused": unused, "uneven": uneven}[mode](run, steps)
    passes = len(run.losses) // max(len(run.seconds), 1)  # none, if this rank has no batch
    for i, loss in enumerate(run.losses):
        print(f"{loss:.9g} {run.seconds[i // passes]:.9g}")
    if rank == 0:
        print(f"{final_loss(run):.9g} 0", flush=True)
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
