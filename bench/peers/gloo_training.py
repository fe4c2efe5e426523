#!/usr/bin/python3
"""The peer of `gradwire bench training`: one rank of the same training in PyTorch + Gloo.

The same model, batch size, optimiser and order of samples as gradwire-worker, without
augmentation. Prints a line of JSON for each iteration, as gradwire-worker --log-jsonl does.
Needs Debian's python3-torch.
"""
import argparse
import json
import pathlib
import time

import numpy
import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

import compute
import rendezvous
from models import MODELS

MEAN = numpy.array([125.3, 123.0, 113.9], numpy.float32).reshape(1, 3, 1, 1) / 255
STD = numpy.array([63.0, 62.1, 66.7], numpy.float32).reshape(1, 3, 1, 1) / 255
RECORD = 1 + 3 * 32 * 32  # bytes of a CIFAR-10 image with its label
SYNTHETIC_SAMPLES = 50000


class Images:
    """Images as bytes, and their labels."""

    def __init__(self, a):
        if a.dataset == "cifar10":
            files = [pathlib.Path(a.data_dir, f"data_batch_{i}.bin") for i in range(1, 6)]
            records = numpy.concatenate([numpy.fromfile(f, numpy.uint8) for f in files])
        else:
            random = numpy.random.RandomState(0)
            records = random.randint(0, 256, SYNTHETIC_SAMPLES * RECORD).astype(numpy.uint8)
            records[::RECORD] %= 10
        records = records.reshape(-1, RECORD)
        self.labels = records[:, 0].astype(numpy.int64)
        self.pixels = records[:, 1:].reshape(-1, 3, 32, 32)

    def __len__(self):
        return len(self.labels)

    def batch(self, indices):
        pixels = (self.pixels[indices].astype(numpy.float32) / 255 - MEAN) / STD
        return torch.from_numpy(pixels), torch.from_numpy(self.labels[indices])


def batches(a, images):
    """Endless batches of this rank's share, epoch after epoch."""
    sampler = DistributedSampler(images, a.world_size, a.rank)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        order = numpy.array(list(sampler))
        for first in range(0, len(order), a.batch_size):
            yield images.batch(order[first:first + a.batch_size])
        epoch += 1


def gather_scatter(parameters, a):
    """Every gradient to rank 0, the mean back from there, one parameter after the other."""
    for p in parameters:
        if a.rank == 0:
            gradients = [torch.empty_like(p.grad) for _ in range(a.world_size)]
            torch.distributed.gather(p.grad, gradients, dst=0)
            mean = sum(gradients) / a.world_size
            torch.distributed.scatter(p.grad, [mean] * a.world_size, src=0)
        else:
            torch.distributed.gather(p.grad, dst=0)
            torch.distributed.scatter(p.grad, src=0)


def all_reduce(parameters, a):
    for p in parameters:
        torch.distributed.all_reduce(p.grad)
        p.grad /= a.world_size


POWERSGD_START = 2  # the least that DistributedDataParallel allows

SYNCS = {"gather-scatter": gather_scatter, "all-reduce": all_reduce}


def is_powersgd(a):
    return a.hook is not None and a.hook != "fp16"


def wrap(model, a):
    if a.mode != "ddp":
        return model
    if is_powersgd(a):  # two buckets under way at once are too many for it; see bench/setups.inc
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = int(a.bucket_mb * 2**20)
    model = DistributedDataParallel(model, bucket_cap_mb=a.bucket_mb,
                                    gradient_as_bucket_view=a.bucket_view,
                                    broadcast_buffers=a.broadcast_buffers)
    if a.hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif is_powersgd(a):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=a.hook,
                                            start_powerSGD_iter=POWERSGD_START)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return model


def train(a, images):
    torch.manual_seed(744)
    model = MODELS[a.model]()
    wrapped = wrap(model, a)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)
    source = batches(a, images)
    for step in range(a.iterations):
        start = time.perf_counter()
        pixels, labels = next(source)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(wrapped(pixels), labels)
        loss.backward()
        line = {"step": step, "rank": a.rank, "loss": loss.item()}
        if a.mode in SYNCS:
            sync_start = time.perf_counter()
            SYNCS[a.mode](parameters, a)
            line["phase_seconds"] = {"exposed_communication": time.perf_counter() - sync_start}
        optimizer.step()
        line["iteration_seconds"] = time.perf_counter() - start
        yield line


def hook(text):
    """"fp16", or the rank of "powersgd:RANK"."""
    name, _, rank = text.partition(":")
    if text == "fp16":
        return text
    if name == "powersgd" and rank.isdigit() and int(rank) > 0:
        return int(rank)
    raise argparse.ArgumentTypeError(f"got {text!r}, expected fp16 or powersgd:RANK")


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    rendezvous.add_options(p)
    p.add_argument("--mode", choices=[*SYNCS, "ddp"], default="ddp")
    p.add_argument("--model", choices=MODELS, default="vgg11")
    p.add_argument("--dataset", choices=["cifar10", "synthetic"], default="synthetic")
    p.add_argument("--data-dir", default="")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--iterations", type=int, default=15)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--blas", default="", metavar="FILE", help="the BLAS that must compute")
    p.add_argument("--bucket-mb", type=float, default=25)
    p.add_argument("--bucket-view", action="store_true")
    p.add_argument("--no-broadcast-buffers", dest="broadcast_buffers", action="store_false")
    p.add_argument("--hook", type=hook, metavar="fp16|powersgd:RANK")
    return p.parse_args()


def main():
    a = parse()
    if a.blas:
        compute.check_blas(a.blas)
    compute.use_threads(a.threads)
    images = Images(a)
    rendezvous.join(a)
    lines = list(train(a, images))
    torch.distributed.barrier()
    for line in lines:
        print(json.dumps(line))


main()
